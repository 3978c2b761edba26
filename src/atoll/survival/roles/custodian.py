"""Playground Custodian: proposes what to promote and what to tidy up; decides nothing and deletes nothing."""

from collections.abc import Sequence
from typing import NamedTuple

from atoll.survival import words
from atoll.survival.worlds.playground import Playground, digest

LARGE = 100_000  # bytes
LEAST = 40  # characters that are worth a look


class Survey(NamedTuple):
    """What a custodian found.

    Attributes:
        promotions: Files that may be worth taking over, with why.
        cleanups: Files that may go, with why; a person decides.
        shared: What may be shown of each file: name, bytes, hash.
    """

    promotions: Sequence[tuple[str, str]]
    cleanups: Sequence[tuple[str, str]]
    shared: Sequence[tuple[str, int, str]]


class Custodian:
    """Looks after a playground."""

    def __init__(self, playground: Playground) -> None:
        self._playground = playground

    def survey(self) -> Survey:
        promotions, cleanups, shared = [], [], []
        by_hash: dict[str, str] = {}
        for path in self._playground.files():
            try:
                size, mark = path.stat().st_size, digest(path)
            except OSError:
                continue  # gone meanwhile, or not ours to read
            name = str(path.relative_to(self._playground.root))
            shared.append((name, size, mark))
            if size == 0:
                cleanups.append((name, "it is empty"))
            elif mark in by_hash:
                cleanups.append((name, f"it says what {_shown(by_hash[mark])} says"))
            elif size > LARGE:
                cleanups.append((name, f"it has {size:,} bytes"))
            elif path.suffix in (".md", ".txt", ".py", ".toml", ".json") and size >= LEAST:
                promotions.append((name, "a text of some length; read it before it is used"))
            by_hash.setdefault(mark, name)
        return Survey(promotions, cleanups, shared)

    def share(self) -> str:
        """Returns what may be shown, in words."""
        found = self.survey()
        files = ", ".join(f"{_shown(name)} ({size} bytes)" for name, size, _ in found.shared) or "none"
        tidy = "; ".join(f"{_shown(name)}: {why}" for name, why in found.cleanups if words.is_fit(name))
        return f"Files: {files}." + (f" To tidy up: {tidy}." if tidy else "")


def _shown(name: str) -> str:
    return words.quoted(name) if words.is_fit(name) else "(a file whose name is not shown)"
