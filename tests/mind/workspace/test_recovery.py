"""What a kill leaves behind, and that the next process clears it away and goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from atoll.mind import workspace
from atoll.mind.workspace import WorkspaceError
from tests.mind.workspace import repositories

ROOT = Path(__file__).resolve().parents[3]
NUM_KILLS = int(os.environ.get("ATOLL_KILLS", "5"))  # the long form: ATOLL_KILLS=30


def start(folder: Path, num_worldlines: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.mind.workspace.victim", str(folder), str(num_worldlines)]
    with (folder.parent / "errors").open("wb") as errors:
        return subprocess.Popen(command, cwd=ROOT, stderr=errors, start_new_session=True)


def lines(folder: Path) -> list[str]:
    log = folder.parent / "log"
    return log.read_text().splitlines() if log.exists() else []


def kill_it(victim: subprocess.Popen[bytes], *, with_git: bool) -> None:
    """Kills a run: alone, so that git goes on for a moment, or with git in the middle of what it writes."""
    victim.send_signal(signal.SIGSTOP)  # as long as it buries nobody, the numbers of its children are nobody else's
    tasks = Path(f"/proc/{victim.pid}/task").iterdir()
    children = [int(pid) for task in tasks for pid in (task / "children").read_text().split()] if with_git else []
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    victim.kill()
    victim.wait()


@pytest.mark.chaos
@pytest.mark.timeout(60 + NUM_KILLS * 20)
def test_a_run_that_is_killed_again_and_again_finishes_and_leaves_nothing(tmp_path):
    folder = repositories.made(tmp_path / "project")
    num_worldlines, rng = 6 * NUM_KILLS + 6, Random(os.environ.get("ATOLL_SEED", "7"))
    moments = []
    for kill in range(NUM_KILLS):
        before = len(lines(folder))
        victim = start(folder, num_worldlines)
        since = time.monotonic()
        wanted = before + rng.randrange(1, 6)
        while kill % 5 and len(lines(folder)) < wanted and victim.poll() is None:
            time.sleep(0.002)  # most kills hit a run at work, some its start, which clears away what the last one left
        time.sleep(rng.random() * (0.15 if kill % 5 else 1.0))
        assert victim.poll() is None, (folder.parent / "errors").read_text() or "it was over too early"
        kill_it(victim, with_git=bool(kill % 2))
        moments.append(f"{time.monotonic() - since:.2f} s: {len(lines(folder))} lines")
    last = start(folder, num_worldlines)
    assert last.wait(timeout=300) == 0, (folder.parent / "errors").read_text()
    print(*moments, sep="\n")
    assert {f"{number} done" for number in range(num_worldlines)} <= set(lines(folder))
    assert repositories.leftovers(folder) == []
    assert repositories.git(folder, "status", "--porcelain") == ""
    merges = repositories.git(folder, "log", "--merges", "--format=%s").splitlines()
    assert sorted(merges) == sorted(f"Merge worldline {number}.0" for number in range(0, num_worldlines, 3))


def half_merged(folder: Path) -> tuple[str, Path]:
    """Leaves what a kill leaves in the middle of a merge: an intent, some files written, one half, and git's lock."""
    space = workspace.Workspace(folder, "run")
    at = space.fork("1.0")
    files = {
        "sums.py": repositories.MENDED,
        "a/new.py": "x = 1\n" * 9,
        "b/new.py": "y = 1\n",
        "tests/__init__.py": "#\n",
    }
    commit = space.write("1.0", [at], {path: text.encode() for path, text in files.items()}, "Mend")
    space.decide("1.0", "approve", "Reviewer", commit=space.get_tip("1.0"))
    tree = space.repository.merge_trees(at, commit)
    new = space.repository.commit_tree(tree, (at, commit), "Merge worldline 1.0", "Reviewer")
    space.close()
    intent = {"branch": "refs/heads/main", "old": at, "new": new, "worldline_id": "1.0", "commit": commit}
    (folder / ".git/atoll/run/merging.json").write_text(json.dumps({**intent, "by": "Reviewer"}))
    (folder / "sums.py").write_text(repositories.MENDED)
    (folder / "a").mkdir()
    (folder / "a/new.py").write_text("x = 1\n" * 4)
    (folder / "tests/__init__.py").unlink()
    (folder / ".git/index.lock").write_text("")
    return new, folder


def test_a_merge_that_was_cut_short_is_finished(tmp_path):
    new, folder = half_merged(repositories.made(tmp_path / "project"))
    workspace.Workspace(folder, "run").close()
    assert repositories.git(folder, "rev-parse", "main").strip() == new
    assert repositories.git(folder, "status", "--porcelain") == ""
    assert (folder / "a/new.py").read_text() == "x = 1\n" * 9
    assert repositories.leftovers(folder) == []
    assert not (folder / ".git/atoll/run/merging.json").exists()


def test_another_run_finishes_it_too(tmp_path):
    new, folder = half_merged(repositories.made(tmp_path / "project"))
    workspace.Workspace(folder, "other").close()
    assert repositories.git(folder, "rev-parse", "main").strip() == new


def test_a_merge_that_was_cut_short_leaves_what_somebody_changed_since(tmp_path):
    _, folder = half_merged(repositories.made(tmp_path / "project"))
    (folder / "sums.py").write_text("# mine\n")
    with pytest.raises(WorkspaceError, match=r"sums\.py was changed since"):
        workspace.Workspace(folder, "run")
    assert (folder / "sums.py").read_text() == "# mine\n"
    assert (folder / "a/new.py").read_text() == "x = 1\n" * 4


def test_a_merge_that_was_cut_short_and_then_rejected_is_taken_back(tmp_path):
    _, folder = half_merged(repositories.made(tmp_path / "project"))
    commit = json.loads((folder / ".git/atoll/run/merging.json").read_text())["commit"]
    ledger = workspace.Approvals(folder / ".git/atoll/run/approvals.jsonl")
    ledger.add(workspace.Approval("1.0", commit, "reject", "Reviewer"), ())
    workspace.Workspace(folder, "run").close()
    assert repositories.git(folder, "status", "--porcelain") == ""
    assert (folder / "sums.py").read_text() == repositories.BROKEN


def test_worktrees_of_the_user_stay_even_if_their_disk_is_away(tmp_path):
    folder = repositories.made(tmp_path / "project")
    repositories.git(folder, "worktree", "add", "-q", "-b", "mine", str(tmp_path / "mine"))
    (tmp_path / "mine").rename(tmp_path / "away")
    space = workspace.Workspace(folder, "run")
    space.fork("1.0")
    space.close()
    (tmp_path / "away").rename(tmp_path / "mine")
    assert repositories.git(tmp_path / "mine", "status", "--porcelain") == ""
    assert repositories.git(folder, "branch", "--list", "mine").split() == ["+", "mine"]


def test_wrecks_of_worktrees_and_stale_locks_are_cleared_away(tmp_path):
    folder = repositories.made(tmp_path / "project")
    space = workspace.Workspace(folder, "run")
    space.write("1.0", [space.fork("1.0")], {"sums.py": b""}, "Empty it")
    space.repository.git("update-ref", "refs/heads/atoll/run/2.0", space.base)
    space._lock.close()  # as a kill does
    for wreck in ("atoll-run-7", "atoll-run-8"):
        (folder / ".git/worktrees" / wreck).mkdir()
    (folder / ".git/worktrees/atoll-run-8/locked").write_text("initializing")
    (folder / ".git/atoll/run/desks/atoll-run-9/deep").mkdir(parents=True)
    for lock in ("refs/heads/atoll/run/2.0.lock", "worktrees/atoll-run-1/index.lock"):
        (folder / ".git" / lock).write_text("")
    space.objects.close()
    before = repositories.look(folder)
    workspace.Workspace(folder, "run").close()
    assert repositories.leftovers(folder) == []
    assert repositories.look(folder) == before


def test_a_lock_that_everybody_uses_is_removed_only_when_nobody_lets_go_of_it(tmp_path):
    folder = repositories.made(tmp_path / "project")
    workspace.Workspace(folder, "run").close()
    (folder / ".git/packed-refs.lock").write_text("")
    workspace.Workspace(folder, "run").close()
    assert repositories.leftovers(folder) == []
