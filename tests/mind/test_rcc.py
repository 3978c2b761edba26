"""Conversations of author and critic, with a model that follows a script."""

from collections.abc import Callable
from random import Random

import pytest

from atoll import control, llm, mind, store, testing
from atoll.mind import prompts, trace_mutator
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


def wise(problem: trip.Trip) -> str:
    """Returns the solution of a trip, for a script that is to know it."""
    (row,) = [each for each in generate.generate_rows("trip", 2, 6, 3) if each["id"] == problem.id]
    return str(row["golden_plan"])


def random_plan(problem: trip.Trip, place: object) -> str:
    return problem.format_plan(trace_mutator.random_trace(problem.moves, Random(f"{place}")))


def scripted(problem: trip.Trip, solve_at: tuple[int, str] | None = None) -> testing.ScriptedLLM:
    def reply(step: int, call: str, prompt: str) -> str:
        plan = wise(problem) if (step, call) == solve_at else random_plan(problem, (step, call))
        return f"<critic>\n- the order is wrong\n- the dates too\n</critic>\n<plan>\n{plan}\n</plan>"

    return testing.ScriptedLLM(reply)


def engine(problem: trip.Trip, model: Callable[[str], object], **options: object) -> mind.MindEvolutionEngine:
    return mind.MindEvolutionEngine([problem], model, {**QUICK, **options})


def test_one_conversation_makes_num_seq_plans_and_all_of_them_join(trips):  # A21, 1.1
    records, model = store.MemoryJournal(), scripted(trips[0])
    found = mind.MindEvolutionEngine([trips[0]], model, QUICK, run_journal=records).run()
    applied = [record for record in records.read() if record.kind == "applied"]
    assert [len(record.data["children"]) for record in applied] == [2] * (3 * 2 * 2)
    assert found.stats["calls"] == model.num_requests == 3 * 2 * 2 * 2
    assert found.reason == "3 generations done"


def test_the_first_plan_that_satisfies_the_judge_ends_the_search(trips):  # A21
    model = scripted(trips[0], solve_at=(3, "0"))
    found = engine(trips[0], model).run()
    assert found.reasons[trips[0].id] == "satisfied the judge in generation 1"
    assert model.requests[-1] == (3, "0")
    assert found.plans[trips[0].id] == wise(trips[0])
    assert found.worldlines[trips[0].id].metrics["task_progress"] == 1


def test_a_prompt_has_the_papers_parts_in_their_order(trips):
    shown = prompts.PromptPlan("the plan", -3, "- There is no direct flight.")
    prompt = prompts.PlanPromptBuilder(examples="an example").build_improvement(trips[0], [shown])
    places = [
        prompt.index(part) for part in ("# Task", "# Form", "# Examples", "# Plans so far", "# Critical", "# Answer")
    ]
    assert places == sorted(places)
    assert "score -3" in prompt
    assert "There is no direct flight." in prompt
    assert trips[0].questions[0] in prompt


@pytest.mark.parametrize(
    ("changes", "lost"), [({"critic": False}, "be the critic"), ({"feedback": False}, "\nJudge:\n")]
)
def test_critic_and_feedback_can_be_taken_away(trips, changes, lost):
    seen = list[str]()

    def model(prompt: str) -> str:
        seen.append(prompt)
        return f"<plan>\n{random_plan(trips[0], len(seen))}\n</plan>"

    engine(trips[0], model, **changes).run()
    assert not any(lost in prompt for prompt in seen)


def test_a_reply_without_a_plan_is_asked_again_and_given_up_in_the_end(trips):  # A21
    model = testing.ScriptedLLM(lambda step, call, prompt: "I do not know.")
    found = engine(trips[0], model, num_gens=1, num_islands=1, num_convs=1, num_retries=5).run()
    assert model.num_requests == 6
    assert found.plans == {}


@pytest.mark.parametrize("pattern", ["self", "critic"])
def test_critic_and_author_speak_in_turn(trips, pattern):  # A5, A6
    seen = list[str]()

    def model(prompt: str) -> str:
        seen.append(prompt)
        if prompts.CRITIC_ONLY_REQUEST in prompt:
            return f"- point {len(seen)}"
        return f"<plan>\n{random_plan(trips[0], len(seen))}\n</plan>"

    engine(trips[0], model, pattern=pattern, num_gens=1, num_islands=1, num_convs=1, num_seq=3).run()
    assert [prompts.CRITIC_ONLY_REQUEST in prompt for prompt in seen] == [False, True, False, True, False]
    assert "- point 2" in seen[2]
    assert ("- point 2" in seen[3]) == (pattern == "self")  # a critic of its own looks with fresh eyes


def test_a_model_elects_founders_that_are_unlike_each_other(trips):  # A12
    asked = list[str]()

    def reply(step: int, call: str, prompt: str) -> str:
        if "substantially different" in prompt:
            asked.append(prompt)
            return "2, 5"
        return f"<plan>\n{random_plan(trips[0], (step, call))}\n</plan>"

    records = store.MemoryJournal()
    options = {**QUICK, "num_top": 2, "elect": "model"}
    mind.MindEvolutionEngine([trips[0]], testing.ScriptedLLM(reply), options, run_journal=records).run()
    assert len(asked) == 1  # after the third generation
    chosen = [child.data["meta"]["chosen"] for child in records.read() if "chosen" in child.data.get("meta", {})]
    resets = [record.data for record in records.read() if record.kind == "reset"]
    assert {each["id"] for reset in resets for each in reset["founders"]} <= {*chosen[0]}


def test_the_second_stage_asks_another_model(trips):  # A21
    small, large = scripted(trips[0]), scripted(trips[0])
    model = llm.EnsembleLLM([llm.EnsembleMember("small", small), llm.EnsembleMember("large", large)])
    engine(trips[0], model, second_llm="large", second_gen=3).run()
    assert (small.num_requests, large.num_requests) == (16, 8)


def test_an_island_never_uses_more_than_its_budget(trips):  # A16
    model = scripted(trips[0])
    found = mind.MindEvolutionEngine([trips[0]], model, QUICK, island_budget=control.Budget(calls=5)).run()
    assert model.num_requests == 10
    assert "every island has used its share" in found.reason


def test_a_reply_without_a_plan_costs_best_of_n_one_plan_and_no_more(trips):
    def reply(step: int, call: str, prompt: str) -> str:
        return "I cannot." if (step, call) == (1, "2") else f"<plan>\n{random_plan(trips[0], (step, call))}\n</plan>"

    found = engine(trips[0], testing.ScriptedLLM(reply), method="best_of_n", num_plans=8, num_retries=0).run()
    assert (found.stats["calls"], found.stats["evaluations"]) == (8, 8)  # 7 plans and the start


@pytest.mark.parametrize(("method", "calls"), [("one_pass", 1), ("best_of_n", 24), ("sequential", 24)])
def test_baselines_make_as_many_plans_as_mind_evolution(trips, method, calls):  # A21
    model = scripted(trips[0])
    found = engine(trips[0], model, method=method, num_threads=3).run()
    assert found.stats["calls"] == model.num_requests == calls


def test_sequential_revision_is_shown_what_it_tried_before(trips):
    seen = list[str]()

    def model(prompt: str) -> str:
        seen.append(prompt)
        return f"<plan>\n{random_plan(trips[0], len(seen))}\n</plan>"

    engine(trips[0], model, method="sequential", num_threads=1, num_plans=4).run()
    assert ["Earlier attempts" in prompt for prompt in seen] == [False, False, True, True]


def test_without_a_model_traces_are_recombined_and_changed_until_the_trip_is_found(trips):
    found = mind.MindEvolutionEngine(trips, seed=1).run()
    assert all(reason.startswith("satisfied the judge") for reason in found.reasons.values())
    assert found.stats["solved"] == found.stats["total"] == 2


def test_workers_do_not_change_what_is_found():
    rows = list(generate.generate_rows("trip", 6, 5, 4))
    problems = [load.parse_row({k: row[k] for k in load.VISIBLE_FIELDS if k in row}) for row in rows]
    found = [mind.MindEvolutionEngine(problems, workers=workers, window=4).run() for workers in (1, 3)]
    assert found[0].plans == found[1].plans
    assert found[0].stats == found[1].stats
