"""spawn_evolver, as in the seed document."""

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
    """Returns a function of two numbers.

    The second line has a rare word: xylophone.
    """
    return helper(x)


def evaluator(equation: Any, point: tuple[float, float]) -> float:
    x, y = point
    return float(-abs(equation(x, y) - (3 * x + y)))


INPUTS = [(1.0, 2.0), (2.0, -1.0), (0.5, 4.0)]


def make_config(**changes: Any) -> llmsr.EvolverConfig[..., Any, Any]:
    """Returns a configuration with one worker, because each needs a sandbox."""
    fields = {"equation": equation, "evaluation_inputs": INPUTS, "evaluator": evaluator, "prompt_comment": "Add them."}
    return llmsr.EvolverConfig(**{**fields, "num_parallel": 1, **changes})


def respond(prompt: str) -> str:
    """Returns a function that depends only on the prompt."""
    number = Random(prompt).uniform(0, 2)
    version = re.findall(r"def (equation_v\d+)", prompt)[-1]
    return f"```python\ndef {version}(x: float, y: float) -> float:\n    return 3 * x + {number:.6f} * y\n```"


def test_config_has_fields_and_defaults_of_seed():
    config = llmsr.EvolverConfig(equation, INPUTS, evaluator, "Add them.")
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


def test_example_of_seed_runs():
    cfg = llmsr.EvolverConfig(equation=equation, evaluation_inputs=INPUTS, evaluator=evaluator, prompt_comment="Add.")
    ev = llmsr.spawn_evolver(cfg)
    p = llmsr.Profiler()
    remove = ev.use_profiler(p)
    start = time.monotonic()
    ev.start()
    assert time.monotonic() - start < 10  # it returns at once
    deadline = time.monotonic() + 120
    while ev.usage.evaluations < 50 and time.monotonic() < deadline:
        time.sleep(0.01)
    ev.stop()
    remove()
    assert ev.usage.evaluations >= 50
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("atoll-")]
    assert p.counts["on_started"] == 1


def test_evolver_without_llm_improves_and_keeps_module_names():
    evolver = llmsr.spawn_evolver(make_config(num_islands=4), budget=control.Budget(iterations=600), ordered=True)
    evolver.run()
    initial_score = -sum(abs(y) for _, y in INPUTS) / 3
    assert evolver.islands[0].best_fn().score() is not None
    score = evolver.best_fn().score()
    assert score is not None
    assert score > initial_score


def test_function_as_llm():
    evolver = llmsr.spawn_evolver(make_config(llm=respond), budget=control.Budget(iterations=60))
    evolver.run()
    assert evolver.usage.cost.calls == 60
    score = evolver.best_fn().score()
    assert score is not None
    assert score > -0.3


def test_every_prompt_has_docstring():
    prompts: list[str] = []

    def model(prompt: str) -> str:
        prompts.append(prompt)
        return respond(prompt)

    llmsr.spawn_evolver(make_config(llm=model), budget=control.Budget(iterations=30)).run()
    assert len(prompts) == 30
    docstring = inspect.getdoc(equation)
    assert docstring is not None
    assert all(f'"""\n{docstring}\n"""' in prompt for prompt in prompts)
    assert all("Add them." in prompt for prompt in prompts)


def test_profiler_receives_all_events():
    profiler = llmsr.Profiler()
    config = make_config(llm=respond, profiler_fn=profiler, num_parallel=4, num_islands=4)
    evolver = llmsr.spawn_evolver(config, budget=control.Budget(iterations=80), reset_evaluations=40)
    evolver.run()
    counts = profiler.counts
    assert counts["on_mutate"] == counts["on_mutated"] == 80
    assert counts["on_evaluate"] == counts["on_evaluated"] > 1
    assert counts["on_islands_removed"] == counts["on_islands_revived"] == 2
    assert counts["on_fn_added"] > 80
    assert counts["on_fn_selected"] > 80
    assert counts["on_best_fn_improved"] > 0
    assert counts["on_best_island_improved"] > 0
    history = profiler.history
    assert [item.score for item in history] == sorted(item.score for item in history)
    assert history[-1].score == evolver.best_fn().score()
    assert profiler.failures == 0


def test_started_event_has_setup():
    events: list[Any] = []
    config = make_config(num_islands=3, num_parallel=1, profiler_fn=events.append)
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


def test_useless_responses_cause_no_evaluations():
    evolver = llmsr.spawn_evolver(make_config(llm=lambda prompt: "no idea"), budget=control.Budget(iterations=10))
    evolver.run()
    assert evolver.usage.evaluations == 1


def test_num_selected_clusters_sets_number_of_parents():
    counts: set[int] = set()

    def record(event: Any) -> None:
        if event.type == "on_mutate":
            counts.add(len(event.payload))

    config = make_config(llm=respond, num_selected_clusters=4, num_islands=1, profiler_fn=record)
    llmsr.spawn_evolver(config, budget=control.Budget(iterations=40)).run()
    assert max(counts) == 4


def test_resumed_run_repeats_no_llm_call():
    with store.Store("sqlite://") as database:
        records = database.journal(database.create_run("run"))
        model = testing.ScriptedLLM(lambda step, call, prompt: respond(prompt))
        for iterations in (15, 30):
            budget = control.Budget(iterations=iterations)
            llmsr.spawn_evolver(make_config(llm=model), budget=budget, ordered=True, run_journal=records).run()
        assert model.num_requests == len(set(model.requests)) == 30
        responses = list(records.read_kinds("replied"))
        assert all("xylophone" in record.data["prompt"] for record in responses)


@pytest.mark.parametrize("preset", ["default", "funsearch", "llmsr", "seed"])
def test_every_preset_runs(preset):
    evolver = llmsr.spawn_evolver(make_config(llm=respond), preset=preset, budget=control.Budget(iterations=20))
    evolver.run()
    assert evolver.usage.iterations == 20


@pytest.mark.parametrize(
    ("preset", "default"), [("default", "500 evaluations"), ("seed", "1800 s"), ("llmsr", "14400 s")]
)
def test_reset_period_of_user_replaces_that_of_preset(preset, default):
    for changes, expected in (({}, default), ({"reset_period": 1800}, "1800 s"), ({"reset_period": 60.5}, "60.5 s")):
        events: list[Any] = []
        config = make_config(profiler_fn=events.append, **changes)
        llmsr.spawn_evolver(config, preset=preset, budget=control.Budget(iterations=0)).run()
        report = next(event.payload for event in events if event.type == "on_started")
        assert report["reset"] == f"the worse half every {expected}"


def test_default_preset_counts_evaluations_unless_period_is_set():
    with pytest.raises(errors.SetupError, match="cannot depend on seconds"):
        llmsr.spawn_evolver(make_config(reset_period=30 * 60), ordered=True)
    with pytest.raises(errors.SetupError, match="cannot depend on seconds"):
        llmsr.spawn_evolver(make_config(), preset="seed", ordered=True)
    llmsr.spawn_evolver(make_config(), ordered=True, budget=control.Budget(iterations=0)).run()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"equation": lambda x, y: x}, "is a lambda. Write it with 'def'"),
        ({"equation": 3}, "is of type int. Pass a function"),
        ({"evaluation_inputs": []}, "evaluation has no inputs"),
        ({"llm": 3}, "Set the name of an LLM"),
        ({"llm": "opnai:x"}, "you mean openai:x"),
        ({"num_islands": 0}, "num_islands"),
        ({"num_parallel": 0}, "num_parallel is 0"),
        ({"num_parallel": "2"}, "num_parallel is '2'"),
        ({"num_islands": "3"}, 'num_islands is "3"'),
        ({"reset_period": "soon"}, 'reset_period is "soon"'),
        ({"reset_period": 0}, "reset_period is 0"),
        ({"evaluation_inputs": 3}, "evaluation_inputs is 3. Set a list"),
        ({"evaluator": 3}, "evaluator is 3. Set a function"),
        ({"prompt_comment": None}, "prompt_comment is None. Set a text"),
        ({"profiler_fn": None}, "profiler_fn is None. Set a function"),
        ({"evaluator": threading.Lock()}, "Lock|lock"),
    ],
)
def test_invalid_setup_is_rejected_on_one_line(changes, message):
    with pytest.raises(errors.SetupError, match=message) as caught:
        llmsr.spawn_evolver(make_config(**changes), budget=control.Budget(iterations=1)).run()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"preset": "best"}, 'preset is "best"'),
        ({"budget": 5}, "budget is 5. Pass control.Budget"),
        ({"seed": "x"}, "seed is 'x'. Pass a whole number"),
        ({"reset_evaluations": 0}, "reset_evaluations is 0"),
    ],
)
def test_invalid_argument_is_rejected(arguments, message):
    with pytest.raises(errors.SetupError, match=message):
        llmsr.spawn_evolver(make_config(), **arguments)
    with pytest.raises(errors.SetupError, match="Pass an EvolverConfig"):
        llmsr.spawn_evolver({"equation": equation})  # type: ignore[arg-type]


def test_failing_evaluator_ends_run():
    def broken(equation: Any, point: Any) -> float:
        raise ZeroDivisionError("always")

    with pytest.raises(errors.RunFailed, match="input 0: ZeroDivisionError: always"):
        llmsr.spawn_evolver(make_config(evaluator=broken), budget=control.Budget(iterations=5)).run()


def test_endless_function_is_killed():
    def model(prompt: str) -> str:
        return "def equation_v1(x: float, y: float) -> float:\n    while True:\n        pass"

    executor_config = executor.ExecutorConfig(sandbox.Limits(seconds=0.5))
    budget = control.Budget(iterations=2)
    evolver = llmsr.spawn_evolver(
        make_config(llm=model, num_parallel=1), budget=budget, executor_config=executor_config
    )
    evolver.run()
    assert evolver.usage.evaluations == 2  # the second response repeats the first
    assert evolver.best_fn().candidate is not None


SCALE = 2.0


def scaled(x: float, y: float, k: float = SCALE) -> float:
    """Function whose header uses a name of its module."""
    return k * x


def test_names_in_header_are_available():
    evolver = llmsr.spawn_evolver(make_config(equation=scaled), budget=control.Budget(iterations=0))
    evolver.run()
    assert evolver.best_fn().score() is not None


def test_call_budget_with_many_workers():
    def slow(prompt: str) -> str:
        time.sleep(0.01)
        return respond(prompt)

    evolver = llmsr.spawn_evolver(make_config(llm=slow, num_parallel=8), budget=control.Budget(calls=20))
    evolver.run()
    assert evolver.usage.cost.calls == 20


def test_llm_that_returns_none_ends_run():
    with pytest.raises(errors.SetupError, match=r"Return a str or an llm\.Response"):
        llmsr.spawn_evolver(make_config(llm=lambda prompt: None), budget=control.Budget(iterations=5)).run()


class TestPyMutationEngine(testing.ProposerSuite):
    """PyMutationEngine passes the suite for proposers."""

    def make(self, model: llm.LLM) -> llmsr.PyMutationEngine:
        return llmsr.PyMutationEngine("Add.", "Doc.", model)

    def initial(self, model: llm.LLM) -> Any:
        from atoll import evaluation, function
        from atoll.candidate import content_hash

        def evaluate(skeleton: object) -> evaluation.Evaluation:
            score = int(content_hash(str(skeleton))[:6], 16) / 16**6
            return evaluation.Evaluation(score, (score,))

        text = "def equation(x: float, y: float) -> float:\n    return x\n"
        return function.DefaultFunction(
            function.DefaultFunctionProps(function.PyAstSkeleton(text), candidate_evaluator=evaluate)
        )

    def answer(self, step: int, call: str, prompt: str) -> str:
        return respond(prompt)


def test_evolver_has_interface_of_seed():
    evolver: archipelago.Evolver = llmsr.spawn_evolver(make_config(), budget=control.Budget(iterations=0))
    evolver.start()
    evolver.stop()


def test_task_options_have_defaults_of_config():
    options = configs.Options()
    assert (options.num_islands, options.num_selected_clusters) == make_config()[5:7]


def test_run_resumes_with_another_preset(tmp_path):
    """The default preset selects the shortest of each cluster. The first part of the run had longer parents."""
    with store.Store(tmp_path / "a.db") as database:
        run = database.create_run()
        for preset, iterations in (("llmsr", 120), ("default", 160)):
            with database.lock_run(run):
                budget = control.Budget(iterations=iterations)
                evolver = llmsr.spawn_evolver(
                    make_config(num_islands=2), preset=preset, budget=budget, run_journal=database.journal(run)
                )
                evolver.run()
        assert evolver.usage.iterations == 160
