"""Command `import`, and OpenEvolve folders and checkpoints (P20, P21)."""

import json
from pathlib import Path
from typing import Any

import pytest

from atoll import cli, store

EVALUATOR = "import runpy\ndef evaluate(path): return {'combined_score': runpy.run_path(path)['KNOB']}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ATOLL_STORE", raising=False)
    tmp_path.chmod(0o755)
    task = tmp_path / "task"
    task.mkdir(mode=0o755)
    (task / "initial_program.py").write_text("KNOB = 0.5\n")
    (task / "evaluator.py").write_text(EVALUATOR)
    return task


def run(capsys, *arguments: str) -> tuple[dict[str, Any], str]:
    assert cli.main([*arguments, "--json"]) == 0, capsys.readouterr().err
    output = capsys.readouterr()
    return json.loads(output.out.splitlines()[-1]), output.err


class TestCommandLine:
    def test_run_takes_program_evaluator_and_config(self, capsys):
        Path("other.yaml").write_text("max_iterations: 30\nrandom_seed: 4\n")
        files = ("task/initial_program.py", "task/evaluator.py")
        result, text = run(capsys, "run", *files, "-c", "other.yaml", "-i", "2", "-o", "out", "-t", "1e9")
        assert (result["initial_score"], result["steps"]) == (0.5, 2)
        assert "Written to" in text
        assert Path("out", "best").is_dir()

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (["task/initial_program.py"], "Name its evaluator too: 'atoll run task/initial_program.py EVALUATOR'."),
            (["task/none.py", "task/evaluator.py"], "task/none.py"),
            (["task", "-c", "none.yaml"], "none.yaml"),
            (["task", "--checkpoint", "none"], "none"),
            (["task", "--llm", "config"], "task has no configuration that names an LLM. Pass --llm openai:NAME."),
        ],
    )
    def test_missing_file_prints_one_sentence(self, capsys, arguments, text):
        assert cli.main(["run", *arguments]) == 2
        assert text in capsys.readouterr().err


class TestCheckpoints:
    def test_run_is_exported_and_imported(self, capsys, folder):
        first, _ = run(capsys, "run", "task", "--iterations", "8")
        assert (
            cli.main(["export", first["run"], "--format", "openevolve", "-o", "task/openevolve_output/checkpoints"])
            == 0
        )
        path = folder / "openevolve_output" / "checkpoints" / "checkpoint_8"
        about = json.loads((path / "metadata.json").read_text())
        assert len(list((path / "programs").glob("*.json"))) == sum(map(len, about["islands"]))
        assert (path / "best_program.py").read_text().startswith("KNOB")
        best = json.loads((path / "best_program_info.json").read_text())
        assert best["metrics"]["combined_score"] == first["best_score"]

        second, text = run(capsys, "import", "task/openevolve_output")
        assert second["best_score"] == first["best_score"]
        assert second["evaluations"] > 1
        assert "Continue:" in text
        with store.Store("atoll.db") as run_store:
            rows = [row for row in run_store.candidates(second["run"]) if row.step]
        assert {row.meta["engine"] for row in rows} == {"import"}
        assert rows[0].parents == ("0.0",)

        third, _ = run(capsys, "resume", second["run"], "--iterations", "3")
        assert third["steps"] == second["steps"] + 3

    def test_run_starts_from_checkpoint(self, capsys, folder):
        path = folder / "checkpoint_5"
        (path / "programs").mkdir(parents=True)
        program = {"id": "x", "code": "KNOB = 7.5\n", "metrics": {"combined_score": 7.5}, "iteration_found": 4}
        (path / "programs" / "x.json").write_text(json.dumps(program))
        result, _ = run(capsys, "run", "task", "--checkpoint", str(path), "--iterations", "2")
        assert (result["steps"], result["initial_score"]) == (3, 0.5)
        assert result["best_score"] >= 7.5

    def test_changed_checkpoint_is_detected(self, capsys, folder):
        self.test_run_starts_from_checkpoint(capsys, folder)
        (folder / "checkpoint_5" / "programs" / "x.json").write_text('{"code": "KNOB = 1"}')
        assert cli.main(["resume", "latest", "--iterations", "1"]) == 2
        assert "have changed since run" in capsys.readouterr().err

    @pytest.mark.parametrize("content", ["{", "[]", "{}", '{"code": 1}'])
    def test_damaged_checkpoint_prints_one_sentence(self, capsys, folder, content):
        path = folder / "checkpoint_5"
        (path / "programs").mkdir(parents=True)
        (path / "programs" / "x.json").write_text(content)
        assert cli.main(["import", str(path)]) == 2
        text = capsys.readouterr().err
        assert text.count("\n") == 1
        assert "is not a checkpoint program: " in text

    def test_checkpoint_outside_a_task_needs_task(self, capsys, tmp_path):
        (tmp_path / "lonely" / "programs").mkdir(parents=True)
        assert cli.main(["import", "lonely"]) == 2
        assert "Name the task: 'atoll import lonely TASK'." in capsys.readouterr().err
