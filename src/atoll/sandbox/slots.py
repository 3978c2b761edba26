"""As many processes as requests run at once, started when needed, replaced when spent."""

import json
import os
import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Condition
from types import TracebackType
from typing import Self

from atoll import errors
from atoll.candidate import JSON
from atoll.sandbox import parcel
from atoll.sandbox.hold import Hold
from atoll.sandbox.limits import Limits
from atoll.sandbox.process import Process
from atoll.sandbox.sandbox import CLOSED, Answer, MakeJob

_CLOSED = Answer(None, CLOSED, "", 0.0)
_CLOSE_SECONDS = 5.0


class Slots(ABC):
    """Lends one process to one request at a time; what kind of process is a subclass's to say."""

    def __init__(self, make_job: MakeJob, limits: Limits, num_workers: int, path: Sequence[str] | None) -> None:
        _check(limits, num_workers)
        self._limits, self._num_workers = limits, num_workers
        self._path = [os.path.abspath(each) for each in (sys.path if path is None else path)]
        self._parcel = parcel.pack(make_job)
        self._turn = Condition()
        self._is_closed = False
        self._num_busy = 0
        self._idle: list[Process] = []
        self._live: set[Process] = set()
        self._finalizer = weakref.finalize(self, _end, self._live)

    @property
    @abstractmethod
    def level(self) -> str:
        """How strong it is, as every sandbox says."""

    @abstractmethod
    def _process(self) -> Process:
        """Starts a process that does not know its job yet."""

    def warm(self) -> None:
        """Starts a worker unless one is there, so that a wrong job shows before the first candidate.

        Raises:
            SetupError: The job cannot be made.
        """
        with self._lent():
            pass

    def run(self, request: JSON, hold: Hold | None = None) -> Answer:
        """Runs the job on one request, as every sandbox does.

        Args:
            request: Plain data.
            hold: What lets another thread end it; what it then answers is of no use.
        """
        try:
            body = json.dumps(request).encode()
        except (TypeError, ValueError, RecursionError) as error:
            return Answer(None, f"the request is no plain data: {error}", "", 0.0)
        if hold and hold.is_cancelled:
            return _CLOSED
        with self._lent() as process:
            answer = _asked(process, body, hold) if process else _CLOSED
        return _CLOSED if self._is_closed and answer.failure else answer

    def close(self) -> None:
        with self._turn:
            self._is_closed = True
            for process in self._live:
                process.kill()
            self._turn.notify_all()
            # Each busy thread ends its own worker, whose descriptors it may just be reading.
            self._turn.wait_for(lambda: not self._num_busy, _CLOSE_SECONDS)
            self._finalizer()
            self._idle.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _enter(self) -> bool:
        """Waits for a turn; False: there will be none."""
        with self._turn:
            self._turn.wait_for(lambda: self._is_closed or self._num_busy < self._num_workers)
            self._num_busy += not self._is_closed
            return not self._is_closed

    @contextmanager
    def _lent(self) -> Iterator[Process | None]:
        """Lends a worker that waits for a request; None: the sandbox is closed."""
        if not self._enter():
            yield None
            return
        process = None
        try:
            process = self._idle_one() or self._new_one()
            yield process
        except BaseException:  # Ctrl-C, say: an answer is still to come that nobody will read
            if process:
                process.is_spent = True
            raise
        finally:
            self._leave(process)

    def _leave(self, process: Process | None) -> None:
        if process and (process.is_spent or self._is_closed):
            self._drop(process)
            process = None
        with self._turn:
            if process:
                self._idle.append(process)
            self._num_busy -= 1
            self._turn.notify_all()

    def _idle_one(self) -> Process | None:
        """Returns the worker that was used last and is still fit; drops those that died meanwhile."""
        while True:
            with self._turn:
                if not self._idle:
                    return None
                process = self._idle.pop()
            if process.is_fit():
                return process
            self._drop(process)

    def _new_one(self) -> Process | None:
        process = self._process()
        with self._turn:
            self._live.add(process)
            if self._is_closed:
                process.kill()  # `close` did not see it
        try:
            process.start(self._path, self._parcel)
        except BaseException as error:
            self._drop(process)
            if self._is_closed and isinstance(error, errors.SetupError):
                return None
            raise
        return process

    def _drop(self, process: Process) -> None:
        with self._turn:
            self._live.discard(process)
        process.end()


def _asked(process: Process, body: bytes, hold: Hold | None) -> Answer:
    if hold is None:
        return process.ask(body)
    with hold.of(process):
        return _CLOSED if hold.is_cancelled else process.ask(body)


def _end(processes: set[Process]) -> None:
    while processes:
        processes.pop().end()


def _check(limits: Limits, num_workers: int) -> None:
    amounts = {"seconds": limits.seconds, "memory_mb": limits.memory_mb, "output_bytes": limits.output_bytes}
    for name, value in {**amounts, "num_workers": num_workers}.items():
        if value is not None and not value > 0:
            raise errors.SetupError(f"The sandbox cannot work with {name}={value}: give a number above 0.")
