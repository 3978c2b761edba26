"""One event loop serves all threads of a process, and a forked child has its own."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread

import pytest

from atoll.llm import event_loop
from atoll.testing import assertions
from atoll.testing.server import ModelServer


async def double(number: int) -> int:
    await asyncio.sleep(0.001)
    return 2 * number


def test_a_coroutine_runs_and_its_result_comes_back() -> None:
    assert event_loop.run_coroutine(double(21)) == 42


def test_what_a_coroutine_raises_is_raised() -> None:
    async def fail() -> None:
        raise KeyError("why")

    with pytest.raises(KeyError, match="why"):
        event_loop.run_coroutine(fail())


def test_all_threads_share_one_loop() -> None:
    async def where() -> tuple[int, str]:
        return id(asyncio.get_running_loop()), current_thread().name

    assert set(assertions.run_concurrently(lambda _: event_loop.run_coroutine(where()))) == {
        (id(event_loop.PROCESS_LOOP.get()), "llm-loop")
    }


def test_threads_that_start_at_once_start_one_loop() -> None:
    fresh = event_loop.BackgroundLoop()
    assert len(set(assertions.run_concurrently(lambda _: fresh.get(), 16))) == 1
    fresh.stop()


def test_a_stopped_loop_is_closed_and_the_next_call_starts_another() -> None:
    fresh = event_loop.BackgroundLoop()
    first = fresh.get()
    fresh.stop()
    assert first.is_closed()
    assert fresh.run(double(1)) == 2
    fresh.stop()
    fresh.stop()


def test_the_loop_does_not_wait_for_itself() -> None:
    async def nested() -> int:
        return event_loop.run_coroutine(double(1))

    with pytest.raises(RuntimeError, match="await the coroutine instead"):
        event_loop.run_coroutine(nested())


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_who_is_interrupted_while_he_waits_cancels_what_he_waited_for() -> None:
    ended: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    with interrupted_after(0.05), pytest.raises(KeyboardInterrupt):
        event_loop.run_coroutine(wait())
    event_loop.run_coroutine(asyncio.sleep(0.01))
    assert ended == ["cancelled"]


FORKING = """
import os, sys, warnings
from atoll import llm
warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, which is the point here
model = llm.OpenAICompatible("some-model", base_url=sys.argv[1], retries=0, timeout_seconds=5)
assert model("parent").text == "parent"
child = os.fork()
if not child:
    assert model("child").text == "child" and model("child again").text == "child again"
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert model("parent again").text == "parent again"
"""


def test_a_forked_child_asks_on_a_loop_of_its_own_and_both_end_without_a_word() -> None:
    with ModelServer(lambda prompt, number: prompt) as server:
        # Whatever was not closed would be told on stderr.
        command = [sys.executable, "-W", "default::ResourceWarning", "-c", FORKING, server.url]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert (done.returncode, done.stderr) == (0, "")
        assert sorted(server.prompts) == ["child", "child again", "parent", "parent again"]
        assert server.num_connections == 2
