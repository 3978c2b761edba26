"""Slots, lent to whoever asks: of this machine, or of a cluster that this process speaks for."""

import contextlib
import queue
from concurrent.futures import Future
from threading import Lock, Thread
from types import TracebackType
from typing import Self

from atoll import sandbox
from atoll.candidate import JSON
from atoll.executor.executor import Box

_CANCELLED = sandbox.Answer(None, "it was cancelled", "", 0.0)
_CLOSED = sandbox.Answer(None, sandbox.CLOSED, "", 0.0)
_LOOK_SECONDS = 0.2  # how often a thread that has nothing to do sees that this was closed


class Local:
    """Runs requests in one box of slots.

    `run` works in the caller's thread, and waits there for a slot; `submit` hands over to a thread of our own.

    Args:
        box: Where they run; it is closed with this.
        num_slots: How many run at once: as many as the box has slots.
    """

    def __init__(self, box: Box, num_slots: int) -> None:
        self._box, self._num_slots = box, num_slots
        self._waiting: queue.Queue[_Request] = queue.Queue(maxsize=num_slots)
        self._lock = Lock()
        self._threads: list[Thread] = []
        self._is_closed = False

    @property
    def level(self) -> str:
        return self._box.level

    @property
    def num_slots(self) -> int:
        return self._num_slots

    def warm(self) -> None:
        """Starts a slot unless one is there, so that a wrong job shows before the first candidate.

        Raises:
            SetupError: The job cannot be made.
        """
        self._box.warm()

    def run(self, request: JSON) -> sandbox.Answer:
        return self._box.run(request)

    def submit(self, request: JSON) -> "_Request":
        taken = _Request(request)
        self._staff()
        if self._is_closed:
            taken.answer.set_result(_CLOSED)
        else:
            self._waiting.put(taken)
            if self._is_closed:  # meanwhile, and perhaps nobody is left to take it
                self._drop_rest()
        return taken

    def close(self) -> None:
        """Ends all slots and threads; whoever waits gets a failure. A second call does nothing."""
        with self._lock:
            self._is_closed = True
            threads, self._threads = self._threads, []
        self._box.close()  # so that no thread is busy for long, and each comes to its end
        for thread in threads:
            thread.join()
        self._drop_rest()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _staff(self) -> None:
        """Starts the threads when they are first needed."""
        with self._lock:
            if not self._threads and not self._is_closed:
                self._threads = [Thread(target=self._serve, daemon=True) for _ in range(self._num_slots)]
                for thread in self._threads:
                    thread.start()

    def _serve(self) -> None:
        while not self._is_closed:
            with contextlib.suppress(queue.Empty):
                self._waiting.get(timeout=_LOOK_SECONDS).run(self._box)

    def _drop_rest(self) -> None:
        """Answers whoever was handed over while this was closed."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._waiting.get_nowait().answer.set_result(_CLOSED)


class _Request:
    """A request with the answer to come."""

    def __init__(self, request: JSON) -> None:
        self._request = request
        self._hold = sandbox.Hold()
        self.answer: Future[sandbox.Answer] = Future()

    def run(self, box: Box) -> None:
        try:
            found = box.run(self._request, self._hold)
        except BaseException as error:  # a job that cannot be made is for whoever waits
            self.answer.set_exception(error)
        else:
            self.answer.set_result(_CANCELLED if self._hold.is_cancelled else found)

    def result(self, timeout: float | None = None) -> sandbox.Answer:
        return self.answer.result(timeout)

    def cancel(self) -> None:
        if not self.answer.done():
            self._hold.cancel()
