"""The front door: whatever can evolve, with whatever an evaluator returns."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import atoll
from atoll import control, errors, evaluation, function, store


def start(x):
    """Returns what should be 3 x."""
    return x + 1.0


def near(fn, case):
    x, y = case
    return -abs(fn(x) - y)


CASES = [(1.0, 3.0), (2.0, 6.0), (3.0, 9.0)]


def letters(text: str, wanted: str) -> tuple[float, str]:
    """Scores how many times a letter is in a text, up to three."""
    return min(text.count(wanted), 3) / 3, f"MORE {wanted}" if text.count(wanted) < 3 else "well"


def obliging(prompt: str) -> str:
    """A model that does what feedback says."""
    text = prompt.split("```text\n", 1)[1].split("\n```", 1)[0]
    wishes = [line.rpartition("MORE ")[2] for line in prompt.splitlines() if "MORE " in line]
    return f"It needs more letters.\n```text\n{text} {' '.join(wishes)}\n```"


class TestThings:
    def test_a_function_evolves_in_a_jail_and_can_be_called(self):
        found = atoll.evolve(start, near, data=CASES, budget="60evals")
        assert found.score > found.initial_score
        assert found.best(2.0) == pytest.approx(6.0, abs=abs(found.score) * 3 + 1e-9)
        assert "def start" in str(found.best)

    def test_a_source_text_evolves_as_a_text(self):
        def judge(source: str) -> float:
            names: dict[str, Any] = {}
            exec(source, names)
            return -abs(float(names["f"](2.0)) - 6.0)

        found = atoll.evolve("def f(x):\n    return x + 1.0\n", judge, budget="25evals")
        assert found.score > -3
        assert found.best.startswith("def f")

    def test_the_evaluator_of_a_file_gets_its_path(self, tmp_path):
        program = tmp_path / "program.py"
        program.write_text("def f(x):\n    return x + 1.0\n")

        def judge(path: Path) -> dict[str, float]:
            names: dict[str, Any] = {}
            exec(path.read_text(), names)
            return {"score": -abs(names["f"](2.0) - 6.0), "length": len(path.read_text())}

        found = atoll.evolve(program, judge, budget="30evals")
        assert found.score > -3
        assert found.initial_score == -3

    def test_a_folder_of_files_evolves_with_a_model(self, tmp_path):
        (tmp_path / "a.py").write_text("A = 1\n")
        (tmp_path / "b.txt").write_text("one\n")

        def judge(folder: Path) -> float:
            return float(sum(len(path.read_text()) for path in folder.iterdir()))

        def longer(prompt: str) -> str:
            return f"Longer.\n```text\n{'x' * prompt.count('x')}xyz\n```"

        found = atoll.evolve(tmp_path, judge, llm=longer, budget="6evals", unsafe=True)
        assert set(found.best) == {"a.py", "b.txt"}
        assert found.score > found.initial_score

    def test_a_task_folder_runs_as_on_the_command_line(self, tmp_path):
        (tmp_path / "initial_program.py").write_text("def f(x):\n    return x + 1.0\n")
        (tmp_path / "evaluator.py").write_text(
            "def evaluate(path):\n    names = {}\n    exec(open(path).read(), names)\n"
            "    return -abs(names['f'](2) - 6)\n"
        )
        found = atoll.evolve(tmp_path, budget="20evals")
        both = atoll.evolve(tmp_path / "initial_program.py", tmp_path / "evaluator.py", budget="20evals")
        assert found.initial_score == both.initial_score == -3
        assert found.score > -3

    def test_a_prompt_evolves_without_a_model(self):
        found = atoll.evolve("Be kind. Be brief. Be honest.", lambda text: -len(text), budget="60evals")
        assert found.score > found.initial_score
        assert len(found.best) == -found.score

    def test_a_dict_of_texts_evolves_part_by_part(self):
        def judge(texts: dict[str, str], wanted: str) -> tuple[float, str]:
            return letters(texts["system"], wanted)

        given = {"system": "a", "user": "b"}
        found = atoll.evolve(given, judge, data=["x", "y", "z"], llm=obliging, budget="120evals", target=1.0)
        assert found.best.keys() == given.keys()
        assert found.score > 0.3

    def test_a_dict_of_parameters_is_tuned(self):
        def judge(values: dict[str, Any]) -> float:
            return -float((values["rate"] - 0.3) ** 2 + (values["size"] - 7) ** 2 + (values["mode"] == "slow"))

        given = {"rate": (0.9, 0.0, 1.0), "size": (2, 1, 10), "mode": ("slow", ["slow", "fast"])}
        found = atoll.evolve(given, judge, budget="40evals")
        assert found.best["size"] == 7
        assert found.best["mode"] == "fast"
        assert found.score > -0.01
        assert found.cost.evaluator_calls <= 40

    def test_a_prompt_that_is_a_python_expression_is_no_program(self):
        assert atoll.evolve("answer", lambda text: len(text), budget="5evals").suffix == ".txt"
        assert atoll.evolve("answer", lambda text: 1.0, budget="5evals", kind="text").score == 1.0


class TestEvaluators:
    @pytest.mark.parametrize(
        "returned",
        [1, 1.0, (1.0, "well"), {"score": 1.0, "other": 7}, {"combined_score": 1}, evaluation.Evaluation(1.0)],
        ids=["int", "float", "pair", "dict", "combined", "evaluation"],
    )
    def test_an_evaluator_may_return_any_of_these(self, returned):
        assert atoll.evolve("some words", lambda text: returned, budget="3evals").score == 1.0

    def test_an_evaluator_may_be_a_coroutine(self):
        async def judge(text: str) -> float:
            return 2.0

        assert atoll.evolve("some words", judge, budget="3evals").score == 2.0

    def test_a_start_that_fails_is_a_set_up_that_is_wrong(self):
        with pytest.raises(errors.SetupError, match="initial candidate has no score: ZeroDivisionError"):
            atoll.evolve("some words", lambda text: 1 / 0, budget="3evals")

    def test_a_child_that_fails_is_data(self):
        def judge(text: str) -> float:
            if text != "some words":
                raise ValueError("no")
            return 1.0

        assert atoll.evolve("some words", judge, budget="10evals").score == 1.0


class TestData:
    def test_the_validation_part_chooses_and_the_test_part_is_called_once_at_the_end(self):
        seen: list[str] = []

        def judge(text: str, wanted: str) -> tuple[float, str]:
            seen.append(wanted)
            return letters(text, wanted)

        parts: dict[str, Any] = {"data": list("abcdef"), "validation": list("ghi"), "test": list("xyz")}
        found = atoll.evolve("go", judge, **parts, llm=obliging, budget="80evals", workers=1)
        sealed = [place for place, each in enumerate(seen) if each in "xyz"]
        assert sealed == list(range(len(seen) - 6, len(seen)))  # the best and the start, on each
        assert len(found.scores) == 3
        assert found.test is not None
        assert found.cost.evaluator_calls == len(seen) - 6 <= 80

    def test_what_the_validation_part_said_reaches_no_prompt(self):
        prompts: list[str] = []

        def model(prompt: str) -> str:
            prompts.append(prompt)
            return obliging(prompt)

        atoll.evolve("go", letters, data=list("abc"), validation=list("QRS"), llm=model, budget="60evals")
        assert prompts
        assert not any("MORE Q" in each or "MORE R" in each for each in prompts)

    def test_the_evaluator_is_never_called_more_often_than_the_budget_says(self):
        for budget in (20, 50, 90):
            found = atoll.evolve(
                "go", letters, data=list("abcdef"), validation=list("ghi"), llm=obliging, budget=f"{budget}evals"
            )
            assert found.cost.evaluator_calls <= budget

    def test_a_child_is_judged_on_all_only_if_it_is_better_on_the_minibatch(self):
        def useless(prompt: str) -> str:
            return f"Nothing.\n```text\n{len(prompt)} words\n```"

        seen: list[str] = []

        def judge(text: str, wanted: str) -> float:
            seen.append(wanted)
            return letters(text, wanted)[0]

        atoll.evolve("go", judge, data=list("abc"), validation=list("GHI"), llm=useless, budget="60evals", workers=1)
        assert sum(each in "GHI" for each in seen) == 3  # the start alone

    def test_the_gain_says_how_sure_it_is(self):
        found = atoll.evolve("go", letters, data=list("abcdef"), llm=obliging, budget="200evals", target=1.0)
        assert found.gain is not None
        assert found.gain.low <= found.gain.mean <= found.gain.high

    def test_parts_without_data_are_a_mistake(self):
        with pytest.raises(errors.SetupError, match="Pass data too"):
            atoll.evolve("go", letters, validation=["a"], budget="5evals")

    def test_a_test_that_fails_is_told_and_loses_nothing(self):
        def judge(text: str, wanted: str) -> float:
            return letters(text, wanted)[0] if wanted != "z" else 1 / 0

        found = atoll.evolve("go", judge, data=list("ab"), test=["z"], budget="20evals")
        assert found.test is None
        assert "ZeroDivisionError" in found.reason


class TestResults:
    def test_a_result_shows_and_saves_itself(self, tmp_path):
        found = atoll.evolve("Be <b>kind</b>. Be brief.", lambda text: -len(text), budget="10evals")
        assert "score" in str(found)
        assert "best-of-N" in str(found)
        assert "&lt;b&gt;" in atoll.evolve("<b>", lambda text: 1.0, budget="2evals")._repr_html_()
        folder = Path(found.save(tmp_path / "out"))
        assert (folder / "best.txt").read_text() == found.best
        assert json.loads((folder / "result.json").read_text())["score"] == found.score

    def test_the_lineage_goes_back_to_the_start(self):
        found = atoll.evolve("a b c d e", lambda text: -len(text), budget="30evals")
        assert found.lineage[0].content == found.content
        assert found.lineage[-1].id == "0.0"

    def test_baselines_are_run_when_asked_for(self):
        found = atoll.evolve("go", letters, data=list("abc"), llm=obliging, budget="60evals", baselines=True)
        assert isinstance(found.baselines["best-of-N"], float)
        assert isinstance(found.baselines["sequential conditioning"], float)
        assert isinstance(found.baselines["no LLM"], float)
        assert found.baselines["initial"] == found.initial_score

    def test_a_store_keeps_the_run_and_without_one_no_file_is_left(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        atoll.evolve("a b c", lambda text: -len(text), budget="5evals")
        assert not list(tmp_path.iterdir())
        found = atoll.evolve("a b c", lambda text: -len(text), budget="5evals", store="kept.db")
        with store.Store("kept.db") as kept:
            assert kept.candidates(found.run).list_best()[0].content == found.content

    def test_the_same_seed_gives_the_same_run(self):
        options: dict[str, Any] = {"data": list("abcdef"), "budget": "120evals", "seed": 3}
        runs = [atoll.evolve("a. b. c. d.", letters, workers=workers, **options) for workers in (2, 2)]
        assert runs[0].lineage == runs[1].lineage

    def test_a_target_ends_the_run(self):
        found = atoll.evolve("go", letters, data=list("ab"), llm=obliging, budget="500evals", target=1.0)
        assert found.score == 1.0
        assert "reached" in found.reason

    def test_a_budget_may_be_an_object_or_seconds(self):
        assert atoll.evolve("a b", lambda text: 1.0, budget=control.Budget(iterations=3)).cost.steps == 3
        assert atoll.evolve("a b c d", lambda text: 1.0, budget="0.2s").score == 1.0

    def test_a_baseline_that_cannot_be_run_says_so(self, tmp_path):
        program = tmp_path / "program.js"
        program.write_text("let x = 1;\n")

        def model(prompt: str) -> str:
            return f"```javascript\nlet x = {len(prompt)};\n```"

        options: dict[str, Any] = {"llm": model, "budget": "3evals", "baselines": True, "unsafe": True}
        found = atoll.evolve(program, lambda path: float(len(path.read_text())), **options)
        assert "Pass an LLM" in str(found.baselines["no LLM"])
        assert found.score > found.initial_score


class TestMistakes:
    @pytest.mark.parametrize(
        ("thing", "options", "said"),
        [
            (7, {}, "cannot evolve"),
            ("", {}, "is empty"),
            ("words", {"budget": "much"}, "budget"),
            ("words", {"budget": "$1"}, "never ends a run without an LLM"),
            ("words", {"llm": 7}, "llm is 7"),
            ("words", {"llm": "gpt"}, "no model"),
            ("words", {"kind": "poem"}, "kind is 'poem'"),
            ("words", {"workers": 0}, "at least 1"),
            ({"rate": "x", "size": 3}, {}, "parameter rate"),
            ({"rate": (5, 0, 1)}, {}, "outside of"),
            (start, {"sandbox": False}, "evaluated in a sandbox"),
            (lambda x: x, {}, "lambda"),
            ("x = = 1", {"kind": "program"}, "no Python that the syntax mutator can change"),
        ],
    )
    def test_a_mistake_is_one_sentence(self, thing, options, said):
        with pytest.raises(errors.SetupError, match=said) as caught:
            atoll.evolve(thing, lambda *given: 1.0, **options)
        assert "\n" not in str(caught.value)

    def test_an_evaluator_must_be_a_function(self):
        with pytest.raises(errors.SetupError, match="Give a function that scores"):
            atoll.evolve("words", 7)  # type: ignore[arg-type]

    def test_a_model_that_never_answers_ends_the_run(self):
        def dead(prompt: str) -> str:
            raise ConnectionError("no route")

        found = atoll.evolve("words to keep", lambda text: 1.0, llm=dead, budget="50evals")
        assert "the LLM failed" in found.reason
        assert found.best == "words to keep"


def test_evolve_is_a_function_also_after_its_package_was_imported(tmp_path):
    program = (
        "import atoll.evolve, atoll; from atoll.evolve import Result; print(callable(atoll.evolve), Result.__name__)"
    )
    result = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["True", "Result"]


def test_the_best_of_a_function_runs_nothing_until_it_is_called():
    found = atoll.evolve(start, lambda fn: fn(1.0), budget="5evals")
    assert isinstance(found.best, function.PyAstSkeleton)
