"""Functions that tests run in other processes, each with its own store handle."""

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
    """Opens a store: database file, server URL or folder."""
    is_store = path.endswith(".db") or "://" in path
    return governed.StoredParameters(path) if is_store else governed.FileParameters(Path(path))


@contextlib.contextmanager
def running(work: Callable[..., None], *arguments: Any) -> Iterator[tuple[ForkServerProcess, Connection]]:
    """Starts a process and yields it with the pipe for its reports; kills it at the end if needed."""
    local, existing = _context.Pipe(duplex=False)
    process = _context.Process(target=work, args=(existing, *arguments))
    process.start()
    existing.close()
    try:
        yield process, local
    finally:
        process.kill()
        process.join()
        process.close()
        local.close()


def reports(pipe: Connection) -> list[Any]:
    """Returns all reports of a worker until its end."""
    result = []
    with contextlib.suppress(EOFError):
        while True:
            result.append(pipe.recv())
    return result


def count_up(pipe: Connection, path: str, times: int) -> None:
    """Increments a number `times` times, retrying after version conflicts."""
    with opened(path) as store:
        for _ in range(times):
            while True:
                value, version = store.get("number")
                with contextlib.suppress(errors.Conflict):
                    store.set("number", value + 1, "one more", author="a process", expected_version=version)
                    break
    pipe.send("done")


def write(pipe: Connection, path: str) -> None:
    """Changes three keys together until killed, and reports each change."""
    with opened(path) as store:
        start = store.get("a").value if "a" in store else 0
        for number in itertools.count(start + 1):
            with store.transaction("together", author="a process") as draft:
                for key in ("a", "b", "c"):
                    draft.set(key, number)
            store.note("a", "approve", "x" * (number % 7) * 3000, "fine", author="a process")
            pipe.send(number)


def set_later(pipe: Connection, path: str, count: int) -> None:
    """Sets a key to the current time for each message received."""
    import time

    with opened(path) as store:
        pipe.send("ready")
        for _ in range(count):
            time.sleep(0.02)
            store.set("key", time.time(), "because", author="a process")
    pipe.send("done")
