"""The front door: whatever can evolve, with whatever an evaluator returns."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import atoll
from atoll import control, errors, evaluation, function, store
from atoll.evolve import result as result_module
from atoll.programs.gepa import instance_job
from atoll.runs import summary


def start(x):
    """Returns what should be 3 x."""
    return x + 1.0


def near(fn, case):
    x, y = case
    return -abs(fn(x) - y)


CASES = [(1.0, 3.0), (2.0, 6.0), (3.0, 9.0)]


def letters(text: str, expected: str) -> tuple[float, str]:
    """Scores how many times a letter is in a text, up to three."""
    return min(text.count(expected), 3) / 3, f"MORE {expected}" if text.count(expected) < 3 else "well"


def helpful_llm(prompt: str) -> str:
    """A model that does what feedback says."""
    text = prompt.split(" to improve:", 1)[1].split("```text\n", 1)[1].split("\n```", 1)[0]
    hints = [line.rpartition("MORE ")[2] for line in prompt.splitlines() if line.startswith("Feedback: MORE ")]
    return f"IDEA: more letters.\n```text\n{text} {' '.join(hints)}\n```"


class TestRepresentations:
    def test_function_evolves_in_sandbox_and_can_be_called(self):
        result = atoll.evolve(start, near, data=CASES, budget="60evals")
        assert result.score > result.initial_score
        assert result.best(2.0) == pytest.approx(6.0, abs=abs(result.score) * 3 + 1e-9)
        assert "def start" in str(result.best)

    def test_source_text_evolves(self):
        def evaluate(source: str) -> float:
            names: dict[str, Any] = {}
            exec(source, names)
            return -abs(float(names["f"](2.0)) - 6.0)

        result = atoll.evolve("def f(x):\n    return x + 1.0\n", evaluate, budget="25evals")
        assert result.score > -3
        assert result.best.startswith("def f")

    def test_evaluator_of_file_gets_path(self, tmp_path):
        program = tmp_path / "program.py"
        program.write_text("def f(x):\n    return x + 1.0\n")

        def evaluate(path: Path) -> dict[str, float]:
            names: dict[str, Any] = {}
            exec(path.read_text(), names)
            return {"score": -abs(names["f"](2.0) - 6.0), "length": len(path.read_text())}

        result = atoll.evolve(program, evaluate, budget="30evals")
        assert result.score > -3
        assert result.initial_score == -3

    def test_folder_evolves_with_llm(self, tmp_path):
        (tmp_path / "a.py").write_text("A = 1\n")
        (tmp_path / "b.txt").write_text("one\n")

        def evaluate(folder: Path) -> float:
            return float(sum(len(path.read_text()) for path in folder.iterdir()))

        def longer(prompt: str) -> str:
            return f"IDEA: longer.\n```\n=== FILE a.py ===\nA = {len(prompt)}\n=== FILE b.txt ===\none\n```"

        result = atoll.evolve(tmp_path, evaluate, llm=longer, budget="6evals", unsafe=True)
        assert set(result.best) == {"a.py", "b.txt"}
        assert result.score > result.initial_score

    def test_task_folder_runs_like_command_line(self, tmp_path):
        (tmp_path / "initial_program.py").write_text("def f(x):\n    return x + 1.0\n")
        (tmp_path / "evaluator.py").write_text(
            "def evaluate(path):\n    names = {}\n    exec(open(path).read(), names)\n"
            "    return -abs(names['f'](2) - 6)\n"
        )
        result = atoll.evolve(tmp_path, budget="20evals")
        both = atoll.evolve(tmp_path / "initial_program.py", tmp_path / "evaluator.py", budget="20evals")
        assert result.initial_score == both.initial_score == -3
        assert result.score > -3

    def test_prompt_evolves_without_llm(self):
        result = atoll.evolve("Be kind. Be brief. Be honest.", lambda text: -len(text), budget="60evals")
        assert result.score > result.initial_score
        assert len(result.best) == -result.score

    def test_dict_of_texts_evolves_part_by_part(self):
        def evaluate(texts: dict[str, str], expected: str) -> tuple[float, str]:
            return letters(texts["system"], expected)

        initial = {"system": "a", "user": "b"}
        result = atoll.evolve(initial, evaluate, data=["x", "y", "z"], llm=helpful_llm, budget="120evals", target=1.0)
        assert result.best.keys() == initial.keys()
        assert result.score > 0.3

    def test_dict_of_parameters_is_tuned(self):
        def evaluate(values: dict[str, Any]) -> float:
            return -float((values["rate"] - 0.3) ** 2 + (values["size"] - 7) ** 2 + (values["mode"] == "slow"))

        initial = {"rate": (0.9, 0.0, 1.0), "size": (2, 1, 10), "mode": ("slow", ["slow", "fast"])}
        result = atoll.evolve(initial, evaluate, budget="40evals")
        assert result.best["size"] == 7
        assert result.best["mode"] == "fast"
        assert result.score > -0.01
        assert result.cost.evaluator_calls <= 40

    def test_prompt_that_is_python_expression_is_text(self):
        assert atoll.evolve("answer", lambda text: len(text), budget="5evals").suffix == ".txt"
        assert atoll.evolve("answer", lambda text: 1.0, budget="5evals", kind="text").score == 1.0


class TestEvaluators:
    @pytest.mark.parametrize(
        "returned",
        [1, 1.0, (1.0, "well"), {"score": 1.0, "other": 7}, {"combined_score": 1}, evaluation.Evaluation(1.0)],
        ids=["int", "float", "pair", "dict", "combined", "evaluation"],
    )
    def test_evaluator_return_types(self, returned):
        assert atoll.evolve("some words", lambda text: returned, budget="3evals").score == 1.0

    def test_evaluator_may_be_coroutine(self):
        async def evaluate(text: str) -> float:
            return 2.0

        assert atoll.evolve("some words", evaluate, budget="3evals").score == 2.0

    def test_failing_initial_candidate_is_setup_error(self):
        place = r"initial candidate has no score: ZeroDivisionError: .* \(test_evolve.py, line \d+\)"
        with pytest.raises(errors.SetupError, match=place):
            atoll.evolve("some words", lambda text: 1 / 0, budget="3evals")

    @pytest.mark.parametrize("arguments", [("m", ("f", 1, 5, 7)), ("m", ("f", 1, "a", None))])
    def test_exception_that_cannot_be_formatted_is_a_failure(self, arguments):
        def evaluate(text: str) -> float:
            if text != "some words":
                raise SyntaxError(*arguments)
            return 1.0

        result = atoll.evolve("some words", evaluate, budget="5evals", llm=lambda prompt: f"words {len(prompt)}")
        assert result.score == 1.0
        failures = {row["failure"].partition(":")[0] for row in result.candidates if row["failure"]}
        assert failures == {"SyntaxError"}

    def test_traceback_is_kept_for_training_instances_only(self):
        def evaluate(text: str, number: int) -> float:
            return 1 / number

        job = instance_job.InstanceJob(evaluate, str, {"train": [0], "validation": [0]})
        for part, has_traceback in (("train", True), ("validation", False)):
            [row] = job({"content": "some words", "part": part, "at": [0]})
            assert isinstance(row, dict)
            assert "test_evolve.py, line" in str(row["failure"])
            assert ("feedback" in row) == has_traceback

    def test_failing_child_does_not_end_run(self):
        def evaluate(text: str) -> float:
            if text != "some words":
                raise ValueError("no")
            return 1.0

        assert atoll.evolve("some words", evaluate, budget="10evals").score == 1.0


class TestData:
    def test_validation_set_selects_and_test_set_is_scored_once(self):
        calls: list[str] = []

        def evaluate(text: str, expected: str) -> tuple[float, str]:
            calls.append(expected)
            return letters(text, expected)

        parts: dict[str, Any] = {"data": list("abcdef"), "validation": list("abg"), "test": list("xyz")}
        result = atoll.evolve("go", evaluate, **parts, llm=helpful_llm, budget="80evals", workers=1)
        sealed = [index for index, item in enumerate(calls) if item in "xyz"]
        assert sealed == list(range(len(calls) - 6, len(calls)))  # the best and the start, on each
        assert len(result.scores) == 3
        assert result.test is not None
        assert result.cost.evaluator_calls == len(calls) - 6 <= 80

    def test_validation_feedback_reaches_no_prompt(self):
        prompts: list[str] = []

        def model(prompt: str) -> str:
            prompts.append(prompt)
            return helpful_llm(prompt)

        atoll.evolve("go", letters, data=list("abc"), validation=list("QRS"), llm=model, budget="60evals")
        assert prompts
        assert not any("MORE Q" in item or "MORE R" in item for item in prompts)

    def test_evaluator_calls_stay_within_budget(self):
        for budget in (20, 50, 90):
            result = atoll.evolve(
                "go", letters, data=list("abcdef"), validation=list("ghi"), llm=helpful_llm, budget=f"{budget}evals"
            )
            assert result.cost.evaluator_calls <= budget

    def test_child_that_is_worse_on_minibatch_is_not_validated(self):
        def useless(prompt: str) -> str:
            return f"IDEA: other words.\n```text\n{len(prompt)} words\n```"

        calls: list[str] = []

        def evaluate(text: str, expected: str) -> float:
            calls.append(expected)
            return letters(text, expected)[0]

        parts: dict[str, Any] = {"data": list("abc"), "validation": list("GHI"), "budget": "60evals"}
        atoll.evolve("a b c", evaluate, **parts, llm=useless, workers=1)
        assert sum(item in "GHI" for item in calls) == 3  # the start alone

    def test_gain_has_interval(self):
        result = atoll.evolve("go", letters, data=list("abcdef"), llm=helpful_llm, budget="200evals", target=1.0)
        assert result.gain is not None
        assert result.gain.low <= result.gain.mean <= result.gain.high

    def test_validation_without_data_is_an_error(self):
        with pytest.raises(errors.SetupError, match="Pass data too"):
            atoll.evolve("go", letters, validation=["a"], budget="5evals")

    def test_failing_test_set_is_reported(self):
        def evaluate(text: str, expected: str) -> float:
            return letters(text, expected)[0] if expected != "z" else 1 / 0

        result = atoll.evolve("go", evaluate, data=list("ab"), test=["z"], budget="20evals")
        assert result.test is None
        assert "ZeroDivisionError" in result.reason


class TestResults:
    def test_result_is_shown_and_saved(self, tmp_path):
        result = atoll.evolve("Be <b>kind</b>. Be brief.", lambda text: -len(text), budget="10evals")
        assert "score" in str(result)
        assert "best-of-N" in str(result)
        assert "&lt;b&gt;" in atoll.evolve("<b>", lambda text: 1.0, budget="2evals")._repr_html_()
        folder = Path(result.save(tmp_path / "out"))
        assert (folder / "best.txt").read_text() == result.best
        assert json.loads((folder / "result.json").read_text())["score"] == result.score

    def test_test_score_and_baselines_are_stored(self, tmp_path):
        parts: dict[str, Any] = {"data": list("ab"), "test": ["z"], "baselines": True, "budget": "20evals"}
        result = atoll.evolve("go", letters, **parts, store=str(tmp_path / "a.db"))
        with store.Store(str(tmp_path / "a.db")) as run_store:
            stored = summary.find_result(run_store, result.run)
            status = summary.summarize(run_store, result.run).status
        scores = {name: score for name, score in result.baselines.items() if name != "initial"}
        assert (stored["test"], stored["baselines"], status) == (result.test, scores, "done")

    def test_stored_gain_can_be_shown(self, tmp_path):
        parts: dict[str, Any] = {"data": list("ab"), "test": ["y", "z"], "budget": "20evals"}
        result = atoll.evolve("go", letters, **parts, store=str(tmp_path / "a.db"))
        with store.Store(str(tmp_path / "a.db")) as run_store:
            lines = list(summary.format_result(summary.find_result(run_store, result.run)))
        assert result.gain is not None
        assert f"gain: {result.gain.mean:+.4g}, 95 % within {result.gain.low:+.4g} to {result.gain.high:+.4g}" in lines

    def test_printed_gain_names_its_set_and_may_be_chance(self):
        result = atoll.evolve("go", letters, data=list("ab"), test=["y", "z"], budget="20evals")
        unsure = result._replace(test=0.5, gain=result_module.Gain(0.5, -0.5, 1.5))
        assert "+0.5 on the test set, 95 % within -0.5 to +1.5" in str(unsure)
        assert "the gain may be chance: its interval includes 0" in str(unsure)
        sure = unsure._replace(test=None, gain=result_module.Gain(0.5, 0.4, 0.6))
        assert "+0.5 on the validation set, 95 % within +0.4 to +0.6" in str(sure)
        assert "chance" not in str(sure)

    def test_lineage_ends_at_initial_candidate(self):
        result = atoll.evolve("a b c d e", lambda text: -len(text), budget="30evals")
        assert result.lineage[0].content == result.content
        assert result.lineage[-1].id == "0.0"

    def test_baselines_run_on_request(self):
        result = atoll.evolve("go", letters, data=list("abc"), llm=helpful_llm, budget="60evals", baselines=True)
        assert isinstance(result.baselines["best-of-N"], float)
        assert isinstance(result.baselines["sequential conditioning"], float)
        assert isinstance(result.baselines["no LLM"], float)
        assert result.baselines["initial"] == result.initial_score

    def test_store_saves_run_and_no_store_leaves_no_file(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        atoll.evolve("a b c", lambda text: -len(text), budget="5evals")
        assert not list(tmp_path.iterdir())
        result = atoll.evolve("a b c", lambda text: -len(text), budget="5evals", store="kept.db")
        with store.Store("kept.db") as run_store:
            assert run_store.candidates(result.run).list_best()[0].content == result.content

    def test_same_seed_gives_same_run(self):
        options: dict[str, Any] = {"data": list("abcdef"), "budget": "120evals", "seed": 3}
        runs = [atoll.evolve("a. b. c. d.", letters, workers=workers, **options) for workers in (2, 2)]
        assert runs[0].lineage == runs[1].lineage

    def test_target_ends_run(self):
        result = atoll.evolve("go", letters, data=list("ab"), llm=helpful_llm, budget="500evals", target=1.0)
        assert result.score == 1.0
        assert "reached" in result.reason

    def test_budget_may_be_object_or_seconds(self):
        assert atoll.evolve("a b", lambda text: 1.0, budget=control.Budget(iterations=3)).cost.steps == 3
        assert atoll.evolve("a b c d", lambda text: 1.0, budget="0.2s").score == 1.0

    def test_impossible_baseline_reports_reason(self, tmp_path):
        program = tmp_path / "program.js"
        program.write_text("let x = 1;\n")

        def model(prompt: str) -> str:
            return f"```javascript\nlet x = {len(prompt)};\n```"

        options: dict[str, Any] = {"llm": model, "budget": "3evals", "baselines": True, "unsafe": True}
        result = atoll.evolve(program, lambda path: float(len(path.read_text())), **options)
        assert "Pass an LLM" in str(result.baselines["no LLM"])
        assert result.score > result.initial_score


class TestErrors:
    @pytest.mark.parametrize(
        ("initial", "options", "message"),
        [
            (7, {}, "cannot evolve"),
            ("", {}, "is empty"),
            ("words", {"budget": "much"}, "budget"),
            ("words", {"budget": "$1"}, "never ends a run without an LLM"),
            ("words", {"llm": 7}, "llm is 7"),
            ("words", {"llm": "gpt"}, "not found"),
            ("words", {"kind": "poem"}, "kind is 'poem'"),
            ("words", {"workers": 0}, "at least 1"),
            ({"rate": "x", "size": 3}, {}, "Parameter rate"),
            ({"rate": (5, 0, 1)}, {}, "outside of"),
            (start, {"sandbox": False}, "evaluated in a sandbox"),
            (lambda x: x, {}, "lambda"),
            ("x = = 1", {"kind": "program"}, "no Python that the syntax mutator can change"),
        ],
    )
    def test_invalid_argument_is_one_line_error(self, initial, options, message):
        with pytest.raises(errors.SetupError, match=message) as caught:
            atoll.evolve(initial, lambda *arguments: 1.0, **options)
        assert "\n" not in str(caught.value)

    def test_evaluator_must_be_callable(self):
        with pytest.raises(errors.SetupError, match="Give a function that scores"):
            atoll.evolve("words", 7)  # type: ignore[arg-type]

    def test_failing_llm_ends_run(self):
        def dead(prompt: str) -> str:
            raise ConnectionError("no route")

        result = atoll.evolve("words to keep", lambda text: 1.0, llm=dead, budget="50evals")
        assert "the LLM failed" in result.reason
        assert result.best == "words to keep"


def test_evolve_stays_function_after_package_import(tmp_path):
    program = (
        "import atoll.evolve, atoll; from atoll.evolve import Result; print(callable(atoll.evolve), Result.__name__)"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert completed.stdout.split() == ["True", "Result"]


def test_best_function_runs_only_when_called():
    result = atoll.evolve(start, lambda fn: fn(1.0), budget="5evals")
    assert isinstance(result.best, function.PyAstSkeleton)
