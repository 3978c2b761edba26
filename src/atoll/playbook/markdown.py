"""A section as Markdown: a file a section, a dated heading for each of its parts, a line per bullet."""

import re
from collections.abc import Sequence

from atoll import errors
from atoll.playbook.bullet import MAX_COUNT, SLUG, Bullet, parse_serial, find_bad_character

_BULLET_LINE = re.compile(
    r"(?:- )?\[(?P<id>[^\]]{1,60})\] helpful=(?P<helpful>\d{1,30}) harmful=(?P<harmful>\d{1,30}) :: (?P<text>.+)"
)


def format_section(section: str, bullets: Sequence[Bullet]) -> str:
    """Returns the file of a section."""
    headings: dict[str, list[Bullet]] = {}
    for bullet in bullets:
        headings.setdefault(bullet.heading, []).append(bullet)
    parts = [f"# {section}"]
    for heading, group in headings.items():
        lines = "\n".join(f"- {bullet.line}" for bullet in group)
        parts.append(f"## {heading}\n\n{lines}" if heading else lines)
    return "\n\n".join(parts) + "\n"


def parse_section(text: str, section: str = "") -> list[Bullet]:
    """Reads such a file, or a playbook as ACE writes it, whose headings are the sections.

    Args:
        text: The file.
        section: Where its bullets belong; empty: their ids say it.

    Raises:
        SetupError: A line is no bullet, or names one twice.
    """
    parsed: dict[str, Bullet] = {}
    heading = ""
    for line_number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("## "):
            heading = line[3:].strip()
        elif line.strip() and not line.startswith("# "):
            bullet = _parse_bullet(line, section, heading if section else "")
            if bullet is None or bullet.id in parsed:
                raise errors.SetupError(f"Line {line_number} is no bullet, or one that was there before: {line[:80]!r}.")
            parsed[bullet.id] = bullet
    return list(parsed.values())


def _parse_bullet(line: str, section: str, heading: str) -> Bullet | None:
    match = _BULLET_LINE.fullmatch(line.strip())
    if match is None:
        return None
    id, text = match["id"], match["text"]
    section_name = section or id.rpartition("-")[0]
    if parse_serial(id) is None or not SLUG.fullmatch(section_name) or not id.startswith(f"{section_name}-") or find_bad_character(text + heading):
        return None
    helpful, harmful = (min(int(match[name]), MAX_COUNT) for name in ("helpful", "harmful"))
    return Bullet(id, section_name, text, helpful, harmful, heading=heading)
