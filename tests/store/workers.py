"""Functions that tests run in other processes."""

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
_context.set_forkserver_preload(["atoll.store"])  # children start fast and inherit no connection


@contextlib.contextmanager
def running(work: Callable[..., None], *arguments: Any) -> Iterator[tuple[ForkServerProcess, Connection]]:
    """Yields a running process and the pipe with its reports; kills it afterwards."""
    reader, writer = _context.Pipe(duplex=False)
    process = _context.Process(target=work, args=(writer, *arguments))
    process.start()
    writer.close()
    try:
        yield process, reader
    finally:
        process.kill()
        process.join()
        process.close()
        reader.close()


def iter_reports(pipe: Connection) -> Iterator[Any]:
    """Yields the reports of a process until it ends."""
    with contextlib.suppress(EOFError):
        while True:
            yield pipe.recv()


def write_run(pipe: Connection, path: str, run: str, count: int) -> None:
    """Writes a new run, one record per commit, and reports each commit."""
    with store.open(path) as opened:
        journal = opened.journal(opened.create_run(run))
        for number in range(count):
            journal.write(Record("begun", number, 0, {"run": run, "number": number}))
            pipe.send(number)


def count_up(pipe: Connection, path: str, key: str, times: int) -> None:
    """Increments a number; repeats after conflicts."""
    with store.open(path) as opened:
        versions = opened.versions()
        for _ in range(times):
            while True:
                head = versions.get(key)
                with contextlib.suppress(errors.Conflict):
                    versions.set(key, str(int(head.value) + 1), "one more", "a process", expected=head.n)
                    break
    pipe.send("done")


def hold_lock(pipe: Connection, path: str, run: str) -> None:
    with store.open(path) as opened, opened.lock_run(run):
        pipe.send("locked")
        time.sleep(60)


def hold_lock_and_fork(pipe: Connection, path: str, run: str) -> None:
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
    """Copies a store and kills itself after the first run."""

    def on_progress(done: str) -> None:
        if done.startswith("run"):
            os.kill(os.getpid(), signal.SIGKILL)

    with store.open(source) as old, store.open(target) as new:
        transfer.copy_store(old.database, new.database, on_progress)


def open_at_once(pipe: Connection, path: str, moment: float) -> None:
    time.sleep(max(0.0, moment - time.time()))
    with store.open(path) as opened:
        pipe.send(opened.create_run())
