"""The scripted LLM of the mind benchmark: it reads only the prompt and corrects the named errors."""

from random import Random

import pytest

from atoll.mind import prompts
from atoll.mind.tasks import generate, load, trip
from bench.tasks import noisy_planner

PROBLEMS = [load.parse_row(row) for task in ("trip", "meeting") for row in generate.generate_rows(task, 1, 5, 7)]


def shown(problem, trace) -> prompts.PromptPlan:
    plan = problem.format_plan(trace)
    found = problem.evaluate(plan)
    return prompts.PromptPlan(plan, found.score, found.format_feedback())


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda each: each.id)
def test_first_response_is_a_valid_plan(problem):
    reply = noisy_planner.NoisyPlanner(0.5)(prompts.PlanPromptBuilder().build_initial(problem)).text
    assert problem.parse_plan(prompts.read_plan(problem, reply).plan)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda each: each.id)
def test_planner_changes_the_plan_and_names_the_error(problem):
    bad = shown(problem, problem.moves)
    prompt = prompts.PlanPromptBuilder().build_improvement(problem, [bad])
    reply = noisy_planner.NoisyPlanner(1.0)(prompt).text
    assert prompts.extract_critique(reply) in bad.feedback
    assert prompts.read_plan(problem, reply).plan != bad.plan


def test_planner_corrects_the_dates_of_a_city():
    (row,) = generate.generate_rows("trip", 1, 5, 7)
    problem = trip.from_text("t", row["prompt_0shot"])
    city, (first, _) = next(iter(problem.dates.items()))
    order = [each for each in problem.days if each != city]
    goals = [city, *order] if first > 1 else [*order, city]
    fault = f"- You must be in {city} from day {first} to day 9, but the plan has Day 1-2."
    mended = noisy_planner.mend_trip(problem, goals, fault, Random(0))
    assert sorted(mended) == sorted(goals)
    assert mended != goals


def test_planner_without_critic_takes_any_plan():
    problem = PROBLEMS[0]
    plans = [shown(problem, problem.moves), shown(problem, tuple(reversed(problem.moves)))]
    prompt = prompts.PlanPromptBuilder(has_critic=False).build_improvement(problem, plans)
    assert prompts.CRITIC_REQUEST not in prompt
    assert "<critic>" not in noisy_planner.NoisyPlanner(0.5)(prompt).text
