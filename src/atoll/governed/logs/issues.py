"""What is done about lines that cannot be read."""

import contextlib
import os
from typing import Literal

from atoll import errors
from atoll.governed.logs.source import ReadIssue

type Policy = Literal["raise", "skip", "quarantine"]

POLICIES = ("raise", "skip", "quarantine")
NUM_KEPT = 100  # issues told one by one; the others are counted
QUARANTINE = "quarantine"


class Unreadable(errors.AtollError):
    """A line of a log cannot be read, and the policy is to stop."""

    def __init__(self, issue: ReadIssue) -> None:
        super().__init__(
            f"Line {issue.line} of {issue.path} (byte {issue.offset}) is no entry: {issue.error}. "
            "Mend it, or read on with the policy skip or quarantine."
        )
        self.issue = issue


class Issues:
    """Takes note of bad lines after a policy.

    `quarantine` copies each line into `quarantine/NAME.OFFSET` beside its file, once however often it is met.
    """

    def __init__(self, policy: Policy) -> None:
        if policy not in POLICIES:
            raise errors.SetupError(f"There is no policy {policy!r} for bad lines: choose {', '.join(POLICIES)}.")
        self._policy = policy
        self.kept: list[ReadIssue] = []
        self.count = 0

    def take(self, path: str, offset: int, line: bytes, error: Exception) -> None:
        """Notes a bad line.

        Raises:
            Unreadable: The policy is to stop.
        """
        issue = ReadIssue(path, _number(path, offset), offset, str(error))
        if self._policy == "raise":
            raise Unreadable(issue) from error
        if self._policy == "quarantine":
            folder = os.path.join(os.path.dirname(path), QUARANTINE)
            os.makedirs(folder, exist_ok=True)
            copy = os.path.join(folder, f"{os.path.basename(path)}.{offset}")
            with contextlib.suppress(FileExistsError), open(copy, "xb") as file:
                file.write(line)
        self.count += 1
        if len(self.kept) < NUM_KEPT:
            self.kept.append(issue)


def _number(path: str, offset: int) -> int:
    """Counts the lines before an offset: bad lines are rare, so nobody else need count."""
    with open(path, "rb") as file:
        count, left = 1, offset
        while left and (block := file.read(min(left, 1 << 20))):
            count, left = count + block.count(b"\n"), left - len(block)
    return count
