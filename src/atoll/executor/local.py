"""Slots, lent to whoever asks: of this machine, or of a cluster that this process speaks for."""

import contextlib
import queue
from concurrent.futures import Future
from threading import Lock, Thread
from types import TracebackType
from typing import Self

from atoll import sandbox
from atoll.candidate import JSON
from atoll.executor.executor import SlotPool

_CANCELLED_RESULT = sandbox.SandboxResult(None, "it was cancelled", "", 0.0)
_CLOSED_RESULT = sandbox.SandboxResult(None, sandbox.CLOSED_MESSAGE, "", 0.0)
_POLL_SECONDS = 0.2  # how often a thread that has nothing to do sees that this was closed


class LocalExecutor:
    """Runs requests in one box of slots.

    `run` works in the caller's thread, and waits there for a slot; `submit` hands over to a thread of our own.

    Args:
        box: Where they run; it is closed with this.
        num_slots: How many run at once: as many as the box has slots.
    """

    def __init__(self, pool: SlotPool, num_slots: int) -> None:
        self._pool, self._num_slots = pool, num_slots
        self._pending: queue.Queue[_Request] = queue.Queue(maxsize=num_slots)
        self._lock = Lock()
        self._threads: list[Thread] = []
        self._is_closed = False

    @property
    def level(self) -> str:
        return self._pool.level

    @property
    def num_slots(self) -> int:
        return self._num_slots

    def warm(self) -> None:
        """Starts a slot unless one is there, so that a wrong job shows before the first candidate.

        Raises:
            SetupError: The job cannot be made.
        """
        self._pool.warm()

    def run(self, request: JSON) -> sandbox.SandboxResult:
        return self._pool.run(request)

    def submit(self, request: JSON) -> "_Request":
        pending_request = _Request(request)
        self._start_threads()
        if self._is_closed:
            pending_request.future.set_result(_CLOSED_RESULT)
        else:
            self._pending.put(pending_request)
            if self._is_closed:  # meanwhile, and perhaps nobody is left to take it
                self._reject_pending()
        return pending_request

    def close(self) -> None:
        """Ends all slots and threads; whoever waits gets a failure. A second call does nothing."""
        with self._lock:
            self._is_closed = True
            threads, self._threads = self._threads, []
        self._pool.close()  # so that no thread is busy for long, and each comes to its end
        for thread in threads:
            thread.join()
        self._reject_pending()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start_threads(self) -> None:
        """Starts the threads when they are first needed."""
        with self._lock:
            if not self._threads and not self._is_closed:
                self._threads = [Thread(target=self._serve, daemon=True) for _ in range(self._num_slots)]
                for thread in self._threads:
                    thread.start()

    def _serve(self) -> None:
        while not self._is_closed:
            with contextlib.suppress(queue.Empty):
                self._pending.get(timeout=_POLL_SECONDS).run(self._pool)

    def _reject_pending(self) -> None:
        """Answers whoever was handed over while this was closed."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._pending.get_nowait().future.set_result(_CLOSED_RESULT)


class _Request:
    """A request with the answer to come."""

    def __init__(self, request: JSON) -> None:
        self._request = request
        self._hold = sandbox.Hold()
        self.future: Future[sandbox.SandboxResult] = Future()

    def run(self, pool: SlotPool) -> None:
        try:
            result = pool.run(self._request, self._hold)
        except BaseException as error:  # a job that cannot be made is for whoever waits
            self.future.set_exception(error)
        else:
            self.future.set_result(_CANCELLED_RESULT if self._hold.is_cancelled else result)

    def result(self, timeout: float | None = None) -> sandbox.SandboxResult:
        return self.future.result(timeout)

    def cancel(self) -> None:
        if not self.future.done():
            self._hold.cancel()
