"""Command `export`."""

import csv
import io
import json
import subprocess

import pytest

from atoll import store
from tests.cli import apps, terminals
from tests.runs import samples


@pytest.fixture
def shell(capsys):
    return apps.Shell(capsys)


def test_export_needs_exactly_one_format(shell):
    assert "Missing option '--format'" in shell.fail("export", "asked")
    assert "--format xml is not valid. Pass one of jsonl, csv" in shell.fail("export", "asked", "--format", "xml")
    assert "Name it with -o DIR" in shell.fail("export", "asked", "--format", "openevolve")
    assert "--format csv jsonl is not valid" in shell.fail("export", "asked", "--format", "csv", "--format", "jsonl")


def test_jsonl_equals_store_export(shell):
    with store.open(samples.library()) as run_store:
        assert shell("export", "failing", "--format", "jsonl").lines == list(run_store.export("failing"))
    first = json.loads(shell("export", "failing", "--format", "jsonl").lines[0])
    assert {"id", "parents", "island", "step", "content", "score", "metrics", "failure"} <= set(first)


@pytest.mark.parametrize("format", ["jsonl", "csv", "dataset"])
def test_equal_runs_export_equal_bytes(format, capsys, tmp_path):
    path = str(tmp_path / "atoll.db")
    with store.open(path) as run_store:
        for name in ("one", "two"):
            samples.ask(run_store, name)
    shell = apps.Shell(capsys, path)
    assert shell("export", "one", "--format", format).out == shell("export", "two", "--format", format).out


def test_csv_has_one_row_per_candidate(shell):
    rows = list(csv.DictReader(io.StringIO(shell("export", "asked", "--format", "csv").out, newline="")))
    assert [row["id"] for row in rows] == ["0.0", "1.0", "4.0", "5.0", "6.0"]
    assert rows[1]["score"] == "-4.0"
    assert rows[1]["metric value"] == "1.0"
    assert rows[1]["feedback"] == "1.0 is near\nbut not it"
    assert rows[2]["score"] == ""
    assert rows[2]["failure"].endswith(" raised ValueError: -1.000 is below zero")


def test_dataset_has_one_line_per_response(shell):
    lines = [json.loads(line) for line in shell("export", "asked", "--format", "dataset").lines]
    assert [line["reply"] for line in lines] == ["1.0", "no number", "", "-1.0", "2.5", "0.5"]


def test_dataset_without_llm_is_empty_with_note(shell, tmp_path):
    output = shell("export", samples.LONG_ID, "--format", "dataset")
    assert not output.out
    assert output.err == f"atoll: Run {samples.LONG_ID} made no LLM calls, so its dataset export is empty.\n"
    shell("export", samples.LONG_ID, "--format", "dataset", "-o", str(tmp_path / "data.jsonl"))
    assert (tmp_path / "data.jsonl").read_bytes() == b""


@pytest.mark.parametrize("format", ["jsonl", "csv", "dataset", "html"])
@pytest.mark.parametrize("run", ["hostile", "empty", "cut", "bare"])
def test_file_and_stdout_get_the_same(format, run, shell, tmp_path):
    path = tmp_path / "out"
    shell("export", run, "--format", format, "-o", str(path))
    assert path.read_bytes().decode() == shell("export", run, "--format", format).out
    assert [item.name for item in tmp_path.iterdir()] == ["out"]


def test_file_is_replaced_atomically(shell, tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("older")
    shell.fail("export", "nope", "--format", "csv", "-o", str(path))
    assert path.read_text() == "older"
    shell("export", "asked", "--format", "csv", "-o", str(path))
    assert path.read_text().startswith("id,")


def test_new_file_has_default_mode(shell, tmp_path):
    (tmp_path / "plain").touch()
    shell("export", "asked", "--format", "csv", "-o", str(tmp_path / "run.csv"))
    assert (tmp_path / "run.csv").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_device_is_written_in_place(shell):
    shell("export", "asked", "--format", "csv", "-o", "/dev/null")
    assert "No space left on device" in shell.fail("export", "asked", "--format", "csv", "-o", "/dev/full")


def test_closed_pipe_ends_export_quietly():
    command = [*terminals.ATOLL, "export", "hostile", "--format", "jsonl", "--store", samples.library()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
