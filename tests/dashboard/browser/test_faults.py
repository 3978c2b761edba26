"""Faults that an earlier page had, and the tests that keep them away. This file has those without a test elsewhere.

`answers` is tests/dashboard/test_answers.py, `page` is tests/dashboard/browser/test_answers.py.

 1. The mean of an island covered only its newest evaluations: answers, test_island_mean_covers_all_evaluations_so_far.
 2. The remaining time ignored the time limit: answers, test_eta_respects_the_time_limit.
 3. The overview had neither result nor settings: page, test_overview_answers_with_best_chart_failures_and_settings;
    answers, test_answer_says_what_was_found_with_diff_settings_and_next_steps and test_headline_of_each_system.
 4. The list of failed candidates was empty: page, test_failed_candidates_are_listed_with_reasons; answers,
    test_failed_candidates_are_listed_in_every_order and test_failures_are_grouped_by_reason_with_examples.
 5. A candidate with an error output looked accepted: answers, test_score_with_error_output_has_a_warning; page,
    test_side_panel_opens_from_a_table_and_follows_keys.
 6. The diff was against a parent that was not edited: answers, test_diff_is_against_the_edited_parent; here,
    test_candidate_page_compares_with_the_edited_parent.
 7. Each LLM had two rows: answers, test_model_appears_once_with_its_reply_name; here, test_llm_has_one_row.
 8. An outlier or a log scale flattened the curve: page, test_outlier_does_not_flatten_the_curve_and_scale_is_linear.
 9. No zoom, log scale, time axis or choice of the metric: page,
    test_overview_answers_with_best_chart_failures_and_settings; here, test_metric_of_the_chart_is_chosen.
10. Tooltips showed interpolated values: page, test_tick_texts_differ_and_readings_are_data.
11. Live updates were late, and rows moved under the reader: page, test_live_update_takes_less_than_a_second; here,
    test_rows_of_events_do_not_move.
12. Runs did not fit, and an unknown price was $0: page, test_runs_fit_get_labels_and_are_compared; here,
    test_unknown_price_is_never_zero.
13. A comparison had no names, settings or table: page, test_runs_fit_get_labels_and_are_compared; answers,
    test_comparison_groups_seeds_and_names_settings_that_differ; here, test_comparison_uses_names.
14. Ticks repeated, and bars had length one: page, test_islands_have_distinct_ticks_and_no_bars_of_length_one and
    test_tick_texts_differ_and_readings_are_data; here, test_ticks_of_charts_differ.
15. Tables and events lacked columns, search, times, export, tags and notes, and the words were odd: here,
    test_candidates_have_columns_for_origin_cost_and_reason; page, test_failed_candidates_are_listed_with_reasons,
    test_events_have_times, test_charts_are_saved_as_csv_svg_and_png; answers, test_label_is_stored_and_audited,
    test_candidates_are_searched_by_text; test_sources.py, test_page_uses_plain_words.
"""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.browser import stage
from tests.dashboard.browser.stage import Stage

RUN = "answers"
ZERO = re.compile(r"\$\s?0(\.0+)?(?![.\d])")  # a price of zero, not $0.0060


@pytest.fixture
def wide(authorized_page: Page) -> Page:
    authorized_page.set_viewport_size({"width": 1440, "height": 900})
    return authorized_page


def test_candidate_page_compares_with_the_edited_parent(wide: Page, filled: Stage):
    wide.goto(filled.at(f"runs/{RUN}/candidate/3.0"))  # parents 1.0, which was edited, and 2.0
    expect(wide.get_by_role("region", name="Diff to 1.0")).to_contain_text("# more")
    expect(wide.get_by_role("region", name="Diff to 2.0")).to_have_count(0)


def test_llm_has_one_row(wide: Page, filled: Stage):
    wide.goto(filled.at(f"runs/{RUN}/models"))
    rows = wide.get_by_role("table", name="LLMs of the run").locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("openai:gpt-x replies as gpt-x-2026-01-01")


def test_metric_of_the_chart_is_chosen(wide: Page, filled: Stage):
    wide.goto(filled.at(f"runs/{stage.ELITES}/overview"))
    metric = wide.get_by_label("Metric", exact=True)
    expect(metric.locator("option")).to_have_text(["score", "cheap", "size", "value"])
    metric.select_option("value")
    axis = wide.locator(".axis-name", has_text="value")
    expect(axis.first).to_be_visible()
    assert "metric=value" in wide.url
    with wide.expect_download() as download:
        wide.get_by_role("button", name="Save Best so far as CSV").click()
    lines = download.value.path().read_text().splitlines()
    assert lines[0] == "series,evaluations,value,candidate"
    best = [line.split(",") for line in lines[1:] if line.startswith("value of the best")]
    data = wide.request.get(f"{filled.url}/api/runs/{stage.ELITES}/candidates/best").json()
    assert float(best[-1][2]) == pytest.approx(data["metrics"]["value"])
    wide.reload()
    expect(axis.first).to_be_visible()  # the address contains the choice


def test_unknown_price_is_never_zero(wide: Page, filled: Stage):
    wide.goto(filled.at("runs"))
    row = wide.get_by_role("table", name="Runs of the store").get_by_role("row").filter(has_text=RUN).first
    expect(row).to_contain_text("unknown")
    assert not ZERO.search(row.inner_text())
    for view in ("overview", "models", "candidate", "candidate/2.0"):
        wide.goto(filled.at(f"runs/{RUN}/{view}"))
        expect(wide.locator(".run-facts")).to_contain_text("unknown")
        expect(wide.get_by_text("Loading …")).to_have_count(0)
        assert not ZERO.search(wide.locator("body").inner_text()), view
    label = wide.evaluate(
        """async () => (await import("/ui/static/js/format.js")).cost({ calls: 2, tokens: 30, cost_usd: 0 })"""
    )
    assert label == "unknown"


def test_comparison_uses_names(wide: Page, filled: Stage):
    name_run(wide, filled, "A named run")
    try:
        wide.goto(filled.at(f"runs?compare={stage.LLM_RUN},{RUN}"))
        comparison = wide.get_by_role("region", name="Comparison")
        expect(comparison.get_by_role("table", name="Final scores")).to_contain_text("A named run")
        expect(comparison.get_by_role("table", name="Settings that differ")).to_contain_text("A named run")
        expect(comparison.get_by_role("button", name="A named run")).to_be_visible()  # in the legend
    finally:
        name_run(wide, filled, "")  # other tests use the same store


def name_run(page: Page, filled: Stage, name: str) -> None:
    label = {"name": name, "tags": [], "note": "", "by": "ann"}
    headers = {"x-atoll-token": stage.TOKEN}
    answer = page.request.post(f"{filled.url}/api/runs/{stage.LLM_RUN}/label", data=label, headers=headers)
    assert answer.ok, answer.text()


def test_ticks_of_charts_differ(wide: Page, filled: Stage):
    wide.goto(filled.at("runs"))
    ticks = wide.evaluate(
        """async () => {
            const { lines } = await import("/ui/static/js/charts/lines.js");
            const chart = lines({ title: "Curve", height: 300 });
            document.querySelector("main").append(chart.element);
            chart.update([{ name: "best", step: true, points: [[1, 1370.01], [2, 1370.02], [3, 1370.04]] }]);
            while (!chart.element.querySelector("path.series")) await new Promise(requestAnimationFrame);
            return [...chart.element.querySelectorAll("svg text:not(.axis-name)")]
                .map((node) => node.textContent).filter((text) => text.startsWith("1370") || text.startsWith("1,370"));
        }"""
    )
    assert len(ticks) >= 3
    assert len(set(ticks)) == len(ticks)


def test_candidates_have_columns_for_origin_cost_and_reason(wide: Page, filled: Stage):
    wide.goto(filled.at(f"runs/{RUN}/candidate?sort=oldest"))
    table = wide.get_by_role("table", name="Candidates")
    for name in ("parent", "LLM", "change", "cost", "reason", "time"):
        expect(table.get_by_role("columnheader", name=name, exact=True)).to_be_in_viewport()
    row = table.get_by_role("row").filter(has_text="adds comment 2")
    for text in ("2.0", "0.0", "gpt-x-2026-01-01", "unknown"):
        expect(row).to_contain_text(text)


@pytest.mark.usefixtures("moving")
def test_rows_of_events_do_not_move(wide: Page, filled: Stage):
    wide.goto(filled.at(f"runs/{stage.LIVE}/events"))
    expect(wide.locator("header .state")).to_have_text("live")
    row = wide.get_by_role("list", name="Events, newest first").get_by_role("listitem").nth(5)
    fresh = wide.get_by_role("button", name=re.compile(r"\d+ new events? . show"))
    expect(fresh).to_be_visible()
    # A row has an estimated height until the browser first draws it, which takes a while on a busy machine.
    row.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    text, box = row.text_content(), row.bounding_box()
    announced = fresh.text_content() or ""
    expect(fresh).not_to_have_text(announced)  # more events came
    assert row.text_content() == text
    assert row.bounding_box() == box
