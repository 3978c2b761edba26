"""Sandbox levels, of this machine and of injected probes."""

import json
import os
import platform
import subprocess
import sys

import pytest

from atoll import errors, sandbox
from atoll.sandbox import IsolatedSandbox, Limits, Probe, ProcessSandbox, describe_missing, get_level, levels
from tests.sandbox.helpers import make_program_job, run_program

NO = "unshare: Operation not permitted"
ALL = Probe(landlock_abi=7)


@pytest.mark.parametrize(
    ("probed", "level"),
    [
        (ALL, "L3"),
        (Probe(needs_user=True, landlock_abi=1), "L3"),
        (Probe(namespaces=NO, landlock_abi=4), "L2"),
        (Probe(landlock="it is off"), "L1"),
        (Probe(namespaces=NO, landlock="it is off"), "L1"),
        (Probe(seccomp="it is off", landlock_abi=7), "L1"),
        (Probe(NO, False, NO, 0, NO, ""), "L1"),
        (Probe(NO, False, NO, 0, NO, "no pidfd"), "L0"),
        (Probe(forks="no pidfd", landlock_abi=7), "L0"),
    ],
)
def test_level_needs_all_its_features(probed, level):
    assert get_level(probed) == level
    assert len(describe_missing(probed)) == sum(
        map(bool, (probed.namespaces, probed.landlock, probed.seccomp, probed.forks))
    )


def test_package_that_only_pythonpath_finds_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(levels, "_PROBE_SCRIPT", "import found_by_pythonpath")
    (tmp_path / "found_by_pythonpath.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (sentence,) = describe_missing(levels.probe.__wrapped__())
    assert "No module named 'found_by_pythonpath'. Sandboxes do not read PYTHONPATH" in sentence


def test_missing_features_are_described_with_a_remedy():
    [message] = describe_missing(Probe(namespaces=NO, advice="run `sudo sysctl -w kernel.unprivileged_userns_clone=1`"))
    assert message == f"No namespaces ({NO}): for L3, run `sudo sysctl -w kernel.unprivileged_userns_clone=1`."
    assert "lsm=" in describe_missing(Probe(landlock="it is off"))[0]
    assert "CONFIG_SECCOMP_FILTER" in describe_missing(Probe(seccomp="it is off"))[0]


@pytest.mark.parametrize("probed", [Probe(namespaces=NO, landlock_abi=7), Probe(landlock=NO), Probe(forks=NO)])
def test_required_level_above_the_machine_fails(probed):
    with pytest.raises(errors.SetupError, match=f"This machine has sandbox level {get_level(probed)}, not L3. No "):
        sandbox.open(make_program_job, require="L3", unsafe=True, probe_result=probed)


def test_unknown_level_is_named():
    with pytest.raises(errors.SetupError, match=r"Sandbox level 'L9' does not exist. Use one of L0, L1, L2, L3"):
        sandbox.open(make_program_job, require="L9")


def test_machine_without_sandbox_needs_unsafe():
    probed = Probe(NO, False, NO, 0, NO, "no pidfd")
    with pytest.raises(errors.SetupError, match="--unsafe"):
        sandbox.open(make_program_job, probe_result=probed)
    with sandbox.open(make_program_job, unsafe=True, probe_result=probed) as box:
        assert isinstance(box, ProcessSandbox)
        assert box.level == "L0"


def test_isolated_sandbox_rejects_levels_above_the_machine():
    with pytest.raises(errors.SetupError, match="has sandbox level L2, not L3"):
        IsolatedSandbox(make_program_job, level="L3", probe_result=Probe(namespaces=NO, landlock_abi=7))
    with pytest.raises(errors.SetupError, match="L0 is not isolated"):
        IsolatedSandbox(make_program_job, level="L0")


def test_isolated_sandbox_has_the_level_of_the_machine(monkeypatch):
    if get_level(sandbox.probe()) != "L3":
        pytest.skip(" ".join(describe_missing(sandbox.probe())))
    for probed in (Probe(namespaces=NO, landlock_abi=7), Probe(landlock=NO, landlock_abi=0)):
        with sandbox.open(make_program_job, Limits(seconds=20), probe_result=probed) as box:
            assert box.level == get_level(probed)
            assert run_program(box, "answer = 7") == 7
            assert "does not allow it" in str(box.run("import socket; socket.socket()").failure)
    with sandbox.open(make_program_job, Limits(seconds=20), probe_result=Probe(NO, False, NO, 0, NO)) as box:
        assert box.level == "L1"
        assert run_program(box, "import os; answer = os.waitpid(os.fork() or os._exit(3), 0)[1] >> 8") == 3
        assert run_program(box, "answer = 7") == 7


def test_isolated_sandbox_fails_if_level_cannot_be_entered():
    if os.geteuid() != 0 or get_level(sandbox.probe()) != "L3":
        pytest.skip("needs root")
    code = """
import os
from atoll import errors, sandbox
from atoll.sandbox import Probe
os.setresuid(1000, 1000, 1000)
try:
    sandbox.IsolatedSandbox(lambda: print, level="L3", probe_result=Probe(landlock_abi=7)).warm()
except errors.SetupError as error:
    print(error)
"""
    # The injected probe says that no user namespace is needed, which is wrong for this user.
    from tests.sandbox import unprivileged

    result = subprocess.run(
        [sys.executable, "-m", "tests.sandbox.unprivileged", "-c", code],
        cwd=unprivileged.ROOT,
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "sandbox level L3 cannot be entered: unshare: Operation not permitted" in result.stdout, result


def test_probe_is_plain_data_and_cached():
    probed = sandbox.probe()
    assert Probe(**json.loads(json.dumps(levels.to_data(probed)))) == probed
    assert sandbox.probe() is probed
    assert sorted(levels.LEVELS) == ["L0", "L1", "L2", "L3"]


def test_level_is_l0_outside_linux(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert get_level(levels.probe.__wrapped__()) == "L0"


def test_level_is_l0_if_the_probe_fails(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert get_level(levels.probe.__wrapped__()) == "L0"


@pytest.mark.skipif(platform.system() != "Linux", reason="Linux only")
def test_job_that_starts_threads_is_rejected():
    def make():
        import threading
        import time

        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        return print

    if get_level(sandbox.probe()) == "L0":
        pytest.skip("needs a sandbox")
    with IsolatedSandbox(make) as box, pytest.raises(errors.SetupError, match="it started 1 threads"):
        box.warm()
