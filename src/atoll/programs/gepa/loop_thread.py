"""An event loop in a thread, for coroutines of users."""

from threading import Lock, Thread
from typing import Any

_MAX_CLOSE_SECONDS = 5.0


class LoopThread:
    """Runs coroutines of all threads in one event loop, since clients of async libraries belong to their loop."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loop: Any = None
        self._thread: Thread | None = None

    def run(self, awaitable: Any) -> Any:
        """Waits for an awaitable, and returns its result."""
        import asyncio  # slow to import; few users need it

        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._loop.run_forever, name="atoll-loop", daemon=True)
                self._thread.start()

        async def wait() -> Any:
            return await awaitable

        return asyncio.run_coroutine_threadsafe(wait(), self._loop).result()

    def close(self) -> None:
        """Ends the loop."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_MAX_CLOSE_SECONDS)
            if not thread.is_alive():
                loop.close()
