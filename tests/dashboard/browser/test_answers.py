"""The page answers first: overview, side panel, comparison, live updates, downloads, widths and color schemes."""

import itertools
import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from atoll import store
from atoll.store import candidate_queries as candidates_queries
from tests.dashboard.browser import conftest, stage
from tests.dashboard.browser.stage import Stage

RUN = "answers"
VIEWS = ["overview", "lineage", "candidate", "candidate/3.0", "islands", "events", "models"]
LIVE_VIEWS = ["overview", "lineage", "events"]  # those with parts that only a live run has


@pytest.fixture(scope="module")
def shared(browser: Browser, filled: Stage) -> Iterator[conftest.WatchedPage]:
    """One page with the token for all tests of this file; checks the console and the hosts at the end."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True)
    created = conftest.WatchedPage(context)
    created.page.goto(filled.login)
    yield created
    context.close()
    assert created.console_errors == []
    assert created.hosts <= {filled.host}


@pytest.fixture
def wide(shared: conftest.WatchedPage) -> Page:
    shared.page.set_viewport_size({"width": 1440, "height": 900})
    return shared.page


def test_overview_answers_with_best_chart_failures_and_settings(wide: Page, filled: Stage):
    wide.goto(filled.at(f"runs/{RUN}/overview"))
    expect(wide.locator(".headline")).to_have_text("The best score is 9, up from 1 (+800%).")
    expect(wide.get_by_text("What to do next")).to_be_visible()
    best = wide.get_by_role("region", name="Best candidate").first
    expect(best.get_by_role("region", name="Diff to the initial candidate")).to_contain_text("# more")
    expect(wide.get_by_role("table", name="Failures by reason")).to_contain_text("Invalid shapes: N")
    expect(wide.get_by_role("table", name="Settings")).to_contain_text("run.seed")
    expect(wide.get_by_text("cost").first).to_be_visible()
    expect(wide.locator(".run-facts")).to_contain_text("unknown")  # the price, which is not $0
    # The chart: choice of the axis, log scale, all values, zoom by keys.
    expect(wide.locator("path.series").first).to_be_attached()
    assert set(wide.get_by_label("Over", exact=True).locator("option").all_text_contents()) >= {"time", "cost in USD"}
    wide.get_by_label("Over", exact=True).select_option("calls")
    expect(wide.locator(".axis-name", has_text="LLM calls")).to_be_visible()
    for name in ("Log scale", "All values"):
        wide.get_by_role("button", name=name).click()
        expect(wide.get_by_role("button", name=name)).to_have_attribute("aria-pressed", "true")
    wide.locator("svg.drawing").first.focus()
    wide.keyboard.press("+")
    wide.get_by_role("button", name="Reset zoom").click()
    expect(wide.get_by_role("button", name="Reset zoom")).to_be_hidden()
    assert "over=calls" in wide.url


def test_side_panel_opens_from_a_table_and_follows_keys(wide: Page, filled: Stage):
    wide.goto(filled.at(f"runs/{RUN}/candidate?sort=best"))
    wide.get_by_role("table", name="Candidates").get_by_role("link", name="3.0", exact=True).first.click()
    panel = wide.get_by_role("dialog", name="Candidate 3.0")
    expect(panel.get_by_role("region", name="Diff to 1.0")).to_contain_text("# more")  # the edited parent
    expect(panel).to_contain_text("edited parent")
    assert "candidate=3.0" in wide.url
    wide.keyboard.press("j")
    expect(wide.get_by_role("dialog", name="Candidate 2.0")).to_be_visible()
    wide.keyboard.press("k")
    expect(panel).to_be_visible()
    wide.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    wide.goto(filled.at(f"runs/{RUN}/overview?candidate=4.0"))  # a deep link
    panel = wide.get_by_role("dialog", name="Candidate 4.0")
    expect(panel.get_by_role("region", name="Error output")).to_contain_text("Invalid shapes: (3, 4)")
    expect(panel.locator(".gate .good")).to_have_count(0)
    expect(panel.locator(".gate")).to_contain_text("wrote errors")
    panel.get_by_role("button", name="Close the panel").click()
    expect(panel).to_be_hidden()


def test_failed_candidates_are_listed_with_reasons(wide: Page, filled: Stage):
    wide.goto(filled.at(f"runs/{RUN}/candidate?failed=true"))
    rows = wide.get_by_role("table", name="Candidates").locator("tbody tr")
    expect(rows).to_have_count(10)
    expect(rows.first).to_contain_text("Invalid shapes")
    expect(wide.get_by_role("table", name="Failures by reason")).to_contain_text("no candidate proposed")
    wide.get_by_label("Outcome").select_option("")
    wide.get_by_label("Search").fill("adds comment 2")
    expect(rows).to_have_count(1)


def test_charts_are_saved_as_csv_svg_and_png(wide: Page, filled: Stage):
    wide.goto(filled.at(f"runs/{RUN}/overview"))
    expect(wide.locator("path.series").first).to_be_attached()
    saved = {}
    for kind in ("CSV", "SVG", "PNG"):
        with wide.expect_download() as download:
            wide.get_by_role("button", name=f"Save Best so far as {kind}").click()
        saved[kind] = download.value.path().read_bytes()
    assert saved["CSV"].startswith(b"series,evaluations,score,candidate\r\nbest so far,1,1,0.0")
    assert b"<svg" in saved["SVG"]
    assert saved["PNG"].startswith(b"\x89PNG")
    with wide.expect_download() as page_download:
        wide.get_by_role("link", name="Save this run as an HTML file").click()
    assert b"The best score is 9" in page_download.value.path().read_bytes()


def test_runs_fit_get_labels_and_are_compared(wide: Page, filled: Stage):
    wide.goto(filled.at(f"runs?compare={stage.FINISHED},{stage.OTHER}"))
    frame = wide.get_by_role("table", name="Runs of the store").locator("..")
    expect(wide.get_by_role("columnheader", name="created")).to_be_in_viewport()
    assert frame.evaluate("(node) => node.scrollWidth <= node.clientWidth")
    expect(wide.get_by_role("row").filter(has_text=RUN).first).to_contain_text("unknown")
    comparison = wide.get_by_role("region", name="Comparison")
    expect(comparison.get_by_role("table", name="Final scores").locator("tbody tr")).to_have_count(2)
    expect(comparison.locator("path.band")).to_have_count(1)  # two seeds as one group
    expect(comparison.get_by_role("table", name="Settings that differ")).to_contain_text("run.seed")
    wide.get_by_role("button", name=f"Edit name, tags and note of {stage.OTHER}").click()
    wide.get_by_label("Name", exact=True).fill("Second seed")
    wide.get_by_role("textbox", name="Tags").fill("paper, seeds")
    wide.get_by_role("button", name="Save", exact=True).click()
    expect(wide.get_by_role("link", name="Second seed").first).to_be_visible()
    wide.get_by_label("Tag", exact=True).select_option("paper")
    expect(wide.get_by_role("table", name="Runs of the store").locator("tbody tr")).to_have_count(1)
    assert "tag=paper" in wide.url
    wide.get_by_label("Tag", exact=True).select_option("")
    wide.get_by_text("Columns", exact=True).click()
    wide.get_by_label("seed", exact=True).check()
    expect(wide.get_by_role("columnheader", name="seed", exact=True)).to_be_visible()


@pytest.mark.usefixtures("moving")
def test_live_update_takes_less_than_a_second(wide: Page, filled: Stage):
    wide.goto(filled.at(f"runs/{stage.LIVE}/events"))
    expect(wide.locator("header .state")).to_have_text("live")
    first = wide.get_by_role("list", name="Events, newest first").get_by_role("listitem").first
    before = first.text_content()
    fresh = wide.get_by_role("button", name=re.compile("new event"))
    expect(fresh).to_be_visible()
    assert first.text_content() == before  # the list stays, new rows are announced
    fresh.click()
    expect(first).not_to_have_text(before or "")
    # The header shows the number of evaluations; it follows a commit within a second.
    delays = []
    queries = candidates_queries.CandidateQueries(filled.run_store, stage.LIVE)
    for _ in range(3):
        start, count = wide.locator(".run-facts").text_content(), queries.get_last_step()
        stage.wait(lambda count=count: queries.get_last_step() > count)
        committed = time.monotonic()
        wide.wait_for_function("(text) => document.querySelector('.run-facts').textContent !== text", arg=start)
        delays.append(time.monotonic() - committed)
    assert min(delays) < 1.0


def test_events_have_times(wide: Page, filled: Stage):
    wide.goto(filled.at(f"runs/{RUN}/events"))
    first = wide.get_by_role("list", name="Events, newest first").get_by_role("listitem").first
    expect(first.locator("time")).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))


def test_islands_have_distinct_ticks_and_no_bars_of_length_one(wide: Page, filled: Stage):
    wide.goto(filled.at(f"runs/{stage.ELITES}/islands"))
    expect(wide.locator(".heat rect").first).to_be_attached()
    chart = wide.locator("figure").filter(has_text="MAP-Elites")
    ticks = [text for text in chart.locator("svg text").all_text_contents() if not text.endswith(("→", "↑"))]
    across = [text for text in ticks if ticks.count(text) > 2]
    assert across == []
    assert wide.locator(".heat-empty path").count() > 0  # empty cells differ from low ones
    expect(wide.get_by_role("heading", name="Scores by island")).to_be_visible()
    assert wide.locator(".bar-mark").count() == 0


def test_tick_texts_differ_and_readings_are_data(wide: Page, filled: Stage):
    wide.goto(filled.at("runs"))
    texts, values = wide.evaluate(
        """async () => {
            const { distinct } = await import("/ui/static/js/charts/frame.js");
            const { valueAt } = await import("/ui/static/js/charts/lines.js");
            const points = [[0, 1], [10, 5]];
            return [distinct([1370.1, 1370.2, 1370.3], (value) => "1370").map(([, text]) => text),
                [valueAt({ points, step: true }, 5), valueAt({ points }, 5), valueAt({ points }, 10)]];
        }"""
    )
    assert texts == ["1370.1", "1370.2", "1370.3"]
    assert values == [1, None, 5]  # a step line has a value, another line none between its points


def test_outlier_does_not_flatten_the_curve_and_scale_is_linear(wide: Page, filled: Stage):
    wide.goto(filled.at("runs"))
    heights, note = wide.evaluate(
        """async () => {
            const { lines } = await import("/ui/static/js/charts/lines.js");
            const chart = lines({ title: "Curve", height: 300 });
            document.querySelector("main").append(chart.element);
            const points = [[0, -1e9], ...Array.from({ length: 50 }, (_, n) => [30 + 10 * n, 1 + n])];
            const candidates = [[200, -1e12, "1.0"], ...points.slice(9, 17)];
            const best = { name: "best", step: true, main: true, points };
            chart.update([best, { name: "candidates", dots: true, points: candidates }]);
            while (!chart.element.querySelector("circle.dot")) await new Promise(requestAnimationFrame);
            const marks = [...chart.element.querySelectorAll("circle.dot")];
            const note = chart.element.querySelector(".note").textContent;
            return [marks.map((mark) => Number(mark.getAttribute("cy"))), note];
        }"""
    )
    late = heights[1:]
    assert max(late) - min(late) > 150  # pixels of 300
    gaps = [before - after for before, after in itertools.pairwise(late)]
    assert max(gaps) < 1.5 * min(gaps)  # equal gains have equal heights, so the scale is linear
    assert note == "2 values are outside the chart; “All values” shows them."


def test_docstrings_are_highlighted_in_full(wide: Page, filled: Stage):
    wide.goto(filled.at("runs"))
    source = 'def f(x):\n    """One.\n\n    Args: is in\n    """\n    return x\n'
    pieces = wide.evaluate("async (text) => (await import('/ui/static/js/code.js')).scan(text, 'python')", source)
    strings = [text for kind, text in pieces if kind == "string"]
    assert strings == ['"""One.\n\n    Args: is in\n    """']


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_views_fit_in_both_color_schemes(shared: conftest.WatchedPage, filled: Stage, width: int, scheme: str):
    page = shared.page
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type] # one of two
    views = [*(f"runs/{RUN}/{view}" for view in VIEWS), *(f"runs/{stage.LIVE}/{view}" for view in LIVE_VIEWS), "runs"]
    for view in views:
        page.goto(filled.at(view))
        expect(page.locator(".view .empty", has_text="Loading")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
        repeated = page.evaluate(
            """() => { const seen = new Set();
                return [...document.querySelectorAll("section[aria-label], [role=region]")]
                    .map((node) => node.ariaLabel).filter((name) => name && (seen.has(name) || !seen.add(name)));
            }"""
        )
        assert repeated == [], view  # landmarks have different names
    expect(page.get_by_role("table", name="Runs of the store")).to_be_visible()


def test_empty_store_welcomes(browser: Browser, tmp_path):
    with store.Store(tmp_path / "empty.db") as run_store, stage.serve(run_store) as running:
        page = browser.new_page()
        page.goto(running.address.partition("/?")[0])
        welcome = page.get_by_role("region", name="Welcome")
        expect(welcome).to_contain_text("This store has no runs yet.")
        expect(welcome).to_contain_text("./atoll demo")
        page.close()
