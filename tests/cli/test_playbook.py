"""`atoll playbook`: what agents have learnt, how it came about, and back."""

import json

import pytest

from atoll import cli, playbook, store


@pytest.fixture
def place(tmp_path):
    path = tmp_path / "atoll.db"
    with store.Store(path) as kept:
        notes = playbook.PlaybookStore(kept.versions(), key="playbook/survival")
        notes.apply(
            [playbook.add("tactics", "Wolves fear fire."), playbook.add("recipes", "Boil eggs.")], "a start", "agent"
        )
        notes.apply([playbook.tag("tactics-00001", "helpful"), playbook.remove("x-00001")], "second", "agent")
    return str(path)


def told(capsys, *arguments, status=0):
    capsys.readouterr()
    assert cli.main(["playbook", *arguments]) == status
    return capsys.readouterr()


def test_show_prints_playbook(place, capsys):
    out = told(capsys, "show", "--store", place).out
    assert out.startswith("## TACTICS\n[tactics-00001] helpful=1 harmful=0 :: Wolves fear fire.\n\n## RECIPES\n")


def test_show_with_query_prints_matching_bullets(place, capsys):
    assert told(capsys, "show", "a wolf", "--store", place).out == (
        "[tactics-00001] helpful=1 harmful=0 :: Wolves fear fire.\n"
    )
    assert "nothing" not in told(capsys, "show", "quantum", "--store", place).out


def test_show_old_version_as_json(place, capsys):
    data = json.loads(told(capsys, "show", "--version", "1", "--json", "--store", place).out)
    assert [each.get("helpful", 0) for each in data["bullets"]] == [0, 0]


def test_history_is_newest_first_with_counts(place, capsys):
    lines = told(capsys, "history", "--store", place).out.splitlines()
    assert lines[0].split() == ["version", "applied", "held", "rejected", "retired", "by", "why"]
    assert lines[1].split() == ["2", "1", "-", "1", "-", "agent", "second"]
    (newest,) = json.loads(told(capsys, "history", "-n", "1", "--json", "--store", place).out)
    assert [each["outcome"] for each in newest["deltas"]] == ["applied", "rejected"]


def test_rollback_restores_version_and_is_in_history(place, capsys):
    data = json.loads(told(capsys, "rollback", "1", "--reason", "worse", "--json", "--store", place).out)
    assert data == {"key": "playbook/survival", "version": 3, "restored": 1, "bullets": 2}
    assert "helpful=1" not in told(capsys, "show", "--store", place).out
    assert "back to 1: worse" in told(capsys, "history", "--store", place).out


def test_stats_show_size_and_coverage(place, capsys):
    data = json.loads(told(capsys, "stats", "--json", "--store", place).out)
    assert (data["bullets"], data["files"], data["coverage"]) == (2, 2, {"tactics": 1, "recipes": 1})
    assert "bullets of tactics" in told(capsys, "stats", "--store", place).out


def test_export_and_import(place, capsys, tmp_path):
    told(capsys, "export", str(tmp_path / "files"), "--store", place)
    told(capsys, "import", str(tmp_path / "files"), "--store", str(tmp_path / "other.db"))
    assert told(capsys, "show", "--store", str(tmp_path / "other.db")).out == told(capsys, "show", "--store", place).out


def test_import_uses_key_of_export(place, capsys, tmp_path):
    told(capsys, "export", str(tmp_path / "files"), "--store", place)
    assert (
        "playbook/survival has 2 bullets, as version 2."
        in told(capsys, "import", str(tmp_path / "files"), "--store", place).out
    )  # nothing was edited: no new version
    said = told(capsys, "import", str(tmp_path / "files"), "--key", "playbook/copy", "--store", place).out
    assert said == "playbook/copy has 2 bullets, as version 1.\n"


def test_unknown_version_or_key_fails(place, capsys):
    assert "@9" in told(capsys, "rollback", "9", "--store", place, status=2).err
    said = told(capsys, "show", "--key", "playbook/x", "--store", place, status=2).err
    assert said.endswith("atoll.db; there are playbook/survival.\n")


def test_several_playbooks_need_key(place, capsys):
    with store.Store(place) as kept:
        playbook.PlaybookStore(kept.versions(), key="playbook/b").apply([playbook.add("t", "Bears sleep.")], "t", "me")
    assert "--key" in told(capsys, "show", "--store", place, status=2).err
    assert "Bears" in told(capsys, "show", "--key", "playbook/b", "--store", place).out


def test_store_without_playbook_fails(capsys, tmp_path):
    with store.Store(tmp_path / "empty.db"):
        pass
    assert "none yet" in told(capsys, "show", "--store", str(tmp_path / "empty.db"), status=2).err


def test_held_deltas_are_listed_approved_and_rejected(place, capsys):  # B13
    with store.Store(place) as kept:
        notes = playbook.PlaybookStore(kept.versions(), key="playbook/survival")
        notes.apply([playbook.add("tactics", "Wolves never fear fire.")], "third", "agent")
        (found,) = notes.list_held()
    assert "contradicts tactics-00001" in told(capsys, "held", "--store", place).out
    assert json.loads(told(capsys, "held", "--json", "--store", place).out)[0]["id"] == found.id
    assert "waits" in told(capsys, "approve", "nothing", "--reason", "so", "--store", place, status=2).err
    assert "reason" in told(capsys, "approve", found.id, "--reason", " ", "--store", place, status=2).err
    done = told(capsys, "approve", found.id, "--reason", "seen twice", "--author", "ann", "--store", place).out
    assert done.startswith("applied (replaces tactics-00001; ann: seen twice)")
    assert "Nothing waits." in told(capsys, "held", "--store", place).err
