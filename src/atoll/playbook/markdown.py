"""A section as Markdown: a file a section, a dated heading for each of its parts, a line per bullet."""

import re
from collections.abc import Sequence

from atoll import errors
from atoll.playbook.bullet import MAX_COUNT, SLUG, Bullet, number_of, wrong_with

_LINE = re.compile(
    r"(?:- )?\[(?P<id>[^\]]{1,60})\] helpful=(?P<helpful>\d{1,30}) harmful=(?P<harmful>\d{1,30}) :: (?P<text>.+)"
)


def write(section: str, bullets: Sequence[Bullet]) -> str:
    """Returns the file of a section."""
    headings: dict[str, list[Bullet]] = {}
    for bullet in bullets:
        headings.setdefault(bullet.heading, []).append(bullet)
    parts = [f"# {section}"]
    for heading, under in headings.items():
        lines = "\n".join(f"- {bullet.line}" for bullet in under)
        parts.append(f"## {heading}\n\n{lines}" if heading else lines)
    return "\n\n".join(parts) + "\n"


def read(text: str, section: str = "") -> list[Bullet]:
    """Reads such a file, or a playbook as ACE writes it, whose headings are the sections.

    Args:
        text: The file.
        section: Where its bullets belong; empty: their ids say it.

    Raises:
        SetupError: A line is no bullet, or names one twice.
    """
    found: dict[str, Bullet] = {}
    heading = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("## "):
            heading = line[3:].strip()
        elif line.strip() and not line.startswith("# "):
            bullet = _bullet(line, section, heading if section else "")
            if bullet is None or bullet.id in found:
                raise errors.SetupError(f"Line {number} is no bullet, or one that was there before: {line[:80]!r}.")
            found[bullet.id] = bullet
    return list(found.values())


def _bullet(line: str, section: str, heading: str) -> Bullet | None:
    match = _LINE.fullmatch(line.strip())
    if match is None:
        return None
    id, text = match["id"], match["text"]
    home = section or id.rpartition("-")[0]
    if number_of(id) is None or not SLUG.fullmatch(home) or not id.startswith(f"{home}-") or wrong_with(text + heading):
        return None
    helpful, harmful = (min(int(match[name]), MAX_COUNT) for name in ("helpful", "harmful"))
    return Bullet(id, home, text, helpful, harmful, heading=heading)
