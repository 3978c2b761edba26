"""What the tests let other processes do, each in a fresh interpreter with its own handle."""

import contextlib
import itertools
import multiprocessing
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from atoll import errors, governed

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["atoll.store", "atoll.governed"])


def opened(path: str) -> governed.Parameters:
    """Opens a database, of a file or of a server, or a folder."""
    is_store = path.endswith(".db") or "://" in path
    return governed.StoredParameters(path) if is_store else governed.FileParameters(Path(path))


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


def reports(pipe: Connection) -> list[Any]:
    """Returns what a worker has reported until it was gone."""
    found = []
    with contextlib.suppress(EOFError):
        while True:
            found.append(pipe.recv())
    return found


def count_up(pipe: Connection, path: str, times: int) -> None:
    """Adds one to a number so often, starting over whenever somebody else was faster."""
    with opened(path) as store:
        for _ in range(times):
            while True:
                value, version = store.get("number")
                with contextlib.suppress(errors.Conflict):
                    store.set("number", value + 1, "one more", author="a process", expected_version=version)
                    break
    pipe.send("done")


def write(pipe: Connection, path: str) -> None:
    """Changes three keys together for as long as it lives, and reports each change that was made."""
    with opened(path) as store:
        start = store.get("a").value if "a" in store else 0
        for number in itertools.count(start + 1):
            with store.transaction("together", author="a process") as draft:
                for key in ("a", "b", "c"):
                    draft.set(key, number)
            store.note("a", "approve", "x" * (number % 7) * 3000, "fine", author="a process")
            pipe.send(number)


def set_later(pipe: Connection, path: str, count: int) -> None:
    """Sets a key once for each word that it is sent by the clock, with the time when it was set."""
    import time

    with opened(path) as store:
        pipe.send("ready")
        for _ in range(count):
            time.sleep(0.02)
            store.set("key", time.time(), "because", author="a process")
    pipe.send("done")
