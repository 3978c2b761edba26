"""`ExecutorConfig`: sandbox level and permissions."""

import os

import pytest

from atoll import errors, executor, sandbox
from atoll.sandbox import levels

needs_sandbox = pytest.mark.skipif(sandbox.get_level(sandbox.probe()) == "L0", reason="needs a sandbox")


def make_job():
    """Returns a job that runs a Python program and returns its `answer`."""

    def run(program):
        names: dict[str, object] = {}
        exec(program, names)
        return names["answer"]

    return run


@pytest.fixture
def weak(monkeypatch):
    """A machine without any sandbox feature."""
    no = "Function not implemented"
    monkeypatch.setattr(levels, "probe", lambda: sandbox.Probe(no, False, no, 0, no, no))


@needs_sandbox
def test_default_is_the_strongest_sandbox():
    with executor.ExecutorConfig().open(make_job) as box:
        assert box.level == sandbox.get_level(sandbox.probe())
        assert box.run("answer = 1 + 1").value == 2


@needs_sandbox
def test_trusted_candidates_share_a_process():
    with executor.ExecutorConfig(is_unsafe=True, is_trusted=True).open(make_job) as box:
        assert box.level == "L0"
        first, second = (box.run("import os; answer = os.getpid()").value for _ in range(2))
        assert first == second


def test_trusted_needs_unsafe():
    with pytest.raises(errors.SetupError, match="Pass --unsafe to allow it"):
        executor.ExecutorConfig(is_trusted=True).open(make_job)


def test_trusted_and_required_level_exclude_each_other():
    with pytest.raises(errors.SetupError, match="exclude each other"):
        executor.ExecutorConfig(is_unsafe=True, is_trusted=True, require="L2").open(make_job)


def test_machine_without_sandbox_needs_unsafe(weak):
    with pytest.raises(errors.SetupError, match=r"Pass --unsafe to allow it, or enable a sandbox\. No namespaces"):
        executor.ExecutorConfig().open(make_job)
    with executor.ExecutorConfig(is_unsafe=True).open(make_job) as box:
        assert (box.level, box.run("answer = 3").value) == ("L0", 3)


def test_required_level_above_the_machine_fails(weak):
    with pytest.raises(errors.SetupError, match=r"This machine has sandbox level L0, not L2\. No namespaces"):
        executor.ExecutorConfig(require="L2", is_unsafe=True).open(make_job)


def test_broken_job_fails_in_open():
    def broken():
        raise FileNotFoundError("no data here")

    with pytest.raises(errors.SetupError, match="no data here"):
        executor.ExecutorConfig(is_unsafe=True).open(broken)


@needs_sandbox
def test_only_the_evaluator_source_adds_permissions():
    start = "import os\npid = os.fork()\nif not pid: os._exit(0)\nos.waitpid(pid, 0)\nanswer = 'forked'"
    with executor.ExecutorConfig().open(make_job, "import numpy\ndef evaluate(path): return 1") as narrow:
        assert "PermissionError" in (narrow.run(start).failure or "")
    with executor.ExecutorConfig().open(make_job, "import multiprocessing\ndef evaluate(path): return 1") as wide:
        assert wide.run(start).value == "forked"


@needs_sandbox
def test_folder_is_readable_only_if_the_evaluator_uses_it(tmp_path):
    tmp_path.chmod(0o755)  # a sandbox started by root runs as another user
    (tmp_path / "data.txt").write_text("secret")
    (tmp_path / "neighbor.py").write_text("")
    program = f"answer = open({str(tmp_path / 'data.txt')!r}).read()"
    with executor.ExecutorConfig().open(make_job, "import json", str(tmp_path)) as box:
        assert box.run(program).failure is not None
    for source in ("HERE = __file__", "def evaluate(path):\n    import neighbor"):
        with executor.ExecutorConfig().open(make_job, source, str(tmp_path)) as box:
            assert box.run(program).value == "secret"


def test_environment_has_only_permitted_variables(monkeypatch):
    monkeypatch.setenv("OTHER_NAME", "hidden")
    profile = sandbox.Permissions(env={"TASK_NUM": "7"})
    ask = "import os; answer = [os.environ.get(name) for name in ('TASK_NUM', 'OTHER_NAME')]"
    for trusted in (False, True):
        with executor.ExecutorConfig(is_unsafe=True, is_trusted=trusted, permissions=profile).open(make_job) as box:
            assert box.run(ask).value == ["7", None]


@needs_sandbox
@pytest.mark.skipif(os.geteuid() != 0 or sandbox.probe().needs_user, reason="needs root")
def test_folder_that_only_root_can_read_is_a_setup_error(tmp_path):
    tmp_path.chmod(0o700)
    with pytest.raises(errors.SetupError, match=r"Only root can read .*Run: chmod -R a\+rX "):
        executor.ExecutorConfig().open(make_job, "DATA = __file__", str(tmp_path))
    with pytest.raises(errors.SetupError, match="Only root can read"):
        executor.ExecutorConfig(permissions=sandbox.Permissions(read_paths=(str(tmp_path),))).open(make_job)
    tmp_path.chmod(0o755)
    with executor.ExecutorConfig().open(make_job, "DATA = __file__", str(tmp_path)) as box:
        assert box.run(f"import os; answer = os.listdir({str(tmp_path)!r})").value == []
