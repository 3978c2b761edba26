"""All benchmarks in one command: none is forgotten, and what is done is not done again."""

import re
import tomllib
from pathlib import Path

from bench import all as every
from bench import outcome

BENCH = Path(every.__file__).parent
PARTS_OF_OTHERS = {"all", "governed", "sr_run", "gepa_peer"}


def test_every_benchmark_is_among_all():
    found = {path.stem for path in BENCH.glob("*.py") if re.search(r"^def main", path.read_text(), re.MULTILINE)}
    assert {each.name for each in every.BENCHES} == found - PARTS_OF_OTHERS


def test_every_benchmark_is_told_of_in_the_readme():
    text = (BENCH / "README.md").read_text()
    assert [each.name for each in every.BENCHES if f"| `{each.name}` |" not in text] == []


def test_what_a_benchmark_has_installed_for_it_is_an_extra_of_atoll():
    extras = tomllib.loads((BENCH.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    found = {path.stem: re.findall(r'^EXTRA = "(.*)"$', path.read_text(), re.MULTILINE) for path in BENCH.glob("*.py")}
    assert found["survival"] == ["envs"]  # MiniGrid and Crafter
    assert {name for names in found.values() for name in names} <= set(extras)


def test_what_is_done_is_known_at_the_next_start_and_forgotten_when_wanted(tmp_path):
    every.DoneList(tmp_path / "state.json", tmp_path, is_fresh=False).note("engine", 1.5)
    (tmp_path / "tuner.parts.json").touch()
    assert every.DoneList(tmp_path / "state.json", tmp_path, is_fresh=False).minutes("engine") == 1.5
    assert (tmp_path / "tuner.parts.json").exists()
    assert every.DoneList(tmp_path / "state.json", tmp_path, is_fresh=True).minutes("engine") is None
    assert not (tmp_path / "tuner.parts.json").exists()


def test_a_cut_within_the_first_benchmark_keeps_what_that_one_had_done(tmp_path):
    every.DoneList(tmp_path / "state.json", tmp_path, is_fresh=False)
    (tmp_path / "sr.parts.json").touch()
    every.DoneList(tmp_path / "state.json", tmp_path, is_fresh=False)
    assert (tmp_path / "sr.parts.json").exists()


def test_what_was_done_at_another_commit_is_not_done(tmp_path):
    (tmp_path / "state.json").write_text('{"commit": "0000000", "minutes": {"engine": 1.5}}')
    assert every.DoneList(tmp_path / "state.json", tmp_path, is_fresh=False).minutes("engine") is None


def test_a_result_names_no_folder_of_a_machine(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["bench/fit.py", "--data", str(tmp_path), "--seeds", "5"])
    assert outcome.command("fit") == "scripts/bench fit --data DIR --seeds 5"
