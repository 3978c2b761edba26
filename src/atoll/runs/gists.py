"""Records in a few words, for lists and for the live stream."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from atoll.store import decoding
from atoll.store.events import NumberedRecord

MAX_CHARS = 240
MAX_DATA_CHARS = 100_000  # characters of a record that are read for it


def summarize_record(record: NumberedRecord) -> str:
    """Says in a line what a record tells; of a kind that is not known, how its data begins."""
    if len(record.data) > MAX_DATA_CHARS:
        return _replace_invalid(record.data[:MAX_CHARS])
    try:
        data = decoding.dict_reader.read(record.data)
        text = _FORMATTERS[record.kind](data) if record.kind in _FORMATTERS else record.data
    except (msgspec.ValidationError, KeyError, TypeError, ValueError, IndexError, AttributeError):
        text = record.data  # records of others may look different
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
    return f"{data.get('model') or 'a model'}: {usage[1]}+{usage[2]} tokens, {usage[0]:.2f} s, ${usage[3]:.4f}"


def _describe_command(data: Mapping[str, Any]) -> str:
    settings = ", ".join(f"{name}={value}" for name, value in data["data"].items())
    return f"{data['kind']} {settings}{f' refused: {data["refused"]}' if 'refused' in data else ''}"


def _describe_observation(data: Mapping[str, Any]) -> str:
    evaluation = data["evaluation"]
    return f"{data['id']} scored {evaluation.get('score')}: {evaluation.get('feedback', '')}"


_FORMATTERS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "started": lambda data: f"model {data.get('llm', 'none')}, sandbox {data.get('sandbox', '')}",
    "founded": lambda data: f"{data['id']} scored {data['evaluation'].get('score')}",
    "begun": lambda data: f"from {', '.join(data.get('parents', ())) or 'nothing'}",
    "judged": _describe_evaluation,
    "applied": _describe_applied,
    "replied": _describe_response,
    "observed": _describe_observation,
    "controlled": _describe_command,
    "migrated": lambda data: f"{data['fn']['id']} from island {data['fn']['island']}",
    "reset": lambda data: f"epoch {data['epoch']}, founded by {', '.join(founder['id'] for founder in data['founders'])}",
    "held": lambda data: f"{data['id']} waits for a decision",
    "decided": lambda data: f"{data['id']} {data['decision'][0]}: {data['decision'][1]}",
    "ended": lambda data: str(data["reason"]),
    "executed": lambda data: (
        f"on the cluster: {', '.join(f'{name} {count}' for name, count in data['executor'].items())}"
    ),
    "concluded": lambda data: f"the result: {', '.join(data['result'])}",
}


def _replace_invalid(text: str) -> str:
    """Returns a text that UTF-8 can say."""
    return text.encode("utf-8", "replace").decode("utf-8")
