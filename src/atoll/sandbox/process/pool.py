"""Pool of worker processes or fork servers, started on demand and replaced when they are spent."""

import json
import logging
import os
import sys
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Condition
from types import TracebackType
from typing import Self

from atoll import errors
from atoll.candidate import JSON
from atoll.sandbox import job_pickle
from atoll.sandbox.base import CLOSED_MESSAGE, MakeJob, SandboxResult
from atoll.sandbox.limits import Limits
from atoll.sandbox.process.client import WorkerClient, WorkerKilled

_log = logging.getLogger(__name__)
_CLOSED_RESULT = SandboxResult(None, CLOSED_MESSAGE, "", 0.0)
_CLOSE_SECONDS = 5.0
_MAX_STARTS = 3  # of a worker that does not start although others did, for example for lack of memory or processes
_START_PAUSE = 1.0  # seconds between these starts


class ProcessPool(ABC):
    """Sends each request to an idle process of the pool, and waits for one if all are busy.

    Subclasses choose the kind of process: a worker (L0), a fork server (L1 to L3), or two fork servers (apart). In this
    class "worker" means any of them.
    """

    def __init__(self, make_job: MakeJob, limits: Limits, num_workers: int, path: Sequence[str] | None) -> None:
        _check_limits(limits, num_workers)
        self._limits, self._num_workers = limits, num_workers
        self._path = [os.path.abspath(folder) for folder in (sys.path if path is None else path)]
        self._packed_job = job_pickle.pack_job(make_job)
        self._condition = Condition()
        self._is_closed = self._has_started = False
        self._num_busy = 0
        self._idle: list[WorkerClient] = []
        self._live: set[WorkerClient] = set()
        self._finalizer = weakref.finalize(self, _end_all, self._live)

    @property
    @abstractmethod
    def level(self) -> str:
        """Sandbox level, `L0` to `L3`."""

    @abstractmethod
    def _start_process(self) -> WorkerClient:
        """Starts a process without a job."""

    def warm(self) -> None:
        """Starts a worker if none is running, to report a broken job before the first candidate.

        Raises:
            SetupError: The job cannot be created.
        """
        with self._borrow_process():
            pass

    def run(self, request: JSON) -> SandboxResult:
        """Runs the job on one request; see `Sandbox.run`."""
        try:
            body = self._encode(request)
        except (TypeError, ValueError, RecursionError) as error:
            return SandboxResult(None, f"the request is not plain data: {error}", "", 0.0)
        with self._borrow_process() as process:
            result = process.run_request(body) if process else _CLOSED_RESULT
        return _CLOSED_RESULT if self._is_closed and result.failure else result

    def _encode(self, request: JSON) -> bytes:
        """Returns the request as JSON."""
        return json.dumps(request).encode()

    def close(self) -> None:
        with self._condition:
            self._is_closed = True
            for process in self._live:
                process.kill()
            self._condition.notify_all()
            # Each busy thread ends its own worker, because it may be reading the worker's descriptors.
            self._condition.wait_for(lambda: not self._num_busy, _CLOSE_SECONDS)
            self._finalizer()
            self._idle.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait_for_slot(self) -> bool:
        """Waits for an idle slot; returns False when the sandbox is closed."""
        with self._condition:
            self._condition.wait_for(lambda: self._is_closed or self._num_busy < self._num_workers)
            self._num_busy += not self._is_closed
            return not self._is_closed

    @contextmanager
    def _borrow_process(self) -> Iterator[WorkerClient | None]:
        """Yields a worker that waits for a request; None: the sandbox is closed."""
        if not self._wait_for_slot():
            yield None
            return
        process = None
        try:
            process = self._take_idle() or self._start_again()
            yield process
        except BaseException:  # e.g. Ctrl-C: the worker would still send its result
            if process:
                process.is_spent = True
            raise
        finally:
            self._return_process(process)

    def _return_process(self, process: WorkerClient | None) -> None:
        if process and (process.is_spent or self._is_closed):
            self._drop(process)
            process = None
        with self._condition:
            if process:
                self._idle.append(process)
            self._num_busy -= 1
            self._condition.notify_all()

    def _take_idle(self) -> WorkerClient | None:
        """Returns the most recently used worker that is ready; drops dead ones."""
        while True:
            with self._condition:
                if not self._idle:
                    return None
                process = self._idle.pop()
            if process.is_ready():
                return process
            self._drop(process)

    def _start_again(self) -> WorkerClient | None:
        """Starts a worker, and another one if it does not start although the job itself is known to work."""
        for _ in range(_MAX_STARTS - 1):
            try:
                return self._start_new()
            except errors.SetupError as error:
                if not self._has_started and not isinstance(error, WorkerKilled):
                    raise
                _log.warning("A worker did not start and is replaced: %s", error)
                time.sleep(_START_PAUSE)
        return self._start_new()

    def _start_new(self) -> WorkerClient | None:
        process = self._start_process()
        with self._condition:
            self._live.add(process)
            if self._is_closed:
                process.kill()  # `close` did not see it
        try:
            process.start(self._path, self._packed_job)
        except BaseException as error:
            self._drop(process)
            if self._is_closed and isinstance(error, errors.SetupError):
                return None
            raise
        self._has_started = True
        return process

    def _drop(self, process: WorkerClient) -> None:
        with self._condition:
            self._live.discard(process)
        process.end()


def _end_all(processes: set[WorkerClient]) -> None:
    while processes:
        processes.pop().end()


def _check_limits(limits: Limits, num_workers: int) -> None:
    amounts = {"seconds": limits.seconds, "memory_mb": limits.memory_mb, "output_bytes": limits.output_bytes}
    for name, value in {**amounts, "num_workers": num_workers}.items():
        if value is not None and not value > 0:
            raise errors.SetupError(f"Sandbox limit {name}={value} is not valid. Use a number above 0.")
