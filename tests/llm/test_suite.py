"""All models keep what a model promises."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from atoll import llm
from atoll.testing import ScriptedLLM
from atoll.testing.llms import LLMSuite
from atoll.testing.server import ModelServer


def echo(prompt: str) -> str:
    return f"You said {prompt[:100]}"


class TestFromFunction(LLMSuite):
    def make(self) -> llm.LLM:
        return llm.FunctionLLM(echo)

    def expected(self, prompt: str) -> str:
        return echo(prompt)


class TestOpenAICompatible(LLMSuite):
    @pytest.fixture(autouse=True)
    def serve(self) -> Iterator[None]:
        with ModelServer(lambda prompt, number: echo(prompt)) as self.server:
            yield

    def make(self) -> llm.LLM:
        return llm.OpenAICompatibleLLM("some-model", base_url=self.server.url, retries=0)

    def expected(self, prompt: str) -> str:
        return echo(prompt)


class TestScriptedLLM(LLMSuite):
    def make(self) -> llm.LLM:
        return ScriptedLLM(lambda step, call, prompt: echo(prompt))

    def expected(self, prompt: str) -> str:
        return echo(prompt)


class TestDurable(LLMSuite):
    def make(self) -> llm.LLM:
        return llm.JournaledLLM(llm.FunctionLLM(echo))

    def expected(self, prompt: str) -> str:
        return echo(prompt)


class TestRecorder(LLMSuite):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "replies.jsonl"

    def make(self) -> llm.LLM:
        return llm.RecordingLLM(llm.FunctionLLM(echo), self.path)

    def expected(self, prompt: str) -> str:
        return echo(prompt)


class TestReplay(TestRecorder):
    def make(self) -> llm.LLM:
        recorder = super().make()
        for prompt in self.PROMPTS:
            recorder(prompt)
        return llm.RecordedLLM(self.path)
