"""LLM that follows a script, and the test suite for LLMs."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from random import Random
from threading import Lock

from atoll import candidate, errors, journal, llm
from atoll.evaluation import Cost
from atoll.journal import CallCache, Record
from atoll.testing import fakes
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


_NUM_THREADS = 8


class LLMSuite(ABC):
    """Tests for an LLM. Subclass it and implement `make`.

    The tests send only `PROMPTS`, each at most once, so recorded responses can be tested too.
    """

    PROMPTS = (
        "Say something.",
        "Several lines,\n\twith a tab,\r\nand a blank at the end ",
        "Ünïcödé, 漢字, 🏝, \u2028 and \x00",
        "long " * 20_000,
        *(f"Thread {number} asks." for number in range(_NUM_THREADS)),
    )

    @abstractmethod
    def make(self) -> llm.LLM:
        """Returns the LLM."""

    def expected(self, prompt: str) -> str | None:
        """Returns the required response text, or None if any text is allowed."""
        return None

    def test_response_has_text_and_model_name(self) -> None:
        """Both are strings, and the name is not empty."""
        response = self.make()(self.PROMPTS[0])
        self._check_response(self.PROMPTS[0], response)

    def test_any_text_prompt_gets_response(self) -> None:
        """Prompts may be long, have several lines and use any script."""
        model = self.make()
        for prompt in self.PROMPTS[1:-_NUM_THREADS]:
            self._check_response(prompt, model(prompt))

    def test_llm_is_thread_safe(self) -> None:
        """All workers share one LLM; each gets the response to its own prompt."""
        model, prompts = self.make(), self.PROMPTS[-_NUM_THREADS:]
        for prompt, response in zip(
            prompts, fakes.run_concurrently(lambda index: model(prompts[index]), _NUM_THREADS), strict=True
        ):
            self._check_response(prompt, response)

    def test_response_is_restored_from_journal(self) -> None:
        """A repeated call in an iteration returns the stored response without another LLM call."""
        model, memory_journal = llm.JournaledLLM(self.make()), _MemoryJournal()
        response = _call_in_iteration(model, self.PROMPTS[0], memory_journal)
        assert _call_in_iteration(model, self.PROMPTS[0], memory_journal) == response
        assert len(memory_journal.written) == 1
        self._check_response(self.PROMPTS[0], response)

    def _check_response(self, prompt: str, response: llm.Response) -> None:
        assert isinstance(response, llm.Response)
        assert isinstance(response.text, str)
        assert isinstance(response.model, str)
        assert response.model.strip(), "the model name is empty"
        _check_cost(response.cost)
        json.dumps([response.text, response.model, response.cost.to_data()], allow_nan=False).encode()
        expected = self.expected(prompt)
        assert expected is None or response.text == candidate.clean_text(expected)


def _check_cost(cost: Cost) -> None:
    assert isinstance(cost, Cost)
    assert all(math.isfinite(value) and value >= 0 for value in cost.to_data()), cost
    assert isinstance(cost.tokens_in, int)
    assert isinstance(cost.tokens_out, int)
    assert cost.calls == 0, "the iteration counts calls, not the LLM"


class _MemoryJournal(journal.NullJournal):
    """Stores the responses of one iteration."""

    def __init__(self) -> None:
        self.written: dict[str, Record] = {}

    def write(self, *records: Record) -> None:
        self.written.update((record.data["call"], record) for record in records)


def _call_in_iteration(model: llm.LLM, prompt: str, memory_journal: _MemoryJournal) -> llm.Response:
    stored = {call: json.loads(json.dumps(record.data)) for call, record in memory_journal.written.items()}
    token = CallCache.current.set(CallCache(1, 0, memory_journal, stored))
    try:
        return model(prompt)
    finally:
        CallCache.current.reset(token)
