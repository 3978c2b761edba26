"""A run as Markdown."""

import re

import pytest

from atoll import store
from atoll.runs import markdown_report, summary
from tests.runs import samples
from tests.store.samples import applied, child, founded, judged


@pytest.fixture(scope="module")
def kept():
    with store.open(samples.library()) as opened:
        yield opened


def page(kept: store.Store, run: str) -> str:
    return "\n".join(markdown_report.iter_report_lines(kept, run))


def test_it_says_what_was_run_what_came_out_and_that_there_were_no_baselines(kept):
    text = page(kept, "failing")
    assert "Evolved `kinetic_energy` with the system `llmsr` and no LLM; candidates ran in sandbox `L0`." in text
    assert "done (`budget of 60 iterations used`)." in text
    assert "\nThe gain is 6.60903, reached after 121 of 121 evaluations.\n" in text
    assert "\n| initial | -9 | 0.0 |\n| best | -2.39097 | 60.0 |\n" in text
    assert "\nBaselines: not run: 'atoll resume failing --baselines' runs them.\n" in text


def test_the_way_to_the_best_is_a_table_and_a_line(kept):
    text = page(kept, "asked")
    assert "\n| 1 | -9 |  | 0.0 |\n| 2 | -4 | +5 | 1.0 |\n| 4 | -0.25 | +3.75 | 5.0 |\n" in text
    assert "Lineage of the best: 5.0 ← 1.0 ← 0.0." in text


def test_failures_are_counted_by_reason(kept):
    text = page(kept, "asked")
    assert "| 1 | `judge` | `the judge raised ValueError: -1.000 is below zero` |" in text
    assert "| 1 | `engine` | `the engine raised ValueError: could not convert string to float: 'no number'` |" in text
    assert "5 evaluations, 3 failures, 6 LLM calls, 60 tokens in, 30 tokens out, $0.0060" in text


def test_reasons_that_differ_in_numbers_only_are_one(kept):
    (reason,) = summary.count_failures(kept, "failing").failures
    assert (reason.count, reason.text) == (6, "the judge raised ValueError: -N is below zero")
    assert reason.count == markdown_report.load_report_data(kept, "failing").summary.totals.failures


def test_what_gates_kept_out_is_no_failure(kept):
    found = summary.count_failures(kept, "hostile")
    assert [(each.count, each.source, each.text) for each in found.rejections] == [
        (1, "a gate", "rejected for a reason")
    ]


def test_a_run_that_has_not_begun_has_a_report_too(kept):
    text = page(kept, "empty")
    assert "No candidate has a score yet." in text
    assert "## Best candidate" not in text
    assert "\n## Failures\n\nNone.\n" in text


def test_a_run_that_found_nothing_better_says_so(tmp_path):
    with store.open(tmp_path / "atoll.db") as kept:
        kept.create_run("run")
        kept.journal("run").write(founded(1.0), judged("1.0", 0.5), applied(1, child("1.0")))
        assert "No candidate is better than the initial one after 2 evaluations." in page(kept, "run")


def test_of_very_many_improvements_the_first_and_the_last_are_shown(tmp_path):
    with store.open(tmp_path / "atoll.db") as kept:
        kept.create_run("run")
        steps = [(judged(f"{n}.0", 1.0 + n, parents=[f"{n - 1}.0"]), applied(n, child(f"{n}.0"))) for n in range(1, 90)]
        kept.journal("run").write(founded(1.0), *(record for step in steps for record in step))
        text = page(kept, "run")
        assert "| … |  |  |  |" in text
        assert "| 10 | 10 | +1 | 9.0 |\n| … |" in text
        assert text.count(" | +1 | ") == 29


def test_hostile_text_stays_inside_code(kept):
    text = page(kept, "hostile")
    outside = re.sub(r"(?ms)^(`{3,})\w*\n.*?^\1$", "", text)
    outside = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", outside)
    assert "<" not in outside
    assert "not a heading" not in outside
    assert "[/bold]" not in outside
    assert "\x1b" not in text


def test_a_source_with_fences_is_fenced_longer(tmp_path):
    with store.open(tmp_path / "atoll.db") as kept:
        kept.create_run("run")
        kept.journal("run").write(founded(1.0, samples.FENCE))
        assert f"\n`````\n{samples.FENCE}\n`````\n" in page(kept, "run")
