"""`atoll export`: a run for other programs and other people."""

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


def test_exactly_one_format_is_wanted(shell):
    assert "export was given no format: choose one of --jsonl, " in shell.refused("export", "asked")
    assert "given --jsonl and --csv at once" in shell.refused("export", "asked", "--csv", "--jsonl")


def test_jsonl_is_what_the_store_exports(shell):
    with store.open(samples.library()) as kept:
        assert shell("export", "failing", "--jsonl").lines == list(kept.export("failing"))
    first = json.loads(shell("export", "failing", "--jsonl").lines[0])
    assert {"id", "parents", "island", "step", "content", "score", "metrics", "failure"} <= set(first)


@pytest.mark.parametrize("format", ["--jsonl", "--csv", "--dataset"])
def test_equal_runs_give_equal_bytes(format, capsys, tmp_path):
    path = str(tmp_path / "atoll.db")
    with store.open(path) as kept:
        for name in ("one", "two"):
            samples.ask(kept, name)
    shell = apps.Shell(capsys, path)
    assert shell("export", "one", format).out == shell("export", "two", format).out


def test_csv_has_a_row_per_candidate(shell):
    rows = list(csv.DictReader(io.StringIO(shell("export", "asked", "--csv").out, newline="")))
    assert [row["id"] for row in rows] == ["0.0", "1.0", "4.0", "5.0", "6.0"]
    assert rows[1]["score"] == "-4.0"
    assert rows[1]["metric value"] == "1.0"
    assert rows[1]["feedback"] == "1.0 is near\nbut not it"
    assert rows[2]["score"] == ""
    assert rows[2]["failure"] == "the judge raised ValueError: -1.000 is below zero"


def test_dataset_has_a_line_per_reply(shell):
    lines = [json.loads(line) for line in shell("export", "asked", "--dataset").lines]
    assert [line["reply"] for line in lines] == ["1.0", "no number", "", "-1.0", "2.5", "0.5"]


def test_a_run_without_a_model_has_an_empty_dataset_and_says_so(shell, tmp_path):
    told = shell("export", samples.LONG_ID, "--dataset")
    assert not told.out
    assert told.err == f"atoll: Run {samples.LONG_ID} asked no model, so its dataset is empty.\n"
    shell("export", samples.LONG_ID, "--dataset", "-o", str(tmp_path / "data.jsonl"))
    assert (tmp_path / "data.jsonl").read_bytes() == b""


@pytest.mark.parametrize("format", ["--jsonl", "--csv", "--dataset", "--html"])
@pytest.mark.parametrize("run", ["hostile", "empty", "cut", "bare"])
def test_every_run_goes_into_a_file_and_to_stdout_alike(format, run, shell, tmp_path):
    path = tmp_path / "out"
    shell("export", run, format, "-o", str(path))
    assert path.read_bytes().decode() == shell("export", run, format).out
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_a_file_is_replaced_only_when_all_is_there(shell, tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("older")
    shell.refused("export", "nope", "--csv", "-o", str(path))
    assert path.read_text() == "older"
    shell("export", "asked", "--csv", "-o", str(path))
    assert path.read_text().startswith("id,")


def test_a_new_file_has_the_rights_of_any_new_file(shell, tmp_path):
    (tmp_path / "plain").touch()
    shell("export", "asked", "--csv", "-o", str(tmp_path / "run.csv"))
    assert (tmp_path / "run.csv").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_device_is_written_and_not_replaced(shell):
    shell("export", "asked", "--csv", "-o", "/dev/null")
    assert "No space left on device" in shell.refused("export", "asked", "--csv", "-o", "/dev/full")


def test_a_reader_that_has_seen_enough_ends_it_quietly():
    command = [*terminals.ATOLL, "export", "hostile", "--jsonl", "--store", samples.library()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
