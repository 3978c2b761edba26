"""Workspaces: forks, approvals and merges."""

from pathlib import Path

import pytest

from atoll import errors
from atoll.mind import workspace
from atoll.mind.workspace import WorkspaceError
from tests.mind.workspace import repositories


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return repositories.make_repository(tmp_path / "project")


def open_workspace(folder: Path, **options) -> workspace.Workspace:
    return workspace.Workspace(folder, "run", **options)


def write_repair(space: workspace.Workspace, worldline_id: str = "1.0") -> str:
    at = space.fork(worldline_id)
    return space.write(worldline_id, [at], {"sums.py": repositories.MENDED.encode()}, "Add what is to be added")


def test_worldline_has_worktree_and_branch(folder):
    space = open_workspace(folder)
    commit = write_repair(space)
    with space.checkout("1.0", commit) as worktree:
        assert (worktree / "sums.py").read_text() == repositories.MENDED
        assert repositories.git(worktree, "symbolic-ref", "HEAD").strip() == "refs/heads/atoll/run/1.0"
        assert repositories.git(worktree, "rev-parse", "HEAD").strip() == commit
        assert repositories.git(worktree, "status", "--porcelain") == ""
    space.close()


def test_worldlines_do_not_change_main_worktree(folder):
    before = repositories.get_state(folder)
    space = open_workspace(folder)
    for number in range(3):
        write_repair(space, f"1.{number}")
        space.discard(f"1.{number}")
    assert repositories.get_state(folder) == before
    space.close()
    assert repositories.get_state(folder) == before
    assert repositories.list_leftovers(folder) == []
    assert repositories.git(folder, "for-each-ref", "refs/atoll") == ""


def test_archive_keeps_commit_and_releases_worktree(folder):  # spec 1.5, hole 5
    space = open_workspace(folder)
    commit = write_repair(space)
    space.archive("1.0")
    assert "branch refs/heads/atoll" not in repositories.git(folder, "worktree", "list", "--porcelain")
    assert space.get_tip("1.0") == commit
    space.fork("2.0", commit)
    assert space.numstat("2.0") == [workspace.repository.FileChange("sums.py", 1, 1)]
    space.close()
    assert repositories.list_leftovers(folder) == []


def test_worldlines_share_worktrees(folder):
    space = open_workspace(folder, num_worktrees=1)
    commits = {name: write_repair(space, name) for name in ("1.0", "2.0", "3.0")}
    assert len(repositories.git(folder, "worktree", "list").splitlines()) == 2
    with space.checkout("1.0", commits["1.0"]) as first:
        pass
    with space.checkout("2.0", commits["2.0"]) as second:
        assert second == first
    assert {name: space.get_tip(name) for name in commits} == commits
    space.close()
    assert repositories.list_leftovers(folder) == []


def test_without_worktrees_worldlines_are_commits(folder):
    space = open_workspace(folder, num_worktrees=0)
    commit = write_repair(space)
    assert not space.has_worktrees
    assert repositories.git(folder, "show", f"{commit}:sums.py") == repositories.MENDED
    space.close()
    assert repositories.list_leftovers(folder) == []


def test_same_worldline_gives_same_commit(folder):
    commits = set()
    for _ in range(2):
        space = open_workspace(folder)
        commits.add(write_repair(space))
        space.discard("1.0")
        space.close()
    assert len(commits) == 1


def test_merge_requires_approval(folder):  # A19
    space = open_workspace(folder)
    write_repair(space)
    before = repositories.get_state(folder)
    with pytest.raises(WorkspaceError, match="not approved"):
        space.merge("1.0")
    assert repositories.get_state(folder) == before
    space.close()


def test_approved_merge_has_two_parents(folder):  # A19
    space = open_workspace(folder)
    head, commit = space.repository.get_head().commit, write_repair(space)
    space.decide("1.0", "approve", "Reviewer", "it adds", commit=space.get_tip("1.0"))
    merge = space.merge("1.0")
    assert repositories.git(folder, "rev-parse", "HEAD^1", "HEAD^2").split() == [head, commit]
    assert repositories.git(folder, "rev-parse", "main").strip() == merge
    assert "Approved-by: Reviewer" in repositories.git(folder, "log", "-1", "--format=%B")
    assert (folder / "sums.py").read_text() == repositories.MENDED
    assert repositories.git(folder, "status", "--porcelain") == ""
    space.close()
    assert repositories.list_leftovers(folder) == []


def test_edit_invalidates_approval(folder):  # A19
    space = open_workspace(folder)
    commit = write_repair(space)
    space.decide("1.0", "approve", "Reviewer", commit=space.get_tip("1.0"))
    space.write("1.0", [commit], {"more.py": b"import os\n"}, "Slip something in")
    with pytest.raises(WorkspaceError, match="ends with any edit"):
        space.merge("1.0")
    space.close()


def test_moved_branch_is_not_approved(folder):
    space = open_workspace(folder)
    commit = write_repair(space)
    space.decide("1.0", "approve", "Reviewer", commit=space.get_tip("1.0"))
    tree = repositories.git(folder, "rev-parse", f"{commit}^{{tree}}").strip()
    other = repositories.git(folder, "commit-tree", tree, "-p", commit, "-m", "same files").strip()
    repositories.git(folder, "update-ref", "refs/heads/atoll/run/1.0", other)
    with pytest.raises(WorkspaceError, match="not approved"):
        space.merge("1.0")
    space.close()


def test_rejection_revokes_approval(folder):
    space = open_workspace(folder)
    write_repair(space)
    space.decide("1.0", "approve", "Reviewer", commit=space.get_tip("1.0"))
    space.decide("1.0", "reject", "Reviewer", "on second thought", commit=space.get_tip("1.0"))
    with pytest.raises(WorkspaceError, match="not approved"):
        space.merge("1.0")
    space.close()


ALIKE = ["At\u200boll", "\uff21toll", "\u0410toll", "Atoll\ufe0f", "A\u0301toll"]
INVALID_NAMES = ["", "  ", "\u200b", "Ann\nApproved-by: Bob"]


@pytest.mark.parametrize("by", ["Atoll", " atoll", "ATOLL ", *ALIKE, *INVALID_NAMES])
def test_authors_and_invalid_names_cannot_approve(folder, by):  # A19
    space = open_workspace(folder)
    write_repair(space)
    with pytest.raises(WorkspaceError, match=r"cannot approve it|needs a name"):
        space.decide("1.0", "approve", by, commit=space.get_tip("1.0"))
    assert not list(space.approvals)
    space.close()


def test_ambiguous_author_name_is_rejected(folder):
    with pytest.raises(errors.SetupError, match="one of them"):
        workspace.Workspace(folder, "run", author="\u0410toll")


def test_decide_rejects_outdated_commit(folder):
    space = open_workspace(folder)
    reviewed = write_repair(space)
    space.write("1.0", [reviewed], {"more.py": b"import os\n"}, "Slip something in")
    with pytest.raises(WorkspaceError, match="Review the current commit"):
        space.decide("1.0", "approve", "Reviewer", commit=reviewed)
    assert not list(space.approvals)
    space.close()


def test_forged_approval_of_author_does_not_count(folder):
    space = open_workspace(folder)
    commit = write_repair(space)
    forged = workspace.Approval("1.0", commit, "approve", "atoll")
    space.approvals.add(forged, ())
    with pytest.raises(WorkspaceError, match="cannot approve it"):
        space.merge("1.0")
    space.close()


def test_approval_persists_across_processes(folder):
    space = open_workspace(folder)
    write_repair(space)
    space.decide("1.0", "approve", "Reviewer", commit=space.get_tip("1.0"))
    space.close()
    space = open_workspace(folder)
    space.merge("1.0")
    space.close()
    assert (folder / "sums.py").read_text() == repositories.MENDED


def test_merge_rejects_uncommitted_changes(folder):
    space = open_workspace(folder)
    write_repair(space)
    space.decide("1.0", "approve", "Reviewer", commit=space.get_tip("1.0"))
    (folder / "sums.py").write_text("# mine\n")
    before = repositories.get_state(folder)
    with pytest.raises(WorkspaceError, match=r"uncommitted changes \(sums.py\)"):
        space.merge("1.0")
    assert repositories.get_state(folder) == before
    space.close()


def test_merge_rejects_overwriting_untracked_file(folder):
    space = open_workspace(folder)
    at = space.fork("1.0")
    space.write("1.0", [at], {"new.py": b"x = 1\n"}, "Add a file")
    space.decide("1.0", "approve", "Reviewer", commit=space.get_tip("1.0"))
    (folder / "new.py").write_text("mine\n")
    with pytest.raises(WorkspaceError, match=r"new\.py"):
        space.merge("1.0")
    assert (folder / "new.py").read_text() == "mine\n"
    space.close()
    open_workspace(folder, uncommitted="ignore").close()


def test_merge_rejects_conflict_with_head(folder):
    space = open_workspace(folder)
    write_repair(space)
    space.decide("1.0", "approve", "Reviewer", commit=space.get_tip("1.0"))
    (folder / "sums.py").write_text(repositories.BROKEN.replace("a - b", "a * b"))
    repositories.git(folder, "commit", "-qam", "Differ")
    with pytest.raises(WorkspaceError, match=r"both changed sums\.py"):
        space.merge("1.0")
    assert repositories.git(folder, "status", "--porcelain") == ""
    space.close()


def test_merge_into_newer_head_keeps_both_changes(folder):
    space = open_workspace(folder)
    write_repair(space)
    space.decide("1.0", "approve", "Reviewer", commit=space.get_tip("1.0"))
    (folder / "other.py").write_text("x = 1\n")
    repositories.git(folder, "add", "other.py")
    repositories.git(folder, "commit", "-qm", "Continue")
    space.merge("1.0")
    assert (folder / "sums.py").read_text() == repositories.MENDED
    assert (folder / "other.py").exists()
    space.close()


def test_uncommitted_changes_are_never_modified(folder):
    (folder / "sums.py").write_text("# changed\n")
    (folder / "fresh.py").write_text("# fresh\n")
    before = repositories.get_state(folder)
    with pytest.raises(WorkspaceError, match=r"task\.uncommitted"):
        open_workspace(folder)
    space = open_workspace(folder, uncommitted="ignore")
    assert space.base == space.repository.get_head().commit
    space.close()
    space = open_workspace(folder, uncommitted="include")
    assert repositories.git(folder, "show", f"{space.base}:sums.py") == "# changed\n"
    assert repositories.git(folder, "show", f"{space.base}:fresh.py") == "# fresh\n"
    space.close()
    assert repositories.get_state(folder) == before


def test_run_is_locked_by_one_process(folder):
    space = open_workspace(folder)
    with pytest.raises(WorkspaceError, match="Another process works on the run"):
        open_workspace(folder, lock_timeout_seconds=0.05)
    other = workspace.Workspace(folder, "other")
    assert space.get_tip(write_repair_id(space)) == space.get_tip("1.0")
    other.close()
    space.close()


def write_repair_id(space: workspace.Workspace) -> str:
    write_repair(space)
    return "1.0"


def test_fork_rejects_existing_id(folder):
    space = open_workspace(folder)
    space.fork("1.0")
    with pytest.raises(WorkspaceError, match="already"):
        space.fork("1.0")
    space.close()
