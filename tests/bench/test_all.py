"""The command that runs all benchmarks: it lists every benchmark and skips finished ones."""

import re
import tomllib
from pathlib import Path

from bench import all as every
from bench import outcome

BENCH = Path(every.__file__).parent
PARTS_OF_OTHERS = {"all", "governed", "sr_run", "gepa_peer"}


def test_all_lists_every_benchmark():
    found = {path.stem for path in BENCH.glob("*.py") if re.search(r"^def main", path.read_text(), re.MULTILINE)}
    assert {each.module or each.name for each in every.BENCHES} == found - PARTS_OF_OTHERS


def test_readme_lists_every_benchmark():
    text = (BENCH / "README.md").read_text()
    assert [each.name for each in every.BENCHES if f"| `{each.name}` |" not in text] == []


def test_results_list_every_table_with_command_and_commit():
    text = (BENCH.parent / "docs" / "results.md").read_text()
    assert every.list_tables() in text, "replace the table by the output of `scripts/bench all --commits`"


def test_extras_of_benchmarks_are_extras_of_atoll():
    extras = tomllib.loads((BENCH.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    found = {path.stem: re.findall(r'^EXTRA = "(.*)"$', path.read_text(), re.MULTILINE) for path in BENCH.glob("*.py")}
    assert found["survival"] == ["envs"]  # MiniGrid and Crafter
    assert {name for names in found.values() for name in names} <= set(extras)


def test_ledger_keeps_finished_benchmarks_unless_fresh(tmp_path):
    every.DoneList(tmp_path / "state.json", tmp_path, is_fresh=False).note("engine", 1.5)
    (tmp_path / "tuner.parts.json").touch()
    assert every.DoneList(tmp_path / "state.json", tmp_path, is_fresh=False).minutes("engine") == 1.5
    assert (tmp_path / "tuner.parts.json").exists()
    assert every.DoneList(tmp_path / "state.json", tmp_path, is_fresh=True).minutes("engine") is None
    assert not (tmp_path / "tuner.parts.json").exists()


def test_ledger_keeps_parts_of_an_interrupted_benchmark(tmp_path):
    every.DoneList(tmp_path / "state.json", tmp_path, is_fresh=False)
    (tmp_path / "sr.parts.json").touch()
    every.DoneList(tmp_path / "state.json", tmp_path, is_fresh=False)
    assert (tmp_path / "sr.parts.json").exists()


def test_ledger_ignores_results_of_another_commit(tmp_path):
    (tmp_path / "state.json").write_text('{"commit": "0000000", "minutes": {"engine": 1.5}}')
    assert every.DoneList(tmp_path / "state.json", tmp_path, is_fresh=False).minutes("engine") is None


def test_command_in_results_hides_local_folders(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["bench/fit.py", "--data", str(tmp_path), "--seeds", "5"])
    assert outcome.command("fit") == "scripts/bench fit --data DIR --seeds 5"
