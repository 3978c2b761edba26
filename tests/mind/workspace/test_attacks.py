"""Attacks by worldlines, which an LLM writes, and by untrusted repositories."""

import os
import stat
from pathlib import Path

import pytest

from atoll.mind import workspace
from atoll.mind.actions import Edit, Read, Run
from atoll.mind.workspace import WorkspaceError
from atoll.mind.worldline import Plan
from tests.mind.workspace import repositories
from tests.mind.workspace.test_git_backend import W0, make_backend, run_actions

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
def backend(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacked") / "project"
    secret = folder.parent / "secret"
    repositories.make_empty(folder)
    secret.write_text("secret\n")
    (folder / "out").symlink_to(folder.parent)
    (folder / "file-out").symlink_to(secret)
    (folder / "blob.bin").write_bytes(bytes(range(256)) * 10)
    (folder / "large.txt").write_bytes(b"line\n" * 300_000)
    repositories.make_repository(folder)
    opened = make_backend(folder)
    yield opened
    opened.close()
    assert secret.read_text() == "secret\n"
    assert repositories.list_leftovers(folder) == []


@pytest.mark.parametrize("path", OUTSIDE + GITS_OWN)
def test_actions_cannot_reach_outside_paths(backend, path):
    plan = Plan((Read(path),))
    line = backend.fork(W0, plan, f"path-{(OUTSIDE + GITS_OWN).index(path)}")
    for action in (Edit(path, "", "x"), Edit(path, "a", "b"), Read(path)):
        done = backend.run(line, Plan((action,)))
        assert not done.tool_history[-1].is_ok
        assert done.checkpoint.commit == backend.workspace.base
    backend.discard(line)


@pytest.mark.parametrize("path", ["out/secret", "out/new", "file-out", "out"])
def test_actions_do_not_follow_links(backend, path):
    for number, action in enumerate((Edit(path, "", "x"), Read(path))):
        line = run_actions(backend, f"link-{path.replace('/', '-')}-{number}", action)
        assert "link" in line.tool_history[0].output
        assert "secret" not in line.tool_history[0].output.replace(path, "")


def test_links_are_broken_in_sandbox(backend):
    script = "import os; print(os.path.exists('out/secret'), os.path.exists('file-out'), os.readlink('file-out')[:1])"
    line = run_actions(backend, "link-sandbox", Run(("python", "-c", script)))
    assert line.tool_history[0].output.startswith("False False /")


def test_forbidden_command_does_not_run(backend):
    for number, command in enumerate((("sh", "-c", "id"), ("/bin/sh",), ("../python",), ("git", "push"), ("",))):
        line = run_actions(backend, f"command-{number}", Run(command))
        assert "task.commands" in line.tool_history[0].output


def test_command_cannot_leave_sandbox(backend):
    main = backend.workspace.repository.folder
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
    before = repositories.get_state(main)
    line = run_actions(backend, "sandbox", Run(("python", "-c", script)))
    *refused, env, _ = line.tool_history[0].output.splitlines()
    assert len(refused) == 4
    assert all(item.endswith("Error") for item in refused)
    assert env == "[]"
    assert repositories.get_state(main) == before


def test_large_files_are_rejected(backend):
    assert "1500000 bytes" in run_actions(backend, "large-1", Read("large.txt")).tool_history[0].output
    assert "may have up to" in run_actions(backend, "large-2", Edit("new.txt", "", "x" * 2**21)).tool_history[0].output


def test_binary_files_are_not_edited(backend):
    line = run_actions(backend, "binary", Read("blob.bin"), Edit("blob.bin", "a", "b"))
    assert line.tool_history[0].output == "(blob.bin is binary: 2560 bytes)"
    assert "Edits can only change text" in line.tool_history[1].output
    surrogate = run_actions(backend, "surrogate", Edit("new.txt", "", "\ud800"))
    assert "Unicode" in surrogate.tool_history[0].output


def test_file_and_folder_conflicts_are_rejected(backend):
    assert "is a file" in run_actions(backend, "file", Edit("sums.py/x", "", "1")).tool_history[0].output
    assert "is a folder" in run_actions(backend, "folder", Edit("tests", "", "1")).tool_history[0].output
    both = run_actions(backend, "both", Edit("new", "", "1"), Edit("new/x", "", "1"))
    assert "one would be a folder" in both.tool_history[-1].output
    assert [item.path for item in backend.workspace.numstat("both")] == ["new"]


@pytest.mark.parametrize("name", ["../up", "a b", "a/b", "", ".hidden", "a..b", "x.lock", "-f", "a\n", "x" * 90, "é"])
def test_unsafe_names_are_rejected(backend, name):
    with pytest.raises(WorkspaceError, match="cannot name a worldline"):
        backend.fork(W0, Plan(), name)
    with pytest.raises(WorkspaceError, match="cannot name a run"):
        workspace.Workspace(backend.workspace.repository.folder, name)


def hostile(folder: Path) -> tuple[Path, Path]:
    """Makes a repository whose hooks, filters and settings would all leave a mark if git started them."""
    repositories.make_repository(
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


def test_programs_of_repository_are_not_started(tmp_path):
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


def test_merge_that_needs_a_driver_is_rejected(tmp_path):
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


def test_alternates_and_replacements_have_no_effect(tmp_path):
    other = repositories.make_repository(tmp_path / "other", {"x.py": "x = 1\n"})
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


def test_submodule_does_not_change(tmp_path):
    inner = repositories.make_repository(tmp_path / "inner", {"x.py": "x = 1\n"})
    folder = repositories.make_repository(tmp_path / "project")
    repositories.git(folder, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub")
    repositories.git(folder, "commit", "-qm", "Add a submodule")
    backend = make_backend(folder)
    line = run_actions(backend, "1.0", Edit("sums.py", "a - b", "a + b"), Edit("sub/x.py", "", "x = 2\n"))
    assert "another repository" in line.tool_history[1].output
    assert backend.test(line).score == 1.0
    assert [item.path for item in backend.workspace.numstat("1.0")] == ["sums.py"]
    backend.workspace.decide("1.0", "approve", "Reviewer", commit=backend.workspace.get_tip("1.0"))
    backend.workspace.merge("1.0")
    backend.close()
    assert (folder / "sub/x.py").read_text() == "x = 1\n"
    assert repositories.git(folder, "status", "--porcelain") == ""
    assert repositories.list_leftovers(folder) == []


def test_unusable_repositories_are_rejected(tmp_path):
    bare = tmp_path / "bare.git"
    bare.mkdir()
    repositories.git(bare, "init", "-q", "--bare")
    plain = tmp_path / "plain"
    plain.mkdir()
    elsewhere = repositories.make_repository(tmp_path / "elsewhere")
    repositories.git(elsewhere, "config", "core.worktree", str(plain))
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / ".git").symlink_to(elsewhere / ".git")
    inside = repositories.make_repository(tmp_path / "outer") / "tests"
    messages = {
        bare: "bare",
        plain: "not a git repository",
        repositories.make_empty(tmp_path / "empty"): "Make a first commit",
        elsewhere: "core.worktree",
        linked: "is a link",
        inside: "not a git repository",  # repositories further up do not count
    }
    for folder, why in messages.items():
        with pytest.raises(WorkspaceError, match=why):
            workspace.Workspace(folder, "run")


def test_detached_head_can_be_forked_but_not_merged(tmp_path):
    folder = repositories.make_repository(tmp_path / "project")
    repositories.git(folder, "checkout", "-q", "--detach")
    space = workspace.Workspace(folder, "run")
    at = space.fork("1.0")
    space.write("1.0", [at], {"sums.py": b"\n"}, "Empty it")
    space.decide("1.0", "approve", "Reviewer", commit=space.get_tip("1.0"))
    with pytest.raises(WorkspaceError, match="detached HEAD"):
        space.merge("1.0")
    space.close()


def test_user_environment_does_not_reach_git(tmp_path, monkeypatch):
    folder, other = repositories.make_repository(tmp_path / "project"), repositories.make_repository(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    before = repositories.get_state(other)
    space = workspace.Workspace(folder, "run")
    assert space.repository.common_dir == Path(os.path.realpath(folder / ".git"))
    space.fork("1.0")
    space.close()
    assert repositories.get_state(other) == before
