"""`atoll worldlines`: what a run left in a repository is listed, looked at, decided on and merged. # A19"""

import json

import pytest

from atoll import cli
from tests.dashboard import filled
from tests.mind.workspace import repositories


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return filled.fill(tmp_path_factory.mktemp("library"))


@pytest.fixture
def place(library, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return library.copied(tmp_path)


def told(capsys, place, *arguments, status=0):
    capsys.readouterr()
    assert cli.main(["worldlines", *arguments, "--store", str(place.path)]) == status
    return capsys.readouterr()


def waiting(capsys, place):
    (found,) = json.loads(told(capsys, place, "list", place.workspace, "--json").out)
    return found


def test_worldline_is_listed_shown_and_diffed(capsys, place):
    found = waiting(capsys, place)
    assert (found["state"], found["changes"]) == ("waits", [{"path": "sums.py", "added": 1, "deleted": 1}])
    assert found["id"] in told(capsys, place, "list", place.workspace).out
    assert "sums.py +1 -1" in told(capsys, place, "show", place.workspace, found["id"][:6]).out
    assert "+    return a + b" in told(capsys, place, "diff", place.workspace, found["id"]).out


def test_merge_needs_approval_by_another_user(capsys, place):
    id = waiting(capsys, place)["id"]
    merge = ("merge", place.workspace, id)
    assert "is not approved" in told(capsys, place, *merge, status=2).err
    approve = ("approve", place.workspace, id, "--reason")
    assert "needs a reason" in told(capsys, place, *approve, " ", "--author", "ann", status=2).err
    assert "cannot approve it" in told(capsys, place, *approve, "mine", "--author", "atoll", status=2).err
    wrong = (*approve, "it adds", "--author", "ann", "--commit", "0" * 40)
    assert "looked at" in told(capsys, place, *wrong, status=2).err
    assert "is approved at" in told(capsys, place, *approve, "it adds", "--author", "ann").out
    assert told(capsys, place, *merge).out.startswith("Merged, as ")
    assert "return a + b" in (place.repository / "sums.py").read_text()
    assert waiting(capsys, place)["state"] == "merged"
    assert not repositories.list_leftovers(place.repository)


def test_rejection_voids_approval(capsys, place):
    id = waiting(capsys, place)["id"]
    for verb in ("approve", "reject"):
        told(capsys, place, verb, place.workspace, id, "--reason", "on second thoughts", "--author", "ann")
    assert waiting(capsys, place)["state"] == "rejected"
    assert "is not approved" in told(capsys, place, "merge", place.workspace, id, status=2).err


def test_run_without_repository_fails(capsys, place):
    assert "has no workspaces" in told(capsys, place, "list", place.texts, status=2).err
    assert "zzz" in told(capsys, place, "show", place.workspace, "zzz", status=2).err
