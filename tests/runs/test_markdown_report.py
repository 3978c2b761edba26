"""A run as Markdown."""

import re

import pytest

from atoll import store
from atoll.runs import markdown_report, summary
from tests.runs import samples
from tests.store.samples import applied, child, founded, judged


@pytest.fixture(scope="module")
def run_store():
    with store.open(samples.library()) as opened:
        yield opened


def page(run_store: store.Store, run: str) -> str:
    return "\n".join(markdown_report.iter_report_lines(run_store, run))


def test_report_describes_run_outcome_and_missing_baselines(run_store):
    text = page(run_store, "failing")
    assert "Evolved `kinetic_energy` with the system `llmsr` and no LLM; candidates ran in sandbox `L0`." in text
    assert "done (`budget of 60 iterations used`)." in text
    assert "\nThe gain is 6.60903, reached after 121 of 121 evaluations. By mutator: " in text
    assert "\n| initial | -9 | 0.0 |\n| best | -2.39097 | 60.0 |\n" in text
    assert "\nBaselines: not run. 'atoll resume failing --baselines' runs them.\n" in text


def test_report_has_improvements_and_lineage(run_store):
    text = page(run_store, "asked")
    assert "\n| 1 | -9 |  | 0.0 |\n| 2 | -4 | +5 | 1.0 |\n| 4 | -0.25 | +3.75 | 5.0 |\n" in text
    assert "Lineage of the best: 5.0 ← 1.0 ← 0.0." in text


def test_report_counts_failures_by_reason(run_store):
    text = page(run_store, "asked")
    assert "| 1 | `judge` | `the evaluator raised ValueError: -1.000 is below zero` |" in text
    assert "| 1 | `engine` | `the mutator raised ValueError: could not convert string to float: 'no number'` |" in text
    assert "5 evaluations, 3 failures, 7 LLM calls, 60 tokens in, 30 tokens out, $0.0060" in text


def test_failure_reasons_that_differ_in_numbers_are_grouped(run_store):
    (reason,) = summary.count_failures(run_store, "failing").failures
    assert (reason.count, reason.text) == (6, "the evaluator raised ValueError: -N is below zero")
    assert reason.count == markdown_report.load_report_data(run_store, "failing").summary.totals.failures


def test_gate_rejections_are_not_failures(run_store):
    result = summary.count_failures(run_store, "hostile")
    assert [(item.count, item.source, item.text) for item in result.rejections] == [
        (1, "a gate", "rejected for a reason")
    ]


def test_report_of_empty_run(run_store):
    text = page(run_store, "empty")
    assert "No candidate has a score yet." in text
    assert "## Best candidate" not in text
    assert "\n## Failures\n\nNone.\n" in text


def test_report_of_run_without_gain(tmp_path):
    with store.open(tmp_path / "atoll.db") as run_store:
        run_store.create_run("run")
        run_store.journal("run").write(founded(1.0), judged("1.0", 0.5), applied(1, child("1.0")))
        assert "No candidate is better than the initial one after 2 evaluations." in page(run_store, "run")


def test_gain_is_divided_among_mutators(tmp_path):
    with store.open(tmp_path / "atoll.db") as run_store:
        run_store.create_run("run")
        children = [("1.0", 1.5, "rewrite"), ("2.0", 2.0, "tuner"), ("3.0", 1.0, "tuner"), ("4.0", 3.0, "rewrite")]
        records = [founded(1.0)]
        for id, score, engine in children:
            record = judged(id, score)
            record = record._replace(data={**record.data, "meta": {"engine": engine}})
            records += [record, applied(int(id[0]), child(id))]
        run_store.journal("run").write(*records)
        text = page(run_store, "run")
    assert "By mutator: rewrite +1.5 in 2 new bests, tuner +0.5 in 1 new best." in text


def test_report_shortens_long_improvement_list(tmp_path):
    with store.open(tmp_path / "atoll.db") as run_store:
        run_store.create_run("run")
        steps = [(judged(f"{n}.0", 1.0 + n, parents=[f"{n - 1}.0"]), applied(n, child(f"{n}.0"))) for n in range(1, 90)]
        run_store.journal("run").write(founded(1.0), *(record for step in steps for record in step))
        text = page(run_store, "run")
        assert "| … |  |  |  |" in text
        assert "| 10 | 10 | +1 | 9.0 |\n| … |" in text
        assert text.count(" | +1 | ") == 29


def test_report_keeps_hostile_text_inside_code(run_store):
    text = page(run_store, "hostile")
    outside = re.sub(r"(?ms)^(`{3,})\w*\n.*?^\1$", "", text)
    outside = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", outside)
    assert "<" not in outside
    assert "not a heading" not in outside
    assert "[/bold]" not in outside
    assert "\x1b" not in text


def test_report_uses_longer_fence_for_source_with_fences(tmp_path):
    with store.open(tmp_path / "atoll.db") as run_store:
        run_store.create_run("run")
        run_store.journal("run").write(founded(1.0, samples.FENCE))
        assert f"\n`````\n{samples.FENCE}\n`````\n" in page(run_store, "run")
