"""Test suite for LLMs."""

import json
import math
from abc import ABC, abstractmethod

from atoll import candidate, journal, llm
from atoll.evaluation import Cost
from atoll.journal import CallCache, Record
from atoll.testing import assertions

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
            prompts, assertions.run_concurrently(lambda index: model(prompts[index]), _NUM_THREADS), strict=True
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
