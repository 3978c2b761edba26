"""Messages of a prompt: joined as a string, with their roles at providers that have roles."""

import copy
import pickle
from typing import Any

import pytest

from atoll import errors, llm, store, testing
from atoll.journal import CallCache
from atoll.llm import base
from atoll.testing.server import ModelServer
from tests.llm.test_services import KEY, make

PROMPT = llm.ChatPrompt(("system", "Pack circles."), ("user", "Improve this."), schema={"type": "object"})
TURNS: tuple[base.Message, ...] = (
    ("system", "Pack circles."),
    ("user", "Improve this."),
    ("assistant", "No."),
    ("user", "Again."),
)


def test_prompt_is_its_texts_joined():
    assert PROMPT == "Pack circles.\n\nImprove this."
    assert llm.get_messages("Improve this.") == (("user", "Improve this."),)
    assert llm.get_messages(llm.ChatPrompt(("system", ""), ("user", "x"))) == (("user", "x"),)


def test_second_call_continues_the_first():
    second = llm.continue_prompt(PROMPT, "No.", "Again.")
    assert second.messages == TURNS
    assert second == "Pack circles.\n\nImprove this.\n\nYou answered:\n```\nNo.\n```\n\nAgain."
    assert second.schema == PROMPT.schema
    assert llm.continue_prompt("x", "y", "z").messages == (("user", "x"), ("assistant", "y"), ("user", "z"))


@pytest.mark.parametrize("copied", [copy.deepcopy(PROMPT), pickle.loads(pickle.dumps(PROMPT))])
def test_copies_keep_messages(copied):
    assert (copied, copied.messages, copied.schema) == (PROMPT, PROMPT.messages, PROMPT.schema)


@pytest.mark.parametrize(
    ("service", "options"),
    [("openai", {}), ("openai", {"stream": True}), ("openrouter", {}), ("anthropic", {}), ("google", {})],
)
def test_provider_receives_roles(service, options, monkeypatch):
    for variable in ("OPENAI_API_KEY", "OPENROUTER_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(variable, KEY)
    with ModelServer(lambda prompt, number: "Yes.") as server:
        assert make(service, server, **options)(llm.ChatPrompt(*TURNS)).text == "Yes."
        assert server.requests[0].get_messages() == list(TURNS)


def test_function_and_json_get_the_conversation():
    prompts: list[str] = []

    def answer(prompt: str) -> str:
        prompts.append(prompt)
        return "no JSON" if len(prompts) == 1 else '{"a": 1}'

    assert llm.ask_json(llm.FunctionLLM(answer), PROMPT, dict[str, int]) == {"a": 1}
    roles = [[role for role, _ in llm.get_messages(prompt)] for prompt in prompts]
    assert roles == [["system", "user"], ["system", "user", "assistant", "user"]]
    assert llm.get_messages(prompts[1])[:2] == llm.get_messages(prompts[0])
    assert prompts[0].startswith(f"{PROMPT}\n\nAnswer with one JSON value")


def test_journal_stores_text_and_roles():
    memory = store.MemoryJournal()
    token = CallCache.current.set(CallCache(1, 0, memory, {}))
    try:
        llm.JournaledLLM(testing.ScriptedLLM())(llm.ChatPrompt(*TURNS))
        llm.JournaledLLM(testing.ScriptedLLM())("plain")
    finally:
        CallCache.current.reset(token)
    first, second = (record.data for record in memory.read())
    assert first["prompt"] == llm.ChatPrompt(*TURNS)
    stored = base.split_stored_prompt(first)
    assert [role for role, _ in stored] == ["system", "user", "assistant", "user"]
    assert stored[1][1] == "Improve this."
    assert ("roles" in second, base.split_stored_prompt(second)) == (False, [("user", "plain")])


def test_each_llm_of_several_has_its_own_options():
    with ModelServer(lambda prompt, number: "Yes.") as server:
        names = [f"openai:a@{server.url}", f"openai:b@{server.url}", f"openai:a@{server.url}#2"]
        models: dict[str, dict[str, Any]] = {
            names[1]: {"temperature": 1.5, "max_tokens": 7, "api_key": lambda: "sk-of-b", "system_message": "Be b."},
            names[2]: {"temperature": 0.0},
        }
        ensemble = llm.make_llm(",".join(names), models=models, temperature=0.5, api_key="sk-of-all")
        assert isinstance(ensemble, llm.EnsembleLLM)
        for member in ensemble.members:
            member.llm(PROMPT)
        data = [request.parse_data() for request in server.requests]
        keys = [request.headers["authorization"].removeprefix("Bearer ") for request in server.requests]
        assert [item["model"] for item in data] == ["a", "b", "a"]
        assert [item["temperature"] for item in data] == [0.5, 1.5, 0.0]
        assert [item.get("max_tokens") for item in data] == [None, 7, None]
        assert keys == ["sk-of-all", "sk-of-b", "sk-of-all"]
        assert server.requests[1].get_messages() == [("system", "Be b."), ("user", "Improve this.")]


def test_own_system_message_keeps_the_raised_temperature():
    with ModelServer(lambda prompt, number: "Yes.") as server:
        model = llm.OpenAICompatibleLLM("a", base_url=server.url, temperature=0.5, system_message="Be b.")
        model(llm.ChatPrompt(("user", "Improve this."), temperature_shift=0.3))
        assert server.requests[0].parse_data()["temperature"] == 0.8


@pytest.mark.parametrize(
    ("configured", "shift", "sent"), [("low", 1, "medium"), ("high", 1, "high"), ("medium", -1, "low"), (None, 1, None)]
)
def test_prompt_shifts_the_configured_reasoning_effort(configured, shift, sent):
    with ModelServer(lambda prompt, number: "Yes.") as server:
        model = llm.OpenAICompatibleLLM("o3", base_url=server.url, thinking=configured, system_message="Be b.")
        model(llm.ChatPrompt(("user", "Improve this."), effort_shift=shift))
        assert server.requests[0].parse_data().get("reasoning_effort") == sent


def test_unknown_option_of_one_llm_is_refused():
    with pytest.raises(errors.SetupError, match="did you mean temperature"):
        llm.make_llm("openai:a@http://127.0.0.1:9/v1", models={"openai:a": {"temperatur": 1.0}})
