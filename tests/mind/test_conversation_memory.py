"""Memory of conversations, claims of optimality, and the end of searches that repeat themselves."""

import json
from dataclasses import fields
from random import Random

import pytest

from atoll import cli, mind, testing
from atoll.mind import prompts, trace_mutator
from atoll.mind.prompts import PromptPlan, RememberedTurn
from atoll.mind.tasks import generate, meeting

TURNS = [
    RememberedTurn(PromptPlan(f"plan {number}", score, f"- error {number}\n- more"), f"- point {number}")
    for number, score in enumerate((-3.0, -1.0, -2.0), 1)
]


class UnboundedDay(meeting.Day):
    """A day whose evaluator knows no bound."""

    max_score = None


@pytest.fixture(scope="module")
def day():
    """A day on which not all friends can be met, and its best plan."""
    for row in generate.generate_rows("meeting", 20, 6, 5):
        problem = meeting.from_text(row["id"], row["prompt_0shot"])
        plan = "\n".join(row["golden_plan"])
        if not problem.evaluate(plan).is_solved:
            return problem, plan
    raise AssertionError


def test_memory_summarizes_old_turns():
    full = prompts.format_memory(TURNS, None)
    assert full[0] == "Turn 1, score -3:\nplan 1\n- error 1\n- more"
    short = prompts.format_memory(TURNS, 12)
    assert short[:2] == ["Turn 1, score -3. error 1", "Turn 2, score -1. error 2"]
    assert short[2] == "Turn 3, score -2:\nplan 3\n- error 3\n- more"
    assert "error" not in "".join(prompts.format_memory(TURNS, 0, has_feedback=False))


def test_points_stay_open_until_the_score_rises():
    assert prompts.find_open_points(TURNS) == ["- point 3"]
    assert prompts.find_open_points(TURNS[:2]) == []
    better = RememberedTurn(PromptPlan("plan 4", 0.0, ""))
    assert prompts.find_open_points([*TURNS, better]) == []


def test_prompts_contain_memory_and_open_points_and_never_repeat(trips):
    seen = list[str]()

    def model(prompt: str) -> str:
        seen.append(prompt)
        plan = trips[0].format_plan(trace_mutator.random_trace(trips[0].moves, Random(len(seen))))
        return f"<critic>\n- point of call {len(seen)}\n</critic>\n<plan>\n{plan}\n</plan>"

    options = {"num_gens": 2, "num_islands": 2, "num_convs": 2, "num_seq": 4, "patience": 0, "elect": "difference"}
    mind.MindEvolutionEngine([trips[0]], model, options).run()
    assert len(seen) == len(set(seen)) == 32
    assert sum("Your earlier attempts" in prompt for prompt in seen) == 2 * len(seen) // 4
    assert any("Open points of the critic:\n- point of call" in prompt for prompt in seen)
    assert all(trips[0].target in prompt for prompt in seen)


def test_claim_that_reaches_the_bound_ends_the_search(day):
    problem, plan = day
    calls = list[str]()

    def model(prompt: str) -> str:
        calls.append(prompt)
        claim = "<optimal>Two windows overlap.</optimal>" if prompts.CLAIM_REQUEST in prompt else ""
        return f"<plan>\n{plan}\n</plan>{claim}"

    result = mind.MindEvolutionEngine([problem], model).run()
    assert result.reasons[problem.id] == "optimal: the evaluator's bound agrees"
    assert len(calls) == 2
    assert problem.count_met(result.plans[problem.id]) == problem.max_score


def test_claim_below_the_bound_is_refused(day):
    problem, plan = day
    worse = problem.format_plan(problem.parse_trace(plan)[:1])
    result = mind.MindEvolutionEngine([problem], lambda prompt: f"{worse}\n<optimal>I am sure.</optimal>").run()
    assert result.reasons[problem.id] == "3 conversations in a row made no new plan"
    assert result.stats["calls"] <= 10


@pytest.mark.parametrize(("word", "reason"), [("AGREE", "a second critic agrees"), ("DISAGREE", "no new plan")])
def test_second_critic_decides_without_a_bound(day, word, reason):
    problem, plan = day
    unbounded = UnboundedDay(**{field.name: getattr(problem, field.name) for field in fields(problem)})

    def model(prompt: str) -> str:
        return (
            f"Checked. {word}" if "claims that no plan can be better" in prompt else f"{plan}\n<optimal>Yes.</optimal>"
        )

    result = mind.MindEvolutionEngine([unbounded], model).run()
    assert result.reasons[problem.id].endswith(reason)


def test_repeated_plans_end_the_search_within_10_calls(day):
    problem, plan = day
    result = mind.MindEvolutionEngine([problem], lambda prompt: plan).run()
    assert result.reasons[problem.id] == "3 conversations in a row made no new plan"
    assert result.stats["calls"] <= 10


def test_repeats_are_allowed_without_a_limit(day):
    problem, plan = day
    options = {"num_repeats": 0, "num_gens": 1, "num_islands": 1, "num_convs": 3, "num_seq": 2}
    assert mind.MindEvolutionEngine([problem], lambda prompt: plan, options).run().stats["calls"] == 6


def test_budget_of_8_calls_sends_8(tmp_path, monkeypatch, capsys, trips):
    rng = Random(0)

    def reply(prompt, number):
        return trips[0].format_plan(trace_mutator.random_trace(trips[0].moves, rng))

    monkeypatch.chdir(tmp_path)
    (tmp_path / "task").mkdir()
    (tmp_path / "task/atoll.toml").write_text('system = "mind"\n[task]\nnumber = 1\n[run]\niterations = 400\n')
    with testing.ModelServer(reply) as server:
        arguments = ["run", "task", "--llm", f"openai:test@{server.url}", "--budget", "8calls", "--json"]
        assert cli.main(arguments) == 0
        assert len(server.requests) == 8
    assert json.loads(capsys.readouterr().out)["calls"] == 8


def test_long_feedback_is_shortened_and_each_error_is_there_once():
    errors = [f"- error {number % 10}" for number in range(30)]
    text = prompts.shorten_feedback("\n".join([*errors, "A note.", "A note."]))
    assert text.splitlines() == [*errors[:8], "A note.", "A note.", "- and 2 more errors"]
    assert prompts.shorten_feedback("- one\nA note.") == "- one\nA note."
