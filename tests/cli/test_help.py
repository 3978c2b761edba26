"""Help texts are short and imperative, and an option of one name has one meaning."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from atoll import cli

MAX_LENGTH = 70
# Options whose help differs because the verb gives the same meaning another object.
VARIANTS = {
    "--iterations": {"run", "resume", "demo", "rollout shadow"},  # in all, additional, of each paired run
    "--budget": {"run", "resume"},  # in all, additional
    "--limit": {"best"},  # a list instead of one candidate
    "--all": {"lineage", "params list"},  # all ancestors, all keys
    "--timeout": {"llm ping", "params watch", "tools call", "tools serve"},  # seconds to wait
    "--port": {"dashboard", "llm serve", "tools serve"},  # port of a server
    "--output": {"run"},  # a hidden option of OpenEvolve
}


def list_commands() -> Iterator[tuple[str, Any]]:
    """Yields every command with its path; the root and the groups, too."""
    pending: list[tuple[str, Any]] = [("", typer.main.get_command(cli.app))]
    while pending:
        path, command = pending.pop()
        yield path, command
        pending += [(f"{path} {name}".strip(), child) for name, child in getattr(command, "commands", {}).items()]


COMMANDS = dict(list_commands())


@pytest.mark.parametrize("path", COMMANDS)
def test_help_of_every_command_and_option_is_short(path):
    command = COMMANDS[path]
    texts = {path: command.help.strip().partition("\n")[0]}
    texts |= {name: parameter.help for parameter in command.params for name in [f"{path} {parameter.name}"]}
    for name, text in texts.items():
        assert text, f"{name} has no help"
        assert len(text) < MAX_LENGTH, f"help of {name} has {len(text)} characters"
        assert text.endswith("."), f"help of {name} does not end with a period"


@pytest.mark.parametrize("path", COMMANDS)
def test_help_of_every_command_is_imperative(path):
    first_word = COMMANDS[path].help.split()[0].rstrip(".;,")
    assert first_word[0].isupper()
    assert not first_word.endswith("s"), f"'{first_word}' is not imperative"


def test_option_of_one_name_has_one_meaning():
    texts: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for path, command in COMMANDS.items():
        for parameter in command.params:
            for name in (name for name in parameter.opts if name.startswith("--")):
                if path not in VARIANTS.get(name, ()) and (path, name) != ("", "--version"):
                    texts[name][parameter.help].add(path)
    assert not {name: dict(by_help) for name, by_help in texts.items() if len(by_help) > 1}


def test_short_option_has_one_long_name():
    long_names: dict[str, set[str]] = defaultdict(set)
    for command in COMMANDS.values():
        for parameter in command.params:
            for name in (name for name in parameter.opts if name.startswith("-") and not name.startswith("--")):
                long_names[name] |= {other for other in parameter.opts if other.startswith("--")}
    assert not {name: names for name, names in long_names.items() if len(names) > 1}


def test_output_option_writes_to_a_path_instead_of_stdout():
    texts = {
        parameter.help
        for path, command in COMMANDS.items()
        for parameter in command.params
        if "-o" in parameter.opts and path != "run"
    }
    assert texts == {"Write to this path instead of stdout."}
