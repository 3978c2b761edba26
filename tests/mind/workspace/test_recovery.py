"""Recovery after a kill: the next process removes leftovers and finishes merges."""

import json
import os
import signal
import time
from pathlib import Path
from random import Random

import pytest

from atoll.mind import workspace
from atoll.mind.workspace import WorkspaceError
from tests import processes
from tests.mind.workspace import repositories
from tests.repetitions import choose

ROOT = Path(__file__).resolve().parents[3]
NUM_KILLS = int(os.environ.get("ATOLL_KILLS", choose(3, 5)))  # the long form: ATOLL_KILLS=30


def start(folder: Path, num_worldlines: int) -> processes.AnyProcess:
    arguments = ["-m", "tests.mind.workspace.victim", str(folder), str(num_worldlines)]
    with (folder.parent / "errors").open("wb") as errors:
        return processes.start(arguments, cwd=ROOT, stderr=errors, start_new_session=True)


def read_log(folder: Path) -> list[str]:
    log = folder.parent / "log"
    return log.read_text().splitlines() if log.exists() else []


def kill_run(victim: processes.AnyProcess, *, with_git: bool) -> None:
    """Kills a run, alone or with its git processes in the middle of a write."""
    victim.send_signal(signal.SIGSTOP)  # while it is stopped, the process ids of its children stay valid
    tasks = Path(f"/proc/{victim.pid}/task").iterdir()
    children = [int(pid) for task in tasks for pid in (task / "children").read_text().split()] if with_git else []
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    victim.kill()
    victim.wait()


@pytest.mark.chaos
@pytest.mark.timeout(60 + NUM_KILLS * 20)
def test_repeatedly_killed_run_finishes_without_leftovers(tmp_path):
    folder = repositories.make_repository(tmp_path / "project")
    num_worldlines, rng = 6 * NUM_KILLS + 6, Random(os.environ.get("ATOLL_SEED", "7"))
    moments = []
    for kill in range(NUM_KILLS):
        before = len(read_log(folder))
        victim = start(folder, num_worldlines)
        since = time.monotonic()
        num_expected = before + rng.randrange(1, 6)
        while kill % 5 and len(read_log(folder)) < num_expected and victim.poll() is None:
            time.sleep(0.002)  # most kills hit an active run, some its start, which removes leftovers
        time.sleep(rng.random() * (0.15 if kill % 5 else 1.0))
        assert victim.poll() is None, (folder.parent / "errors").read_text() or "it was over too early"
        kill_run(victim, with_git=bool(kill % 2))
        moments.append(f"{time.monotonic() - since:.2f} s: {len(read_log(folder))} lines")
    last = start(folder, num_worldlines)
    assert last.wait(timeout=300) == 0, (folder.parent / "errors").read_text()
    print(*moments, sep="\n")
    assert {f"{number} done" for number in range(num_worldlines)} <= set(read_log(folder))
    assert repositories.list_leftovers(folder) == []
    assert repositories.git(folder, "status", "--porcelain") == ""
    merges = repositories.git(folder, "log", "--merges", "--format=%s").splitlines()
    assert sorted(merges) == sorted(f"Merge worldline {number}.0" for number in range(0, num_worldlines, 3))


def make_half_merge(folder: Path) -> tuple[str, Path]:
    """Makes the state after a kill during a merge: an intent, some written files, half a file, and git's lock."""
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


def test_interrupted_merge_is_finished(tmp_path):
    new, folder = make_half_merge(repositories.make_repository(tmp_path / "project"))
    workspace.Workspace(folder, "run").close()
    assert repositories.git(folder, "rev-parse", "main").strip() == new
    assert repositories.git(folder, "status", "--porcelain") == ""
    assert (folder / "a/new.py").read_text() == "x = 1\n" * 9
    assert repositories.list_leftovers(folder) == []
    assert not (folder / ".git/atoll/run/merging.json").exists()


def test_interrupted_merge_is_finished_by_another_run(tmp_path):
    new, folder = make_half_merge(repositories.make_repository(tmp_path / "project"))
    workspace.Workspace(folder, "other").close()
    assert repositories.git(folder, "rev-parse", "main").strip() == new


def test_interrupted_merge_keeps_later_user_changes(tmp_path):
    _, folder = make_half_merge(repositories.make_repository(tmp_path / "project"))
    (folder / "sums.py").write_text("# mine\n")
    with pytest.raises(WorkspaceError, match=r"sums\.py was changed since"):
        workspace.Workspace(folder, "run")
    assert (folder / "sums.py").read_text() == "# mine\n"
    assert (folder / "a/new.py").read_text() == "x = 1\n" * 4


def test_interrupted_and_rejected_merge_is_reverted(tmp_path):
    _, folder = make_half_merge(repositories.make_repository(tmp_path / "project"))
    commit = json.loads((folder / ".git/atoll/run/merging.json").read_text())["commit"]
    ledger = workspace.Approvals(folder / ".git/atoll/run/approvals.jsonl")
    ledger.add(workspace.Approval("1.0", commit, "reject", "Reviewer"), ())
    workspace.Workspace(folder, "run").close()
    assert repositories.git(folder, "status", "--porcelain") == ""
    assert (folder / "sums.py").read_text() == repositories.BROKEN


def test_user_worktrees_on_unmounted_disk_stay(tmp_path):
    folder = repositories.make_repository(tmp_path / "project")
    repositories.git(folder, "worktree", "add", "-q", "-b", "mine", str(tmp_path / "mine"))
    (tmp_path / "mine").rename(tmp_path / "away")
    space = workspace.Workspace(folder, "run")
    space.fork("1.0")
    space.close()
    (tmp_path / "away").rename(tmp_path / "mine")
    assert repositories.git(tmp_path / "mine", "status", "--porcelain") == ""
    assert repositories.git(folder, "branch", "--list", "mine").split() == ["+", "mine"]


def test_broken_worktrees_and_stale_locks_are_removed(tmp_path):
    folder = repositories.make_repository(tmp_path / "project")
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
    before = repositories.get_state(folder)
    workspace.Workspace(folder, "run").close()
    assert repositories.list_leftovers(folder) == []
    assert repositories.get_state(folder) == before


def test_stale_shared_lock_is_removed(tmp_path):
    folder = repositories.make_repository(tmp_path / "project")
    workspace.Workspace(folder, "run").close()
    (folder / ".git/packed-refs.lock").write_text("")
    workspace.Workspace(folder, "run").close()
    assert repositories.list_leftovers(folder) == []
