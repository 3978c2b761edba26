"""The context of the agent beside its workspace: lines of JSON, and a fork takes the first of them along."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from atoll.candidate import JSON
from atoll.mind.workspace.names import Refused, checked_name
from atoll.mind.worldline import Checkpoint


class Contexts:
    """Keeps a file of messages for each worldline: what is there is never changed, more is only added.

    Args:
        folder: Where the files lie.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def fork(self, worldline_id: str, parent: Checkpoint, commit: str) -> Checkpoint:
        """Begins the file of a new worldline with the lines up to its parent's checkpoint."""
        lines = self.lines(parent)
        name = f"{checked_name(worldline_id)}.jsonl"
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = self._folder / f".{name}.new"
        draft.write_bytes(b"".join(line + b"\n" for line in lines))
        os.replace(draft, self._folder / name)
        return Checkpoint(commit, name, len(lines))

    def add(self, at: Checkpoint, messages: Sequence[Mapping[str, JSON]], commit: str) -> Checkpoint:
        """Adds messages after a checkpoint and returns the next; what somebody added after it before is dropped."""
        path = self._path(at)
        kept = b"".join(line + b"\n" for line in self.lines(at))
        added = [json.dumps(each, ensure_ascii=False, sort_keys=True).encode("utf-8", "replace") for each in messages]
        with path.open("r+b") as file:
            file.truncate(len(kept))
            file.seek(len(kept))
            file.write(b"".join(line + b"\n" for line in added))
        return Checkpoint(commit, at.context, at.line + len(added))

    def read(self, at: Checkpoint) -> list[Mapping[str, Any]]:
        """Returns the messages up to a checkpoint."""
        return [json.loads(line) for line in self.lines(at)]

    def drop(self, worldline_id: str) -> None:
        """Removes the file of a worldline that is discarded."""
        (self._folder / f"{checked_name(worldline_id)}.jsonl").unlink(missing_ok=True)

    def names(self) -> list[str]:
        """Returns the worldlines that have a file."""
        return sorted(path.stem for path in self._folder.glob("*.jsonl")) if self._folder.is_dir() else []

    def lines(self, at: Checkpoint) -> list[bytes]:
        if not at.context or not at.line:
            return []
        lines = self._path(at).read_bytes().split(b"\n")[:-1]  # what a crash tore has no end of line
        if len(lines) < at.line:
            raise Refused(f"{at.context} has {len(lines)} lines, and a checkpoint at {at.line}: it was cut short.")
        return lines[: at.line]

    def _path(self, at: Checkpoint) -> Path:
        path = self._folder / f"{checked_name(at.context.removesuffix('.jsonl'))}.jsonl"
        if not path.is_file():
            raise Refused(f"There is no context {at.context!r:.60} in {self._folder}.")
        return path
