"""What others announce, heard on one connection for a whole process."""

from collections import Counter
from collections.abc import Callable
from threading import Condition, Event, Thread
from typing import Any

import psycopg

CHANNEL = "atoll"
TURN_SECONDS = 0.25  # between looks whether to end
AGAIN_SECONDS = 1.0  # before a connection that was lost is made again


class Listener:
    """Counts announcements by their topic, in a thread, until it is closed.

    A connection that was lost is made again, and everybody who waits is woken: what was announced meanwhile stands in
    the tables, so nothing is missed.
    """

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        self._connect, self._counts, self._epoch = connect, Counter[str](), 0
        self._changed, self._closing = Condition(), Event()
        connection = self._begin()
        self._thread = Thread(target=self._run, args=(connection,), name="atoll-listener", daemon=True)
        self._thread.start()

    def state(self, topic: str) -> tuple[int, int]:
        """Returns what is another pair once something was announced, or may have been."""
        with self._changed:
            return self._epoch, self._counts[topic]

    def wait(self, topic: str, seen: tuple[int, int], seconds: float) -> tuple[int, int]:
        """Waits until the state is another one than was seen, or for so long; returns it."""
        with self._changed:
            self._changed.wait_for(lambda: (self._epoch, self._counts[topic]) != seen, seconds)
            return self._epoch, self._counts[topic]

    def close(self) -> None:
        self._closing.set()
        with self._changed:
            self._epoch += 1
            self._changed.notify_all()
        self._thread.join()

    def _begin(self) -> psycopg.Connection[Any]:
        connection = self._connect()
        connection.execute(f"LISTEN {CHANNEL}")
        with self._changed:
            self._epoch += 1
            self._changed.notify_all()
        return connection

    def _run(self, connection: psycopg.Connection[Any]) -> None:
        while not self._closing.is_set():
            try:
                if connection.closed:
                    connection = self._begin()
                for note in connection.notifies(timeout=TURN_SECONDS):
                    with self._changed:
                        self._counts[note.payload] += 1
                        self._changed.notify_all()
            except psycopg.Error:
                connection.close()
                self._closing.wait(AGAIN_SECONDS)
        connection.close()


class Heard:
    """What one listener has to say about one topic."""

    def __init__(self, listener: Listener, topic: str) -> None:
        self._listener, self._topic = listener, topic
        self._seen = listener.state(topic)

    def wait(self, seconds: float) -> None:
        self._seen = self._listener.wait(self._topic, self._seen, seconds)
