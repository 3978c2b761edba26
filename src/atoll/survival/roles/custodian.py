"""Playground Custodian: proposes files to promote and to clean up. It changes nothing itself."""

from collections.abc import Sequence
from typing import NamedTuple

from atoll.survival import untrusted_text
from atoll.survival.worlds.playground import Playground, hash_file

LARGE_FILE_BYTES = 100_000
MIN_TEXT_BYTES = 40  # minimum length of a text worth promoting


class PlaygroundSurvey(NamedTuple):
    """Files of a playground and proposals about them.

    Attributes:
        promotions: Files that may be worth keeping, with the reason.
        cleanups: Files that may be deleted, with the reason. A user decides.
        files: Name, size and hash of each file.
    """

    promotions: Sequence[tuple[str, str]]
    cleanups: Sequence[tuple[str, str]]
    files: Sequence[tuple[str, int, str]]


class Custodian:
    def __init__(self, playground: Playground) -> None:
        self._playground = playground

    def survey(self) -> PlaygroundSurvey:
        promotions, cleanups, files = [], [], []
        by_hash: dict[str, str] = {}
        for path in self._playground.list_files():
            try:
                size, file_hash = path.stat().st_size, hash_file(path)
            except OSError:
                continue  # deleted meanwhile, or not readable
            name = str(path.relative_to(self._playground.root))
            files.append((name, size, file_hash))
            if size == 0:
                cleanups.append((name, "empty"))
            elif file_hash in by_hash:
                cleanups.append((name, f"same content as {_format_name(by_hash[file_hash])}"))
            elif size > LARGE_FILE_BYTES:
                cleanups.append((name, f"large: {size:,} bytes"))
            elif path.suffix in (".md", ".txt", ".py", ".toml", ".json") and size >= MIN_TEXT_BYTES:
                promotions.append((name, "text of some length; review it before use"))
            by_hash.setdefault(file_hash, name)
        return PlaygroundSurvey(promotions, cleanups, files)

    def describe(self) -> str:
        """Returns the files and cleanup proposals as text."""
        survey = self.survey()
        files = ", ".join(f"{_format_name(name)} ({size} bytes)" for name, size, _ in survey.files) or "none"
        cleanups = "; ".join(
            f"{_format_name(name)}: {reason}" for name, reason in survey.cleanups if untrusted_text.is_safe_name(name)
        )
        return f"Files: {files}." + (f" To clean up: {cleanups}." if cleanups else "")


def _format_name(name: str) -> str:
    return untrusted_text.quote_name(name) if untrusted_text.is_safe_name(name) else "(a file with a hidden name)"
