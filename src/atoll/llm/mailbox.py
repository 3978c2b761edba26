"""Folder as an LLM: prompts are written to files, and you or a program write the responses."""

import contextlib
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

from atoll import candidate, errors
from atoll.journal import CallCache
from atoll.llm.base import MAX_RESPONSE_CHARS, LLMError, Response
from atoll.llm.retry_policy import check_range

_POLL_SECONDS = 0.2
_MIN_AGE_SECONDS = 0.5  # a file that changed later may be incomplete
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # others may write to the folder, and a link could lead to any file


class MailboxLLM:
    """Writes `NAME.prompt.md` and waits for `NAME.reply.md`. Several threads call it at once.

    The name consists of iteration, call and prompt hash. So a resumed run finds responses that arrived after a crash.
    Both files stay.

    Attributes:
        is_stopped: Set by the run; returns whether to stop waiting.
    """

    def __init__(self, folder: str | Path, *, timeout_seconds: float | None = None) -> None:
        """Creates the folder if necessary.

        Args:
            folder: Folder of the files.
            timeout_seconds: Maximum wait for a response; None means no limit.

        Raises:
            SetupError: The folder cannot be created or written.
        """
        self.is_stopped: Callable[[], bool] = lambda: False
        self._folder = Path(folder).expanduser()
        self._timeout_seconds = (
            None if timeout_seconds is None else check_range("timeout_seconds", timeout_seconds, above=0)
        )
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise errors.SetupError(
                f"Mailbox {folder} cannot be created: {error.strerror}. Choose another folder."
            ) from error
        if not os.access(self._folder, os.W_OK):
            raise errors.SetupError(f"Mailbox {folder} is not writable. Choose another folder.")

    def __call__(self, prompt: str) -> Response:
        """Returns the response as soon as its file is complete.

        Raises:
            LLMError: No response came in time, or the run was stopped.
        """
        name = self._make_name(prompt)
        prompt_path, response_path = self._folder / f"{name}.prompt.md", self._folder / f"{name}.reply.md"
        started_at = time.monotonic()
        if not response_path.exists():
            write_file(prompt_path, prompt)
        while not _is_complete(response_path):
            if self._timeout_seconds is not None and time.monotonic() - started_at >= self._timeout_seconds:
                raise LLMError(
                    f"{response_path.name} did not appear in {self._folder} within {self._timeout_seconds:g} seconds. "
                    "Raise timeout_seconds, or answer sooner.",
                    is_transient=True,
                )
            if self.is_stopped():
                raise LLMError(
                    f"The run was stopped before {response_path.name} appeared. Add the file and resume the run."
                )
            time.sleep(_POLL_SECONDS)
        fd = os.open(response_path, os.O_RDONLY | _NO_LINK)
        with open(fd, encoding="utf-8", errors="replace") as file:
            return Response(file.read(MAX_RESPONSE_CHARS), "mailbox")

    def _make_name(self, prompt: str) -> str:
        call_cache, digest = CallCache.current.get(), candidate.content_hash(prompt)[:12]
        if call_cache is None:
            return digest
        iteration, call = call_cache.position
        return f"{iteration:06}-{call.replace('/', '.')}-{digest}"


def write_file(path: Path, text: str) -> None:
    """Writes a file atomically, and not through a link."""
    temporary = path.with_suffix(".part")
    temporary.unlink(missing_ok=True)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o666)
    with open(fd, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    temporary.replace(path)


def _is_complete(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        status = path.lstat()
        is_file = stat.S_ISREG(status.st_mode) and status.st_size > 0
        return is_file and time.time() - status.st_mtime >= _MIN_AGE_SECONDS
    return False
