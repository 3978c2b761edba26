"""Tasks that define `score(output, case)` are scored outside the sandbox."""

from dataclasses import replace

import pytest

from atoll import cluster, config, control, errors, executor, function, llm, sandbox, store, system

TASK = '''\
"""Find the line through the points."""

import math

SLOPE = 2.0
SECRET = 3.0


def equation(x):
    return SLOPE * math.fabs(x)


inputs = [((x,), SLOPE * x + SECRET) for x in (1.0, 2.0, 4.0)]


def score(output, case):
    return -abs(output - case)
'''


def build(folder, task=TASK, llm=None, settings="", budget=control.UNLIMITED):
    (folder / "task.py").write_text(task)
    (folder / "atoll.toml").write_text('system = "llmsr"\n[llmsr]\nnum_islands = 2\n' + settings)
    run_config = config.load(folder)
    executor_config = executor.ExecutorConfig(sandbox.Limits(10.0), 1, is_unsafe=True, is_trusted=True)
    context = system.BuildContext(folder, llm, executor_config, 1, 0, store.MemoryBlobs())
    return run_config.build(context._replace(first_budget=budget))


def evaluate(built, source):
    fn = built.config.island_config.initial_fn.clone(function.PyAstSkeleton(source))
    fn.evaluate()
    return fn.evaluation


@pytest.fixture
def built(tmp_path):
    built = build(tmp_path)
    yield built
    built.close()


def test_outputs_are_scored_by_the_task(built):
    assert built.config.island_config.initial_fn.evaluate() == -3.0
    assert built.report["evaluator"].startswith("outside the sandbox")
    assert evaluate(built, "def equation(x):\n    return 2 * np.abs(x) + 3").score == 0.0


@pytest.mark.parametrize("name", ["SECRET", "score", "inputs"])
def test_candidate_cannot_see_the_answers(built, name):
    assert f"name '{name}' is not defined" in evaluate(built, f"def equation(x):\n    return {name}").failure


def test_output_that_cannot_be_scored_is_a_failure(built):
    assert "its output cannot be scored" in evaluate(built, "def equation(x):\n    return 'a'").failure


def test_output_task_evolves(tmp_path):
    built = build(tmp_path)
    try:
        evolver = cluster.Evolver(replace(built.config, budget=control.Budget(iterations=40), seed=1))
        evolver.run()
    finally:
        built.close()
    assert function.get_fitness(evolver.best_fn()) > -3.0


def test_evaluator_takes_precedence_over_score(tmp_path):
    task = TASK + "\n\ndef evaluate(equation, pair):\n    return 7.0\n"
    built = build(tmp_path, task)
    try:
        assert built.config.island_config.initial_fn.evaluate() == 7.0
    finally:
        built.close()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("((x,), SLOPE * x + SECRET)", "x", r"inputs\[0\] is 1.0. .* must be a pair"),
        ("SECRET = 3.0", "1 / 0", "cannot be loaded: ZeroDivisionError"),
        ("for x in (1.0, 2.0, 4.0)", "for x in ()", "no inputs"),
    ],
)
def test_wrong_output_task_is_refused(tmp_path, old, new, message):
    with pytest.raises(errors.SetupError, match=message):
        build(tmp_path, TASK.replace(old, new))


def test_llm_sees_scores_and_a_tuner_improves_its_functions(tmp_path):
    prompts = []

    def respond(prompt):
        prompts.append(str(prompt))
        return llm.Response("```python\ndef equation(x):\n    return 2.0 * x + 1.5\n```", "scripted")

    built = build(tmp_path, llm=respond, settings="engine_weights = {tuner = 1.0}\n")
    try:
        evolver = cluster.Evolver(replace(built.config, budget=control.Budget(iterations=30), seed=1))
        evolver.run()
        assert '"""Score -3."""' in prompts[0]
        assert any("not only the numbers: " in prompt for prompt in prompts)  # a hint
        assert any("not only the numbers. " in prompt for prompt in prompts)
        best = evolver.best_fn()
        assert best.candidate is not None
        assert best.candidate.meta["trials"]
        assert function.get_fitness(best) > -0.5
        assert built.report["engine"] == "LLM; a tuner improves its functions"
    finally:
        built.close()


@pytest.mark.parametrize(
    ("settings", "calls", "num_islands"),
    [
        ("", 40, 2),
        ("islands_by_budget = true\n", 40, 1),
        ("islands_by_budget = true\n", 800, 2),
        ("islands_by_budget = true\n", None, 2),
        ('islands_by_budget = true\npreset = "funsearch"\n', 40, 2),
        ('islands_by_budget = true\nschedule = "round_robin"\n', 40, 2),
    ],
)
def test_a_small_budget_of_an_llm_feeds_one_island(tmp_path, settings, calls, num_islands):
    built = build(tmp_path, llm=lambda prompt: "", settings=settings, budget=control.Budget(calls=calls))
    assert built.config.island_config.num_islands == built.report["islands"] == num_islands
    built.close()
