"""How a playbook that was lived by is shown to people: its text as ACE writes it, its life in a few words."""

import json
from typing import Any

from atoll import errors, playbook

EMPTY = "an empty playbook"


def shown(content: str) -> str:
    """Returns the playbook as `atoll playbook show` prints it; what is none, as it is."""
    try:
        return playbook.Playbook.load(content).text() or "It is empty."
    except errors.SetupError:
        return content


def gist(content: str) -> str:
    """Returns in a few words what became of the life that a playbook was written in."""
    try:
        found = playbook.Playbook.load(content)
    except errors.SetupError:
        return content
    lived: Any = json.loads(content).get("lived")
    if not lived:
        return f"a playbook of {len(found)} bullets" if len(found) else EMPTY
    end = f"died of {lived['cause']}" if lived.get("cause") else "lived on"
    return f"life {lived['episode']}: {lived['ticks']} ticks, {end}"
