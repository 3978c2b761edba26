"""What suites demand, without pytest: whoever runs them may use another runner."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier


@contextmanager
def raises[T: BaseException](kind: type[T]) -> Iterator[list[T]]:
    """Demands that the block raises an exception of this kind, which is then in the list."""
    caught: list[T] = []
    try:
        yield caught
    except kind as error:
        caught.append(error)
        return
    raise AssertionError(f"{kind.__name__} was not raised")


def run_concurrently[T](call: Callable[[int], T], num_threads: int = 8) -> list[T]:
    """Calls `call(0)`, `call(1)`, ... from so many threads, as nearly at once as can be, and returns the results."""
    barrier = Barrier(num_threads)

    def start(index: int) -> T:
        barrier.wait()
        return call(index)

    with ThreadPoolExecutor(num_threads) as pool:
        return list(pool.map(start, range(num_threads)))
