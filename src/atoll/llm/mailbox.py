"""A folder as a model: prompts are put in as files, and somebody puts in the answers, by hand or by a program."""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from atoll import candidate, errors
from atoll.journal import Ledger
from atoll.llm.llm import NoReply, Reply
from atoll.llm.policy import checked

_TURN_SECONDS = 0.2
_SETTLED_SECONDS = 0.5  # an answer that was changed later than that may still be written


class Mailbox:
    """Writes `NAME.prompt.md` and waits for `NAME.reply.md`; called from several threads at once.

    The name is that of the step and the call, and the first digits of the prompt's hash: a prompt that was asked
    before a run was cut is answered by the file that was put in for it meanwhile. Both files stay.

    Attributes:
        is_over: Whether nobody waits for answers any more: whoever runs it may say so, since people answer late.
    """

    def __init__(self, folder: str | Path, *, timeout_seconds: float | None = None) -> None:
        """Makes the folder if there is none.

        Args:
            folder: Where the files are.
            timeout_seconds: How long a prompt may wait; None: for ever, people sleep.

        Raises:
            SetupError: The folder cannot be made or written.
        """
        self.is_over: Callable[[], bool] = lambda: False
        self._folder = Path(folder).expanduser()
        self._seconds = None if timeout_seconds is None else checked("timeout_seconds", timeout_seconds, above=0)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise errors.SetupError(f"There can be no mailbox {folder}: {error.strerror}.") from error
        if not os.access(self._folder, os.W_OK):
            raise errors.SetupError(f"The mailbox {folder} cannot be written: choose another folder.")

    def __call__(self, prompt: str) -> Reply:
        """Returns the answer, as soon as there is one.

        Raises:
            NoReply: Nobody answered in time, or before the run was stopped.
        """
        name = self._name(prompt)
        asked, answer = self._folder / f"{name}.prompt.md", self._folder / f"{name}.reply.md"
        since = time.monotonic()
        if not answer.exists():
            _write(asked, prompt)
        while not _is_settled(answer):
            if self._seconds is not None and time.monotonic() - since >= self._seconds:
                raise NoReply(
                    f"Nobody put {answer.name} into {self._folder} within {self._seconds:g} seconds. "
                    "Raise timeout_seconds, or answer sooner.",
                    is_transient=True,
                )
            if self.is_over():
                raise NoReply(
                    f"The run was stopped before {answer.name} came. Put it in and resume the run.", is_transient=True
                )
            time.sleep(_TURN_SECONDS)
        return Reply(answer.read_text(encoding="utf-8", errors="replace"), "mailbox")

    def _name(self, prompt: str) -> str:
        ledger, digest = Ledger.current.get(), candidate.digest(prompt)[:12]
        if ledger is None:
            return digest
        step, call = ledger.place
        return f"{step:06}-{call.replace('/', '.')}-{digest}"


def _write(path: Path, text: str) -> None:
    """Writes a file that is there whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8", errors="replace")
    part.replace(path)


def _is_settled(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        found = path.stat()
        return found.st_size > 0 and time.time() - found.st_mtime >= _SETTLED_SECONDS
    return False
