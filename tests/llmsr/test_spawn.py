"""`spawn_evolver`, as the seed document uses it."""

import inspect
import re
import threading
import time
from random import Random
from typing import Any

import pytest

from atoll import archipelago, control, errors, executor, llm, llmsr, sandbox, store, testing
from atoll.llmsr import config as configs

FACTOR = 3.0


def helper(x: float) -> float:
    return x * FACTOR


def equation(x: float, y: float) -> float:
    """Returns what comes of two numbers.

    The second line has a word to look for: xylophone.
    """
    return helper(x)


def evaluator(equation: Any, point: tuple[float, float]) -> float:
    x, y = point
    return float(-abs(equation(x, y) - (3 * x + y)))


INPUTS = [(1.0, 2.0), (2.0, -1.0), (0.5, 4.0)]


def make(**changes: Any) -> llmsr.EvolverConfig[..., Any, Any]:
    given = {"equation": equation, "evaluation_inputs": INPUTS, "evaluator": evaluator, "prompt_comment": "Add them."}
    return llmsr.EvolverConfig(**{**given, **changes})


def scripted(prompt: str) -> str:
    """Answers with a function that depends on the prompt alone."""
    number = Random(prompt).uniform(0, 2)
    version = re.findall(r"def (equation_v\d+)", prompt)[-1]
    return f"```python\ndef {version}(x: float, y: float) -> float:\n    return 3 * x + {number:.6f} * y\n```"


def test_the_configuration_has_the_fields_and_defaults_of_the_seed_and_a_model_at_the_end():
    config = make()
    assert llmsr.EvolverConfig._fields == (
        "equation",
        "evaluation_inputs",
        "evaluator",
        "prompt_comment",
        "profiler_fn",
        "num_islands",
        "num_selected_clusters",
        "num_parallel",
        "reset_period",
        "llm",
    )
    assert config[5:] == (10, 2, 2, 30 * 60, None)


def test_the_seeds_own_lines_run():
    cfg = llmsr.EvolverConfig(equation=equation, evaluation_inputs=INPUTS, evaluator=evaluator, prompt_comment="Add.")
    ev = llmsr.spawn_evolver(cfg)
    p = llmsr.Profiler()
    remove = ev.use_profiler(p)
    since = time.monotonic()
    ev.start()
    assert time.monotonic() - since < 10  # it begins and returns
    deadline = time.monotonic() + 120
    while ev.usage.evaluations < 50 and time.monotonic() < deadline:
        time.sleep(0.01)
    ev.stop()
    remove()
    assert ev.usage.evaluations >= 50
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("atoll-")]
    assert p.counts["on_started"] == 1


def test_it_evolves_without_a_model_and_a_function_finds_what_it_found_in_its_module():
    evolver = llmsr.spawn_evolver(make(num_islands=4), budget=control.Budget(iterations=600), ordered=True)
    evolver.run()
    start = -sum(abs(y) for _, y in INPUTS) / 3
    assert evolver.islands[0].best_fn().score() is not None
    found = evolver.best_fn().score()
    assert found is not None
    assert found > start


def test_a_function_of_the_prompt_is_a_model():
    evolver = llmsr.spawn_evolver(make(llm=scripted), budget=control.Budget(iterations=60))
    evolver.run()
    assert evolver.usage.cost.calls == 60
    score = evolver.best_fn().score()
    assert score is not None
    assert score > -0.3


def test_the_docstring_is_in_every_prompt_as_it_is():
    prompts: list[str] = []

    def model(prompt: str) -> str:
        prompts.append(prompt)
        return scripted(prompt)

    llmsr.spawn_evolver(make(llm=model), budget=control.Budget(iterations=30)).run()
    assert len(prompts) == 30
    docstring = inspect.getdoc(equation)
    assert docstring is not None
    assert all(f'"""\n{docstring}\n"""' in prompt for prompt in prompts)
    assert all("Add them." in prompt for prompt in prompts)


def test_a_profiler_hears_everything_from_all_threads():
    heard = llmsr.Profiler()
    config = make(llm=scripted, profiler_fn=heard, num_parallel=4, num_islands=4)
    evolver = llmsr.spawn_evolver(config, budget=control.Budget(iterations=80), reset_evaluations=40)
    evolver.run()
    counts = heard.counts
    assert counts["on_mutate"] == counts["on_mutated"] == 80
    assert counts["on_evaluate"] == counts["on_evaluated"] > 1
    assert counts["on_islands_removed"] == counts["on_islands_revived"] == 2
    assert counts["on_fn_added"] > 80
    assert counts["on_fn_selected"] > 80
    assert counts["on_best_fn_improved"] > 0
    assert counts["on_best_island_improved"] > 0
    history = heard.history
    assert [each.score for each in history] == sorted(each.score for each in history)
    assert history[-1].score == evolver.best_fn().score()
    assert heard.failures == 0


def test_the_set_up_is_told_when_it_starts():
    events: list[Any] = []
    config = make(num_islands=3, num_parallel=1, profiler_fn=events.append)
    evolver = llmsr.spawn_evolver(config, budget=control.Budget(iterations=0))
    assert events == []
    evolver.run()
    started = [event for event in events if event.type == "on_started"]
    assert len(started) == 1
    report = started[0].payload
    assert report["source"].startswith("def equation(x: float, y: float) -> float:")
    assert report["comment"] == "Add them."
    assert report["docstring"] == inspect.getdoc(equation)
    assert (report["islands"], report["clusters"], report["workers"]) == (3, 2, 1)
    assert report["reset"] == "the worse half every 150 evaluations"


def test_a_model_that_talks_nonsense_costs_proposals_and_nothing_else():
    evolver = llmsr.spawn_evolver(make(llm=lambda prompt: "no idea"), budget=control.Budget(iterations=10))
    evolver.run()
    assert evolver.usage.evaluations == 1


def test_the_number_of_selected_clusters_is_a_real_field():
    counted: set[int] = set()

    def hear(event: Any) -> None:
        if event.type == "on_mutate":
            counted.add(len(event.payload))

    config = make(llm=scripted, num_selected_clusters=4, num_islands=1, profiler_fn=hear)
    llmsr.spawn_evolver(config, budget=control.Budget(iterations=40)).run()
    assert max(counted) == 4


def test_a_run_goes_on_from_its_journal_and_buys_nothing_twice():
    with store.Store("sqlite://") as kept:
        records = kept.journal(kept.create_run("run"))
        model = testing.ScriptedLLM(lambda step, call, prompt: scripted(prompt))
        for iterations in (15, 30):
            budget = control.Budget(iterations=iterations)
            llmsr.spawn_evolver(make(llm=model), budget=budget, ordered=True, run_journal=records).run()
        assert model.num_requests == len(set(model.requests)) == 30
        replied = list(records.read_kinds("replied"))
        assert all("xylophone" in record.data["prompt"] for record in replied)


@pytest.mark.parametrize("preset", ["default", "funsearch", "llmsr", "seed"])
def test_every_preset_runs(preset):
    evolver = llmsr.spawn_evolver(make(llm=scripted), preset=preset, budget=control.Budget(iterations=20))
    evolver.run()
    assert evolver.usage.iterations == 20


def test_the_default_preset_counts_evaluations_unless_a_period_is_asked_for():
    with pytest.raises(errors.SetupError, match="cannot depend on seconds"):
        llmsr.spawn_evolver(make(reset_period=60), ordered=True)
    with pytest.raises(errors.SetupError, match="cannot depend on seconds"):
        llmsr.spawn_evolver(make(), preset="seed", ordered=True)
    llmsr.spawn_evolver(make(), ordered=True, budget=control.Budget(iterations=0)).run()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"equation": lambda x, y: x}, "is a lambda; write it with 'def'"),
        ({"equation": 3}, "is a int: give a function"),
        ({"evaluation_inputs": []}, "no evaluation inputs"),
        ({"llm": 3}, "give a model's name"),
        ({"llm": "opnai:x"}, "you mean openai:x"),
        ({"num_islands": 0}, "num_islands"),
        ({"num_parallel": 0}, "num_parallel|num_workers"),
        ({"evaluator": threading.Lock()}, "Lock|lock"),
    ],
)
def test_a_wrong_set_up_is_told_in_one_sentence(changes, sentence):
    with pytest.raises(errors.SetupError, match=sentence) as caught:
        llmsr.spawn_evolver(make(**changes), budget=control.Budget(iterations=1)).run()
    assert "\n" not in str(caught.value)


def test_an_evaluator_that_always_raises_ends_the_run_with_its_reason():
    def broken(equation: Any, point: Any) -> float:
        raise ZeroDivisionError("always")

    with pytest.raises(errors.RunFailed, match="input 0: ZeroDivisionError: always"):
        llmsr.spawn_evolver(make(evaluator=broken), budget=control.Budget(iterations=5)).run()


def test_a_function_that_never_ends_is_killed_and_the_run_goes_on():
    def model(prompt: str) -> str:
        return "def equation_v1(x: float, y: float) -> float:\n    while True:\n        pass"

    place = executor.ExecutorConfig(sandbox.Limits(seconds=0.5))
    budget = control.Budget(iterations=2)
    evolver = llmsr.spawn_evolver(make(llm=model, num_parallel=1), budget=budget, executor_config=place)
    evolver.run()
    assert evolver.usage.evaluations == 2  # the second reply is the first one again
    assert evolver.best_fn().candidate is not None


SCALE = 2.0


def scaled(x: float, y: float, k: float = SCALE) -> float:
    """Uses a name of its module in its header."""
    return k * x


def test_names_in_the_header_are_found_too():
    evolver = llmsr.spawn_evolver(make(equation=scaled), budget=control.Budget(iterations=0))
    evolver.run()
    assert evolver.best_fn().score() is not None


def test_a_budget_of_calls_is_kept_by_many_workers():
    def slow(prompt: str) -> str:
        time.sleep(0.01)
        return scripted(prompt)

    evolver = llmsr.spawn_evolver(make(llm=slow, num_parallel=8), budget=control.Budget(calls=20))
    evolver.run()
    assert evolver.usage.cost.calls == 20


def test_a_model_that_is_none_ends_the_run_with_what_to_do():
    with pytest.raises(errors.SetupError, match="let it return a str"):
        llmsr.spawn_evolver(make(llm=lambda prompt: None), budget=control.Budget(iterations=5)).run()


class TestPyMutationEngine(testing.ProposerSuite):
    """The engine keeps the promises of every proposer: a step is a function of its task."""

    def make(self, model: llm.LLM) -> llmsr.PyMutationEngine:
        return llmsr.PyMutationEngine("Add.", "Doc.", model)

    def initial(self, model: llm.LLM) -> Any:
        from atoll import evaluation, function
        from atoll.candidate import content_hash

        def judge(skeleton: object) -> evaluation.Evaluation:
            score = int(content_hash(str(skeleton))[:6], 16) / 16**6
            return evaluation.Evaluation(score, (score,))

        text = "def equation(x: float, y: float) -> float:\n    return x\n"
        return function.DefaultFunction(
            function.DefaultFunctionProps(function.PyAstSkeleton(text), candidate_evaluator=judge)
        )

    def answer(self, step: int, call: str, prompt: str) -> str:
        return scripted(prompt)


def test_an_evolver_is_what_the_seed_calls_one():
    evolver: archipelago.Evolver = llmsr.spawn_evolver(make(), budget=control.Budget(iterations=0))
    evolver.start()
    evolver.stop()


def test_options_of_a_task_folder_have_the_same_defaults():
    options = configs.Options()
    assert (options.num_islands, options.num_selected_clusters) == make()[5:7]


def test_a_run_whose_parents_were_chosen_otherwise_goes_on(tmp_path):
    """The default preset offers the shortest of each cluster; a run before it had longer ones as parents."""
    with store.Store(tmp_path / "a.db") as kept:
        run = kept.create_run()
        for preset, iterations in (("llmsr", 120), ("default", 160)):
            with kept.lock_run(run):
                budget = control.Budget(iterations=iterations)
                evolver = llmsr.spawn_evolver(
                    make(num_islands=2), preset=preset, budget=budget, run_journal=kept.journal(run)
                )
                evolver.run()
        assert evolver.usage.iterations == 160
