"""Old command-line names. Each works, is absent from the help, and prints a one-line hint on stderr."""

import re
from collections.abc import Mapping, Sequence

type CommandPath = tuple[str, ...]

# Old command -> new command.
COMMANDS: Mapping[CommandPath, CommandPath] = {
    ("replay",): ("logs", "replay"),
    ("shadow",): ("rollout", "shadow"),
    ("rollout", "tick"): ("rollout", "update"),
    ("rollout", "serve"): ("rollout", "value"),
    ("llm", "fetch"): ("llm", "download"),
    ("tools", "add"): ("tools", "propose"),
    ("skills", "add"): ("skills", "propose"),
    ("skills", "used"): ("skills", "record-use"),
    ("playbook", "apply"): ("playbook", "approve"),
    ("params", "evolvable"): ("params", "settings"),
}
# Command -> old option -> new words. A value of the old option follows the last word.
OPTIONS: Mapping[CommandPath, Mapping[str, str]] = {
    ("demo",): {"--steps": "--iterations"},
    ("run",): {"--target-score": "--target"},
    ("resume",): {"--target-score": "--target"},
    ("export",): {
        "--jsonl": "--format jsonl",
        "--csv": "--format csv",
        "--html": "--format html",
        "--dataset": "--format dataset",
        "--replay": "--format responses",
        "--openevolve": "--format openevolve -o",
    },
    ("logs", "replay"): {"--checkpoint": "--resume-from"},
    ("logs", "estimate"): {"--checkpoint": "--resume-from"},
    ("rollout", "shadow"): {"--keep": "--save"},
    ("rollout", "start"): {"--proposer": "--proposed-by"},
    ("llm", "ping"): {"--timeout-seconds": "--timeout"},
    ("tools", "call"): {"--seconds": "--timeout"},
    ("tools", "serve"): {"--seconds": "--timeout"},
    ("skills", "record-use"): {"--well": "--success", "--in-vain": "--failure"},
    ("params", "export"): {"--log": "--audit-log"},
    ("audit", "verify"): {"--key": "--key-file", "--log": "--exported"},
    ("audit", "anchor"): {"--key": "--key-file", "--output": "--append", "-o": "--append"},
}
# Old argument, as a pattern -> new text. The verbs accept the old text too.
VALUES: Mapping[CommandPath, tuple[str, str]] = {
    ("run",): (r"^replay:", "recorded:"),
    ("resume",): (r"^replay:", "recorded:"),
    ("llm", "ping"): (r"^replay:", "recorded:"),
    ("show",): (r"^start$", "initial"),
    ("lineage",): (r"^start$", "initial"),
    ("diff",): (r":start$", ":initial"),
}


def translate(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the arguments with new command and option names, and one hint for each old name."""
    hints = list[str]()
    words, literal_words = _split_at_separator(arguments)
    for length in (2, 1):
        old_command = tuple(words[:length])
        if old_command in COMMANDS:
            words[:length] = COMMANDS[old_command]
            hints.append(_make_hint(f"atoll {' '.join(old_command)}", f"atoll {' '.join(COMMANDS[old_command])}"))
            break
    words = _translate_estimate(words, hints)
    command = tuple(words[:2]) if tuple(words[:2]) in OPTIONS else tuple(words[:1])
    arguments_after = _translate_options(words[len(command) :], OPTIONS.get(command, {}), hints)
    if command in VALUES:
        pattern, new_text = VALUES[command]
        old_values = [word for word in arguments_after if re.search(pattern, word)]
        hints += [_make_hint(word, re.sub(pattern, new_text, word)) for word in old_values]
    return [*command, *arguments_after, *literal_words], hints


def _split_at_separator(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits arguments at `--`. The words after it are never options."""
    index = list(arguments).index("--") if "--" in arguments else len(arguments)
    return list(arguments[:index]), list(arguments[index:])


def _translate_options(words: Sequence[str], options: Mapping[str, str], hints: list[str]) -> list[str]:
    translated = list[str]()
    for word in words:
        name, equals, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
        if name not in options or not word.startswith("-"):
            translated.append(word)
            continue
        translated += [*options[name].split(), *([value] if equals else [])]
        hints.append(_make_hint(name, options[name]))
    return translated


def _translate_estimate(words: list[str], hints: list[str]) -> list[str]:
    """Turns `logs replay LOG --estimate METRIC` into `logs estimate LOG METRIC`."""
    if words[:2] != ["logs", "replay"]:
        return words
    for index, word in enumerate(words):
        name, equals, metric = word.partition("=")
        if name == "--estimate" and (equals or index + 1 < len(words)):
            hints.append(_make_hint("replay --estimate METRIC", "atoll logs estimate LOG METRIC"))
            remaining = words[2:index] + words[index + (1 if equals else 2) :]
            return ["logs", "estimate", *remaining, metric if equals else words[index + 1]]
    return words


def _make_hint(old: str, new: str) -> str:
    return f"'{old}' is now '{new}'."
