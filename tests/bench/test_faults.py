import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench import contenders, faults, trial

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are counted in /proc")


def tried(script: str, folder: Path, limit_seconds: float = 40.0, kill_at: int | None = None) -> trial.Ending:
    return trial.run(
        [sys.executable, "-c", script],
        folder=folder,
        environment=os.environ,
        limit_seconds=limit_seconds,
        progress=lambda: len(list(folder.iterdir())),
        kill_at=kill_at,
    )


def test_ending_has_status_output_and_memory(tmp_path):
    ending = tried(
        "x = b'x' * (64 << 20); import time; time.sleep(0.2); print('so far'); raise SystemExit(3)", tmp_path
    )
    assert (ending.status, ending.output, ending.was_late, ending.left_over) == (3, "so far\n", False, 0)
    assert ending.peak_mb > 64
    assert ending.cpu_seconds > 0


def test_hanging_command_is_killed_with_its_children(tmp_path):
    script = "import subprocess; subprocess.run(['sleep', '60'])"
    ending = tried(script, tmp_path, limit_seconds=0.5)
    assert (ending.status, ending.was_late, ending.left_over) == (-9, True, 0)
    assert ending.quiet_seconds > 0.4


def test_children_of_a_killed_command_are_ended(tmp_path):
    script = (
        "import pathlib, subprocess; p = subprocess.Popen(['sleep', '60']); pathlib.Path(str(p.pid)).touch(); p.wait()"
    )
    since = time.monotonic()
    ending = tried(script, tmp_path, kill_at=1)
    assert (ending.status, ending.was_late, ending.left_over) == (-9, False, 1)
    assert time.monotonic() - since < 50
    (child,) = (int(path.name) for path in tmp_path.iterdir())
    assert not Path(f"/proc/{child}").exists()


@pytest.mark.parametrize("case", faults.CASES, ids=lambda case: case.name)
def test_only_selected_responses_have_the_fault(case):
    author = faults.Author(case)
    replies = {number: author("", number - 1) for number in range(1, 31)}
    bad = {number for number, text in replies.items() if "GUESS" not in text or (case.planted and case.planted in text)}
    assert bad == (set() if case.treated else author.bad)
    assert contenders.numbers(replies[each] for each in replies if each not in author.bad) == author.good.keys() - {0}
    assert len({text for number, text in replies.items() if number not in author.bad}) == len(author.good) - 1


def evidence(best: int | None, judged: frozenset[int]) -> contenders.Evidence:
    return contenders.Evidence(3, judged, judged, 0, best, [])


def test_best_is_correct_if_no_evaluated_program_is_better():
    good: Mapping[int, float] = {0: 0.1, 1: 0.9, 2: 0.5}
    assert faults.best(good, evidence(1, frozenset({0, 1, 2}))) == "right"
    assert faults.best(good, evidence(2, frozenset({0, 2}))) == "right"
    assert faults.best(good, evidence(2, frozenset({0, 1, 2}))) == "wrong"
    assert faults.best(good, evidence(7, frozenset({0}))) == "wrong"
    assert faults.best(good, evidence(None, frozenset({0}))) == "none on disk"


def finding(**changes: object) -> faults.Finding:
    same = {"ended": "completed", "exit_status": 0, "wall_seconds": 10.0, "cpu_seconds": 4.0, "iterations": 40}
    same |= {
        "good": 37,
        "not_evaluated": 0,
        "not_on_disk": 0,
        "passed": 0,
        "best": "right",
        "requests": 40,
        "peak_mb": 9,
        "left_over": 0,
        "messages": [],
    }
    return faults.Finding(**same | changes)  # type: ignore[arg-type]


def test_verdict_names_where_atoll_is_worse():
    assert faults.verdict(finding(), finding()) == "the same"
    assert faults.verdict(finding(), finding(ended="hung, killed", not_on_disk=3)) == "better: completes, on disk"
    assert faults.verdict(finding(wall_seconds=12.0), finding(cpu_seconds=6.0, peak_mb=900)) == (
        "better: memory limit, CPU time"
    )
    assert faults.verdict(finding(wall_seconds=13.0), finding()) == "WORSE: wall time"
    assert faults.verdict(finding(wall_seconds=13.0), finding(ended="ended early, exit 3")) == "better: completes"
    assert faults.verdict(finding(left_over=2), finding(best="wrong")) == "better: best; WORSE: processes left"


LOG = """2026-11-15 05:00:00,000 - INFO - Evaluated program 3f2a in 0.00s: combined_score=0.9000, number=7.0000
2026-11-15 05:00:00,000 - INFO - Iteration 7: Program 3f2a (parent: 1) completed in 0.01s
2026-11-15 05:00:00,000 - INFO - Evaluated program 3f2b in 0.00s: combined_score=nan, number=10.0000
2026-11-15 05:00:00,000 - WARNING - Iteration 8 error: No valid code found in response
"""


def test_peer_results_are_read_from_log_and_checkpoints(tmp_path):
    programs = tmp_path / "out" / "checkpoints" / "checkpoint_10" / "programs"
    programs.mkdir(parents=True)
    (programs / "a.json").write_text('{"code": "NUMBER = 7\\n"}')
    (programs / "b.json").write_text('{"code": "I am sorry"}')
    (programs.parent / "best_program.py").write_text("NUMBER = 3\n")
    peer = object.__new__(contenders.OpenEvolve)  # without looking for its version: it need not be installed
    found = peer.evidence(tmp_path, LOG)
    assert (found.iterations, found.evaluated, found.on_disk) == (2, frozenset({7, 10}), frozenset({3, 7}))
    assert (found.not_programs, found.best) == (1, 3)
    assert found.messages == ["1 x Iteration N error: No valid code found in response"]
    assert peer.resume(tmp_path, "url", 40, 2)[-1].endswith("checkpoint_10")
    assert "30" in peer.resume(tmp_path, "url", 40, 2)
