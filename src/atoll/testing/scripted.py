"""A language model that follows a script."""

from collections.abc import Callable, Collection, Mapping
from random import Random
from threading import Lock

from atoll import errors, llm
from atoll.evaluation import Cost
from atoll.journal import Ledger
from atoll.testing.naps import Naps

type Place = tuple[int, str]  # (step, call): the call is "0", "1", ...; one of a judge is "{label}/0", ...
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
        naps: Naps | None = None,
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
        self._script = {_place(*at): text for at, text in script.items()} if isinstance(script, Mapping) else script
        self._failing, self._naps, self._cost = {_place(*at) for at in failing}, naps, cost
        self._asked: list[Place] = []
        self._lock = Lock()

    @property
    def asked(self) -> list[Place]:
        """The places of all requests, also of those that failed, in the order of arrival."""
        with self._lock:
            return list(self._asked)

    @property
    def num_requests(self) -> int:
        return len(self.asked)

    def __call__(self, prompt: str) -> llm.Reply:
        """Returns the reply that the script has for this place.

        Raises:
            OSError: The place is a failing one.
            NotFound: The script has no text for the place.
        """
        ledger = Ledger.current.get()
        step, call = (0, "0") if ledger is None else ledger.place
        with self._lock:
            self._asked.append((step, call))
        if self._naps is not None:
            self._naps(step, call)
        if (step, call) in self._failing:
            raise OSError(f"The script has the model fail at step {step}, call {call}.")
        return llm.Reply(self._text(step, call, prompt), "scripted", self._cost)

    def _text(self, step: int, call: str, prompt: str) -> str:
        script = self._script
        if isinstance(script, int):
            return repr(Random(f"{script}/{step}/{call}").random())
        if not isinstance(script, Mapping):
            return script(step, call, prompt)
        if (step, call) not in script:
            raise errors.NotFound(f"The script has no reply for step {step}, call {call}.")
        return script[step, call]


def _place(step: int, call: str | int) -> Place:
    return step, str(call)
