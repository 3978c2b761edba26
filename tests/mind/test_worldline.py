"""The individual, its actions and the kind that is a text."""

import pytest

from atoll import errors
from atoll.mind import actions, backends, worldline

TRACE = (
    actions.Think("begin with the narrow window"),
    actions.Task("visit", "Prague"),
    actions.WorldlineFork("try the other end first"),
    actions.Read("README.md"),
    actions.Edit("a.py", "1", "2"),
    actions.Run(("python", "-m", "pytest")),
)


def test_a_worldline_comes_back_from_its_json():  # A1
    line = worldline.Worldline(
        "7.0",
        ("3.0", "5.1"),
        TRACE,
        memory_refs=("m1",),
        memory_links={"m1": ("3.0",)},
        agent_prompts=("critic: too late", "author: earlier"),
        metrics={"task_progress": 0.5},
        summary="a short trip",
        highlight="Prague first",
        checkpoint=worldline.Checkpoint("abc", "context.jsonl", 4),
        context=({"role": "user", "content": "go"},),
        tool_history=(actions.Result(TRACE[-1], False, "1 failed", 0.5),),
        status="ran",
    )
    assert worldline.from_json(line.to_json()) == line


@pytest.mark.parametrize("data", [{"do": "fly"}, {"do": "think"}, {"do": "run", "command": "ls"}])
def test_what_is_no_action_is_refused_with_a_sentence(data):
    with pytest.raises(errors.SetupError, match="is no"):
        actions.from_data(data)


def test_a_text_is_forked_and_run_without_a_trace_of_its_parent():
    kind, base = backends.TextBackend(), worldline.Worldline(worldline.BASE)
    plan = worldline.Plan(TRACE[:2], memory_refs=("m1",))
    line = kind.run(kind.fork(base, plan, "1.0"), plan)
    assert line.decision_trace == TRACE[:2]
    assert (line.parents, line.memory_refs) == ((worldline.BASE,), ("m1",))
    assert base.decision_trace == ()
    assert "+task | visit | Prague" in kind.diff(line, base)


def test_divergence_is_none_from_itself_and_all_from_something_else():  # A3
    kind = backends.TextBackend()
    one, other = (worldline.Worldline(name, decision_trace=TRACE[k : k + 2]) for name, k in (("a", 0), ("b", 3)))
    assert kind.compute_divergence(one, one) == 0
    assert kind.compute_divergence(one, other) == 1
