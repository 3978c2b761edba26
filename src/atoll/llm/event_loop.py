"""One background event loop for the whole process: whoever is not async runs its coroutines here."""

import asyncio
import atexit
import os
from collections.abc import Callable, Coroutine
from threading import Lock, Thread, current_thread
from typing import Any, Protocol

from atoll.llm.base import Response

_STOP_TIMEOUT_SECONDS = 1.0  # for what was spawned, when the process ends


class BackgroundLoop:
    """An event loop in a daemon thread, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._tasks = set[asyncio.Task[None]]()  # a loop holds its tasks weakly
        self._abandoned: list[object] = []

    def get(self) -> asyncio.AbstractEventLoop:
        """Returns the loop of this process, which runs."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._loop.run_forever, name="llm-loop", daemon=True)
                self._thread.start()
            return self._loop

    def run[T](self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the loop and returns its result, or raises what it raised; from any other thread."""
        loop = self.get()
        if current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError("The event loop would wait for itself: await the coroutine instead of running it.")
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        try:
            return future.result()
        finally:
            future.cancel()  # for a caller who was interrupted while waiting; what is done does not change

    def spawn(self, loop: asyncio.AbstractEventLoop, make_coroutine: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Starts a coroutine on a loop and does not wait; does nothing if the loop is not, or no longer, ours."""

        def start() -> None:
            task = loop.create_task(make_coroutine())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        if loop is self._loop:
            loop.call_soon_threadsafe(start)

    def abandon_after_fork(self) -> None:
        """Leaves the loop to the parent process: a forked child has no thread that runs it.

        The old loop stays as it is. To close it, or what is connected through it, would take the parent's sockets
        out of the epoll that both share.
        """
        self._abandoned.append((self._loop, self._thread, self._tasks))
        self._lock, self._loop, self._thread, self._tasks = Lock(), None, None, set()

    def stop(self) -> None:
        """Ends the loop when what was spawned has ended; the next `get` starts another."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._finish_tasks(), loop)
        thread.join(_STOP_TIMEOUT_SECONDS)
        if not loop.is_running() and not asyncio.all_tasks(loop):
            loop.close()

    async def _finish_tasks(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # sockets close one round after they are told to
        asyncio.get_running_loop().stop()


PROCESS_LOOP = BackgroundLoop()
os.register_at_fork(after_in_child=PROCESS_LOOP.abandon_after_fork)
atexit.register(PROCESS_LOOP.stop)
run_coroutine = PROCESS_LOOP.run


class AsyncChat(Protocol):
    """Belongs to the event loop on which it is first used; `chat.Chat` is one."""

    @property
    def supports_json_schema(self) -> bool: ...

    async def ask(self, prompt: str, /) -> Response: ...

    async def aclose(self) -> None: ...


class LoopRunner:
    """Has it speak on the loop of this process."""

    def __init__(self, chat: AsyncChat) -> None:
        self._chat, self._loop = chat, PROCESS_LOOP.get()

    @property
    def supports_json_schema(self) -> bool:
        """Whether the provider holds a reply to a JSON schema, as far as is known."""
        return self._chat.supports_json_schema

    @property
    def belongs_to_process(self) -> bool:
        """Whether its loop runs here: a forked child has another."""
        return self._loop is PROCESS_LOOP.get()

    def ask(self, prompt: str) -> Response:
        """Returns the reply of one try.

        Raises:
            NoReply: There is none, and why.
        """
        return run_coroutine(self._chat.ask(prompt))

    def close(self) -> None:
        """Ends the connections, if their loop still runs."""
        PROCESS_LOOP.spawn(self._loop, self._chat.aclose)
