"""Artifacts of failed evaluations, and errors that evaluators report beside a score."""

import json
import sys
from functools import partial

import pytest

from atoll import evaluation, executor, function, sandbox, store
from atoll.evaluation import BlobRef, Cost, Evaluation
from atoll.programs.evaluation import failures
from atoll.programs.evaluation.cascade import find_stages
from atoll.programs.evaluation.evaluator_job import CommandJob, FunctionJob
from atoll.programs.evaluation.folder_evaluator import FolderEvaluator
from atoll.sandbox.process import worker

EVALUATOR = """
import runpy

def run(path):
    return runpy.run_path(path)["run"]()

def evaluate_stage1(path):
    print("before")
    result = run(path)
    return result if isinstance(result, dict) else {"combined_score": 0.9}

def evaluate_stage2(path):
    if "stage 2" in open(path).read():
        raise LookupError("nothing in stage 2")
    return {"combined_score": 1.0}
"""


@pytest.fixture(scope="module")
def evaluate(tmp_path_factory):
    """Evaluates programs in a sandbox; returns the evaluation and the texts of its artifacts."""
    folder = tmp_path_factory.mktemp("task")
    folder.chmod(0o755)
    (folder / "evaluator.py").write_text(EVALUATOR)
    limits = sandbox.Limits(seconds=1.0, memory_mb=300)
    job = partial(FunctionJob, str(folder / "evaluator.py"), ".py")
    with executor.ExecutorConfig(limits, is_unsafe=True).open(job, EVALUATOR, str(folder)) as local_executor:
        blobs = store.MemoryBlobs()
        run = FolderEvaluator(local_executor, blobs, find_stages(EVALUATOR), thresholds=(0.5,))

        def evaluate_program(text: str) -> tuple[Evaluation, dict[str, str]]:
            result = run(function.Text(text))
            return result, {name: blobs.load_blob(ref).decode() for name, ref in result.artifacts.items()}

        yield evaluate_program


def make_program(body: str) -> str:
    return f"def run():\n    {body}\n"


class TestFailureArtifacts:
    def test_exception_has_openevolve_names(self, evaluate):
        result, artifacts = evaluate(make_program("return int('seven')"))
        assert result.failure == "it raised ValueError: invalid literal for int() with base 10: 'seven'"
        traceback = artifacts.pop("traceback")
        assert artifacts == {
            "error_type": "ValueError",
            "failure_stage": "stage1",
            "stderr": "invalid literal for int() with base 10: 'seven'",
            "attempt": "1",
            "stdout": "before",
        }
        assert traceback.startswith("Traceback (most recent call last):\n")
        assert "return int('seven')" in traceback
        assert "evaluator_job.py" not in traceback
        assert traceback.endswith(artifacts["stderr"])
        assert "return int('seven')" in result.feedback

    def test_causes_belong_to_the_traceback(self, evaluate):
        _, artifacts = evaluate(
            "def run():\n    try:\n        1 / 0\n    except OSError: pass\n    finally: {}['key']\n"
        )
        assert artifacts["error_type"] == "KeyError"
        assert artifacts["traceback"].count("Traceback (most recent call last)") == 2
        assert artifacts["stdout"] == "before"

    def test_failed_later_stage_is_named(self, evaluate):
        result, artifacts = evaluate(make_program("return 'stage 2'"))
        assert (result.score, result.failure) == (0.9, None)
        assert (artifacts["failure_stage"], artifacts["error_type"]) == ("stage2", "LookupError")
        assert artifacts["stderr"] == "nothing in stage 2"
        assert artifacts["traceback"].endswith("LookupError: nothing in stage 2")
        assert failures.find_error(result) == "stage2: LookupError: nothing in stage 2"

    def test_timeout_has_its_duration_and_stack(self, evaluate):
        result, artifacts = evaluate(make_program("import time; time.sleep(60)"))
        assert result.failure == "it took longer than 1 s"
        assert (artifacts["timeout"], artifacts["timeout_duration"]) == ("true", "1")
        assert (artifacts["error_type"], artifacts["failure_stage"]) == ("timeout", "stage1")
        assert artifacts["stderr"].startswith("it took longer than 1 s")
        assert artifacts["stdout"] == "before"
        if "traceback" in artifacts:  # not at level L0
            assert artifacts["traceback"].splitlines()[-2:] == ["    import time; time.sleep(60)", result.failure]
        assert result.cost.seconds == pytest.approx(1.0, abs=0.9)

    def test_memory_limit_is_a_memory_error(self, evaluate):
        result, artifacts = evaluate(make_program("return bytearray(10**9)"))
        assert result.failure == "it used more than 300 MiB"
        assert (artifacts["error_type"], artifacts["failure_stage"]) == ("MemoryError", "stage1")
        assert artifacts["stderr"] == "it used more than 300 MiB"
        assert "return bytearray(10**9)" in artifacts["traceback"]

    @pytest.mark.parametrize(
        ("body", "failure"),
        [
            ("import os; os._exit(3)", "it left its process with exit status 3"),
            ("import os; os.kill(os.getpid(), 9)", "its process died with signal 9 (SIGKILL)"),
            ("import os; os.kill(os.getpid(), 11)", "its process died with signal 11 (SIGSEGV)"),
        ],
    )
    def test_dead_process_is_a_crash(self, evaluate, body, failure):
        result, artifacts = evaluate(make_program(body))
        assert result.failure == failure
        assert (artifacts["error_type"], artifacts["stderr"]) == ("crash", failure)
        assert artifacts["stdout"] == "before"
        assert body in artifacts.get("traceback", body)

    def test_huge_message_keeps_frames_and_its_end(self, evaluate):
        _, artifacts = evaluate(make_program("raise ValueError('x' * 10**6 + 'the end')"))
        assert len(artifacts["traceback"]) < 8000
        assert "raise ValueError('x' * 10**6" in artifacts["traceback"]
        assert artifacts["traceback"].endswith("the end")
        assert (artifacts["error_type"], artifacts["stdout"]) == ("ValueError", "before")

    def test_huge_source_line_keeps_the_message(self, evaluate):
        _, artifacts = evaluate(make_program(f"return 1 / 0, {'0, ' * 10_000}"))
        assert len(artifacts["traceback"]) < 8000
        assert artifacts["traceback"].endswith("ZeroDivisionError: division by zero")

    def test_odd_text_is_cleaned(self, evaluate):
        result, artifacts = evaluate(make_program(r"print('é\0\ud800'); raise ValueError('ü\0\ud800☃')"))
        assert artifacts["error_type"] == "ValueError"
        assert artifacts["stderr"].startswith("ü\ufffd")
        assert "☃" in artifacts["traceback"]
        assert "é\ufffd" in artifacts["stdout"]
        assert "\0" not in "".join([*artifacts.values(), str(result.failure), result.feedback])

    def test_failed_command_shows_its_own_traceback(self, tmp_path, monkeypatch, capfd):
        monkeypatch.chdir(tmp_path)
        job = CommandJob([sys.executable, "-c", "{}['key']"], ".py")
        with pytest.raises(ChildProcessError) as caught:
            job({"program": ""})
        failure = f"it raised {worker.describe(caught.value)}"
        output = capfd.readouterr().err + worker.format_traceback(caught.value, caught.tb)
        response = sandbox.SandboxResult(None, failure, output, 0.1)
        artifacts, printed = failures.make_failure_artifacts(response, "", "evaluate", 1)
        assert artifacts["traceback"].endswith("KeyError: 'key'")
        assert (artifacts["failure_stage"], artifacts["error_type"]) == ("evaluation", "ChildProcessError")
        assert artifacts["stderr"].endswith("ended with exit status 1")
        assert printed == ""

    def test_traceback_without_its_start_is_found(self):
        output = 'cut\n  File "./program.py", line 1, in run\n    x = 1 / 0\nZeroDivisionError: division by zero\n'
        response = sandbox.SandboxResult(None, "it raised ZeroDivisionError: division by zero", output, 0.1)
        artifacts, printed = failures.make_failure_artifacts(response, "", "evaluate", 2)
        assert (artifacts["traceback"], printed, artifacts["attempt"]) == (output[4:].rstrip(), "cut", "2")


class TestReportedErrors:
    def test_error_key_becomes_an_artifact(self, evaluate):
        result, artifacts = evaluate(make_program("return {'combined_score': -20, 'error': 'timed out: ü\\n'}"))
        assert (result.score, artifacts["error"]) == (-20.0, "timed out: ü\n")
        assert failures.find_error(result) == "timed out: ü"
        assert failures.find_error(evaluation.from_data(evaluation.to_data(result))) == "timed out: ü"

    def test_success_with_output_is_not_an_error(self, evaluate):
        result, artifacts = evaluate(make_program("import sys; print('a warning', file=sys.stderr)"))
        assert (result.score, failures.find_error(result)) == (1.0, "")
        assert artifacts == {"stdout": "before\na warning"}
        assert 0.0 < result.cost.seconds < 5.0

    def test_long_output_is_cut_in_stdout_only(self, evaluate):
        _, artifacts = evaluate(make_program("print('x' * 9000 + 'end')"))
        assert len(artifacts["stdout"]) == failures.MAX_STDOUT_CHARS
        assert artifacts["stdout"].endswith("xend")
        assert len(artifacts["output"]) > 9000

    def test_artifacts_of_the_evaluator_keep_their_names(self, evaluate):
        body = "return {'combined_score': 0.1, 'artifacts': {'stdout': 'mine', 'stderr': 'a warning'}}"
        result, artifacts = evaluate(make_program(body))
        assert artifacts == {"stdout": "mine", "stderr": "a warning", "output": "before"}
        assert failures.find_error(result) == ""

    def test_errors_are_found_after_a_restart(self, tmp_path):
        with store.Store(str(tmp_path / "atoll.db")) as database:
            ref = database.blobs().save_blob(b"first line \0\xc3\xbc" + b"x" * 5000)
        data = json.loads(json.dumps(evaluation.to_data(Evaluation(-1.0, artifacts={"error": ref}))))
        assert failures.find_error(evaluation.from_data(data)).startswith("first line \0ü")


def make_evaluation(**texts: str) -> Evaluation:
    refs = {name: BlobRef("", len(text.encode()), text[:80]) for name, text in texts.items()}
    return Evaluation(1.0, artifacts=refs, cost=Cost(seconds=1.0))


class TestFindError:
    @pytest.mark.parametrize(
        ("artifacts", "error"),
        [
            ({}, ""),
            ({"error": "timed out"}, "timed out"),
            ({"error": "bad", "error_type": "TypeError"}, "TypeError: bad"),
            ({"error_message": "Stage 1: bad", "failure_stage": "stage1"}, "stage1: Stage 1: bad"),
            ({"exception": "bad"}, "bad"),
            ({"timeout": "true", "timeout_duration": "600s"}, "it timed out"),
            ({"timeout": "over 9 s"}, "over 9 s"),
            ({"failure_stage": "evaluation", "error_type": "crash", "stderr": "died"}, "died"),
            ({"failure_stage": "stage2"}, "stage2 failed"),
            ({"error_type": "AllTrialsFailed"}, "AllTrialsFailed"),
            ({"error": "true"}, "the evaluation failed"),
            ({"traceback": "Traceback (most recent call last):\n  ...\nKeyError: 1\n"}, "KeyError: 1"),
            ({"traceback": f"Traceback\n{'x' * 100}\nKeyError: 1"}, "it raised an exception; see its traceback"),
            ({"stderr": "RuntimeWarning: overflow", "warnings": "2", "stdout": "error"}, ""),
            ({"error": "", "traceback": "NoneType: None\n", "timeout": "false", "failure_stage": "null"}, ""),
            ({"error": "None", "error_type": " ", "exception": "{}"}, ""),
            ({"error": "0.25", "timeout": "300"}, ""),
        ],
    )
    def test_artifacts_report_errors(self, artifacts, error):
        assert failures.find_error(make_evaluation(**artifacts)) == error

    def test_failure_comes_first(self):
        assert failures.find_error(evaluation.failed("it raised ValueError")) == "it raised ValueError"

    def test_numbers_in_metrics_are_not_errors(self):
        assert failures.find_error(Evaluation(1.0, metrics={"error": 0.5, "timeout": 1.0})) == ""
