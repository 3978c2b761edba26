"""What is done about lines that cannot be read."""

import contextlib
import os
from typing import Literal

from atoll import errors
from atoll.governed.logs.source import ReadIssue

type IssuePolicy = Literal["raise", "skip", "quarantine"]

ISSUE_POLICIES = ("raise", "skip", "quarantine")
MAX_ISSUES = 100  # issues told one by one; the others are counted
QUARANTINE_FOLDER = "quarantine"


class InvalidLogLine(errors.AtollError):
    """A line of a log cannot be read, and the policy is to stop."""

    def __init__(self, issue: ReadIssue) -> None:
        super().__init__(
            f"Line {issue.line} of {issue.path} (byte {issue.offset}) is no entry: {issue.error}. "
            "Mend it, or read on with the policy skip or quarantine."
        )
        self.issue = issue


class ReadIssues:
    """Takes note of bad lines after a policy.

    `quarantine` copies each line into `quarantine/NAME.OFFSET` beside its file, once however often it is met.
    """

    def __init__(self, policy: IssuePolicy) -> None:
        if policy not in ISSUE_POLICIES:
            raise errors.SetupError(f"There is no policy {policy!r} for bad lines: choose {', '.join(ISSUE_POLICIES)}.")
        self._policy = policy
        self.first_issues: list[ReadIssue] = []
        self.count = 0

    def add(self, path: str, offset: int, line: bytes, error: Exception) -> None:
        """Notes a bad line.

        Raises:
            Unreadable: The policy is to stop.
        """
        issue = ReadIssue(path, _find_line_number(path, offset), offset, str(error))
        if self._policy == "raise":
            raise InvalidLogLine(issue) from error
        if self._policy == "quarantine":
            folder = os.path.join(os.path.dirname(path), QUARANTINE_FOLDER)
            os.makedirs(folder, exist_ok=True)
            copy_path = os.path.join(folder, f"{os.path.basename(path)}.{offset}")
            with contextlib.suppress(FileExistsError), open(copy_path, "xb") as file:
                file.write(line)
        self.count += 1
        if len(self.first_issues) < MAX_ISSUES:
            self.first_issues.append(issue)


def _find_line_number(path: str, offset: int) -> int:
    """Counts the lines before an offset: bad lines are rare, so nobody else need count."""
    with open(path, "rb") as file:
        line_number, num_remaining = 1, offset
        while num_remaining and (block := file.read(min(num_remaining, 1 << 20))):
            line_number, num_remaining = line_number + block.count(b"\n"), num_remaining - len(block)
    return line_number
