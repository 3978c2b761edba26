"""FolderEvaluator: stages, repeats, artifacts (P2 to P8)."""

from functools import partial
from pathlib import Path

import pytest

from atoll import executor, function, sandbox, store
from atoll.programs.evaluation.cascade import ScoreFunction, find_stages
from atoll.programs.evaluation.evaluator_job import FunctionJob
from atoll.programs.evaluation.folder_evaluator import FolderEvaluator


@pytest.fixture
def make_evaluator(tmp_path):
    """Makes evaluators from source and closes their executors."""
    executors: list[executor.LocalExecutor] = []

    def make(source: str, *, seconds: float = 20.0, **options):
        path = Path(tmp_path / f"evaluator{len(executors)}.py")
        path.write_text(source)
        executor_config = executor.ExecutorConfig(sandbox.Limits(seconds=seconds), is_unsafe=True)
        executors.append(executor_config.open(partial(FunctionJob, str(path), ".py"), source, str(tmp_path)))
        evaluate = FolderEvaluator(executors[-1], store.MemoryBlobs(), find_stages(source), **options)
        return lambda text: evaluate(function.Text(text)), evaluate.blobs

    yield make
    for local_executor in executors:
        local_executor.close()


CASCADE = """
def evaluate_stage1(path):
    text = open(path).read()
    return {"combined_score": float(text.split()[0]), "quick": 1.0, "artifacts": {"log": "one"}}

def evaluate_stage2(path):
    text = open(path).read()
    if "raise" in text: raise ValueError("in stage 2")
    if "exit" in text: import os; os._exit(3)
    if "sleep" in text: import time; time.sleep(100)
    return {"combined_score": 0.9, "artifacts": {"log": "two"}}

def evaluate(path):
    return {"combined_score": -1.0}
"""


class TestCascade:
    def test_last_stage_sets_the_score(self, make_evaluator):
        evaluate, blobs = make_evaluator(CASCADE, thresholds=(0.5,))
        result = evaluate("0.6")
        assert (result.score, result.metrics) == (0.9, {"combined_score": 0.9, "quick": 1.0})
        assert blobs.load_blob(result.artifacts["log"]) == b"two"

    def test_cascade_ends_below_the_threshold(self, make_evaluator):
        evaluate, _ = make_evaluator(CASCADE, thresholds=(0.5,))
        assert evaluate("0.4").score == 0.4

    def test_cascade_ends_without_a_threshold(self, make_evaluator):
        evaluate, _ = make_evaluator(CASCADE, thresholds=())
        assert evaluate("0.6").score == 0.6

    @pytest.mark.parametrize(
        ("word", "kind"), [("raise", "ValueError"), ("exit", "crash"), pytest.param("sleep", "timeout")]
    )
    def test_failed_later_stage_keeps_earlier_results(self, make_evaluator, word, kind):
        evaluate, blobs = make_evaluator(CASCADE, thresholds=(0.5,), seconds=1.0)
        result = evaluate(f"0.6 {word}")
        assert (result.score, result.failure) == (0.6, None)
        assert result.metrics == {"combined_score": 0.6, "quick": 1.0, "stage2_passed": 0.0}
        assert blobs.load_blob(result.artifacts["error_type"]) == kind.encode()
        assert "evaluate_stage2 failed: it" in result.feedback

    def test_failed_first_stage_gives_no_score(self, make_evaluator):
        evaluate, blobs = make_evaluator(CASCADE, thresholds=(0.5,))
        result = evaluate("word")
        assert result.score is None
        assert "could not convert string to float" in str(result.failure)
        assert blobs.load_blob(result.artifacts["failure_stage"]) == b"stage1"
        assert blobs.load_blob(result.artifacts["traceback"]).startswith(b"Traceback")


class TestArtifacts:
    def test_success_without_artifacts_has_an_output_artifact(self, make_evaluator):
        evaluate, blobs = make_evaluator("def evaluate(path): return 1.0")
        result = evaluate("")
        assert blobs.load_blob(result.artifacts["output"]) == b"It printed nothing."

    def test_printed_output_is_stored_on_success(self, make_evaluator):
        evaluate, blobs = make_evaluator("def evaluate(path):\n    print('half way')\n    return 1.0")
        result = evaluate("")
        assert blobs.load_blob(result.artifacts["stdout"]) == b"half way"
        assert "half way" in result.feedback

    def test_bytes_and_long_texts_are_stored_complete(self, make_evaluator):
        source = "def evaluate(path): return {'a': 1, 'artifacts': {'raw': b'\\xff\\x00', 'long': 'x' * 50000}}"
        evaluate, blobs = make_evaluator(source)
        result = evaluate("")
        assert blobs.load_blob(result.artifacts["raw"]) == b"\xff\x00"
        assert blobs.load_blob(result.artifacts["long"]) == b"x" * 50000
        assert len(result.feedback) < 5000


class TestPlace:
    SOURCE = "import json\n\ndef evaluate(path):\n    x = open(path).read()\n    return {'score': json.loads(x)}\n"

    def test_initial_program_fails_with_the_line_of_the_evaluator(self, make_evaluator):
        evaluate, _ = make_evaluator(self.SOURCE, initial="no")
        assert "JSONDecodeError" in evaluate("no").failure
        assert evaluate("no").failure.endswith("(evaluator0.py, line 5)")
        assert "evaluator0.py" not in evaluate("not").failure  # prompts have its traceback


class TestScore:
    def test_nan_score_is_a_failure(self, make_evaluator):
        evaluate, _ = make_evaluator("def evaluate(path): return {'combined_score': float(open(path).read())}")
        assert "nan" in str(evaluate("nan").failure)
        assert evaluate("-5").score == -5.0

    def test_missing_metric_is_named(self, make_evaluator):
        evaluate, _ = make_evaluator("def evaluate(path): return {'speed': 1.0}", score_function=ScoreFunction("loss"))
        assert evaluate("").failure == "the evaluator returned no loss; it returned speed"

    def test_scores_per_instance_are_kept(self, make_evaluator):
        evaluate, _ = make_evaluator("def evaluate(path): return {'combined_score': 0.5, 'scores': [0.0, 1.0]}")
        assert evaluate("").scores == (0.0, 1.0)


class TestRepeats:
    SOURCE = """
import itertools, os, time
def evaluate(path):
    number = time.time_ns() % 1000
    return {"combined_score": number, "scores": [number, 1.0]}
"""

    def test_repeats_give_mean_and_standard_error(self, make_evaluator):
        evaluate, _ = make_evaluator(self.SOURCE, repeats=4)
        result = evaluate("")
        assert result.score == pytest.approx(result.metrics["combined_score"])
        assert result.metrics["score_error"] > 0
        assert result.scores == (pytest.approx(result.score), 1.0)

    def test_one_failed_repeat_fails_the_evaluation(self, make_evaluator):
        evaluate, _ = make_evaluator("def evaluate(path): raise ValueError('no')", repeats=3)
        assert evaluate("").failure == "it raised ValueError: no"


def test_evaluator_may_be_a_coroutine_and_import_siblings(make_evaluator, tmp_path):
    (tmp_path / "fixtures.py").write_text("VALUE = 7.0")
    tmp_path.chmod(0o755)
    evaluate, _ = make_evaluator("async def evaluate(path):\n    import fixtures\n    return fixtures.VALUE")
    assert evaluate("").score == 7.0
