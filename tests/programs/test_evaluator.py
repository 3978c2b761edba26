"""What an evaluator may return, and how it is run (P1, P2)."""

import json
import math
import sys
from types import SimpleNamespace

import pytest

from atoll.programs.evaluation import evaluator_job

NOTHING = {"metrics": {}, "scores": [], "feedback": "", "artifacts": {}}


@pytest.mark.parametrize(
    ("found", "expected"),
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
def test_an_evaluator_may_return_all_of_these(found, expected):
    assert evaluator_job.to_plain_result(found) == {**NOTHING, **expected}


def test_what_is_no_finite_number_stays_what_it_is_for_the_judge_to_tell():
    metrics = evaluator_job.to_plain_result({"a": float("nan"), "b": float("inf")})["metrics"]
    assert math.isnan(metrics["a"])
    assert metrics["b"] == math.inf


def test_a_number_beyond_all_measure_and_a_loop_are_artifacts():
    loop: list[object] = []
    loop.append(loop)
    found = evaluator_job.to_plain_result({"a": 10**400, "loop": loop})
    assert found["metrics"] == {}
    assert set(found["artifacts"]) == {"a", "loop"}


def test_an_openevolve_result_has_its_methods():
    result = evaluator_job.EvaluationResult.from_dict({"a": 1.0})
    result.artifacts = {"log": "ab", "raw": b"abc"}
    assert result.to_dict() == {"a": 1.0}
    assert (result.has_artifacts(), result.get_artifact_keys()) == (True, ["log", "raw"])
    assert (result.get_artifact_size("raw"), result.get_total_artifact_size()) == (3, 5)


class TestCommanding:
    @pytest.fixture(autouse=True)
    def _empty_folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)

    def run(self, script: str, program: str = "hello"):
        return evaluator_job.CommandJob([sys.executable, "-c", script], ".txt")({"program": program})

    def test_its_last_line_is_what_it_found(self, capsys):
        script = "import sys, json; print('on the way'); print(json.dumps({'size': len(open(sys.argv[1]).read())}))"
        assert self.run(script)["metrics"] == {"size": 5.0}
        assert "on the way" in capsys.readouterr().out

    def test_the_path_goes_where_it_is_wanted(self):
        script = "import sys, json; print(json.dumps(sys.argv[1].endswith('program.txt') + 0.0))"
        command = [sys.executable, "-c", script, "{program}", "more"]
        assert evaluator_job.CommandJob(command, ".txt")({"program": ""})["metrics"] == {"combined_score": 1.0}

    def test_a_bad_end_is_told(self):
        with pytest.raises(ChildProcessError, match="exit status 3"):
            self.run("import sys; sys.exit(3)")

    def test_silence_and_prose_are_told(self):
        with pytest.raises(ValueError, match="printed nothing"):
            self.run("pass")
        with pytest.raises(json.JSONDecodeError):
            self.run("print('all is well')")
