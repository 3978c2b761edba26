"""Receives notifications on one connection per process."""

from collections import Counter
from collections.abc import Callable
from threading import Condition, Event, Thread
from typing import Any

import psycopg

CHANNEL = "atoll"
POLL_SECONDS = 0.25  # between checks for `close`
RECONNECT_SECONDS = 1.0


class Listener:
    """Counts notifications by topic, in a thread, until it is closed.

    After a lost connection it reconnects and wakes all waiting threads, which query the tables; so nothing is missed.
    """

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        self._connect, self._counts, self._epoch = connect, Counter[str](), 0
        self._changed, self._closing = Condition(), Event()
        connection = self._start_listening()
        self._thread = Thread(target=self._run, args=(connection,), name="atoll-listener", daemon=True)
        self._thread.start()

    def get_state(self, topic: str) -> tuple[int, int]:
        """Returns a pair that changes with every notification and every reconnection."""
        with self._changed:
            return self._epoch, self._counts[topic]

    def wait(self, topic: str, last_state: tuple[int, int], seconds: float) -> tuple[int, int]:
        """Waits until the state differs from `last_state`, at most `seconds`; returns it."""
        with self._changed:
            self._changed.wait_for(lambda: (self._epoch, self._counts[topic]) != last_state, seconds)
            return self._epoch, self._counts[topic]

    def close(self) -> None:
        self._closing.set()
        with self._changed:
            self._epoch += 1
            self._changed.notify_all()
        self._thread.join()

    def _start_listening(self) -> psycopg.Connection[Any]:
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
                    connection = self._start_listening()
                for notification in connection.notifies(timeout=POLL_SECONDS):
                    with self._changed:
                        self._counts[notification.payload] += 1
                        self._changed.notify_all()
            except psycopg.Error:
                connection.close()
                self._closing.wait(RECONNECT_SECONDS)
        connection.close()


class TopicSignal:
    """Signal for one topic."""

    def __init__(self, listener: Listener, topic: str) -> None:
        self._listener, self._topic = listener, topic
        self._last_state = listener.get_state(topic)

    def wait(self, seconds: float) -> None:
        self._last_state = self._listener.wait(self._topic, self._last_state, seconds)
