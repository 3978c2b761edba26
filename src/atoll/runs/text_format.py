"""Display text for runs, candidates and records: escaped, shortened, compared."""

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from atoll import config, store
from atoll.store.records import json_codec
from atoll.store.records.queries import NumberedRecord

# Control characters except line feed and tab, lone surrogates, and marks that change the reading direction.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)"
)
_BARE_KEY = re.compile(r"[\w-]+", re.ASCII)  # a TOML key without quotes
_CONTEXT_LINES = 3  # lines around a change


def escape_control(text: str) -> str:
    r"""Replaces invisible characters by their codes, e.g. `\x1b`.

    Candidates are untrusted: printed unchanged, they could control a terminal or imitate another program.
    """
    return _HIDDEN.sub(lambda match: _escape_code(ord(match[0])), text)


def _escape_code(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def format_one_line(text: str, length: int = 200) -> str:
    """Returns the beginning of a text as one line."""
    flat = escape_control(" ".join(text[: 4 * length].split()))
    return flat if len(flat) <= length and len(text) <= 4 * length else f"{flat[: length - 1]}…"


def find_new_lines(new: str, old: str, length: int = 200) -> str:
    """Returns as one line the lines that only the new text has; the text itself if it has none."""
    old_lines = {line.strip() for line in old.split("\n")}
    new_lines = [line.strip() for line in new.split("\n") if line.strip() not in old_lines]
    return format_one_line("; ".join(line for line in new_lines if line) or new, length)


def get_first_line(text: str) -> str:
    """Returns the first line of a text that is not blank."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def format_number(value: float | None) -> str:
    """Formats a score with six digits, enough to distinguish two good ones."""
    return "-" if value is None else f"{value:.6g}"


def format_error(error: float | None) -> str:
    """Formats the standard error of a score, to follow it; empty without one."""
    return "" if error is None else f" ± {error:.2g}"


def format_pairs(values: Mapping[str, Any]) -> str:
    """Formats values as one line of `name=value` pairs."""
    return " ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in values.items()
    )


def format_settings(stored_config: Mapping[str, Any]) -> Iterator[str]:
    """Yields a configuration as lines of TOML, without unset keys."""
    yield from _format_keys({name: value for name, value in stored_config.items() if not isinstance(value, Mapping)})
    for name, section in stored_config.items():
        if isinstance(section, Mapping):
            yield ""
            yield f"[{name}]"
            yield from _format_keys(section)


def _format_keys(section: Mapping[str, Any]) -> Iterator[str]:
    for name, value in section.items():
        if value is not None:
            key = name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)
            yield f"{escape_control(key)} = {escape_control(json.dumps(value, ensure_ascii=False))}"


def iter_diff_lines(old: str, new: str, old_name: str, new_name: str) -> Iterator[str]:
    """Yields the lines of a unified diff, without line ends; none if the texts are equal.

    A line end at the end of the text is ignored, since candidates are not files.
    """
    yield from difflib.unified_diff(
        _split_lines(old), _split_lines(new), old_name, new_name, n=_CONTEXT_LINES, lineterm=""
    )


def _split_lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def format_candidate(system: str, content: str) -> str:
    """Returns the display text of a candidate."""
    display_format = config.get_display_format(system)
    return content if display_format is None else display_format.format_candidate(content)


def summarize_candidate(system: str, content: str, initial: str, length: int = 200) -> str:
    """Returns one line about the difference between a candidate and the initial one."""
    display_format = config.get_display_format(system)
    return (
        find_new_lines(content, initial, length)
        if display_format is None
        else format_one_line(display_format.format_one_line(content), length)
    )


def get_system_name(run_store: store.Store, run_id: str) -> str:
    """Returns the name of a run's system; empty if it has none."""
    name: str = run_store.get_run(run_id).config.get("system", "")
    return name


MAX_CHARS = 240
MAX_DATA_CHARS = 100_000  # longer records are not parsed


def summarize_record(record: NumberedRecord) -> str:
    """Returns one line about a record; for an unknown kind, the beginning of its data."""
    if len(record.data) > MAX_DATA_CHARS:
        return _replace_invalid(record.data[:MAX_CHARS])
    try:
        data = json_codec.dict_reader.read(record.data)
        text = _FORMATTERS[record.kind](data) if record.kind in _FORMATTERS else record.data
    except (msgspec.ValidationError, KeyError, TypeError, ValueError, IndexError, AttributeError):
        text = record.data  # written by another version
    line = " ".join(text.split())
    return _replace_invalid(line if len(line) <= MAX_CHARS else f"{line[:MAX_CHARS]}…")


def _describe_evaluation(data: Mapping[str, Any]) -> str:
    evaluation = data["evaluation"]
    score = evaluation.get("score")
    return f"{data['id']} {f'failed: {evaluation.get("failure")}' if score is None else f'scored {score:g}'}"


def _describe_applied(data: Mapping[str, Any]) -> str:
    if "failure" in data:
        return f"no child: {data['failure']}"
    children = [f"{child['id']} {child['decision'][0]}: {child['decision'][1]}" for child in data["children"]]
    return f"{len(children)} children: {'; '.join(children[:3])}" if len(children) != 1 else children[0]


def _describe_response(data: Mapping[str, Any]) -> str:
    usage = data.get("usage") or (0.0, 0, 0, 0.0, 0)
    return f"{data.get('model') or 'unknown LLM'}: {usage[1]}+{usage[2]} tokens, {usage[0]:.2f} s, ${usage[3]:.4f}"


def _describe_charge(data: Mapping[str, Any]) -> str:
    word, cost = ("at most", data["reserved"]) if "reserved" in data else ("a failed request:", data["cost"])
    return f"{word} {cost[1] + cost[2]} tokens, ${cost[3]:.4f}"


def _describe_command(data: Mapping[str, Any]) -> str:
    settings = ", ".join(f"{name}={value}" for name, value in data["data"].items())
    return f"{data['kind']} {settings}{f' refused: {data["refused"]}' if 'refused' in data else ''}"


def _describe_observation(data: Mapping[str, Any]) -> str:
    evaluation = data["evaluation"]
    return f"{data['id']} scored {evaluation.get('score')}: {evaluation.get('feedback', '')}"


_FORMATTERS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "started": lambda data: f"LLM {data.get('llm', 'none')}, sandbox {data.get('sandbox', '')}",
    "founded": lambda data: f"{data['id']} scored {data['evaluation'].get('score')}",
    "begun": lambda data: f"from {', '.join(data.get('parents', ())) or 'no parent'}",
    "judged": _describe_evaluation,
    "applied": _describe_applied,
    "charged": _describe_charge,
    "replied": _describe_response,
    "observed": _describe_observation,
    "controlled": _describe_command,
    "migrated": lambda data: f"{data['fn']['id']} from island {data['fn']['island']}",
    "reset": lambda data: (
        f"epoch {data['epoch']}, restarted from {', '.join(founder['id'] for founder in data['founders'])}"
    ),
    "held": lambda data: f"{data['id']} is held for a decision",
    "decided": lambda data: f"{data['id']} {data['decision'][0]}: {data['decision'][1]}",
    "ended": lambda data: str(data["reason"]),
    "executed": lambda data: f"on Ray: {', '.join(f'{name} {count}' for name, count in data['executor'].items())}",
    "concluded": lambda data: f"result: {', '.join(data['result'])}",
}


def _replace_invalid(text: str) -> str:
    """Replaces characters that UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode("utf-8")
