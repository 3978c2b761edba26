"""A language model that follows a script."""

from collections.abc import Callable, Collection, Mapping
from random import Random
from threading import Lock

from atoll import errors, llm
from atoll.evaluation import Cost
from atoll.journal import CallCache
from atoll.testing.fakes import RandomDelays

type CallPosition = tuple[int, str]  # (step, call): the call is "0", "1", ...; one of a judge is "{label}/0", ...
type Script = Mapping[tuple[int, str | int], str] | Callable[[int, str, str], str] | int


class ScriptedLLM:
    """Answers by place, (step, call), and never by arrival: so timing cannot change a run.

    Outside of a step the place is (0, "0"). Called from several threads at once.
    """

    def __init__(
        self,
        script: Script = 0,
        *,
        failing: Collection[tuple[int, str | int]] = (),
        delays: RandomDelays | None = None,
        cost: Cost = Cost(seconds=0.5, tokens_in=10, tokens_out=5, usd=0.001),  # noqa: B008 - frozen
    ) -> None:
        """Takes the script.

        Args:
            script: Texts by place; or what makes one of (step, call, prompt); or a seed, and then every reply is a
                number from 0 to 1, drawn from seed and place.
            failing: Places where there is no reply and the model raises.
            naps: How long it thinks, by place.
            cost: What every reply costs.
        """
        self._script = (
            {_make_position(*position): text for position, text in script.items()}
            if isinstance(script, Mapping)
            else script
        )
        self._failing_positions, self._delays, self._cost = (
            {_make_position(*position) for position in failing},
            delays,
            cost,
        )
        self._requests: list[CallPosition] = []
        self._lock = Lock()

    @property
    def requests(self) -> list[CallPosition]:
        """The places of all requests, also of those that failed, in the order of arrival."""
        with self._lock:
            return list(self._requests)

    @property
    def num_requests(self) -> int:
        return len(self.requests)

    def __call__(self, prompt: str) -> llm.Response:
        """Returns the reply that the script has for this place.

        Raises:
            OSError: The place is a failing one.
            NotFound: The script has no text for the place.
        """
        call_cache = CallCache.current.get()
        iteration, call = (0, "0") if call_cache is None else call_cache.position
        with self._lock:
            self._requests.append((iteration, call))
        if self._delays is not None:
            self._delays(iteration, call)
        if (iteration, call) in self._failing_positions:
            raise OSError(f"The script has the model fail at step {iteration}, call {call}.")
        return llm.Response(self._make_text(iteration, call, prompt), "scripted", self._cost)

    def _make_text(self, iteration: int, call: str, prompt: str) -> str:
        script = self._script
        if isinstance(script, int):
            return repr(Random(f"{script}/{iteration}/{call}").random())
        if not isinstance(script, Mapping):
            return script(iteration, call, prompt)
        if (iteration, call) not in script:
            raise errors.NotFound(f"The script has no reply for step {iteration}, call {call}.")
        return script[iteration, call]


def _make_position(iteration: int, call: str | int) -> CallPosition:
    return iteration, str(call)
