"""LLM that knows which of its calls wait for a response."""

import time
from threading import Lock
from typing import NamedTuple

from atoll.llm.base import LLM, Response
from atoll.llm.ensemble import EnsembleLLM


class WaitingCall(NamedTuple):
    """The call that waits longest.

    Attributes:
        model: Name of its LLM.
        seconds: Time since the call.
        num_calls: Number of calls that wait, with this one.
    """

    model: str
    seconds: float
    num_calls: int


class CallTracker:
    """Passes calls on to an LLM and remembers those without a response; thread-safe."""

    def __init__(self, llm: LLM, name: str = "the LLM") -> None:
        """Wraps an LLM.

        Args:
            llm: The LLM to call.
            name: Its name, if it has no attribute `model`.
        """
        self._llm, self._name, self._lock = llm, name, Lock()
        self._waiting: dict[object, tuple[float, str]] = {}

    def __call__(self, prompt: str) -> Response:
        call = object()
        with self._lock:
            self._waiting[call] = time.monotonic(), self._find_model()
        try:
            return self._llm(prompt)
        finally:
            with self._lock:
                del self._waiting[call]

    def find_longest(self) -> WaitingCall | None:
        """Returns the call that waits longest; None if no call waits."""
        with self._lock:
            if not self._waiting:
                return None
            started_at, model = next(iter(self._waiting.values()))
            return WaitingCall(model, time.monotonic() - started_at, len(self._waiting))

    def _find_model(self) -> str:
        model, name = self._llm, self._name
        if isinstance(model, EnsembleLLM):
            selected = EnsembleLLM.selected.get()
            member = next((member for member in model.members if member.name == selected), model.members[0])
            model, name = member.llm, member.name
        return str(getattr(model, "model", None) or name.partition("@")[0])
