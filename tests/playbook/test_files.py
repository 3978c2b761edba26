"""Export and import of the files `deltas`, `current` and `archive`. B14."""

import json

import pytest

from atoll import errors, playbook, store
from atoll.playbook import files


@pytest.fixture
def notes():
    notes = playbook.PlaybookStore(store.MemoryVersions())
    notes.apply([playbook.add("tactics", "Wolves fear fire."), playbook.add("recipes", "Boil eggs.")], "one", "me")
    notes.apply([playbook.tag("tactics-00001", "helpful"), playbook.remove("recipes-00002")], "two", "me")
    notes.apply([playbook.add("tactics", "Rest at dusk.", source="bob")], "three", "me")
    return notes


def read_tree(folder, *parts):
    files = (path for part in parts for path in sorted((folder / part).rglob("*")))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_export_writes_files_of_the_seed(notes, tmp_path):
    playbook.export_folder(notes, tmp_path)
    assert sorted(read_tree(tmp_path, "deltas", "current", "archive")) == [
        "archive/metadata.json", "archive/recipes.md", "current/metadata.json", "current/tactics.md",
        "deltas/000001.json", "deltas/000002.json", "deltas/000003.json",
    ]  # fmt: skip
    assert (tmp_path / "current/tactics.md").read_text() == (
        "# tactics\n\n## turns 0 to 49\n\n- [tactics-00001] helpful=1 harmful=0 :: Wolves fear fire.\n"
        "- [tactics-00003] helpful=0 harmful=0 :: Rest at dusk.\n"
    )
    delta = json.loads((tmp_path / "deltas/000002.json").read_text())
    assert delta["deltas"][0]["outcome"] == "applied"
    (entry,) = json.loads((tmp_path / "archive/metadata.json").read_text())["retired"]
    assert (entry["bullet"]["id"], entry["turn"], entry["reason"]) == ("recipes-00002", 2, "removed")


def test_import_restores_exported_playbook(notes, tmp_path):
    playbook.export_folder(notes, tmp_path)
    assert playbook.load_folder(tmp_path) == notes.current()
    other = playbook.PlaybookStore(store.MemoryVersions())
    assert playbook.import_folder(other, tmp_path) == notes.current()
    assert playbook.import_folder(other, tmp_path) == notes.current()
    assert other.version == 1


def test_rollback_restores_files_byte_for_byte(notes, tmp_path):
    notes.rollback(1)
    playbook.export_folder(notes, tmp_path / "a")
    notes.apply([playbook.remove("tactics-00001"), playbook.add("other", "A new section.")], "more", "me")
    playbook.export_folder(notes, tmp_path / "a")
    assert (tmp_path / "a/current/other.md").exists()
    notes.rollback(1)
    playbook.export_folder(notes, tmp_path / "a")
    fresh = playbook.PlaybookStore(notes.versions)
    playbook.export_folder(fresh, tmp_path / "b")
    assert read_tree(tmp_path / "a", "current", "archive") == read_tree(tmp_path / "b", "current", "archive")
    notes.rollback(3)
    playbook.export_folder(notes, tmp_path / "a")
    assert playbook.load_folder(tmp_path / "a") == notes.get_version(3)
    assert (tmp_path / "a/archive/recipes.md").exists()


def test_import_reads_edited_markdown(notes, tmp_path):
    playbook.export_folder(notes, tmp_path)
    file = tmp_path / "current/tactics.md"
    text = file.read_text().replace("Rest at dusk.", "Rest at dawn.")
    file.write_text(text + "- [tactics-00077] helpful=0 harmful=0 :: Sing.\n")
    (tmp_path / "current/recipes.md").write_text("# recipes\n\n- [recipes-00078] helpful=2 harmful=0 :: Bake bread.\n")
    imported = playbook.load_folder(tmp_path)
    assert imported.bullets["tactics-00003"].content == "Rest at dawn."
    assert imported.bullets["tactics-00003"].provenance == notes.current().bullets["tactics-00003"].provenance
    assert imported.bullets["recipes-00078"].helpful == 2
    assert imported.serial == 78


@pytest.mark.parametrize(
    "line", ["no bullet", "- [tactics-1] helpful=0 harmful=0 :: x", "- [other-00001] helpful=0 harmful=0 :: x"]
)
def test_invalid_bullet_line_is_refused(notes, tmp_path, line):
    playbook.export_folder(notes, tmp_path)
    file = tmp_path / "current/tactics.md"
    file.write_text(file.read_text() + line + "\n")
    with pytest.raises(errors.SetupError, match="not a bullet"):
        playbook.load_folder(tmp_path)


def test_folder_without_playbook_is_refused(tmp_path):
    with pytest.raises(errors.SetupError, match=r"metadata\.json"):
        playbook.load_folder(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", '{"bullets": 3}', '{"bullets": [{"id": "x"}]}', "\0"])
def test_invalid_metadata_is_refused(notes, tmp_path, text):
    playbook.export_folder(notes, tmp_path)
    (tmp_path / "current/metadata.json").write_text(text)
    with pytest.raises(errors.SetupError, match="metadata"):
        playbook.load_folder(tmp_path)


def test_ace_text_can_be_parsed(notes):
    text = notes.current().to_text()
    assert text.startswith("## TACTICS\n[tactics-00001] helpful=1 harmful=0 :: Wolves fear fire.\n")
    assert [bullet.id for bullet in files.parse_section(text)] == list(notes.current().bullets)
