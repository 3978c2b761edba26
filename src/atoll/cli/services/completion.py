"""Commands `completion` and `help`. The scripts are static, so that a completion starts no Python."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from atoll import errors


def completion(
    context: typer.Context, shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]
) -> None:
    """Print a script that completes commands and options.

    \b
    Examples:
      eval "$(atoll completion bash)"                       in ~/.bashrc
      eval "$(atoll completion zsh)"                        in ~/.zshrc, after compinit
      atoll completion fish > ~/.config/fish/completions/atoll.fish
    """  # noqa: D301 - \b keeps line breaks
    root = context.find_root().command
    words = dict(_list_words(root))
    if shell in ("bash", "zsh"):
        print(_make_bash(words, is_zsh=shell == "zsh"))
    elif shell == "fish":
        print(_make_fish(root))
    else:
        raise errors.SetupError(f"Shell {shell!r:.40} is unknown. Use bash, zsh or fish.")


def show_help(
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND]...", show_default=False, help="Command, e.g. params set.")
    ] = None,
) -> None:
    """Show the help of a command.

    \b
    Examples:
      atoll help run
      atoll help params set
    """  # noqa: D301 - \b keeps line breaks
    target = context.find_root()
    for word in words or ():
        command = getattr(target.command, "commands", {}).get(word)
        if command is None:
            raise errors.SetupError(f"Command '{target.command_path} {word}' not found. 'atoll help' lists all.")
        target = type(target)(command, info_name=word, parent=target)
    print(target.get_help())


def _list_commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from _list_commands(f"{path} {name}".strip(), child)


def _list_words(root: Any) -> Iterator[tuple[str, list[str]]]:
    """Yields for each command the words that may follow it: verbs and options."""
    for path, command in _list_commands("", root):
        names = list(getattr(command, "commands", {}))
        visible = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
        names += [name for parameter in visible for name in parameter.opts if name.startswith("--")]
        yield path, [*names, "--help"]


def _make_bash(words: dict[str, list[str]], *, is_zsh: bool) -> str:
    cases = "\n".join(f'    "{path}") words="{" ".join(names)}" ;;' for path, names in words.items())
    groups = " ".join(sorted({path.partition(" ")[0] for path in words if " " in path}))
    start = "autoload -U +X bashcompinit && bashcompinit\n" if is_zsh else ""
    return f"""{start}_atoll() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" path="" words=""
  if (( COMP_CWORD > 1 )); then
    path="${{COMP_WORDS[1]}}"
    if (( COMP_CWORD > 2 )) && [[ " {groups} " == *" $path "* ]]; then path="$path ${{COMP_WORDS[2]}}"; fi
  fi
  case "$path" in
{cases}
  esac
  COMPREPLY=( $(compgen -W "$words" -- "$current") )
}}
complete -o default -F _atoll atoll"""


def _make_fish(root: Any) -> str:
    lines = []
    for path, command in _list_commands("", root):
        parts = path.split()
        chosen = " ".join(f"; and __fish_seen_subcommand_from {part}" for part in parts)
        children = getattr(command, "commands", {})
        excluded = f"; and not __fish_seen_subcommand_from {' '.join(children)}" if children else ""
        condition = f"{'true' if parts else '__fish_use_subcommand'}{chosen}{excluded}"
        for name, child in children.items():
            text = child.help.strip().partition("\n")[0].replace("'", "")
            lines.append(f"complete -c atoll -f -n '{condition}' -a {name} -d '{text}'")
        for parameter in command.params:
            for option in (name for name in parameter.opts if name.startswith("--") and parts):
                text = (parameter.help or "").replace("'", "")
                lines.append(f"complete -c atoll -n 'true{chosen}' -l {option[2:]} -d '{text}'")
    return "\n".join(lines)
