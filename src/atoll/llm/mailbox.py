"""A folder as a model: prompts are put in as files, and somebody puts in the answers, by hand or by a program."""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from atoll import candidate, errors
from atoll.journal import CallCache
from atoll.llm.base import LLMError, Response
from atoll.llm.retry_policy import check_range

_POLL_SECONDS = 0.2
_MIN_AGE_SECONDS = 0.5  # an answer that was changed later than that may still be written


class MailboxLLM:
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
        self.is_stopped: Callable[[], bool] = lambda: False
        self._folder = Path(folder).expanduser()
        self._timeout_seconds = (
            None if timeout_seconds is None else check_range("timeout_seconds", timeout_seconds, above=0)
        )
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise errors.SetupError(f"There can be no mailbox {folder}: {error.strerror}.") from error
        if not os.access(self._folder, os.W_OK):
            raise errors.SetupError(f"The mailbox {folder} cannot be written: choose another folder.")

    def __call__(self, prompt: str) -> Response:
        """Returns the answer, as soon as there is one.

        Raises:
            NoReply: Nobody answered in time, or before the run was stopped.
        """
        name = self._make_name(prompt)
        prompt_path, response_path = self._folder / f"{name}.prompt.md", self._folder / f"{name}.reply.md"
        started_at = time.monotonic()
        if not response_path.exists():
            _write(prompt_path, prompt)
        while not _is_complete(response_path):
            if self._timeout_seconds is not None and time.monotonic() - started_at >= self._timeout_seconds:
                raise LLMError(
                    f"Nobody put {response_path.name} into {self._folder} within {self._timeout_seconds:g} seconds. "
                    "Raise timeout_seconds, or answer sooner.",
                    is_transient=True,
                )
            if self.is_stopped():
                raise LLMError(
                    f"The run was stopped before {response_path.name} came. Put it in and resume the run.",
                    is_transient=True,
                )
            time.sleep(_POLL_SECONDS)
        return Response(response_path.read_text(encoding="utf-8", errors="replace"), "mailbox")

    def _make_name(self, prompt: str) -> str:
        call_cache, digest = CallCache.current.get(), candidate.content_hash(prompt)[:12]
        if call_cache is None:
            return digest
        iteration, call = call_cache.position
        return f"{iteration:06}-{call.replace('/', '.')}-{digest}"


def _write(path: Path, text: str) -> None:
    """Writes a file that is there whole or not at all."""
    temporary = path.with_suffix(".part")
    temporary.write_text(text, encoding="utf-8", errors="replace")
    temporary.replace(path)


def _is_complete(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        stat = path.stat()
        return stat.st_size > 0 and time.time() - stat.st_mtime >= _MIN_AGE_SECONDS
    return False
