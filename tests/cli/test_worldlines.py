"""Commands of `worldlines` (A19)."""

import json

import pytest

from atoll import cli
from tests.dashboard import sample_data
from tests.mind.workspace import repositories


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return sample_data.fill(tmp_path_factory.mktemp("library"))


@pytest.fixture
def library_path(library, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return library.copy_to(tmp_path)


def run(capsys, library_path, *arguments, status=0):
    capsys.readouterr()
    assert cli.main(["worldlines", *arguments, "--store", str(library_path.path)]) == status
    return capsys.readouterr()


def waiting(capsys, library_path):
    (result,) = json.loads(run(capsys, library_path, "list", library_path.workspace, "--json").out)
    return result


def test_worldline_is_listed_shown_and_diffed(capsys, library_path):
    result = waiting(capsys, library_path)
    assert (result["state"], result["changes"]) == ("waits", [{"path": "sums.py", "added": 1, "deleted": 1}])
    assert result["id"] in run(capsys, library_path, "list", library_path.workspace).out
    assert "sums.py +1 -1" in run(capsys, library_path, "show", library_path.workspace, result["id"][:6]).out
    assert "+    return a + b" in run(capsys, library_path, "diff", library_path.workspace, result["id"]).out


def test_merge_needs_approval_by_another_user(capsys, library_path):
    id = waiting(capsys, library_path)["id"]
    merge = ("merge", library_path.workspace, id)
    assert "is not approved" in run(capsys, library_path, *merge, status=2).err
    approve = ("approve", library_path.workspace, id, "--reason")
    assert "needs a reason" in run(capsys, library_path, *approve, " ", "--author", "ann", status=2).err
    assert "cannot approve it" in run(capsys, library_path, *approve, "mine", "--author", "atoll", status=2).err
    wrong = (*approve, "it adds", "--author", "ann", "--commit", "0" * 40)
    assert "0" * 12 in run(capsys, library_path, *wrong, status=2).err
    assert "is approved at" in run(capsys, library_path, *approve, "it adds", "--author", "ann").out
    assert run(capsys, library_path, *merge).out.startswith("Merged as ")
    assert "return a + b" in (library_path.repository / "sums.py").read_text()
    assert waiting(capsys, library_path)["state"] == "merged"
    assert not repositories.list_leftovers(library_path.repository)


def test_rejection_voids_approval(capsys, library_path):
    id = waiting(capsys, library_path)["id"]
    for verb in ("approve", "reject"):
        run(capsys, library_path, verb, library_path.workspace, id, "--reason", "on second thoughts", "--author", "ann")
    assert waiting(capsys, library_path)["state"] == "rejected"
    assert "is not approved" in run(capsys, library_path, "merge", library_path.workspace, id, status=2).err


def test_run_without_repository_fails(capsys, library_path):
    assert "has no workspaces" in run(capsys, library_path, "list", library_path.texts, status=2).err
    assert "zzz" in run(capsys, library_path, "show", library_path.workspace, "zzz", status=2).err
