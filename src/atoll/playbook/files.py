"""Export and import of a playbook as files, in the layout of the seed.

    DIR/deltas/000001.json      deltas and verdicts of one version
    DIR/current/tactics.md      current bullets, one file per section
    DIR/current/metadata.json   data that Markdown lacks: key, turns, provenance, held deltas
    DIR/archive/tactics.md      retired bullets
    DIR/archive/metadata.json   when and why they were retired

The files in `current` and `archive` depend only on the playbook, not on rollbacks or earlier exports.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from atoll import errors
from atoll.candidate import JSON
from atoll.playbook.bullet import MAX_COUNT, Bullet, find_bad_character, is_slug, parse_serial
from atoll.playbook.playbook import Playbook
from atoll.playbook.refinement import RetiredBullet
from atoll.playbook.serialization import PARSE_ERRORS
from atoll.playbook.store import HistoryEntry, PlaybookStore

_BULLET_LINE = re.compile(
    r"(?:- )?\[(?P<id>[^\]]{1,60})\] helpful=(?P<helpful>\d{1,30}) harmful=(?P<harmful>\d{1,30}) :: (?P<text>.+)"
)


def format_section(section: str, bullets: Sequence[Bullet]) -> str:
    """Returns a section as Markdown."""
    headings: dict[str, list[Bullet]] = {}
    for bullet in bullets:
        headings.setdefault(bullet.heading, []).append(bullet)
    parts = [f"# {section}"]
    for heading, group in headings.items():
        lines = "\n".join(f"- {bullet.line}" for bullet in group)
        parts.append(f"## {heading}\n\n{lines}" if heading else lines)
    return "\n\n".join(parts) + "\n"


def parse_section(text: str, section: str = "") -> list[Bullet]:
    """Parses the Markdown of a section, or a playbook in the text format of ACE.

    Args:
        text: Content of the file.
        section: Section of its bullets; empty means the section in each id.

    Raises:
        SetupError: A line is not a bullet, or repeats an id.
    """
    parsed: dict[str, Bullet] = {}
    heading = ""
    for line_number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("## "):
            heading = line[3:].strip()
        elif line.strip() and not line.startswith("# "):
            bullet = _parse_bullet(line, section, heading if section else "")
            if bullet is None or bullet.id in parsed:
                raise errors.SetupError(
                    f"Line {line_number} is not a bullet or repeats an id: {line[:80]!r}. "
                    "Write: - [section-00001] helpful=0 harmful=0 :: text"
                )
            parsed[bullet.id] = bullet
    return list(parsed.values())


def _parse_bullet(line: str, section: str, heading: str) -> Bullet | None:
    match = _BULLET_LINE.fullmatch(line.strip())
    if match is None:
        return None
    id, text = match["id"], match["text"]
    section_name = section or id.rpartition("-")[0]
    if (
        parse_serial(id) is None
        or not is_slug(section_name)
        or not id.startswith(f"{section_name}-")
        or find_bad_character(text + heading)
    ):
        return None
    helpful, harmful = (min(int(match[name]), MAX_COUNT) for name in ("helpful", "harmful"))
    return Bullet(id, section_name, text, helpful, harmful, heading=heading)


METADATA_FILE = "metadata.json"


def export_folder(store: PlaybookStore, folder: Path | str) -> None:
    """Writes all files of a playbook. Files of removed sections are deleted; delta files are kept.

    Raises:
        SetupError: The folder cannot be written.
    """
    folder = Path(folder)
    try:
        _write_files(folder / "current", _render_current(store.current(), store.key))
        _write_files(folder / "archive", _render_archive(store.list_retired()))
        deltas = folder / "deltas"
        deltas.mkdir(parents=True, exist_ok=True)
        for event in store.history():
            file = deltas / f"{event.n:06d}.json"
            if not file.exists():
                _write_atomically(file, _dump(_event_to_json(event)))
    except OSError as error:
        raise errors.SetupError(f"{folder} cannot be written: {error.strerror}. Choose another folder.") from error


def read_key(folder: Path) -> str | None:
    """Returns the key of an exported playbook, or None if the folder has none."""
    current = folder / "current" if (folder / "current").is_dir() else folder
    try:
        key = json.loads((current / METADATA_FILE).read_text(encoding="utf-8"))["key"]
    except (OSError, *PARSE_ERRORS):
        return None  # `load_folder` reports the problem
    return key if isinstance(key, str) and key else None


def load_folder(folder: Path) -> Playbook:
    """Reads an exported playbook, including edits in the Markdown.

    A new bullet needs a new id: `[tactics-00099] helpful=0 harmful=0 :: text`.

    Raises:
        SetupError: The folder has no playbook, or it cannot be read.
    """
    current = folder / "current" if (folder / "current").is_dir() else folder
    file = current / METADATA_FILE
    if not file.is_file():
        raise errors.SetupError(f"{folder} has no playbook: current/{METADATA_FILE} not found. Export one first.")
    try:
        stored = Playbook.from_data(json.loads(file.read_text(encoding="utf-8")))
        texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(current.glob("*.md"))}
    except (OSError, *PARSE_ERRORS) as error:
        raise errors.SetupError(f"{file} is not valid playbook metadata: {error!s:.200}. Export it again.") from error
    parsed = {bullet.id: bullet for name, text in texts.items() for bullet in parse_section(text, name)}
    merged = {id: _merge_edits(stored.bullets[id], parsed[id]) for id in stored.bullets if id in parsed}
    added = {
        id: replace(bullet, created=stored.turn, used=stored.turn) for id, bullet in parsed.items() if id not in merged
    }
    return Playbook.from_data(replace(stored, bullets=MappingProxyType(merged | added)).to_data())


def import_folder(
    store: PlaybookStore, folder: Path, *, reason: str = "read from files", author: str = "user"
) -> Playbook:
    """Imports an exported playbook as a new version, unless it equals the current one.

    Raises:
        SetupError: The folder has no playbook, or it cannot be read.
        Conflict: The playbook is locked or was changed at the same time.
    """
    return store.put(load_folder(folder), reason, author).playbook


def _merge_edits(stored: Bullet, edited: Bullet) -> Bullet:
    return replace(
        stored,
        content=edited.content,
        helpful=edited.helpful,
        harmful=edited.harmful,
        heading=edited.heading,
        section=edited.section,
    )


def _render_current(playbook: Playbook, key: str) -> Mapping[str, str]:
    files = {f"{name}.md": format_section(name, bullets) for name, bullets in playbook.sections().items()}
    return files | {METADATA_FILE: _dump({**playbook.to_data(), "key": key})}


def _render_archive(retired: Sequence[RetiredBullet]) -> Mapping[str, str]:
    sections: dict[str, list[Bullet]] = {}
    for entry in retired:
        sections.setdefault(entry.bullet.section, []).append(entry.bullet)
    files = {f"{name}.md": format_section(name, bullets) for name, bullets in sections.items()}
    records: list[JSON] = [
        {"turn": entry.turn, "reason": entry.reason, "bullet": entry.bullet.to_data()} for entry in retired
    ]
    return files | {METADATA_FILE: _dump({"retired": records})}


def _event_to_json(event: HistoryEntry) -> Mapping[str, JSON]:
    data: dict[str, JSON] = {"version": event.n, "reason": event.reason, "author": event.author}
    if event.restored is not None:
        return data | {"restored": event.restored}
    return data | {"deltas": [verdict.to_data() for verdict in event.verdicts]}


def _write_files(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.md"):
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        file = folder / name
        if not file.exists() or file.read_bytes() != text.encode():
            _write_atomically(file, text)


def _write_atomically(file: Path, text: str) -> None:
    """Replaces a file atomically. Concurrent readers see the old content."""
    temporary = file.with_name(f".{file.name}.new")
    temporary.write_bytes(text.encode())
    temporary.replace(file)


def _dump(data: Mapping[str, JSON]) -> str:
    return json.dumps(data, indent=1, sort_keys=True) + "\n"
