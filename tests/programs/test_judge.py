"""A folder's evaluator as a judge: stages, repeats, artifacts (P2 to P8)."""

from functools import partial
from pathlib import Path

import pytest

from atoll import executor, function, sandbox, store
from atoll.programs.evaluation.cascade import ScoreFunction, find_stages
from atoll.programs.evaluation.evaluator_job import FunctionJob
from atoll.programs.evaluation.folder_evaluator import FolderEvaluator


@pytest.fixture
def judging(tmp_path):
    """Makes judges of evaluators, and ends their places."""
    places: list[executor.LocalExecutor] = []

    def make(source: str, *, seconds: float = 20.0, **options):
        path = Path(tmp_path / f"evaluator{len(places)}.py")
        path.write_text(source)
        where = executor.ExecutorConfig(sandbox.Limits(seconds=seconds), is_unsafe=True)
        places.append(where.open(partial(FunctionJob, str(path), ".py"), source, str(tmp_path)))
        judge = FolderEvaluator(places[-1], store.MemoryBlobs(), find_stages(source), **options)
        return lambda text: judge(function.Text(text)), judge.blobs

    yield make
    for place in places:
        place.close()


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
    def test_a_later_stage_wins_and_evaluate_is_not_called(self, judging):
        judge, bodies = judging(CASCADE, thresholds=(0.5,))
        found = judge("0.6")
        assert (found.score, found.metrics) == (0.9, {"combined_score": 0.9, "quick": 1.0})
        assert bodies.load_blob(found.artifacts["log"]) == b"two"

    def test_who_does_not_reach_the_threshold_ends_there(self, judging):
        judge, _ = judging(CASCADE, thresholds=(0.5,))
        assert judge("0.4").score == 0.4

    def test_without_a_threshold_the_cascade_ends(self, judging):
        judge, _ = judging(CASCADE, thresholds=())
        assert judge("0.6").score == 0.6

    @pytest.mark.parametrize(
        ("word", "kind"), [("raise", "ValueError"), ("exit", "crash"), pytest.param("sleep", "timeout")]
    )
    def test_a_later_stage_that_fails_keeps_what_was_found_before(self, judging, word, kind):
        judge, bodies = judging(CASCADE, thresholds=(0.5,), seconds=1.0)
        found = judge(f"0.6 {word}")
        assert (found.score, found.failure) == (0.6, None)
        assert found.metrics == {"combined_score": 0.6, "quick": 1.0, "stage2_passed": 0.0}
        assert bodies.load_blob(found.artifacts["error_type"]) == kind.encode()
        assert "evaluate_stage2 failed: it" in found.feedback

    def test_a_first_stage_that_fails_leaves_no_score(self, judging):
        judge, bodies = judging(CASCADE, thresholds=(0.5,))
        found = judge("word")
        assert found.score is None
        assert "could not convert string to float" in str(found.failure)
        assert bodies.load_blob(found.artifacts["failure_stage"]) == b"evaluate_stage1"
        assert b"Traceback" in bodies.load_blob(found.artifacts["output"])


class TestArtifacts:
    def test_a_success_is_never_without_any(self, judging):
        judge, bodies = judging("def evaluate(path): return 1.0")
        found = judge("")
        assert bodies.load_blob(found.artifacts["output"]) == b"It printed nothing."

    def test_what_was_printed_is_kept_on_success_too(self, judging):
        judge, bodies = judging("def evaluate(path):\n    print('half way')\n    return 1.0")
        found = judge("")
        assert bodies.load_blob(found.artifacts["output"]) == b"half way"
        assert "half way" in found.feedback

    def test_bytes_come_back_as_bytes_and_long_texts_whole(self, judging):
        source = "def evaluate(path): return {'a': 1, 'artifacts': {'raw': b'\\xff\\x00', 'long': 'x' * 50000}}"
        judge, bodies = judging(source)
        found = judge("")
        assert bodies.load_blob(found.artifacts["raw"]) == b"\xff\x00"
        assert bodies.load_blob(found.artifacts["long"]) == b"x" * 50000
        assert len(found.feedback) < 5000


class TestScore:
    def test_nan_and_no_number_are_failures(self, judging):
        judge, _ = judging("def evaluate(path): return {'combined_score': float(open(path).read())}")
        assert "nan" in str(judge("nan").failure)
        assert judge("-5").score == -5.0

    def test_a_metric_that_is_missing_is_named(self, judging):
        judge, _ = judging("def evaluate(path): return {'speed': 1.0}", score_function=ScoreFunction("loss"))
        assert judge("").failure == "the evaluator returned no loss; it returned speed"

    def test_scores_per_instance_are_kept(self, judging):
        judge, _ = judging("def evaluate(path): return {'combined_score': 0.5, 'scores': [0.0, 1.0]}")
        assert judge("").scores == (0.0, 1.0)


class TestRepeats:
    SOURCE = """
import itertools, os, time
def evaluate(path):
    number = time.time_ns() % 1000
    return {"combined_score": number, "scores": [number, 1.0]}
"""

    def test_the_score_is_the_mean_and_its_error_is_told(self, judging):
        judge, _ = judging(self.SOURCE, repeats=4)
        found = judge("")
        assert found.score == pytest.approx(found.metrics["combined_score"])
        assert found.metrics["score_error"] > 0
        assert found.scores == (pytest.approx(found.score), 1.0)

    def test_a_time_that_fails_fails_them_all(self, judging):
        judge, _ = judging("def evaluate(path): raise ValueError('no')", repeats=3)
        assert judge("").failure == "it raised ValueError: no"


def test_an_evaluator_may_be_a_coroutine_and_import_what_lies_beside_it(judging, tmp_path):
    (tmp_path / "fixtures.py").write_text("VALUE = 7.0")
    tmp_path.chmod(0o755)
    judge, _ = judging("async def evaluate(path):\n    import fixtures\n    return fixtures.VALUE")
    assert judge("").score == 7.0
