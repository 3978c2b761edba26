"""Power cuts: a journal that dies at a chosen commit."""

from collections.abc import Iterator
from threading import Lock

from atoll.journal import Journal, Record


class FailingJournal:
    """Passes so many commits on and raises ever after, as a process that was killed writes no more.

    What reached the journal inside stays there: go on with that one, as a resume would.
    """

    def __init__(self, journal: Journal, max_commits: int | None = None, *, fails_after_write: bool = False) -> None:
        """Takes the journal inside.

        Args:
            journal: Where commits go while it lives.
            commits: How many it lets pass; None: all.
            after: The writer of the last of them hears an error although its commit is stored; otherwise the writer
                of the next one, which is not.
        """
        self._journal, self._max_commits, self._fails_after_write = journal, max_commits, fails_after_write
        self._lock = Lock()
        self.num_commits = 0
        self.is_failed = max_commits == 0

    def write(self, *records: Record) -> None:
        with self._lock:
            if not self.is_failed:
                self._journal.write(*records)
                self.num_commits += 1
                self.is_failed = self.num_commits == self._max_commits
                if not (self.is_failed and self._fails_after_write):
                    return
            raise OSError(f"The power went out at commit {self.num_commits}.")

    def read(self, island: int | None = None) -> Iterator[Record]:
        return self._journal.read(island)
