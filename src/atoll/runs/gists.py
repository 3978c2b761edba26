"""Records in a few words, for lists and for the live stream."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from atoll.store import decoding
from atoll.store.events import Event

MAX_CHARS = 240
MAX_DATA = 100_000  # characters of a record that are read for it


def gist(event: Event) -> str:
    """Says in a line what a record tells; of a kind that is not known, how its data begins."""
    if len(event.data) > MAX_DATA:
        return _sound(event.data[:MAX_CHARS])
    try:
        data = decoding.anything.read(event.data)
        said = _SAID[event.kind](data) if event.kind in _SAID else event.data
    except (msgspec.ValidationError, KeyError, TypeError, ValueError, IndexError, AttributeError):
        said = event.data  # records of others may look different
    line = " ".join(said.split())
    return _sound(line if len(line) <= MAX_CHARS else f"{line[:MAX_CHARS]}…")


def _judged(data: Mapping[str, Any]) -> str:
    found = data["evaluation"]
    score = found.get("score")
    return f"{data['id']} {f'failed: {found.get("failure")}' if score is None else f'scored {score:g}'}"


def _applied(data: Mapping[str, Any]) -> str:
    if "failure" in data:
        return f"no child: {data['failure']}"
    children = [f"{each['id']} {each['decision'][0]}: {each['decision'][1]}" for each in data["children"]]
    return f"{len(children)} children: {'; '.join(children[:3])}" if len(children) != 1 else children[0]


def _replied(data: Mapping[str, Any]) -> str:
    usage = data.get("usage") or (0.0, 0, 0, 0.0, 0)
    return f"{data.get('model') or 'a model'}: {usage[1]}+{usage[2]} tokens, {usage[0]:.2f} s, ${usage[3]:.4f}"


def _controlled(data: Mapping[str, Any]) -> str:
    told = ", ".join(f"{name}={value}" for name, value in data["data"].items())
    return f"{data['kind']} {told}{f' refused: {data["refused"]}' if 'refused' in data else ''}"


def _observed(data: Mapping[str, Any]) -> str:
    found = data["evaluation"]
    return f"{data['id']} scored {found.get('score')}: {found.get('feedback', '')}"


_SAID: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "started": lambda data: f"model {data.get('llm', 'none')}, sandbox {data.get('sandbox', '')}",
    "founded": lambda data: f"{data['id']} scored {data['evaluation'].get('score')}",
    "begun": lambda data: f"from {', '.join(data.get('parents', ())) or 'nothing'}",
    "judged": _judged,
    "applied": _applied,
    "replied": _replied,
    "observed": _observed,
    "controlled": _controlled,
    "migrated": lambda data: f"{data['fn']['id']} from island {data['fn']['island']}",
    "reset": lambda data: f"epoch {data['epoch']}, founded by {', '.join(each['id'] for each in data['founders'])}",
    "held": lambda data: f"{data['id']} waits for a decision",
    "decided": lambda data: f"{data['id']} {data['decision'][0]}: {data['decision'][1]}",
    "ended": lambda data: str(data["reason"]),
    "executed": lambda data: (
        f"on the cluster: {', '.join(f'{name} {number}' for name, number in data['executor'].items())}"
    ),
    "concluded": lambda data: f"the result: {', '.join(data['result'])}",
}


def _sound(text: str) -> str:
    """Returns a text that UTF-8 can say."""
    return text.encode("utf-8", "replace").decode("utf-8")
