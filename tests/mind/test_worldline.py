"""The individual, its actions and the kind that is a text."""

import pytest

from atoll import errors
from atoll.mind import actions, worldline

TRACE = (
    actions.Think("begin with the narrow window"),
    actions.Task("visit", "Prague"),
    actions.WorldlineFork("try the other end first"),
    actions.Read("README.md"),
    actions.Edit("a.py", "1", "2"),
    actions.Run(("python", "-m", "pytest")),
)


def test_worldline_json_round_trips():  # A1
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
def test_from_data_rejects_invalid_action(data):
    with pytest.raises(errors.SetupError, match="is not a"):
        actions.from_data(data)


def test_text_backend_forks_and_runs():
    kind, base = worldline.TextBackend(), worldline.Worldline(worldline.BASE)
    plan = worldline.Plan(TRACE[:2], memory_refs=("m1",))
    line = kind.run(kind.fork(base, plan, "1.0"), plan)
    assert line.decision_trace == TRACE[:2]
    assert (line.parents, line.memory_refs) == ((worldline.BASE,), ("m1",))
    assert base.decision_trace == ()
    assert "+task | visit | Prague" in kind.diff(line, base)


def test_divergence_is_0_for_equal_and_1_for_disjoint():  # A3
    kind = worldline.TextBackend()
    one, other = (worldline.Worldline(name, decision_trace=TRACE[k : k + 2]) for name, k in (("a", 0), ("b", 3)))
    assert kind.compute_divergence(one, one) == 0
    assert kind.compute_divergence(one, other) == 1
