"""Results of evaluators, and how evaluators are run (P1, P2)."""

import json
import math
import sys
from types import SimpleNamespace

import pytest

from atoll.programs.evaluation import evaluator_job

EMPTY_RESULT = {"metrics": {}, "scores": [], "feedback": "", "artifacts": {}}


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (0.5, {"metrics": {"combined_score": 0.5}}),
        ((0.5, "good"), {"metrics": {"combined_score": 0.5}, "feedback": "good"}),
        ({"a": 1, "b": 2.5}, {"metrics": {"a": 1.0, "b": 2.5}}),
        ({"a": 1, "feedback": "more"}, {"metrics": {"a": 1.0}, "feedback": "more"}),
        ({"a": 1, "scores": [1, 0.5]}, {"metrics": {"a": 1.0}, "scores": [1.0, 0.5]}),
        ({"a": 1, "scores": {"x": 1, "y": 0}}, {"metrics": {"a": 1.0}, "scores": [1.0, 0.0]}),
        ({"a": 1, "scores": [1, "no"]}, {"metrics": {"a": 1.0}, "scores": []}),
        ({"a": 1, "note": "hm", "ok": True}, {"metrics": {"a": 1.0}, "artifacts": {"note": "hm", "ok": "true"}}),
        ({"a": 1, "artifacts": {"log": "x"}}, {"metrics": {"a": 1.0}, "artifacts": {"log": "x"}}),
        ({"a": 1, "artifacts": {"raw": b"\xff"}}, {"metrics": {"a": 1.0}, "artifacts": {"raw": {"base64": "/w=="}}}),
        (SimpleNamespace(metrics={"a": 1}, artifacts={"log": "x"}), {"metrics": {"a": 1.0}, "artifacts": {"log": "x"}}),
        (
            SimpleNamespace(score=3, scores=(1, 2), metrics={"m": 4}, feedback="f", artifacts={}),
            {"metrics": {"combined_score": 3.0, "m": 4.0}, "scores": [1.0, 2.0], "feedback": "f"},
        ),
        (None, {"artifacts": {"combined_score": "null"}}),
        ({}, {}),
    ],
)
def test_evaluator_results_become_plain_results(result, expected):
    assert evaluator_job.to_plain_result(result) == {**EMPTY_RESULT, **expected}


def test_nan_and_infinity_are_kept():
    metrics = evaluator_job.to_plain_result({"a": float("nan"), "b": float("inf")})["metrics"]
    assert math.isnan(metrics["a"])
    assert metrics["b"] == math.inf


def test_huge_number_and_cyclic_list_become_artifacts():
    loop: list[object] = []
    loop.append(loop)
    result = evaluator_job.to_plain_result({"a": 10**400, "loop": loop})
    assert result["metrics"] == {}
    assert set(result["artifacts"]) == {"a", "loop"}


def test_evaluation_result_has_openevolve_methods():
    result = evaluator_job.EvaluationResult.from_dict({"a": 1.0})
    result.artifacts = {"log": "ab", "raw": b"abc"}
    assert result.to_dict() == {"a": 1.0}
    assert (result.has_artifacts(), result.get_artifact_keys()) == (True, ["log", "raw"])
    assert (result.get_artifact_size("raw"), result.get_total_artifact_size()) == (3, 5)


class TestCommandJob:
    @pytest.fixture(autouse=True)
    def _empty_folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)

    def run(self, script: str, program: str = "hello"):
        return evaluator_job.CommandJob([sys.executable, "-c", script], ".txt")({"program": program})

    def test_last_line_of_the_command_is_its_result(self, capsys):
        script = "import sys, json; print('on the way'); print(json.dumps({'size': len(open(sys.argv[1]).read())}))"
        assert self.run(script)["metrics"] == {"size": 5.0}
        assert "on the way" in capsys.readouterr().out

    def test_program_placeholder_becomes_the_path(self):
        script = "import sys, json; print(json.dumps(sys.argv[1].endswith('program.txt') + 0.0))"
        command = [sys.executable, "-c", script, "{program}", "more"]
        assert evaluator_job.CommandJob(command, ".txt")({"program": ""})["metrics"] == {"combined_score": 1.0}

    def test_nonzero_exit_status_raises(self):
        with pytest.raises(ChildProcessError, match="exit status 3"):
            self.run("import sys; sys.exit(3)")

    def test_missing_or_invalid_output_raises(self):
        with pytest.raises(ValueError, match="printed nothing"):
            self.run("pass")
        with pytest.raises(json.JSONDecodeError):
            self.run("print('all is well')")
