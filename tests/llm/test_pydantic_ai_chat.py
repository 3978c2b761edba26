"""Chat through pydantic-ai: threads, interrupts, closing; forked children of both kinds of chat."""

import asyncio
import gc
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from atoll import llm
from atoll.testing import fakes
from atoll.testing.server import Fault, ModelServer


def make_llm(server: ModelServer) -> llm.OpenAICompatibleLLM:
    """Returns an LLM that needs pydantic-ai, for its stream."""
    return llm.OpenAICompatibleLLM("some-model", base_url=server.url, stream=True, retries=0, timeout_seconds=30)


def loop_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "llm-loop"}


def wait_until(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + 60
    while not holds() and time.monotonic() < end:
        time.sleep(0.005)
    return holds()


def test_all_threads_share_one_event_loop() -> None:
    before = loop_threads()
    with ModelServer(lambda prompt, number: prompt) as server:
        model = make_llm(server)
        texts = fakes.run_concurrently(lambda number: model(f"thread {number}").text, 16)
        assert texts == [f"thread {number}" for number in range(16)]
        assert len(loop_threads() - before) == 1


def test_deleted_llm_ends_its_thread_and_connections() -> None:
    before = loop_threads()
    with ModelServer() as server:
        model = make_llm(server)
        model("a prompt")
        del model
        gc.collect()
        assert wait_until(lambda: server.num_open == 0 and not loop_threads() - before)


def test_llm_can_be_called_inside_an_event_loop() -> None:
    async def nested() -> str:
        return model("a prompt").text

    with ModelServer() as server:
        model = make_llm(server)
        assert asyncio.run(nested()) == "An answer."


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


@pytest.mark.parametrize("stream", [False, True])
def test_interrupted_caller_ends_its_request(stream: bool) -> None:
    with ModelServer(faults={1: Fault(delay_seconds=20)}) as server:
        model = llm.OpenAICompatibleLLM("m", base_url=server.url, stream=stream, retries=0)
        model("imports and connects")
        start = time.perf_counter()
        with interrupted_after(0.2), pytest.raises(KeyboardInterrupt):
            model("a prompt")
        assert time.perf_counter() - start < 10
        assert model("another prompt").text == "An answer."


FORKING = """
import os, sys, warnings
from atoll import llm
warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, the point of this test
options = {"stream": sys.argv[2] == "True", "retries": 0, "timeout_seconds": 30}
model = llm.OpenAICompatibleLLM("some-model", base_url=sys.argv[1], **options)
assert model("parent").text == "parent"
child = os.fork()
if not child:
    warnings.simplefilter("ignore", ResourceWarning)  # of its copies of the sockets of its parent
    assert model("child").text == "child" and model("child again").text == "child again"
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert model("parent again").text == "parent again"
"""


@pytest.mark.parametrize("stream", [False, True])
def test_forked_child_has_its_own_connections_and_both_end_without_warnings(stream: bool) -> None:
    with ModelServer(lambda prompt, number: prompt) as server:
        # Sockets and loops that were not closed would cause warnings on stderr.
        command = [sys.executable, "-W", "default::ResourceWarning", "-c", FORKING, server.url, str(stream)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert (done.returncode, done.stderr) == (0, "")
        assert sorted(server.prompts) == ["child", "child again", "parent", "parent again"]
        assert server.num_connections == 2
