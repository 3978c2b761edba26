"""Contests of bench/gepa_llm.py with a scripted endpoint."""

import pytest

from bench import gepa_llm
from bench.tasks import prompt_sets
from tests.bench.scripted_endpoint import ScriptedEndpoint


def test_contest_counts_calls_and_scores_sealed_test():
    with ScriptedEndpoint() as endpoint:
        systems = gepa_llm.contest("classification", 0, {"calls": 120}, endpoint.name, None, None)
        few = gepa_llm.contest("classification", 0, {"replies": 3}, endpoint.name, None, None)
    for result in systems.values():
        assert result["initial"] == 0.0
        assert result["test"] == result["validation"] == 1.0
        assert result["calls"] <= 120
    assert all(result["replies"] <= 3 for result in few.values())
    rows = [{"data": "classification", "budget": gepa_llm.EQUAL_CALLS, "seed": 0, "systems": systems}]
    assert gepa_llm.verdicts(rows) == ["classification, equal metric calls: Atoll 1.0000, sequential 1.0000: equal."]
    assert gepa_llm.tables(rows)


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
