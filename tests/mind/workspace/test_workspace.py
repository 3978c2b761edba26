"""A run's worldlines in a repository: nothing reaches the main worktree without an approval."""

from pathlib import Path

import pytest

from atoll import errors
from atoll.mind import workspace
from atoll.mind.workspace import WorkspaceError
from tests.mind.workspace import repositories


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return repositories.made(tmp_path / "project")


def opened(folder: Path, **options) -> workspace.Workspace:
    return workspace.Workspace(folder, "run", **options)


def mended(space: workspace.Workspace, worldline_id: str = "1.0") -> str:
    at = space.fork(worldline_id)
    return space.write(worldline_id, [at], {"sums.py": repositories.MENDED.encode()}, "Add what is to be added")


def test_a_worldline_is_a_worktree_on_a_branch_of_its_own(folder):
    space = opened(folder)
    commit = mended(space)
    with space.checkout("1.0", commit) as desk:
        assert (desk / "sums.py").read_text() == repositories.MENDED
        assert repositories.git(desk, "symbolic-ref", "HEAD").strip() == "refs/heads/atoll/run/1.0"
        assert repositories.git(desk, "rev-parse", "HEAD").strip() == commit
        assert repositories.git(desk, "status", "--porcelain") == ""
    space.close()


def test_worldlines_change_nothing_in_the_main_worktree(folder):
    before = repositories.look(folder)
    space = opened(folder)
    for number in range(3):
        mended(space, f"1.{number}")
        space.discard(f"1.{number}")
    assert repositories.look(folder) == before
    space.close()
    assert repositories.look(folder) == before
    assert repositories.leftovers(folder) == []
    assert repositories.git(folder, "for-each-ref", "refs/atoll") == ""


def test_an_archived_worldline_keeps_its_commit_and_gives_its_worktree_back(folder):  # spec 1.5, hole 5
    space = opened(folder)
    commit = mended(space)
    space.archive("1.0")
    assert "branch refs/heads/atoll" not in repositories.git(folder, "worktree", "list", "--porcelain")
    assert space.get_tip("1.0") == commit
    space.fork("2.0", commit)
    assert space.numstat("2.0") == [workspace.repository.FileChange("sums.py", 1, 1)]
    space.close()
    assert repositories.leftovers(folder) == []


def test_more_worldlines_than_desks_take_turns(folder):
    space = opened(folder, num_worktrees=1)
    commits = {name: mended(space, name) for name in ("1.0", "2.0", "3.0")}
    assert len(repositories.git(folder, "worktree", "list").splitlines()) == 2
    with space.checkout("1.0", commits["1.0"]) as first:
        pass
    with space.checkout("2.0", commits["2.0"]) as second:
        assert second == first
    assert {name: space.get_tip(name) for name in commits} == commits
    space.close()
    assert repositories.leftovers(folder) == []


def test_without_desks_worldlines_are_commits_alone(folder):
    space = opened(folder, num_worktrees=0)
    commit = mended(space)
    assert not space.has_worktrees
    assert repositories.git(folder, "show", f"{commit}:sums.py") == repositories.MENDED
    space.close()
    assert repositories.leftovers(folder) == []


def test_the_same_worldline_made_twice_is_one_commit(folder):
    commits = set()
    for _ in range(2):
        space = opened(folder)
        commits.add(mended(space))
        space.discard("1.0")
        space.close()
    assert len(commits) == 1


def test_a_merge_without_an_approval_is_impossible(folder):  # A19
    space = opened(folder)
    mended(space)
    before = repositories.look(folder)
    with pytest.raises(WorkspaceError, match="not approved"):
        space.merge("1.0")
    assert repositories.look(folder) == before
    space.close()


def test_an_approved_worldline_is_merged_with_two_parents(folder):  # A19
    space = opened(folder)
    head, commit = space.repository.get_head().commit, mended(space)
    space.decide("1.0", "approve", "Reviewer", "it adds", commit=space.get_tip("1.0"))
    merge = space.merge("1.0")
    assert repositories.git(folder, "rev-parse", "HEAD^1", "HEAD^2").split() == [head, commit]
    assert repositories.git(folder, "rev-parse", "main").strip() == merge
    assert "Approved-by: Reviewer" in repositories.git(folder, "log", "-1", "--format=%B")
    assert (folder / "sums.py").read_text() == repositories.MENDED
    assert repositories.git(folder, "status", "--porcelain") == ""
    space.close()
    assert repositories.leftovers(folder) == []


def test_an_edit_after_the_approval_ends_it(folder):  # A19
    space = opened(folder)
    commit = mended(space)
    space.decide("1.0", "approve", "Reviewer", commit=space.get_tip("1.0"))
    space.write("1.0", [commit], {"more.py": b"import os\n"}, "Slip something in")
    with pytest.raises(WorkspaceError, match="ends with any edit"):
        space.merge("1.0")
    space.close()


def test_a_branch_that_somebody_moved_is_not_approved_either(folder):
    space = opened(folder)
    commit = mended(space)
    space.decide("1.0", "approve", "Reviewer", commit=space.get_tip("1.0"))
    tree = repositories.git(folder, "rev-parse", f"{commit}^{{tree}}").strip()
    other = repositories.git(folder, "commit-tree", tree, "-p", commit, "-m", "same files").strip()
    repositories.git(folder, "update-ref", "refs/heads/atoll/run/1.0", other)
    with pytest.raises(WorkspaceError, match="not approved"):
        space.merge("1.0")
    space.close()


def test_a_rejection_takes_an_approval_back(folder):
    space = opened(folder)
    mended(space)
    space.decide("1.0", "approve", "Reviewer", commit=space.get_tip("1.0"))
    space.decide("1.0", "reject", "Reviewer", "on second thought", commit=space.get_tip("1.0"))
    with pytest.raises(WorkspaceError, match="not approved"):
        space.merge("1.0")
    space.close()


ALIKE = ["At\u200boll", "\uff21toll", "\u0410toll", "Atoll\ufe0f", "A\u0301toll"]
NOBODY = ["", "  ", "\u200b", "Ann\nApproved-by: Bob"]


@pytest.mark.parametrize("by", ["Atoll", " atoll", "ATOLL ", *ALIKE, *NOBODY])
def test_who_wrote_it_cannot_approve_it_and_nobody_cannot_either(folder, by):  # A19
    space = opened(folder)
    mended(space)
    with pytest.raises(WorkspaceError, match=r"cannot approve it|by name"):
        space.decide("1.0", "approve", by, commit=space.get_tip("1.0"))
    assert not list(space.approvals)
    space.close()


def test_who_writes_worldlines_has_a_name_that_can_be_compared(folder):
    with pytest.raises(errors.SetupError, match="one of them"):
        workspace.Workspace(folder, "run", author="\u0410toll")


def test_what_came_after_the_look_is_not_approved(folder):
    space = opened(folder)
    seen = mended(space)
    space.write("1.0", [seen], {"more.py": b"import os\n"}, "Slip something in")
    with pytest.raises(WorkspaceError, match="look at it as it is now"):
        space.decide("1.0", "approve", "Reviewer", commit=seen)
    assert not list(space.approvals)
    space.close()


def test_an_approval_that_its_author_wrote_into_the_file_does_not_count(folder):
    space = opened(folder)
    commit = mended(space)
    forged = workspace.Approval("1.0", commit, "approve", "atoll")
    space.approvals.add(forged, ())
    with pytest.raises(WorkspaceError, match="cannot approve it"):
        space.merge("1.0")
    space.close()


def test_an_approval_outlives_the_process(folder):
    space = opened(folder)
    mended(space)
    space.decide("1.0", "approve", "Reviewer", commit=space.get_tip("1.0"))
    space.close()
    space = opened(folder)
    space.merge("1.0")
    space.close()
    assert (folder / "sums.py").read_text() == repositories.MENDED


def test_a_merge_into_uncommitted_changes_is_refused(folder):
    space = opened(folder)
    mended(space)
    space.decide("1.0", "approve", "Reviewer", commit=space.get_tip("1.0"))
    (folder / "sums.py").write_text("# mine\n")
    before = repositories.look(folder)
    with pytest.raises(WorkspaceError, match=r"uncommitted changes \(sums.py\)"):
        space.merge("1.0")
    assert repositories.look(folder) == before
    space.close()


def test_a_merge_over_an_untracked_file_is_refused(folder):
    space = opened(folder)
    at = space.fork("1.0")
    space.write("1.0", [at], {"new.py": b"x = 1\n"}, "Add a file")
    space.decide("1.0", "approve", "Reviewer", commit=space.get_tip("1.0"))
    (folder / "new.py").write_text("mine\n")
    with pytest.raises(WorkspaceError, match=r"new\.py"):
        space.merge("1.0")
    assert (folder / "new.py").read_text() == "mine\n"
    space.close()
    opened(folder, uncommitted="ignore").close()


def test_a_merge_that_contradicts_the_head_is_refused(folder):
    space = opened(folder)
    mended(space)
    space.decide("1.0", "approve", "Reviewer", commit=space.get_tip("1.0"))
    (folder / "sums.py").write_text(repositories.BROKEN.replace("a - b", "a * b"))
    repositories.git(folder, "commit", "-qam", "Differ")
    with pytest.raises(WorkspaceError, match=r"both changed sums\.py"):
        space.merge("1.0")
    assert repositories.git(folder, "status", "--porcelain") == ""
    space.close()


def test_a_head_that_moved_on_gets_a_real_merge(folder):
    space = opened(folder)
    mended(space)
    space.decide("1.0", "approve", "Reviewer", commit=space.get_tip("1.0"))
    (folder / "other.py").write_text("x = 1\n")
    repositories.git(folder, "add", "other.py")
    repositories.git(folder, "commit", "-qm", "Go on")
    space.merge("1.0")
    assert (folder / "sums.py").read_text() == repositories.MENDED
    assert (folder / "other.py").exists()
    space.close()


def test_uncommitted_changes_are_refused_or_ignored_or_taken_along_and_never_touched(folder):
    (folder / "sums.py").write_text("# changed\n")
    (folder / "fresh.py").write_text("# fresh\n")
    before = repositories.look(folder)
    with pytest.raises(WorkspaceError, match=r"task\.uncommitted"):
        opened(folder)
    space = opened(folder, uncommitted="ignore")
    assert space.base == space.repository.get_head().commit
    space.close()
    space = opened(folder, uncommitted="include")
    assert repositories.git(folder, "show", f"{space.base}:sums.py") == "# changed\n"
    assert repositories.git(folder, "show", f"{space.base}:fresh.py") == "# fresh\n"
    space.close()
    assert repositories.look(folder) == before


def test_a_run_belongs_to_one_process_at_a_time(folder):
    space = opened(folder)
    with pytest.raises(WorkspaceError, match="Another process works on the run"):
        opened(folder, lock_timeout_seconds=0.05)
    other = workspace.Workspace(folder, "other")
    assert space.get_tip(mended_id(space)) == space.get_tip("1.0")
    other.close()
    space.close()


def mended_id(space: workspace.Workspace) -> str:
    mended(space)
    return "1.0"


def test_an_id_is_used_once(folder):
    space = opened(folder)
    space.fork("1.0")
    with pytest.raises(WorkspaceError, match="already"):
        space.fork("1.0")
    space.close()
