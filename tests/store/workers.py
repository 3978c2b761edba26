"""What the tests let other processes do, each in a fresh interpreter with its own store."""

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any

from atoll import errors, store
from atoll.journal import Record
from atoll.store import transfer

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["atoll.store"])  # no child waits for SQLAlchemy; none inherits a connection


@contextlib.contextmanager
def running(work: Callable[..., None], *arguments: Any) -> Iterator[tuple[ForkServerProcess, Connection]]:
    """Lends a process at work and the end of the pipe that it reports to; ends it by force if need be."""
    here, there = _context.Pipe(duplex=False)
    process = _context.Process(target=work, args=(there, *arguments))
    process.start()
    there.close()
    try:
        yield process, here
    finally:
        process.kill()
        process.join()
        process.close()
        here.close()


def reports(pipe: Connection) -> Iterator[Any]:
    """Yields what a worker has reported until it was gone."""
    with contextlib.suppress(EOFError):
        while True:
            yield pipe.recv()


def write_run(pipe: Connection, path: str, run: str, count: int) -> None:
    """Writes a run of its own, a record a commit, and reports each when it is committed."""
    with store.open(path) as opened:
        journal = opened.journal(opened.create_run(run))
        for number in range(count):
            journal.write(Record("begun", number, 0, {"run": run, "number": number}))
            pipe.send(number)


def count_up(pipe: Connection, path: str, key: str, times: int) -> None:
    """Adds one to a number so often, starting over whenever somebody else was faster."""
    with store.open(path) as opened:
        versions = opened.versions()
        for _ in range(times):
            while True:
                head = versions.get(key)
                with contextlib.suppress(errors.Conflict):
                    versions.set(key, str(int(head.value) + 1), "one more", "a process", expected=head.n)
                    break
    pipe.send("done")


def hold_claim(pipe: Connection, path: str, run: str) -> None:
    with store.open(path) as opened, opened.lock_run(run):
        pipe.send("claimed")
        time.sleep(60)


def hold_claim_and_fork(pipe: Connection, path: str, run: str) -> None:
    with store.open(path) as opened, opened.lock_run(run):
        child = os.fork()
        if child:
            pipe.send(child)
        time.sleep(60)


def post(pipe: Connection, path: str, run: str) -> None:
    with store.open(path) as opened:
        pipe.send(opened.inbox(run).post("stop", reason="enough"))


def set_version(pipe: Connection, path: str, key: str) -> None:
    with store.open(path) as opened:
        pipe.send(opened.versions().set(key, "from elsewhere", "a test", "a process").n)


def copy_and_die(pipe: Connection, source: str, target: str) -> None:
    """Copies a store and is killed in the middle, when the first run is over."""

    def tell(done: str) -> None:
        if done.startswith("run"):
            os.kill(os.getpid(), signal.SIGKILL)

    with store.open(source) as old, store.open(target) as new:
        transfer.copy_store(old.database, new.database, tell)


def open_at_once(pipe: Connection, path: str, moment: float) -> None:
    time.sleep(max(0.0, moment - time.time()))
    with store.open(path) as opened:
        pipe.send(opened.create_run())
