"""The terms of a run: how strong its jail is, and how wide."""

import os

import pytest

from atoll import errors, executor, sandbox
from atoll.sandbox import levels

jailed = pytest.mark.skipif(sandbox.get_level(sandbox.probe()) == "L0", reason="this machine has no jail")


def make():
    """Makes a job that returns what a Python program leaves in `answer`."""

    def run(program):
        names: dict[str, object] = {}
        exec(program, names)
        return names["answer"]

    return run


@pytest.fixture
def weak(monkeypatch):
    """A machine on which nothing works."""
    no = "Function not implemented"
    monkeypatch.setattr(levels, "probe", lambda: sandbox.Probe(no, False, no, 0, no, no))


@jailed
def test_the_strongest_jail_is_the_usual():
    with executor.ExecutorConfig().open(make) as place:
        assert place.level == sandbox.get_level(sandbox.probe())
        assert place.run("answer = 1 + 1").value == 2


@jailed
def test_what_is_trusted_shares_a_warm_process():
    with executor.ExecutorConfig(is_unsafe=True, is_trusted=True).open(make) as place:
        assert place.level == "L0"
        first, second = (place.run("import os; answer = os.getpid()").value for _ in range(2))
        assert first == second


def test_trust_alone_is_not_enough_for_what_a_model_wrote():
    with pytest.raises(errors.SetupError, match="allow that with --unsafe"):
        executor.ExecutorConfig(is_trusted=True).open(make)


def test_trust_and_a_level_exclude_each_other():
    with pytest.raises(errors.SetupError, match="cannot both be had"):
        executor.ExecutorConfig(is_unsafe=True, is_trusted=True, require="L2").open(make)


def test_a_machine_without_a_jail_refuses_what_a_model_wrote(weak):
    with pytest.raises(errors.SetupError, match=r"allow that with --unsafe, or get a jail\. No namespaces"):
        executor.ExecutorConfig().open(make)
    with executor.ExecutorConfig(is_unsafe=True).open(make) as place:
        assert (place.level, place.run("answer = 3").value) == ("L0", 3)


def test_a_level_that_is_required_is_had_or_refused(weak):
    with pytest.raises(errors.SetupError, match=r"This machine has a sandbox of level L0, not L2\. No namespaces"):
        executor.ExecutorConfig(require="L2", is_unsafe=True).open(make)


def test_a_job_that_cannot_be_made_shows_at_once_and_leaves_nothing():
    def broken():
        raise FileNotFoundError("no data here")

    with pytest.raises(errors.SetupError, match="no data here"):
        executor.ExecutorConfig(is_unsafe=True).open(broken)


@jailed
def test_the_evaluators_source_widens_the_jail_and_nothing_else_does():
    start = "import os\npid = os.fork()\nif not pid: os._exit(0)\nos.waitpid(pid, 0)\nanswer = 'forked'"
    with executor.ExecutorConfig().open(make, "import numpy\ndef evaluate(path): return 1") as narrow:
        assert "PermissionError" in (narrow.run(start).failure or "")
    with executor.ExecutorConfig().open(make, "import multiprocessing\ndef evaluate(path): return 1") as wide:
        assert wide.run(start).value == "forked"


@jailed
def test_a_folder_is_readable_only_if_the_evaluator_looks_there(tmp_path):
    tmp_path.chmod(0o755)  # a jail of root's is another user's
    (tmp_path / "data.txt").write_text("secret")
    (tmp_path / "beside.py").write_text("")
    look = f"answer = open({str(tmp_path / 'data.txt')!r}).read()"
    with executor.ExecutorConfig().open(make, "import json", str(tmp_path)) as place:
        assert place.run(look).failure is not None
    for source in ("HERE = __file__", "def evaluate(path):\n    import beside"):
        with executor.ExecutorConfig().open(make, source, str(tmp_path)) as place:
            assert place.run(look).value == "secret"


def test_variables_of_the_environment_come_by_name_with_and_without_a_jail(monkeypatch):
    monkeypatch.setenv("OTHER_NAME", "hidden")
    profile = sandbox.Permissions(env={"TASK_NUM": "7"})
    ask = "import os; answer = [os.environ.get(name) for name in ('TASK_NUM', 'OTHER_NAME')]"
    for trusted in (False, True):
        with executor.ExecutorConfig(is_unsafe=True, is_trusted=trusted, permissions=profile).open(make) as place:
            assert place.run(ask).value == ["7", None]


@jailed
@pytest.mark.skipif(os.geteuid() != 0 or sandbox.probe().needs_user, reason="an ordinary user reads what is his own")
def test_a_folder_that_root_alone_can_read_is_the_users_to_open(tmp_path):
    tmp_path.chmod(0o700)
    with pytest.raises(errors.SetupError, match=r"can be read by root alone, .*: chmod -R a\+rX "):
        executor.ExecutorConfig().open(make, "DATA = __file__", str(tmp_path))
    with pytest.raises(errors.SetupError, match="can be read by root alone"):
        executor.ExecutorConfig(permissions=sandbox.Permissions(read_paths=(str(tmp_path),))).open(make)
    tmp_path.chmod(0o755)
    with executor.ExecutorConfig().open(make, "DATA = __file__", str(tmp_path)) as place:
        assert place.run(f"import os; answer = os.listdir({str(tmp_path)!r})").value == []
