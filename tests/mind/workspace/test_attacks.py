"""What worldlines and repositories must not get away with; a model writes the ones, a stranger the others."""

import os
import stat
from pathlib import Path

import pytest

from atoll.mind import workspace
from atoll.mind.actions import Edit, Read, Run
from atoll.mind.workspace import WorkspaceError
from atoll.mind.worldline import Plan
from tests.mind.workspace import repositories
from tests.mind.workspace.test_kind import W0, kind_of, ran

OUTSIDE = [
    "/etc/passwd",
    "../project.txt",
    "a/../../project.txt",
    "./sums.py",
    "a//b",
    "a/",
    "",
    ".",
    "..",
    "a\\..\\b",
    "a\0b",
    "a\nb",
    "x" * 2000,
]
GITS_OWN = [
    ".git/config",
    ".git/hooks/post-checkout",
    ".GIT/config",
    ".git./config",
    ".git /config",
    "git~1/config",
    "a/.git/config",
    ".git",
    ".git::$INDEX_ALLOCATION/config",
    ".g\u200cit/config",
    ".gitmodules",
]


@pytest.fixture(scope="module")
def kind(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacked") / "project"
    secret = folder.parent / "secret"
    repositories.empty(folder)
    secret.write_text("secret\n")
    (folder / "out").symlink_to(folder.parent)
    (folder / "file-out").symlink_to(secret)
    (folder / "blob.bin").write_bytes(bytes(range(256)) * 10)
    (folder / "large.txt").write_bytes(b"line\n" * 300_000)
    repositories.made(folder)
    made = kind_of(folder)
    yield made
    made.close()
    assert secret.read_text() == "secret\n"
    assert repositories.leftovers(folder) == []


@pytest.mark.parametrize("path", OUTSIDE + GITS_OWN)
def test_no_action_reaches_a_path_outside_the_worldline(kind, path):
    plan = Plan((Read(path),))
    line = kind.fork(W0, plan, f"path-{(OUTSIDE + GITS_OWN).index(path)}")
    for action in (Edit(path, "", "x"), Edit(path, "a", "b"), Read(path)):
        done = kind.run(line, Plan((action,)))
        assert not done.tool_history[-1].is_ok
        assert done.checkpoint.commit == kind.workspace.base
    kind.discard(line)


@pytest.mark.parametrize("path", ["out/secret", "out/new", "file-out", "out"])
def test_no_action_follows_a_link_out_of_the_worldline(kind, path):
    for number, action in enumerate((Edit(path, "", "x"), Read(path))):
        line = ran(kind, f"link-{path.replace('/', '-')}-{number}", action)
        assert "link" in line.tool_history[0].output
        assert "secret" not in line.tool_history[0].output.replace(path, "")


def test_a_link_leads_nowhere_in_the_jail(kind):
    script = "import os; print(os.path.exists('out/secret'), os.path.exists('file-out'), os.readlink('file-out')[:1])"
    line = ran(kind, "link-jail", Run(("python", "-c", script)))
    assert line.tool_history[0].output.startswith("False False /")


def test_a_command_that_is_not_allowed_does_not_run(kind):
    for number, command in enumerate((("sh", "-c", "id"), ("/bin/sh",), ("../python",), ("git", "push"), ("",))):
        line = ran(kind, f"command-{number}", Run(command))
        assert "task.commands" in line.tool_history[0].output


def test_a_command_cannot_leave_the_jail(kind):
    main = kind.workspace.repository.folder
    script = f"""
import os, socket, subprocess
def tried(what):
    try:
        return what()
    except OSError as error:
        return type(error).__name__
print(tried(lambda: open({str(main / "sums.py")!r}, "a")))
print(tried(lambda: os.listdir({str(main / ".git")!r})))
print(tried(lambda: subprocess.run(["/bin/sh", "-c", "echo shell"])))
print(tried(lambda: socket.socket()))
print(sorted(os.environ.keys() & {{"GIT_DIR", "SSH_AUTH_SOCK", "ATOLL_SECRET"}}))
"""
    before = repositories.look(main)
    line = ran(kind, "jail", Run(("python", "-c", script)))
    *refused, env, _ = line.tool_history[0].output.splitlines()
    assert len(refused) == 4
    assert all(each.endswith("Error") for each in refused)
    assert env == "[]"
    assert repositories.look(main) == before


def test_a_large_file_is_not_read_and_not_written(kind):
    assert "1500000 bytes" in ran(kind, "large-1", Read("large.txt")).tool_history[0].output
    assert "may leave up to" in ran(kind, "large-2", Edit("new.txt", "", "x" * 2**21)).tool_history[0].output


def test_a_binary_file_is_named_and_not_edited(kind):
    line = ran(kind, "binary", Read("blob.bin"), Edit("blob.bin", "a", "b"))
    assert line.tool_history[0].output == "(blob.bin is binary: 2560 bytes)"
    assert "an edit changes text" in line.tool_history[1].output
    surrogate = ran(kind, "surrogate", Edit("new.txt", "", "\ud800"))
    assert "Unicode" in surrogate.tool_history[0].output


def test_a_file_is_no_folder_and_a_folder_no_file(kind):
    assert "is a file" in ran(kind, "file", Edit("sums.py/x", "", "1")).tool_history[0].output
    assert "is a folder" in ran(kind, "folder", Edit("tests", "", "1")).tool_history[0].output
    both = ran(kind, "both", Edit("new", "", "1"), Edit("new/x", "", "1"))
    assert "one would be a folder" in both.tool_history[-1].output
    assert [each.path for each in kind.workspace.numstat("both")] == ["new"]


@pytest.mark.parametrize("name", ["../up", "a b", "a/b", "", ".hidden", "a..b", "x.lock", "-f", "a\n", "x" * 90, "é"])
def test_a_worldline_or_run_is_named_so_that_it_leads_nowhere(kind, name):
    with pytest.raises(WorkspaceError, match="cannot name a worldline"):
        kind.fork(W0, Plan(), name)
    with pytest.raises(WorkspaceError, match="cannot name a run"):
        workspace.Workspace(kind.workspace.repository.folder, name)


def hostile(folder: Path) -> tuple[Path, Path]:
    """Makes a repository whose hooks, filters and settings would all leave a mark if git started them."""
    repositories.made(
        folder, {"sums.py": repositories.BROKEN, ".gitattributes": "* filter=evil diff=evil merge=evil\n"}
    )
    mark = folder.parent / "mark"
    script = folder.parent / "evil.sh"
    script.write_text(f"#!/bin/sh\necho $0 $@ >> {mark}\ncat\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    hooks = folder / ".git" / "hooks"
    for name in (
        "post-checkout",
        "reference-transaction",
        "post-merge",
        "pre-commit",
        "post-index-change",
        "pre-auto-gc",
    ):
        (hooks / name).write_text(script.read_text())
        (hooks / name).chmod(0o755)
    keys = ["filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.evil.command", "diff.evil.textconv"]
    keys += ["filter.a=b.smudge", "merge.evil.driver", "core.fsmonitor", "core.sshCommand", "core.editor", "core.pager"]
    keys += ["diff.external", "gpg.program", "credential.helper", "core.alternateRefsCommand", "core.askPass"]
    for key in keys:
        repositories.git(folder, "config", key, str(script))
    for key in ("filter.evil.required", "commit.gpgSign", "submodule.recurse", "merge.verifySignatures"):
        repositories.git(folder, "config", key, "true")
    repositories.git(folder, "config", "core.hooksPath", str(hooks))
    mark.unlink(missing_ok=True)
    return folder, mark


def test_nothing_that_a_repository_names_is_started(tmp_path):
    folder, mark = hostile(tmp_path / "project")
    space = workspace.Workspace(folder, "run", uncommitted="include")
    at = space.fork("1.0")
    space.write("1.0", [at], {"sums.py": repositories.MENDED.encode(), ".gitattributes": b"* filter=a=b\n"}, "Mend")
    space.numstat("1.0")
    space.repository.diff(space.base, space.get_tip("1.0"))
    space.decide("1.0", "approve", "Reviewer", commit=space.get_tip("1.0"))
    space.merge("1.0")
    space.archive("1.0")
    space.close()
    assert not mark.exists(), mark.read_text()
    assert (folder / "sums.py").read_text() == repositories.MENDED


def test_a_merge_that_would_need_a_program_of_the_repository_is_refused(tmp_path):
    folder, mark = hostile(tmp_path / "project")
    space = workspace.Workspace(folder, "run", uncommitted="ignore")
    at = space.fork("1.0")
    space.write("1.0", [at], {"sums.py": repositories.MENDED.encode()}, "Mend")
    space.decide("1.0", "approve", "Reviewer", commit=space.get_tip("1.0"))
    ours = space.objects.commit([at], {"sums.py": b"# ours\n"}, "Differ", "user", space.date)
    space.repository.git("update-ref", "refs/heads/main", ours)
    space.repository.git("reset", "-q", "--hard", "main")
    with pytest.raises(WorkspaceError, match=r"both changed sums\.py"):
        space.merge("1.0")
    space.close()
    assert not mark.exists(), mark.read_text()


def test_alternates_and_replacements_of_a_repository_start_nothing_and_change_no_content(tmp_path):
    other = repositories.made(tmp_path / "other", {"x.py": "x = 1\n"})
    folder, mark = hostile(tmp_path / "project")
    (folder / ".git/objects/info").mkdir(exist_ok=True)
    (folder / ".git/objects/info/alternates").write_text(f"{other}/.git/objects\n{tmp_path}/nowhere\n")
    blob = repositories.git(folder, "rev-parse", "HEAD:sums.py").strip()
    alien = repositories.git(other, "rev-parse", "HEAD:x.py").strip()
    repositories.git(folder, "update-ref", f"refs/replace/{blob}", alien)
    mark.unlink(missing_ok=True)
    space = workspace.Workspace(folder, "run", uncommitted="ignore")
    node = space.objects.find_node(space.base, "sums.py")
    assert node is not None
    assert space.objects.read_content(node.sha).decode() == repositories.BROKEN
    space.close()
    assert not mark.exists(), mark.read_text()


def test_a_submodule_stays_as_it_is(tmp_path):
    inner = repositories.made(tmp_path / "inner", {"x.py": "x = 1\n"})
    folder = repositories.made(tmp_path / "project")
    repositories.git(folder, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub")
    repositories.git(folder, "commit", "-qm", "Add a submodule")
    kind = kind_of(folder)
    line = ran(kind, "1.0", Edit("sums.py", "a - b", "a + b"), Edit("sub/x.py", "", "x = 2\n"))
    assert "another repository" in line.tool_history[1].output
    assert kind.test(line).score == 1.0
    assert [each.path for each in kind.workspace.numstat("1.0")] == ["sums.py"]
    kind.workspace.decide("1.0", "approve", "Reviewer", commit=kind.workspace.get_tip("1.0"))
    kind.workspace.merge("1.0")
    kind.close()
    assert (folder / "sub/x.py").read_text() == "x = 1\n"
    assert repositories.git(folder, "status", "--porcelain") == ""
    assert repositories.leftovers(folder) == []


def test_a_repository_that_cannot_be_used_is_refused_with_what_to_do(tmp_path):
    bare = tmp_path / "bare.git"
    bare.mkdir()
    repositories.git(bare, "init", "-q", "--bare")
    plain = tmp_path / "plain"
    plain.mkdir()
    elsewhere = repositories.made(tmp_path / "elsewhere")
    repositories.git(elsewhere, "config", "core.worktree", str(plain))
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / ".git").symlink_to(elsewhere / ".git")
    inside = repositories.made(tmp_path / "outer") / "tests"
    told = {
        bare: "bare",
        plain: "no git repository",
        repositories.empty(tmp_path / "empty"): "make a first commit",
        elsewhere: "core.worktree",
        linked: "is a link",
        inside: "no git repository",  # the repository further up is not meant
    }
    for folder, why in told.items():
        with pytest.raises(WorkspaceError, match=why):
            workspace.Workspace(folder, "run")


def test_a_detached_head_can_be_forked_from_and_not_merged_into(tmp_path):
    folder = repositories.made(tmp_path / "project")
    repositories.git(folder, "checkout", "-q", "--detach")
    space = workspace.Workspace(folder, "run")
    at = space.fork("1.0")
    space.write("1.0", [at], {"sums.py": b"\n"}, "Empty it")
    space.decide("1.0", "approve", "Reviewer", commit=space.get_tip("1.0"))
    with pytest.raises(WorkspaceError, match="detached HEAD"):
        space.merge("1.0")
    space.close()


def test_the_environment_of_the_user_does_not_reach_git(tmp_path, monkeypatch):
    folder, other = repositories.made(tmp_path / "project"), repositories.made(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    before = repositories.look(other)
    space = workspace.Workspace(folder, "run")
    assert space.repository.common_dir == Path(os.path.realpath(folder / ".git"))
    space.fork("1.0")
    space.close()
    assert repositories.look(other) == before
