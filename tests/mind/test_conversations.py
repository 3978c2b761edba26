"""Conversations of author and critic, with a scripted LLM."""

import re
from collections.abc import Callable
from random import Random

import pytest

from atoll import control, llm, mind, store, testing
from atoll.mind import actions, prompts, trace_mutator
from atoll.mind.tasks import generate, load, trip

QUICK = {
    "num_gens": 3,
    "num_islands": 2,
    "num_convs": 2,
    "num_seq": 2,
    "strategies": [],
    "patience": 0,
    "elect": "difference",
}


def get_solution(problem: trip.Trip) -> str:
    """Returns the solution of a trip."""
    (row,) = [row for row in generate.generate_rows("trip", 2, 6, 3) if row["id"] == problem.id]
    return str(row["golden_plan"])


def random_plan(problem: trip.Trip, position: object) -> str:
    return problem.format_plan(trace_mutator.random_trace(problem.moves, Random(f"{position}")))


def make_scripted_llm(problem: trip.Trip, solve_at: tuple[int, str] | None = None) -> testing.ScriptedLLM:
    def reply(step: int, call: str, prompt: str) -> str:
        plan = get_solution(problem) if (step, call) == solve_at else random_plan(problem, (step, call))
        return f"<critic>\n- the order is wrong\n- the dates too\n</critic>\n<plan>\n{plan}\n</plan>"

    return testing.ScriptedLLM(reply)


def make_engine(problem: trip.Trip, model: Callable[[str], object], **options: object) -> mind.MindEvolutionEngine:
    return mind.MindEvolutionEngine([problem], model, {**QUICK, **options})


def test_task_is_the_system_message_and_unreadable_response_is_continued(trips):
    asked: list[str] = []

    def respond(prompt: str) -> str:
        asked.append(prompt)
        return "no plan"

    options = {"num_gens": 1, "num_islands": 1, "num_convs": 1, "num_seq": 1}
    make_engine(trips[0], llm.FunctionLLM(respond), **options).run()
    first, second = (llm.get_messages(prompt) for prompt in asked[:2])
    assert first[0][0] == "system"
    assert trips[0].text in first[0][1]
    assert second[:2] == first
    assert [role for role, _ in second[2:]] == ["assistant", "user"]
    assert "no readable plan" in second[3][1]


def test_conversation_adds_num_seq_plans(trips):  # A21, 1.1
    records, model = store.MemoryJournal(), make_scripted_llm(trips[0])
    result = mind.MindEvolutionEngine([trips[0]], model, QUICK, run_journal=records).run()
    applied = [record for record in records.read() if record.kind == "applied"]
    assert [len(record.data["children"]) for record in applied] == [2] * (3 * 2 * 2)
    assert result.stats["calls"] == model.num_requests == 3 * 2 * 2 * 2
    assert result.reason == "ended after 3 generations"


def test_first_solved_plan_ends_search(trips):  # A21
    model = make_scripted_llm(trips[0], solve_at=(3, "0"))
    result = make_engine(trips[0], model).run()
    assert result.reasons[trips[0].id] == "satisfied the evaluator in generation 1"
    assert model.requests[-1] == (3, "0")
    assert result.plans[trips[0].id] == get_solution(trips[0])
    assert result.worldlines[trips[0].id].metrics["task_progress"] == 1


def test_prompt_sections_are_in_paper_order(trips):
    plan = prompts.PromptPlan("the plan", -3, "- The task lists no direct flight.")
    prompt = prompts.PlanPromptBuilder(examples="an example").build_improvement(trips[0], [plan])
    places = [
        prompt.index(part)
        for part in ("# Task", "# Score", "# Plan format", "# Examples", "# Plans so far", "# Critical", "# Answer")
    ]
    assert places == sorted(places)
    assert "score -3" in prompt
    assert "The task lists no direct flight." in prompt
    assert trips[0].questions[0] in prompt


@pytest.mark.parametrize(
    ("changes", "missing"), [({"critic": False}, "be the critic"), ({"feedback": False}, "\nFeedback:\n")]
)
def test_critic_and_feedback_can_be_disabled(trips, changes, missing):
    prompts_seen = list[str]()

    def model(prompt: str) -> str:
        prompts_seen.append(prompt)
        return f"<plan>\n{random_plan(trips[0], len(prompts_seen))}\n</plan>"

    make_engine(trips[0], model, **changes).run()
    assert not any(missing in prompt for prompt in prompts_seen)


def test_response_without_plan_is_retried_num_retries_times(trips):  # A21
    options = {"num_gens": 1, "num_islands": 1, "num_convs": 1, "num_retries": 5}
    model = testing.ScriptedLLM(lambda step, call, prompt: f"I do not know, {call}.")
    assert make_engine(trips[0], model, **options).run().plans == {}
    assert model.num_requests == 6
    model = testing.ScriptedLLM(lambda step, call, prompt: "I do not know.")
    make_engine(trips[0], model, **options).run()
    assert model.num_requests == 2  # the third prompt would equal the second


@pytest.mark.parametrize("pattern", ["self", "critic"])
def test_critic_and_author_alternate(trips, pattern):  # A5, A6
    prompts_seen = list[str]()

    def model(prompt: str) -> str:
        prompts_seen.append(prompt)
        if actions.REQUESTS["critic"] in prompt:
            return f"- point {len(prompts_seen)}"
        return f"<plan>\n{random_plan(trips[0], len(prompts_seen))}\n</plan>"

    make_engine(trips[0], model, pattern=pattern, num_gens=1, num_islands=1, num_convs=1, num_seq=3).run()
    assert [actions.REQUESTS["critic"] in prompt for prompt in prompts_seen] == [False, True, False, True, False]
    assert "- point 2" in prompts_seen[2]
    assert ("- point 2" in prompts_seen[3]) == (pattern == "self")  # a separate critic does not see the dialogue


def test_llm_selects_elites_for_reset(trips):  # A12
    requests = list[str]()

    def reply(step: int, call: str, prompt: str) -> str:
        if "substantially different" in prompt:
            requests.append(prompt)
            return "2, 5"
        return f"<plan>\n{random_plan(trips[0], (step, call))}\n</plan>"

    records = store.MemoryJournal()
    options = {**QUICK, "num_top": 2, "elect": "model"}
    mind.MindEvolutionEngine([trips[0]], testing.ScriptedLLM(reply), options, run_journal=records).run()
    assert len(requests) == 1  # after the third generation
    chosen = [child.data["meta"]["chosen"] for child in records.read() if "chosen" in child.data.get("meta", {})]
    resets = [record.data for record in records.read() if record.kind == "reset"]
    assert {row["id"] for reset in resets for row in reset["founders"]} <= {*chosen[0]}


def test_second_llm_gets_only_problems_that_the_first_did_not_solve(trips):
    small = make_scripted_llm(trips[0], solve_at=(3, "0"))
    large_calls = list[str]()

    def respond(prompt: str) -> str:
        large_calls.append(prompt)
        return get_solution(trips[1])

    members = [llm.EnsembleMember("small", small), llm.EnsembleMember("large", llm.FunctionLLM(respond))]
    options = {**QUICK, "second_llm": "large"}
    result = mind.MindEvolutionEngine(trips, llm.EnsembleLLM(members), options).run()
    assert result.stats["solved"] == 2
    assert len(large_calls) == 1
    assert trips[1].text in large_calls[0]
    assert result.reasons[trips[1].id] == "satisfied the evaluator in generation 4"


def test_second_stage_uses_second_llm(trips):  # A21
    small, large = make_scripted_llm(trips[0]), make_scripted_llm(trips[0])
    model = llm.EnsembleLLM([llm.EnsembleMember("small", small), llm.EnsembleMember("large", large)])
    make_engine(trips[0], model, second_llm="large", second_gen=3).run()
    assert (small.num_requests, large.num_requests) == (16, 8)


def test_island_budget_is_never_exceeded(trips):  # A16
    model = make_scripted_llm(trips[0])
    result = mind.MindEvolutionEngine([trips[0]], model, QUICK, island_budget=control.Budget(calls=5)).run()
    assert model.num_requests == 10
    assert "every island has used its LLM budget" in result.reason


def test_response_without_plan_costs_best_of_n_one_plan(trips):
    def reply(step: int, call: str, prompt: str) -> str:
        return "I cannot." if (step, call) == (1, "2") else f"<plan>\n{random_plan(trips[0], (step, call))}\n</plan>"

    result = make_engine(trips[0], testing.ScriptedLLM(reply), method="best_of_n", num_plans=8, num_retries=0).run()
    assert (result.stats["calls"], result.stats["evaluations"]) == (8, 8)  # 7 plans and the base


@pytest.mark.parametrize(("method", "calls"), [("one_pass", 1), ("best_of_n", 24), ("sequential", 24)])
def test_baselines_make_as_many_plans_as_mind(trips, method, calls):  # A21
    model = make_scripted_llm(trips[0])
    result = make_engine(trips[0], model, method=method, num_threads=3).run()
    assert result.stats["calls"] == model.num_requests == calls


def test_sequential_prompts_contain_earlier_attempts(trips):
    prompts_seen = list[str]()

    def model(prompt: str) -> str:
        prompts_seen.append(prompt)
        return f"<plan>\n{random_plan(trips[0], len(prompts_seen))}\n</plan>"

    make_engine(trips[0], model, method="sequential", num_threads=1, num_plans=4).run()
    assert ["Your earlier attempts" in prompt for prompt in prompts_seen] == [False, False, True, True]


def test_the_last_plan_of_a_prompt_is_the_best_of_the_conversation(trips):
    scores, shown = list[float](), list[list[float]]()

    def model(prompt: str) -> str:
        shown.append([float(score) for score in re.findall(r"^## Plan \d+, score (\S+)$", prompt, re.MULTILINE)])
        plan = random_plan(trips[0], len(shown))
        scores.append(trips[0].evaluate(plan).score)
        return f"<plan>\n{plan}\n</plan>"

    make_engine(trips[0], model, method="sequential", num_threads=1, num_plans=12).run()
    assert [listed[-1] for listed in shown[1:]] == [max(scores[:number]) for number in range(1, len(shown))]
    assert [listed[0] for listed in shown[1:]] == scores[:-1]  # the last turn is shown, too
    assert {len(listed) for listed in shown[1:]} == {1, 2}


def test_search_without_llm_solves_trips(trips):
    result = mind.MindEvolutionEngine(trips, seed=1).run()
    assert all(reason.startswith("satisfied the evaluator") for reason in result.reasons.values())
    assert result.stats["solved"] == result.stats["total"] == 2


def test_number_of_workers_does_not_change_result():
    rows = list(generate.generate_rows("trip", 6, 5, 4))
    problems = [load.parse_row({k: row[k] for k in load.VISIBLE_FIELDS if k in row}) for row in rows]
    result = [mind.MindEvolutionEngine(problems, workers=workers, window=4).run() for workers in (1, 3)]
    assert result[0].plans == result[1].plans
    assert result[0].stats == result[1].stats


def test_point_of_critic_forks_worldline_with_that_point_as_task(trips):  # A7
    prompts_seen, records = list[str](), store.MemoryJournal()

    def reply(step: int, call: str, prompt: str) -> str:
        prompts_seen.append(prompt)
        plan = random_plan(trips[0], (step, call))
        return f"<critic>\n- the order is wrong\n- the dates too\n</critic>\n<plan>\n{plan}\n</plan>"

    options = {**QUICK, "num_gens": 1, "num_islands": 1, "num_convs": 1, "num_seq": 2, "num_forks": 2}
    mind.MindEvolutionEngine([trips[0]], testing.ScriptedLLM(reply), options, run_journal=records).run()
    rows = [record.data for record in records.read() if record.kind == "judged" and record.data["label"][0] != "d"]
    metas, parents = [row.get("meta", {}) for row in rows], [row.get("parents") for row in rows]
    assert parents[2] == parents[3] == ["1.0"]
    assert [meta.get("fork") for meta in metas] == [None, None, "the order is wrong", "the dates too"]
    forks = [prompt for prompt in prompts_seen if "Write one plan that answers this point." in prompt]
    assert len(forks) == 2
    assert "- the order is wrong" in forks[0]


def test_sub_agents_write_notes_within_their_budget(trips):  # A1, A9
    prompts_seen = list[str]()

    def reply(step: int, call: str, prompt: str) -> str:
        prompts_seen.append(prompt)
        for role, request in actions.REQUESTS.items():
            if request in prompt:
                return f"- a note of the {role} of {step}\nREJECT: day 3"
        plan = random_plan(trips[0], (step, call))
        return f"<critic>\n- the order is wrong\n</critic>\n<plan>\n{plan}\n</plan>"

    roles = ["researcher", "planner", "critic", "verifier"]
    options = {**QUICK, "num_islands": 1, "num_convs": 1, "roles": roles, "role_calls": 2, "pr_no_parents": 0.0}
    result = mind.MindEvolutionEngine([trips[0]], testing.ScriptedLLM(reply), options).run()
    counts = {role: sum(request in prompt for prompt in prompts_seen) for role, request in actions.REQUESTS.items()}
    assert counts == {
        "researcher": 2,
        "planner": 2,
        "critic": 1,
        "verifier": 2,
    }  # the first conversation has no parents
    authors = [prompt for prompt in prompts_seen if "be the author" in prompt or "then write a plan" in prompt]
    assert all("The researcher wrote:\n- a note of the researcher of 1" in prompt for prompt in authors[:2])
    (verifier_prompt, *_) = [prompt for prompt in prompts_seen if actions.REQUESTS["verifier"] in prompt]
    assert "Feedback:" not in verifier_prompt
    (worldline,) = result.worldlines.values()
    assert worldline.memory_refs
    assert worldline.metrics["review_feedback"] in (-1.0, 0.0)
    assert any(isinstance(action, actions.Task) and action.role == "planner" for action in worldline.decision_trace)


def test_plans_before_the_end_of_the_budget_are_kept(trips):
    model, records = make_scripted_llm(trips[0]), store.MemoryJournal()
    options = {**QUICK, "num_islands": 1, "num_convs": 1, "num_seq": 4}
    engine = mind.MindEvolutionEngine(
        [trips[0]], model, options, budget=control.Budget(calls=3), run_journal=records, window=1
    )
    assert engine.run().stats["calls"] == 3
    applied = [record.data for record in records.read() if record.kind == "applied"]
    assert [len(data["children"]) for data in applied] == [3]
