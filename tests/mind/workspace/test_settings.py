"""Whatever the configuration of a repository names, git starts and reads nothing of it."""

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


def marking(folder: Path) -> tuple[str, Path]:
    """Makes a program that leaves a mark when it is started."""
    mark, script = folder / "mark", folder / "evil.sh"
    script.write_text(f"#!/bin/sh\necho $0 $@ >> {mark}\ncat\n")
    script.chmod(0o755)
    return str(script), mark


def sign(folder: Path, signature: str) -> None:
    """Has the head bear a signature, as whoever wrote the repository could."""
    head, _, body = repositories.git(folder, "cat-file", "commit", "HEAD").partition("\n\n")
    text = f"{head}\ngpgsig {signature.replace(chr(10), chr(10) + ' ')}\n\n{body}"
    made = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
        cwd=folder,
        env=repositories.CLEAN,
        input=text.encode(),
        capture_output=True,
        check=True,
    )
    repositories.git(folder, "update-ref", "refs/heads/main", made.stdout.decode().strip())


def merged(folder: Path, **settings) -> None:
    """Goes the whole way of a worldline."""
    space = workspace.Workspace(folder, "run", **settings)
    at = space.fork("1.0")
    space.write("1.0", [at], {"sums.py": repositories.MENDED.encode()}, "Mend")
    space.decide("1.0", "approve", "Reviewer", commit=space.get_tip("1.0"))
    space.merge("1.0")
    space.archive("1.0")
    space.close()
    assert (folder / "sums.py").read_text() == repositories.MENDED


@pytest.mark.parametrize("form", SIGNATURES)
def test_the_signature_of_a_commit_starts_no_program_that_would_check_it(tmp_path, form):
    folder = repositories.made(tmp_path / "project")
    script, mark = marking(tmp_path)
    sign(folder, SIGNATURES[form])
    repositories.git(folder, "config", "log.showSignature", "true")
    repositories.git(folder, "config", "gpg.ssh.allowedSignersFile", "/dev/null")
    for key in (f"gpg.{form}.program", "gpg.program", "gpg.ssh.defaultKeyCommand"):
        repositories.git(folder, "config", key, script)
    merged(folder)
    assert not mark.exists(), mark.read_text()


def test_the_configuration_of_a_submodule_starts_nothing(tmp_path):
    inner = repositories.made(tmp_path / "inner", {"x.py": "x = 1\n"})
    folder = repositories.made(tmp_path / "project")
    script, mark = marking(tmp_path)
    repositories.git(folder, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub")
    repositories.git(folder, "config", "--file", ".gitmodules", "submodule.sub.ignore", "none")
    repositories.git(folder, "add", ".gitmodules")
    repositories.git(folder, "commit", "-qm", "Add a submodule")
    for key in ("core.fsmonitor", "filter.evil.clean"):
        repositories.git(folder / "sub", "config", key, script)
    (folder / ".git/modules/sub/info/attributes").write_text("* filter=evil\n")
    (folder / "sub/x.py").touch()
    merged(folder)
    assert not mark.exists(), mark.read_text()


def test_a_snapshot_does_not_ask_a_submodule(tmp_path):
    folder = repositories.made(tmp_path / "project")
    script, mark = marking(tmp_path)
    inner = repositories.made(folder / "sub", {"x.py": "x = 1\n"})
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
def test_a_repository_whose_configuration_includes_files_is_refused(tmp_path, key):
    folder = repositories.made(tmp_path / "project")
    repositories.git(folder, "config", key, str(tmp_path / "more"))
    with pytest.raises(WorkspaceError, match="includes files"):
        workspace.Workspace(folder, "run")


@pytest.mark.parametrize(
    "key",
    ["trailer.x.command", "trailer.x.cmd", "hook.x.command", "uploadpack.packObjectsHook", "interactive.diffFilter"],
)
def test_a_repository_that_names_a_program_which_nothing_overrules_is_refused(tmp_path, key):
    folder = repositories.made(tmp_path / "project")
    repositories.git(folder, "config", key, "evil")
    with pytest.raises(WorkspaceError, match=r"names a program .* remove that line"):
        workspace.Workspace(folder, "run")


def test_what_honest_repositories_set_is_no_reason_to_refuse_them(tmp_path):
    folder = repositories.made(tmp_path / "project")
    script, mark = marking(tmp_path)
    told = {
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
    for key, value in told.items():
        repositories.git(folder, "config", key, value)
    merged(folder)
    assert not mark.exists(), mark.read_text()


def test_a_file_that_the_configuration_names_is_not_read(tmp_path):
    folder = repositories.made(tmp_path / "project")
    (tmp_path / "ignored").write_text("*\n")
    repositories.git(folder, "config", "core.excludesFile", str(tmp_path / "ignored"))
    (folder / "new.py").write_text("x = 1\n")
    with pytest.raises(WorkspaceError, match=r"new\.py"):
        workspace.Workspace(folder, "run")
