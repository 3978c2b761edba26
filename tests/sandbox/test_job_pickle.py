"""Pickling of jobs, and errors of jobs that cannot be pickled or created."""

import importlib.util
import sys
import threading

import cloudpickle
import pytest

from atoll import errors
from atoll.sandbox import Limits, ProcessSandbox, job_pickle
from atoll.testing import fakes
from tests.sandbox.helpers import make_program_job, start_script


def test_functions_of_the_main_script_are_sent_by_value(tmp_path):
    text = """
    import math
    FACTOR = 3
    class Pair:
        def __init__(self, a, b): self.a, self.b = a, b
    def evaluator(skeleton, pair): return FACTOR * math.floor(skeleton(pair.a, pair.b))
    if __name__ == "__main__":
        import functools
        with ProcessSandbox(functools.partial(ScoreJob, evaluator, [Pair(1, 2), Pair(3, 4)])) as workers:
            print(workers.run("def f(a, b): return a + b").value)
    """
    with start_script(tmp_path, text) as program:
        assert program.communicate()[0] == "[{'score': 9.0}, {'score': 21.0}]\n"


@pytest.mark.parametrize("is_listed", [True, False])
def test_functions_of_a_file_loaded_by_its_path_are_sent_by_value(tmp_path, monkeypatch, is_listed):
    (tmp_path / "helper_module.py").write_text("def twice(x): return 2 * x\n", encoding="utf-8")
    file = tmp_path / "evaluator.py"
    file.write_text("import helper_module\ndef make(): return lambda x: helper_module.twice(x) + 1\n", encoding="utf-8")
    spec = importlib.util.spec_from_file_location("an_evaluator", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    if is_listed:
        monkeypatch.setitem(sys.modules, "an_evaluator", module)
    monkeypatch.syspath_prepend(str(tmp_path))
    spec.loader.exec_module(module)
    elsewhere = [item for item in sys.path if item != str(tmp_path)]
    with ProcessSandbox(module.make, path=elsewhere) as box:
        assert box.run(20).value == 41
    monkeypatch.delitem(sys.modules, "helper_module")


def test_job_imports_from_the_path_of_the_parent(tmp_path, monkeypatch):
    (tmp_path / "late_helper.py").write_text("def twice(x): return 2 * x\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])

    def make():
        return importlib.import_module("late_helper").twice

    with ProcessSandbox(make) as box:
        monkeypatch.chdir("/")
        assert box.run(21).value == 42


def test_installed_modules_are_sent_by_name():
    def make():
        return lambda text: cloudpickle.loads.__module__ + text

    assert len(job_pickle.pack_job(make)) < 1000
    assert len(job_pickle.pack_job([cloudpickle.dumps, job_pickle.pack_job, threading.Thread, errors.SetupError])) < 200


def test_only_modules_that_are_not_installed_are_sent_by_value():
    with job_pickle._register_by_value():
        listed = cloudpickle.list_registry_pickle_by_value()
    assert __name__ in listed
    assert not {name.partition(".")[0] for name in listed} & ({"atoll", "numpy", "pytest"} | sys.stdlib_module_names)


def test_pack_job_restores_the_registry_of_cloudpickle():
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    try:
        before = cloudpickle.list_registry_pickle_by_value()
        fakes.run_concurrently(lambda _: job_pickle.pack_job(make_program_job), 8)
        with pytest.raises(errors.SetupError):
            job_pickle.pack_job(threading.Lock())
        assert cloudpickle.list_registry_pickle_by_value() == before
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def test_unpicklable_job_is_explained():
    lock = threading.Lock()
    with pytest.raises(errors.SetupError, match=r"cannot be pickled.*'_thread.lock' object.*Do not keep locks"):
        ProcessSandbox(lambda: lambda _: lock.locked())


def test_missing_import_of_a_job_is_named():
    def make():
        return importlib.import_module("no_such_module").job

    with (
        ProcessSandbox(make) as box,
        pytest.raises(errors.SetupError, match="ModuleNotFoundError: No module named 'no_such_module'"),
    ):
        box.warm()


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("os._exit(3)", "exit status 3"),
        ("print('why'); os.kill(os.getpid(), 9)", "SIGKILL. why"),
        ("sys.exit(1)", "SystemExit: 1"),
    ],
    ids=["os._exit", "killed", "sys.exit"],
)
def test_job_that_ends_its_process_is_a_setup_error(end, message):
    def make():
        exec(f"import os, sys; {end}")
        return len

    with ProcessSandbox(make) as box, pytest.raises(errors.SetupError, match=message):
        box.run(1)


def test_job_that_leaves_too_little_memory_is_a_setup_error():
    def make():
        retained = bytearray(100 * 2**20)
        return lambda _: len(retained)

    with (
        ProcessSandbox(make, Limits(memory_mb=100)) as box,
        pytest.raises(errors.SetupError, match="memory_mb=100 leaves"),
    ):
        box.run(1)
