"""How strong a sandbox this machine has: tried here, and told by injected probes where machines differ."""

import json
import os
import platform
import subprocess
import sys

import pytest

from atoll import errors, sandbox
from atoll.sandbox import IsolatedSandbox, Limits, Probe, ProcessSandbox, describe_missing, get_level, levels
from tests.sandbox.boxes import programs, value

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
def test_a_level_needs_everything_that_it_promises(probed, level):
    assert get_level(probed) == level
    assert len(describe_missing(probed)) == sum(
        map(bool, (probed.namespaces, probed.landlock, probed.seccomp, probed.forks))
    )


def test_what_is_missing_is_told_with_the_way_to_get_it():
    [said] = describe_missing(Probe(namespaces=NO, advice="run `sudo sysctl -w kernel.unprivileged_userns_clone=1`"))
    assert said == f"No namespaces ({NO}): for L3, run `sudo sysctl -w kernel.unprivileged_userns_clone=1`."
    assert "lsm=" in describe_missing(Probe(landlock="it is off"))[0]
    assert "CONFIG_SECCOMP_FILTER" in describe_missing(Probe(seccomp="it is off"))[0]


@pytest.mark.parametrize("probed", [Probe(namespaces=NO, landlock_abi=7), Probe(landlock=NO), Probe(forks=NO)])
def test_who_requires_more_than_there_is_fails_in_one_message(probed):
    with pytest.raises(
        errors.SetupError, match=f"This machine has a sandbox of level {get_level(probed)}, not L3. No "
    ):
        sandbox.open(programs, require="L3", unsafe=True, probe_result=probed)


def test_a_level_that_does_not_exist_is_named():
    with pytest.raises(errors.SetupError, match="no sandbox level 'L9': the levels are L0, L1, L2, L3"):
        sandbox.open(programs, require="L9")


def test_without_a_jail_nothing_runs_unless_the_user_allows_it():
    probed = Probe(NO, False, NO, 0, NO, "no pidfd")
    with pytest.raises(errors.SetupError, match="--unsafe"):
        sandbox.open(programs, probe_result=probed)
    with sandbox.open(programs, unsafe=True, probe_result=probed) as box:
        assert isinstance(box, ProcessSandbox)
        assert box.level == "L0"


def test_no_jail_is_stronger_than_its_machine():
    with pytest.raises(errors.SetupError, match="has a sandbox of level L2, not L3"):
        IsolatedSandbox(programs, level="L3", probe_result=Probe(namespaces=NO, landlock_abi=7))
    with pytest.raises(errors.SetupError, match="L0 is no jail"):
        IsolatedSandbox(programs, level="L0")


def test_a_jail_is_as_strong_as_its_machine(monkeypatch):
    if get_level(sandbox.probe()) != "L3":
        pytest.skip(" ".join(describe_missing(sandbox.probe())))
    for probed in (Probe(namespaces=NO, landlock_abi=7), Probe(landlock=NO, landlock_abi=0)):
        with sandbox.open(programs, Limits(seconds=20), probe_result=probed) as box:
            assert box.level == get_level(probed)
            assert value(box, "answer = 7") == 7
            assert "forbids" in str(box.run("import socket; socket.socket()").failure)
    with sandbox.open(programs, Limits(seconds=20), probe_result=Probe(NO, False, NO, 0, NO)) as box:
        assert box.level == "L1"
        assert value(box, "import os; answer = os.waitpid(os.fork() or os._exit(3), 0)[1] >> 8") == 3
        assert value(box, "answer = 7") == 7


def test_a_jail_whose_level_cannot_be_entered_after_all_does_not_start():
    if os.geteuid() != 0 or get_level(sandbox.probe()) != "L3":
        pytest.skip("needs root")
    code = """
import os
from atoll import errors, sandbox
from atoll.sandbox import Probe
os.setresuid(1000, 1000, 1000)
try:
    sandbox.Jail(lambda: print, level="L3", probed=Probe(landlock_abi=7)).warm()
except errors.SetupError as error:
    print(error)
"""
    # The probe says that no user namespace is needed, which is wrong for this user.
    from tests.sandbox import ordinary

    found = subprocess.run(
        [sys.executable, "-m", "tests.sandbox.ordinary", "-c", code],
        cwd=ordinary.ROOT,
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "the jail L3 cannot be entered: unshare: Operation not permitted" in found.stdout, found


def test_the_probe_is_plain_data_and_agrees_with_itself():
    probed = sandbox.probe()
    assert Probe(**json.loads(json.dumps(levels.to_data(probed)))) == probed
    assert sandbox.probe() is probed
    assert sorted(levels.LEVELS) == ["L0", "L1", "L2", "L3"]


def test_elsewhere_than_on_linux_there_is_no_jail(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert get_level(levels.probe.__wrapped__()) == "L0"


def test_a_probe_that_cannot_run_finds_nothing(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert get_level(levels.probe.__wrapped__()) == "L0"


@pytest.mark.skipif(platform.system() != "Linux", reason="Linux only")
def test_a_job_that_leaves_threads_behind_is_refused():
    def make():
        import threading
        import time

        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        return print

    if get_level(sandbox.probe()) == "L0":
        pytest.skip("no jail")
    with IsolatedSandbox(make) as box, pytest.raises(errors.SetupError, match="it started 1 threads"):
        box.warm()
