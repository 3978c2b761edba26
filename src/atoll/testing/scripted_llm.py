"""LLM that follows a script."""

from collections.abc import Callable, Collection, Mapping
from random import Random
from threading import Lock

from atoll import errors, llm
from atoll.evaluation import Cost
from atoll.journal import CallCache
from atoll.testing.fakes import RandomDelays

type CallPosition = tuple[int, str]  # (iteration, call): "0", "1", ...; calls of an evaluator are "{label}/0", ...
type Script = Mapping[tuple[int, str | int], str] | Callable[[int, str, str], str] | int


class ScriptedLLM:
    """Responds by position (iteration, call), not by arrival, so timing cannot change a run.

    Outside of an iteration the position is (0, "0"). Thread-safe.
    """

    def __init__(
        self,
        script: Script = 0,
        *,
        failing: Collection[tuple[int, str | int]] = (),
        delays: RandomDelays | None = None,
        cost: Cost = Cost(seconds=0.5, tokens_in=10, tokens_out=5, usd=0.001),  # noqa: B008 - frozen
    ) -> None:
        """Sets the script.

        Args:
            script: Texts by position; or a function of iteration, call and prompt; or a seed for numbers from 0 to 1
                that depend on seed and position.
            failing: Positions at which the LLM raises.
            delays: Delay by position.
            cost: Cost of each response.
        """
        if isinstance(script, Mapping):
            script = {_make_position(*position): text for position, text in script.items()}
        self._script, self._delays, self._cost = script, delays, cost
        self._failing_positions = {_make_position(*position) for position in failing}
        self._requests: list[CallPosition] = []
        self._lock = Lock()

    @property
    def requests(self) -> list[CallPosition]:
        """Positions of all requests, including failed ones, in order of arrival."""
        with self._lock:
            return list(self._requests)

    @property
    def num_requests(self) -> int:
        return len(self.requests)

    def __call__(self, prompt: str) -> llm.Response:
        """Returns the scripted response for the current position.

        Raises:
            OSError: The position is in `failing`.
            NotFound: The script has no text for the position.
        """
        call_cache = CallCache.current.get()
        iteration, call = (0, "0") if call_cache is None else call_cache.position
        with self._lock:
            self._requests.append((iteration, call))
        if self._delays is not None:
            self._delays(iteration, call)
        if (iteration, call) in self._failing_positions:
            raise OSError(f"Scripted failure at iteration {iteration}, call {call}.")
        return llm.Response(self._make_text(iteration, call, prompt), "scripted", self._cost)

    def _make_text(self, iteration: int, call: str, prompt: str) -> str:
        script = self._script
        if isinstance(script, int):
            return repr(Random(f"{script}/{iteration}/{call}").random())
        if not isinstance(script, Mapping):
            return script(iteration, call, prompt)
        if (iteration, call) not in script:
            raise errors.NotFound(f"The script has no response for iteration {iteration}, call {call}. Add one.")
        return script[iteration, call]


def _make_position(iteration: int, call: str | int) -> CallPosition:
    return iteration, str(call)
