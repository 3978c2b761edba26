"""Playground Custodian: proposes what to promote and what to tidy up; decides nothing and deletes nothing."""

from collections.abc import Sequence
from typing import NamedTuple

from atoll.survival import untrusted_text
from atoll.survival.worlds.playground import Playground, hash_file

LARGE_FILE_BYTES = 100_000  # bytes
MIN_TEXT_BYTES = 40  # characters that are worth a look


class PlaygroundSurvey(NamedTuple):
    """What a custodian found.

    Attributes:
        promotions: Files that may be worth taking over, with why.
        cleanups: Files that may go, with why; a person decides.
        shared: What may be shown of each file: name, bytes, hash.
    """

    promotions: Sequence[tuple[str, str]]
    cleanups: Sequence[tuple[str, str]]
    files: Sequence[tuple[str, int, str]]


class Custodian:
    """Looks after a playground."""

    def __init__(self, playground: Playground) -> None:
        self._playground = playground

    def survey(self) -> PlaygroundSurvey:
        promotions, cleanups, files = [], [], []
        by_hash: dict[str, str] = {}
        for path in self._playground.list_files():
            try:
                size, file_hash = path.stat().st_size, hash_file(path)
            except OSError:
                continue  # gone meanwhile, or not ours to read
            name = str(path.relative_to(self._playground.root))
            files.append((name, size, file_hash))
            if size == 0:
                cleanups.append((name, "it is empty"))
            elif file_hash in by_hash:
                cleanups.append((name, f"it says what {_format_name(by_hash[file_hash])} says"))
            elif size > LARGE_FILE_BYTES:
                cleanups.append((name, f"it has {size:,} bytes"))
            elif path.suffix in (".md", ".txt", ".py", ".toml", ".json") and size >= MIN_TEXT_BYTES:
                promotions.append((name, "a text of some length; read it before it is used"))
            by_hash.setdefault(file_hash, name)
        return PlaygroundSurvey(promotions, cleanups, files)

    def describe(self) -> str:
        """Returns what may be shown, in words."""
        survey = self.survey()
        files = ", ".join(f"{_format_name(name)} ({size} bytes)" for name, size, _ in survey.files) or "none"
        cleanups = "; ".join(
            f"{_format_name(name)}: {reason}" for name, reason in survey.cleanups if untrusted_text.is_safe_name(name)
        )
        return f"Files: {files}." + (f" To tidy up: {cleanups}." if cleanups else "")


def _format_name(name: str) -> str:
    return untrusted_text.quote_name(name) if untrusted_text.is_safe_name(name) else "(a file whose name is not shown)"
