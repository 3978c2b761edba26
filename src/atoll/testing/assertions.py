"""Assertions of the suites, without pytest, so that any test runner works."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier


@contextmanager
def raises[T: BaseException](kind: type[T]) -> Iterator[list[T]]:
    """Fails unless the block raises this exception; appends it to the returned list."""
    caught: list[T] = []
    try:
        yield caught
    except kind as error:
        caught.append(error)
        return
    raise AssertionError(f"{kind.__name__} was not raised")


def run_concurrently[T](call: Callable[[int], T], num_threads: int = 8) -> list[T]:
    """Calls `call(0)`, `call(1)`, ... in parallel threads that start together; returns the results."""
    barrier = Barrier(num_threads)

    def start(index: int) -> T:
        barrier.wait()
        return call(index)

    with ThreadPoolExecutor(num_threads) as pool:
        return list(pool.map(start, range(num_threads)))
