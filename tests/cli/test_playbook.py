"""Commands of `playbook`."""

import json

import pytest

from atoll import cli, playbook, store


@pytest.fixture
def store_path(tmp_path):
    path = tmp_path / "atoll.db"
    with store.Store(path) as run_store:
        notes = playbook.PlaybookStore(run_store.versions(), key="playbook/survival")
        notes.apply(
            [playbook.add("tactics", "Wolves fear fire."), playbook.add("recipes", "Boil eggs.")], "a start", "agent"
        )
        notes.apply([playbook.tag("tactics-00001", "helpful"), playbook.remove("x-00001")], "second", "agent")
    return str(path)


def run(capsys, *arguments, status=0):
    capsys.readouterr()
    assert cli.main(["playbook", *arguments]) == status
    return capsys.readouterr()


def test_show_prints_playbook(store_path, capsys):
    out = run(capsys, "show", "--store", store_path).out
    assert out.startswith("## TACTICS\n[tactics-00001] helpful=1 harmful=0 :: Wolves fear fire.\n\n## RECIPES\n")


def test_show_with_query_prints_matching_bullets(store_path, capsys):
    assert run(capsys, "show", "a wolf", "--store", store_path).out == (
        "[tactics-00001] helpful=1 harmful=0 :: Wolves fear fire.\n"
    )
    assert "nothing" not in run(capsys, "show", "quantum", "--store", store_path).out


def test_show_old_version_as_json(store_path, capsys):
    data = json.loads(run(capsys, "show", "--version", "1", "--json", "--store", store_path).out)
    assert [item.get("helpful", 0) for item in data["bullets"]] == [0, 0]


def test_history_is_newest_first_with_counts(store_path, capsys):
    lines = run(capsys, "history", "--store", store_path).out.splitlines()
    assert lines[0].split() == ["version", "applied", "held", "rejected", "retired", "author", "reason"]
    assert lines[1].split() == ["2", "1", "-", "1", "-", "agent", "second"]
    (newest,) = json.loads(run(capsys, "history", "-n", "1", "--json", "--store", store_path).out)
    assert [item["outcome"] for item in newest["deltas"]] == ["applied", "rejected"]


def test_rollback_restores_version_and_is_in_history(store_path, capsys):
    data = json.loads(run(capsys, "rollback", "1", "--reason", "worse", "--json", "--store", store_path).out)
    assert data == {"key": "playbook/survival", "version": 3, "restored": 1, "bullets": 2}
    assert "helpful=1" not in run(capsys, "show", "--store", store_path).out
    assert "restored 1: worse" in run(capsys, "history", "--store", store_path).out


def test_stats_show_size_and_coverage(store_path, capsys):
    data = json.loads(run(capsys, "stats", "--json", "--store", store_path).out)
    assert (data["bullets"], data["files"], data["coverage"]) == (2, 2, {"tactics": 1, "recipes": 1})
    assert "bullets of tactics" in run(capsys, "stats", "--store", store_path).out


def test_export_and_import(store_path, capsys, tmp_path):
    run(capsys, "export", str(tmp_path / "files"), "--store", store_path)
    run(capsys, "import", str(tmp_path / "files"), "--store", str(tmp_path / "other.db"))
    assert (
        run(capsys, "show", "--store", str(tmp_path / "other.db")).out == run(capsys, "show", "--store", store_path).out
    )


def test_import_uses_key_of_export(store_path, capsys, tmp_path):
    run(capsys, "export", str(tmp_path / "files"), "--store", store_path)
    assert (
        "playbook/survival has 2 bullets, version 2."
        in run(capsys, "import", str(tmp_path / "files"), "--store", store_path).out
    )  # nothing was edited: no new version
    text = run(capsys, "import", str(tmp_path / "files"), "--key", "playbook/copy", "--store", store_path).out
    assert text == "playbook/copy has 2 bullets, version 1.\n"


def test_unknown_version_or_key_fails(store_path, capsys):
    assert "@9" in run(capsys, "rollback", "9", "--store", store_path, status=2).err
    text = run(capsys, "show", "--key", "playbook/x", "--store", store_path, status=2).err
    assert text.endswith("atoll.db. Playbooks: playbook/survival.\n")


def test_several_playbooks_need_key(store_path, capsys):
    with store.Store(store_path) as run_store:
        playbook.PlaybookStore(run_store.versions(), key="playbook/b").apply(
            [playbook.add("t", "Bears sleep.")], "t", "me"
        )
    assert "--key" in run(capsys, "show", "--store", store_path, status=2).err
    assert "Bears" in run(capsys, "show", "--key", "playbook/b", "--store", store_path).out
    assert "Bears" in run(capsys, "show", "--key", "b", "--store", store_path).out


def test_store_without_playbook_fails(capsys, tmp_path):
    with store.Store(tmp_path / "empty.db"):
        pass
    assert "has none. Run an agent first." in run(capsys, "show", "--store", str(tmp_path / "empty.db"), status=2).err


def test_held_deltas_are_listed_approved_and_rejected(store_path, capsys):  # B13
    with store.Store(store_path) as run_store:
        notes = playbook.PlaybookStore(run_store.versions(), key="playbook/survival")
        notes.apply([playbook.add("tactics", "Wolves never fear fire.")], "third", "agent")
        (result,) = notes.list_held()
    assert "contradicts tactics-00001" in run(capsys, "held", "--store", store_path).out
    assert json.loads(run(capsys, "held", "--json", "--store", store_path).out)[0]["id"] == result.id
    assert "nothing" in run(capsys, "approve", "nothing", "--reason", "so", "--store", store_path, status=2).err
    assert "reason" in run(capsys, "approve", result.id, "--reason", " ", "--store", store_path, status=2).err
    done = run(capsys, "approve", result.id, "--reason", "seen twice", "--author", "ann", "--store", store_path).out
    assert done.startswith("applied (replaces tactics-00001; ann: seen twice)")
    assert "No deltas are held." in run(capsys, "held", "--store", store_path).err
