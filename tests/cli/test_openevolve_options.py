"""Options of `openevolve-run`."""

import json
import logging
from pathlib import Path

import pytest

from atoll import cli, testing

ROOT = Path(__file__).parent.parent.parent
SWING = ROOT / "bench" / "tasks" / "swing"
FILES = [str(SWING / "initial_program.py"), str(SWING / "evaluator.py"), "--config", str(SWING / "config.yaml")]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    logging.getLogger("atoll").setLevel(logging.NOTSET)


def test_run_accepts_openevolve_options(capsys, folder):  # P20
    with testing.ModelServer(lambda prompt, number: "no program") as server:
        options = ["--api-base", server.url, "--primary-model", "m", "--secondary-model", "n", "-i", "3", "-t", "9"]
        status = cli.main(["run", *FILES, *options, "-o", "out", "-l", "ERROR", "--json"])
    output = capsys.readouterr()
    result = json.loads(output.out.splitlines()[-1])
    assert (status, result["steps"]) == (0, 3)
    assert result["llm"] == f"openai:m@{server.url}*1,openai:n@{server.url}*0.2"
    assert len(server.requests) >= 3
    assert (folder / "out" / "checkpoints" / "checkpoint_0" / "metadata.json").is_file()
    assert "DECAY" in (folder / "out" / "best" / "best_program.py").read_text()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--log-level", "loud"], "Log level 'loud' is unknown. Use one of DEBUG, INFO"),
        (["--llm", "openai:a", "--primary-model", "b"], "--llm and --primary-model or --api-base both name an LLM."),
    ],
)
def test_contradicting_options_fail(capsys, options, text):
    assert cli.main(["run", *FILES, *options]) == 2
    assert text in capsys.readouterr().err
