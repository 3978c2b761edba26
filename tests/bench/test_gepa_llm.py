"""Contests of bench/gepa_llm.py with a scripted endpoint."""

import argparse
import json
from typing import Any

import pytest

from bench import gepa_llm, outcome
from bench.tasks import prompt_sets
from tests.bench.scripted_endpoint import ScriptedEndpoint


def make_runs(kind: str) -> list[gepa_llm.Run]:
    return [gepa_llm.Run("classification", kind, 0, system) for system in gepa_llm.SYSTEMS]


def test_contest_counts_calls_and_scores_sealed_test():
    def run_all(kind: str, **limits: int) -> list[dict[str, Any]]:
        runs = make_runs(kind)
        return [{**run._asdict(), **gepa_llm.run_one(run, limits, endpoint.name, None, pytest.fail)} for run in runs]

    with ScriptedEndpoint() as endpoint:
        rows = run_all(gepa_llm.EQUAL_CALLS, calls=120)
        few = run_all(gepa_llm.EQUAL_REPLIES, replies=3)
    for row in rows:
        assert row["initial"] == 0.0
        assert row["test"] == row["validation"] == 1.0
        assert row["calls"] <= 120
    assert all(row["replies"] <= 3 for row in few)
    assert gepa_llm.verdicts(rows) == ["classification, equal metric calls: Atoll 1.0000, sequential 1.0000: equal."]
    assert gepa_llm.tables(rows)


def test_finished_runs_are_not_repeated(tmp_path, monkeypatch):
    monkeypatch.setattr(outcome, "RESULTS_DIR", tmp_path)
    out = tmp_path / "runs.jsonl"
    result = {"test": 0.5, "validation": 0.5, "initial": 0.0, "calls": 9, "replies": 2, "best": "x"}
    runs = [run for kind in (gepa_llm.EQUAL_CALLS, gepa_llm.EQUAL_REPLIES) for run in make_runs(kind)]
    out.write_text("".join(json.dumps({**run._asdict(), **result}) + "\n" for run in runs))
    options = argparse.Namespace(
        out=out, no_peers=True, replies=2, data=["classification"], jobs=1, llm="openai:none@http://x", formulas=None
    )
    gepa_llm.run_all(options, 1, 9, pytest.fail)
    assert len(out.read_text().splitlines()) == 4


@pytest.mark.parametrize("name", ["classification", "extraction"])
def test_generated_data_sets_are_large_and_fixed(name):
    parts, again = prompt_sets.sets(name, 1), prompt_sets.sets(name, 1)
    assert parts == again
    assert [len(part) for part in parts] == [30, 30, 60]
    assert parts.test == prompt_sets.sets(name, 2).test
    inputs = [item["input"] for part in parts[:2] for item in part]
    assert not set(inputs) & {item["input"] for item in parts.test}


@pytest.mark.parametrize(
    ("name", "output", "answer", "expected"),
    [
        ("formula", "The margin is 1,234.50", "1234.5", 1.0),
        ("formula", "none", "1", 0.0),
        ("classification", "`KEYS`", "KEYS", 1.0),
        ("classification", "The KEYS team", "KEYS", 0.0),
        ("extraction", "BYRON|20200101|5", "BYRON|20200101|500", 2 / 3),
        ("extraction", "Byron", "BYRON|20200101|500", 0.0),
    ],
)
def test_scores(name, output, answer, expected):
    assert prompt_sets.score(name, output, answer) == pytest.approx(expected)
