"""A playbook as the seed lays it out in files, out and in again.

    DIR/deltas/000001.json      what was proposed in a version, with the verdicts, one file a version
    DIR/current/tactics.md      the playbook now, a file per section
    DIR/current/metadata.json   what Markdown does not say: the key, turns, provenance, what waits
    DIR/archive/tactics.md      what was retired on the way to it
    DIR/archive/metadata.json   when and why

What is under `current` and `archive` depends on the playbook alone, not on how often it was rolled back or written.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from atoll import errors
from atoll.candidate import JSON
from atoll.playbook import markdown
from atoll.playbook.bullet import Bullet
from atoll.playbook.packing import FAULTS
from atoll.playbook.playbook import Playbook
from atoll.playbook.refinement import Retired
from atoll.playbook.store import Event, Store

METADATA = "metadata.json"


def export(store: Store, folder: Path) -> None:
    """Writes all files of a playbook; files of sections that are gone go too, deltas only come.

    Raises:
        SetupError: The folder cannot be written.
    """
    try:
        _write(folder / "current", _current(store.current(), store.key))
        _write(folder / "archive", _archive(store.archive()))
        deltas = folder / "deltas"
        deltas.mkdir(parents=True, exist_ok=True)
        for event in store.history():
            file = deltas / f"{event.n:06d}.json"
            if not file.exists():
                _put(file, _dump(_told(event)))
    except OSError as error:
        raise errors.SetupError(f"{folder} cannot be written ({error.strerror}): name another folder.") from error


def key_of(folder: Path) -> str | None:
    """Returns the key of the playbook that `export` wrote into a folder, if it says so."""
    current = folder / "current" if (folder / "current").is_dir() else folder
    try:
        key = json.loads((current / METADATA).read_text(encoding="utf-8"))["key"]
    except (OSError, *FAULTS):
        return None  # `load` says what is wrong
    return key if isinstance(key, str) and key else None


def load(folder: Path) -> Playbook:
    """Reads the playbook that `export` wrote; what was edited in the Markdown counts.

    A bullet that somebody wrote by hand needs an id of its own: `[tactics-00099] helpful=0 harmful=0 :: text`.

    Raises:
        SetupError: There is none, or it cannot be read.
    """
    current = folder / "current" if (folder / "current").is_dir() else folder
    file = current / METADATA
    if not file.is_file():
        raise errors.SetupError(f"There is no playbook in {folder}: it would have the file current/{METADATA}.")
    try:
        kept = Playbook.from_data(json.loads(file.read_text(encoding="utf-8")))
        written = {path.stem: path.read_text(encoding="utf-8") for path in sorted(current.glob("*.md"))}
    except (OSError, *FAULTS) as error:
        raise errors.SetupError(f"{file} is no playbook's metadata: {error!s:.200}.") from error
    found = {bullet.id: bullet for name, text in written.items() for bullet in markdown.read(text, name)}
    known = {id: _joined(kept.bullets[id], found[id]) for id in kept.bullets if id in found}
    new = {id: replace(bullet, created=kept.turn, used=kept.turn) for id, bullet in found.items() if id not in known}
    return Playbook.from_data(replace(kept, bullets=MappingProxyType(known | new)).to_data())


def adopt(store: Store, folder: Path, *, reason: str = "read from files", author: str = "user") -> Playbook:
    """Makes the playbook in a folder the head of a store; nothing happens if it is that already.

    Raises:
        SetupError: There is none, or it cannot be read.
        Conflict: Somebody else changed the store at this moment.
    """
    return store.put(load(folder), reason, author).playbook


def _joined(kept: Bullet, written: Bullet) -> Bullet:
    return replace(
        kept,
        content=written.content,
        helpful=written.helpful,
        harmful=written.harmful,
        heading=written.heading,
        section=written.section,
    )


def _current(playbook: Playbook, key: str) -> Mapping[str, str]:
    files = {f"{name}.md": markdown.write(name, bullets) for name, bullets in playbook.sections().items()}
    return files | {METADATA: _dump({**playbook.to_data(), "key": key})}


def _archive(retired: Sequence[Retired]) -> Mapping[str, str]:
    sections: dict[str, list[Bullet]] = {}
    for each in retired:
        sections.setdefault(each.bullet.section, []).append(each.bullet)
    files = {f"{name}.md": markdown.write(name, bullets) for name, bullets in sections.items()}
    told: list[JSON] = [{"turn": each.turn, "reason": each.reason, "bullet": each.bullet.to_data()} for each in retired]
    return files | {METADATA: _dump({"retired": told})}


def _told(event: Event) -> Mapping[str, JSON]:
    data: dict[str, JSON] = {"version": event.n, "reason": event.reason, "author": event.author}
    if event.restored is not None:
        return data | {"restored": event.restored}
    return data | {"deltas": [verdict.to_data() for verdict in event.verdicts]}


def _write(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.md"):
        if old.name not in files:
            old.unlink()
    for name, text in files.items():
        file = folder / name
        if not file.exists() or file.read_bytes() != text.encode():
            _put(file, text)


def _put(file: Path, text: str) -> None:
    """Writes a file whole or not at all: whoever reads meanwhile sees the old one."""
    fresh = file.with_name(f".{file.name}.new")
    fresh.write_bytes(text.encode())
    fresh.replace(file)


def _dump(data: Mapping[str, JSON]) -> str:
    return json.dumps(data, indent=1, sort_keys=True) + "\n"
