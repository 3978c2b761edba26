"""Executor configuration from settings and unsafe options."""

import sys

import pytest

from atoll import config, errors, executor
from atoll.runs import executor_config


def make_config(tmp_path, allowed=executor_config.SAFE_OPTIONS, has_model=True, workers=1, **settings):
    (tmp_path / "initial_program.py").write_text("x = 1")
    (tmp_path / "evaluator.py").write_text("def evaluate(path): return 1")
    plan = config.load(tmp_path, [{"sandbox": settings, "run": {"workers": workers}}])
    return executor_config.make_executor_config(plan, allowed, has_llm=has_model)


def test_slots_default_to_workers_up_to_cpu_count(tmp_path):
    assert make_config(tmp_path, workers=1).num_slots == 1
    assert make_config(tmp_path, workers=1000).num_slots == executor.cpu_count()
    assert make_config(tmp_path, workers=1, slots=3).num_slots == 3


def test_only_llm_code_needs_unsafe_without_sandbox(tmp_path):
    assert not make_config(tmp_path).is_unsafe
    assert make_config(tmp_path, has_model=False).is_unsafe
    assert make_config(tmp_path, executor_config.UnsafeOptions(unsafe=True)).is_unsafe


def test_all_limits_are_passed_on(tmp_path):
    options = {"seconds": 1.5, "memory_mb": 100, "cpu_seconds": 2.0, "disk_mb": 3, "num_processes": 4, "num_files": 50}
    limits = make_config(tmp_path, **options).limits
    assert {name: getattr(limits, name) for name in options} == options


def test_environment_variable_is_passed_on(tmp_path, monkeypatch):
    monkeypatch.setenv("TASK_NUM", "7")
    assert make_config(tmp_path, env=["TASK_NUM"]).permissions.env == {"TASK_NUM": "7"}


def test_unset_environment_variable_is_an_error(tmp_path, monkeypatch):
    monkeypatch.delenv("TASK_NUM", raising=False)
    with pytest.raises(errors.SetupError, match=r"variable TASK_NUM is not set. Set it \(export TASK_NUM="):
        make_config(tmp_path, env=["TASK_NUM"])


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "HF_TOKEN", "db_password", "AWS_SECRET_ACCESS_ID"])
def test_secret_variable_needs_unsafe_env(tmp_path, monkeypatch, name):
    monkeypatch.setenv(name, "hush")
    with pytest.raises(errors.SetupError, match=f"looks like a secret.*--unsafe-env {name}") as refused:
        make_config(tmp_path, env=[name])
    assert "hush" not in str(refused.value)
    assert make_config(tmp_path, executor_config.UnsafeOptions(env=[name]), env=[name]).permissions.env == {
        name: "hush"
    }
    assert make_config(tmp_path, executor_config.UnsafeOptions(env=[name])).permissions.env == {name: "hush"}


def test_programs_are_found_by_name_or_path(tmp_path):
    assert make_config(tmp_path, programs=["."]).permissions.programs == (".",)
    assert make_config(tmp_path, programs=[sys.executable]).permissions.programs == (sys.executable,)
    with pytest.raises(errors.SetupError, match=r"Program no-such-compiler of sandbox\.programs not found"):
        make_config(tmp_path, programs=["no-such-compiler"])


def test_read_paths_are_relative_to_task(tmp_path):
    (tmp_path / "data").mkdir(mode=0o755)
    assert make_config(tmp_path, read_paths=["data"]).permissions.read_paths == (str(tmp_path / "data"),)
    with pytest.raises(errors.SetupError, match=r"nowhere of sandbox\.read_paths not found"):
        make_config(tmp_path, read_paths=["nowhere"])
