"""Git starts and reads nothing that the configuration of a repository names."""

import subprocess
from pathlib import Path

import pytest

from atoll.mind import workspace
from atoll.mind.workspace import WorkspaceError
from tests.mind.workspace import repositories

SIGNATURES = {
    "x509": "-----BEGIN SIGNED MESSAGE-----\nMIIB\n-----END SIGNED MESSAGE-----",
    "ssh": "-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\n-----END SSH SIGNATURE-----",
    "openpgp": "-----BEGIN PGP SIGNATURE-----\n\niQ\n-----END PGP SIGNATURE-----",
}


def make_marking_program(folder: Path) -> tuple[str, Path]:
    """Makes a program that writes a file when it is started."""
    mark, script = folder / "mark", folder / "evil.sh"
    script.write_text(f"#!/bin/sh\necho $0 $@ >> {mark}\ncat\n")
    script.chmod(0o755)
    return str(script), mark


def sign(folder: Path, signature: str) -> None:
    """Signs the head, as the author of a repository could."""
    head, _, body = repositories.git(folder, "cat-file", "commit", "HEAD").partition("\n\n")
    text = f"{head}\ngpgsig {signature.replace(chr(10), chr(10) + ' ')}\n\n{body}"
    completed = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
        cwd=folder,
        env=repositories.CLEAN,
        input=text.encode(),
        capture_output=True,
        check=True,
    )
    repositories.git(folder, "update-ref", "refs/heads/main", completed.stdout.decode().strip())


def merge_worldline(folder: Path, **settings) -> None:
    """Forks, writes, approves, merges and archives a worldline."""
    space = workspace.Workspace(folder, "run", **settings)
    at = space.fork("1.0")
    space.write("1.0", [at], {"sums.py": repositories.MENDED.encode()}, "Mend")
    space.decide("1.0", "approve", "Reviewer", commit=space.get_tip("1.0"))
    space.merge("1.0")
    space.archive("1.0")
    space.close()
    assert (folder / "sums.py").read_text() == repositories.MENDED


@pytest.mark.parametrize("form", SIGNATURES)
def test_signed_commit_starts_no_program(tmp_path, form):
    folder = repositories.make_repository(tmp_path / "project")
    script, mark = make_marking_program(tmp_path)
    sign(folder, SIGNATURES[form])
    repositories.git(folder, "config", "log.showSignature", "true")
    repositories.git(folder, "config", "gpg.ssh.allowedSignersFile", "/dev/null")
    for key in (f"gpg.{form}.program", "gpg.program", "gpg.ssh.defaultKeyCommand"):
        repositories.git(folder, "config", key, script)
    merge_worldline(folder)
    assert not mark.exists(), mark.read_text()


def test_submodule_configuration_starts_no_program(tmp_path):
    inner = repositories.make_repository(tmp_path / "inner", {"x.py": "x = 1\n"})
    folder = repositories.make_repository(tmp_path / "project")
    script, mark = make_marking_program(tmp_path)
    repositories.git(folder, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub")
    repositories.git(folder, "config", "--file", ".gitmodules", "submodule.sub.ignore", "none")
    repositories.git(folder, "add", ".gitmodules")
    repositories.git(folder, "commit", "-qm", "Add a submodule")
    for key in ("core.fsmonitor", "filter.evil.clean"):
        repositories.git(folder / "sub", "config", key, script)
    (folder / ".git/modules/sub/info/attributes").write_text("* filter=evil\n")
    (folder / "sub/x.py").touch()
    merge_worldline(folder)
    assert not mark.exists(), mark.read_text()


def test_snapshot_ignores_submodule_configuration(tmp_path):
    folder = repositories.make_repository(tmp_path / "project")
    script, mark = make_marking_program(tmp_path)
    inner = repositories.make_repository(folder / "sub", {"x.py": "x = 1\n"})
    repositories.git(folder, "-c", "advice.addEmbeddedRepo=false", "add", "sub")
    (folder / ".gitmodules").write_text('[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n\tignore = none\n')
    repositories.git(folder, "add", ".gitmodules")
    repositories.git(folder, "commit", "-qm", "Add a submodule")
    repositories.git(folder, "config", "submodule.sub.ignore", "none")
    for key in ("core.fsmonitor", "filter.evil.clean"):
        repositories.git(inner, "config", key, script)
    (inner / "x.py").write_text("x = 2\n")
    (folder / "new.py").write_text("x = 1\n")
    workspace.Workspace(folder, "run", uncommitted="include").close()
    assert not mark.exists(), mark.read_text()


@pytest.mark.parametrize(
    "key", ["include.path", "includeIf.onbranch:atoll/**.path", "includeIf.gitdir:**/desks/*.path"]
)
def test_configuration_with_includes_is_rejected(tmp_path, key):
    folder = repositories.make_repository(tmp_path / "project")
    repositories.git(folder, "config", key, str(tmp_path / "more"))
    with pytest.raises(WorkspaceError, match="includes files"):
        workspace.Workspace(folder, "run")


@pytest.mark.parametrize(
    "key",
    ["trailer.x.command", "trailer.x.cmd", "hook.x.command", "uploadpack.packObjectsHook", "interactive.diffFilter"],
)
def test_configuration_with_unknown_program_is_rejected(tmp_path, key):
    folder = repositories.make_repository(tmp_path / "project")
    repositories.git(folder, "config", key, "evil")
    with pytest.raises(WorkspaceError, match=r"names a program .* Remove that line"):
        workspace.Workspace(folder, "run")


def test_common_settings_are_accepted(tmp_path):
    folder = repositories.make_repository(tmp_path / "project")
    script, mark = make_marking_program(tmp_path)
    settings_by_key = {
        "core.hooksPath": ".husky",
        "core.autocrlf": "false",
        "filter.lfs.process": script,
        "filter.lfs.required": "true",
        "remote.origin.url": "https://example.org/x.git",
        "remote.origin.uploadpack": script,
        "branch.main.remote": "origin",
        "branch.main.mergeOptions": "--verify-signatures",
        "credential.https://example.org.helper": script,
        "mergetool.mine.cmd": script,
        "alias.st": f"!{script}",
        "user.signingKey": "me",
    }
    for key, value in settings_by_key.items():
        repositories.git(folder, "config", key, value)
    merge_worldline(folder)
    assert not mark.exists(), mark.read_text()


def test_configured_excludes_file_is_not_read(tmp_path):
    folder = repositories.make_repository(tmp_path / "project")
    (tmp_path / "ignored").write_text("*\n")
    repositories.git(folder, "config", "core.excludesFile", str(tmp_path / "ignored"))
    (folder / "new.py").write_text("x = 1\n")
    with pytest.raises(WorkspaceError, match=r"new\.py"):
        workspace.Workspace(folder, "run")
