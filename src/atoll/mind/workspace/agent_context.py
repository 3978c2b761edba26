"""Agent contexts of workspaces: append-only JSON lines. A fork copies the lines up to a checkpoint."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from atoll.candidate import JSON
from atoll.mind.workspace.path_checks import WorkspaceError, check_name
from atoll.mind.worldline import Checkpoint


class Contexts:
    """Stores one file of messages per worldline. Existing lines never change.

    Args:
        folder: Folder of the files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def fork(self, worldline_id: str, parent: Checkpoint, commit: str) -> Checkpoint:
        """Starts the file of a new worldline with the lines up to its parent's checkpoint."""
        lines = self.read_lines(parent)
        name = f"{check_name(worldline_id)}.jsonl"
        self._folder.mkdir(parents=True, exist_ok=True)
        temp_path = self._folder / f".{name}.new"
        temp_path.write_bytes(b"".join(line + b"\n" for line in lines))
        os.replace(temp_path, self._folder / name)
        return Checkpoint(commit, name, len(lines))

    def add(self, checkpoint: Checkpoint, messages: Sequence[Mapping[str, JSON]], commit: str) -> Checkpoint:
        """Adds messages after a checkpoint and returns the next one. Lines after the checkpoint are dropped."""
        path = self._find_path(checkpoint)
        retained = b"".join(line + b"\n" for line in self.read_lines(checkpoint))
        new_lines = [
            json.dumps(message, ensure_ascii=False, sort_keys=True).encode("utf-8", "replace") for message in messages
        ]
        with path.open("r+b") as file:
            file.truncate(len(retained))
            file.seek(len(retained))
            file.write(b"".join(line + b"\n" for line in new_lines))
        return Checkpoint(commit, checkpoint.context, checkpoint.line + len(new_lines))

    def read(self, checkpoint: Checkpoint) -> list[Mapping[str, Any]]:
        """Returns the messages up to a checkpoint."""
        return [json.loads(line) for line in self.read_lines(checkpoint)]

    def drop(self, worldline_id: str) -> None:
        """Removes the file of a discarded worldline."""
        (self._folder / f"{check_name(worldline_id)}.jsonl").unlink(missing_ok=True)

    def list_names(self) -> list[str]:
        """Returns the worldlines that have a file."""
        return sorted(path.stem for path in self._folder.glob("*.jsonl")) if self._folder.is_dir() else []

    def read_lines(self, checkpoint: Checkpoint) -> list[bytes]:
        if not checkpoint.context or not checkpoint.line:
            return []
        lines = self._find_path(checkpoint).read_bytes().split(b"\n")[:-1]  # a line torn by a crash has no newline
        if len(lines) < checkpoint.line:
            raise WorkspaceError(
                f"{checkpoint.context} has {len(lines)} lines, but its checkpoint is at line {checkpoint.line}."
            )
        return lines[: checkpoint.line]

    def _find_path(self, checkpoint: Checkpoint) -> Path:
        path = self._folder / f"{check_name(checkpoint.context.removesuffix('.jsonl'))}.jsonl"
        if not path.is_file():
            raise WorkspaceError(f"Context {checkpoint.context!r:.60} not found in {self._folder}.")
        return path
