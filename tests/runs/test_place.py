"""What settings and a start of a run say of its sandbox."""

import sys

import pytest

from atoll import config, errors, executor
from atoll.runs import executor_config


def placed(tmp_path, allowed=executor_config.SAFE_OPTIONS, has_model=True, workers=1, **settings):
    (tmp_path / "initial_program.py").write_text("x = 1")
    (tmp_path / "evaluator.py").write_text("def evaluate(path): return 1")
    plan = config.load(tmp_path, [{"sandbox": settings, "run": {"workers": workers}}])
    return executor_config.make_executor_config(plan, allowed, has_llm=has_model)


def test_slots_are_as_many_as_workers_and_at_most_as_many_as_cores(tmp_path):
    assert placed(tmp_path, workers=1).num_slots == 1
    assert placed(tmp_path, workers=1000).num_slots == executor.cpu_count()
    assert placed(tmp_path, workers=1, slots=3).num_slots == 3


def test_only_what_a_model_writes_needs_leave_to_run_without_a_jail(tmp_path):
    assert not placed(tmp_path).is_unsafe
    assert placed(tmp_path, has_model=False).is_unsafe
    assert placed(tmp_path, executor_config.UnsafeOptions(unsafe=True)).is_unsafe


def test_every_limit_arrives(tmp_path):
    given = {"seconds": 1.5, "memory_mb": 100, "cpu_seconds": 2.0, "disk_mb": 3, "num_processes": 4, "num_files": 50}
    limits = placed(tmp_path, **given).limits
    assert {name: getattr(limits, name) for name in given} == given


def test_a_variable_that_is_named_arrives(tmp_path, monkeypatch):
    monkeypatch.setenv("TASK_NUM", "7")
    assert placed(tmp_path, env=["TASK_NUM"]).permissions.env == {"TASK_NUM": "7"}


def test_a_variable_that_is_not_set_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.delenv("TASK_NUM", raising=False)
    with pytest.raises(errors.SetupError, match=r"variable TASK_NUM is not set. Set it \(export TASK_NUM="):
        placed(tmp_path, env=["TASK_NUM"])


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "HF_TOKEN", "db_password", "AWS_SECRET_ACCESS_ID"])
def test_a_secret_needs_leave_at_each_start(tmp_path, monkeypatch, name):
    monkeypatch.setenv(name, "hush")
    with pytest.raises(errors.SetupError, match=f"looks like a secret.*--unsafe-env {name}") as refused:
        placed(tmp_path, env=[name])
    assert "hush" not in str(refused.value)
    assert placed(tmp_path, executor_config.UnsafeOptions(env=[name]), env=[name]).permissions.env == {name: "hush"}
    assert placed(tmp_path, executor_config.UnsafeOptions(env=[name])).permissions.env == {name: "hush"}


def test_programs_are_found_by_name_or_path(tmp_path):
    assert placed(tmp_path, programs=["."]).permissions.programs == (".",)
    assert placed(tmp_path, programs=[sys.executable]).permissions.programs == (sys.executable,)
    with pytest.raises(errors.SetupError, match="Program no-such-compiler of sandbox.programs not found"):
        placed(tmp_path, programs=["no-such-compiler"])


def test_readable_paths_are_those_of_the_task(tmp_path):
    (tmp_path / "data").mkdir(mode=0o755)
    assert placed(tmp_path, read_paths=["data"]).permissions.read_paths == (str(tmp_path / "data"),)
    with pytest.raises(errors.SetupError, match=r"nowhere of sandbox\.read_paths not found"):
        placed(tmp_path, read_paths=["nowhere"])
