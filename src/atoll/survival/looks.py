"""How a playbook that was lived by is shown to people: its text as ACE writes it, its life in a few words."""

import json
from typing import Any

from atoll import errors, playbook

EMPTY_PLAYBOOK = "an empty playbook"


def format_candidate(content: str) -> str:
    """Returns the playbook as `atoll playbook show` prints it; what is none, as it is."""
    try:
        return playbook.Playbook.load(content).to_text() or "It is empty."
    except errors.SetupError:
        return content


def format_one_line(content: str) -> str:
    """Returns in a few words what became of the life that a playbook was written in."""
    try:
        book = playbook.Playbook.load(content)
    except errors.SetupError:
        return content
    outcome: Any = json.loads(content).get("lived")
    if not outcome:
        return f"a playbook of {len(book)} bullets" if len(book) else EMPTY_PLAYBOOK
    ending = f"died of {outcome['cause']}" if outcome.get("cause") else "lived on"
    return f"life {outcome['episode']}: {outcome['ticks']} ticks, {ending}"
