"""What every language model promises."""

import json
import math
from abc import ABC, abstractmethod

from atoll import journal, llm
from atoll.evaluation import Cost
from atoll.journal import Ledger, Record
from atoll.testing import claims

_NUM_THREADS = 8


class LLMSuite(ABC):
    """Subclass it, say how to make a model, and every test runs on yours.

    A model is asked nothing but `PROMPTS`, and each at most once: so one that replays can be made for them.
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
        """Returns the model."""

    def expected(self, prompt: str) -> str | None:
        """Returns the text that it must reply, or None if it may say anything."""
        return None

    def test_a_reply_is_a_text_and_the_name_of_who_said_it(self) -> None:
        """Both are strings, and there is a name."""
        reply = self.make()(self.PROMPTS[0])
        self._check(self.PROMPTS[0], reply)

    def test_any_prompt_that_is_a_text_gets_a_reply(self) -> None:
        """It may be long, have several lines and be in any script."""
        model = self.make()
        for prompt in self.PROMPTS[1:-_NUM_THREADS]:
            self._check(prompt, model(prompt))

    def test_several_threads_at_once_get_a_reply_each(self) -> None:
        """All workers share one model, and each gets the reply to its own prompt."""
        model, prompts = self.make(), self.PROMPTS[-_NUM_THREADS:]
        for prompt, reply in zip(
            prompts, claims.at_once(lambda number: model(prompts[number]), _NUM_THREADS), strict=True
        ):
            self._check(prompt, reply)

    def test_a_reply_comes_back_whole_from_the_journal(self) -> None:
        """Inside of a step it is stored, and who asks again gets it from there and not from the model."""
        model, records = llm.Durable(self.make()), _Records()
        bought = _ask_in_step(model, self.PROMPTS[0], records)
        assert _ask_in_step(model, self.PROMPTS[0], records) == bought
        assert len(records.written) == 1
        self._check(self.PROMPTS[0], bought)

    def _check(self, prompt: str, reply: llm.Reply) -> None:
        assert isinstance(reply, llm.Reply)
        assert isinstance(reply.text, str)
        assert isinstance(reply.model, str)
        assert reply.model.strip(), "the model has no name"
        _check_cost(reply.cost)
        json.dumps([reply.text, reply.model, reply.cost.to_data()], allow_nan=False).encode()
        expected = self.expected(prompt)
        assert expected is None or reply.text == expected


def _check_cost(cost: Cost) -> None:
    assert isinstance(cost, Cost)
    assert all(math.isfinite(each) and each >= 0 for each in cost.to_data()), cost
    assert isinstance(cost.tokens_in, int)
    assert isinstance(cost.tokens_out, int)
    assert cost.calls == 0, "calls are counted by the step, not by the model"


class _Records(journal.Nowhere):
    """Keeps what one step has bought."""

    def __init__(self) -> None:
        self.written: dict[str, Record] = {}

    def write(self, *records: Record) -> None:
        self.written.update((record.data["call"], record) for record in records)


def _ask_in_step(model: llm.LLM, prompt: str, records: _Records) -> llm.Reply:
    stored = {call: json.loads(json.dumps(record.data)) for call, record in records.written.items()}
    token = Ledger.current.set(Ledger(1, 0, records, stored))
    try:
        return model(prompt)
    finally:
        Ledger.current.reset(token)
