"""Who approved what: records that bind a verdict to the content of a worldline."""

import json
import os
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Literal

from atoll import errors, persons
from atoll.mind.workspace.names import WorkspaceError

type Verdict = Literal["approve", "reject", "merged"]


@dataclass(frozen=True, slots=True)
class Approval:
    """What somebody decided about a worldline at one commit, or that it was merged.

    Attributes:
        worldline_id: The worldline.
        commit: The hash of all its content and history: one edit more and it is another.
        verdict: The decision.
        by: Who decided: never one of those who wrote it.
        reason: Why.
    """

    worldline_id: str
    commit: str
    verdict: Verdict
    by: str
    reason: str = ""


class Approvals:
    """Keeps decisions in a file, one line each, on the disk before they count.

    Args:
        path: The file, where no worldline can write.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, Lock()

    def add(self, approval: Approval, authors: Collection[str]) -> None:
        """Records a decision.

        Args:
            approval: The decision.
            authors: Who wrote what it is about.

        Raises:
            Refused: Nobody signed it, or one of the authors did.
        """
        require_independent(approval.by, authors)
        line = json.dumps(asdict(approval), ensure_ascii=False, sort_keys=True) + "\n"
        with self._lock, self._path.open("ab+") as file:
            file.seek(0, os.SEEK_END)
            is_torn = file.tell() and not self._ends_with_newline()  # by a crash: what was not acknowledged does not count
            file.write((b"\n" if is_torn else b"") + line.encode())
            file.flush()
            os.fsync(file.fileno())

    def find_approval(self, worldline_id: str, commit: str) -> Approval | None:
        """Returns the approval that holds for a worldline at this commit; the last decision about it counts."""
        decisions = [approval for approval in self if approval.worldline_id == worldline_id and approval.verdict != "merged"]
        last = decisions[-1] if decisions else None
        return last if last and last.verdict == "approve" and last.commit == commit else None

    def __iter__(self) -> Iterator[Approval]:
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        for line in lines:
            try:
                yield Approval(**json.loads(line))
            except (ValueError, TypeError, RecursionError):
                continue

    def _ends_with_newline(self) -> bool:
        with self._path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"


def require_independent(approver: str, authors: Collection[str]) -> None:
    """Checks that somebody decides about the work of others.

    Raises:
        Refused: It is nobody, or an author, or a name of one of them cannot be a person's.
    """
    name = _normalize_name(approver)
    if name in {_normalize_name(author) for author in authors}:
        raise WorkspaceError(f"{approver!a:.60} wrote this worldline and cannot approve it: somebody else must.")


def _normalize_name(name: str) -> str:
    try:
        return persons.normalize_name(name)
    except errors.SetupError as error:
        raise WorkspaceError(f"Approvals are by name. {error}") from error
