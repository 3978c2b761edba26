"""The views of runs that have ended: what a person does there, and what they see."""

import re

from playwright.sync_api import Page, expect

from tests.dashboard.browser import stage
from tests.dashboard.browser.stage import Stage

VIEWS = ["overview", "lineage", "candidate", "candidate/best", "islands", "events", "models"]


def test_runs_view_lists_and_searches(page: Page, served_stage: Stage):
    page.goto(served_stage.url)
    table = page.get_by_role("table", name="Runs of the store")
    row = table.get_by_role("row").filter(has=page.get_by_role("link", name=stage.LLM_RUN, exact=True))
    expect(row).to_contain_text("done")
    expect(row).to_contain_text("some-model")
    expect(row).to_contain_text("$0.0060")
    expect(table.get_by_role("row").filter(has_text="running")).to_contain_text(stage.LIVE)
    page.get_by_label("Search").fill("some-model")
    expect(table.get_by_role("row")).to_have_count(2)  # the heading, and it
    page.get_by_label("Search").fill("")
    page.get_by_label("Status", exact=True).select_option("running")
    expect(page.get_by_role("status").filter(has_text=re.compile("1 of"))).to_be_visible()
    button = table.get_by_role("button", name="best")
    button.click()
    expect(table.get_by_role("columnheader", name="best")).to_have_attribute("aria-sort", "descending")


def test_runs_view_compares_runs(page: Page, served_stage: Stage):
    page.goto(served_stage.url)
    for run in (stage.FINISHED, stage.OTHER):
        page.get_by_label(f"Compare {run}", exact=True).check()
    chart = page.get_by_role("region", name="Comparison")
    expect(chart.locator("path.series")).to_have_count(1)  # seeds are one group
    expect(page.get_by_label(f"Compare {stage.OTHER}", exact=True)).to_be_focused()  # though its row is a new element
    chart.get_by_label("Show").select_option("runs")
    expect(chart.locator("path.series")).to_have_count(2)
    assert "compare=walk%2Cagain" in page.url  # the address contains the selection
    page.reload()
    expect(page.get_by_role("region", name="Comparison").locator("path.series")).to_have_count(1)
    page.get_by_role("button", name="Clear").click()
    expect(chart).to_be_hidden()


def test_overview_shows_islands_budget_and_improvements(page: Page, served_stage: Stage):
    page.goto(served_stage.at(f"runs/{stage.FINISHED}/overview"))
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    lines = page.locator("path.series")
    expect(lines).to_have_count(1)  # the best so far
    expect(page.locator("circle.cloud").nth(50)).to_be_attached()  # and dots for candidates
    page.get_by_label("Show", exact=True).select_option("islands")
    expect(lines).to_have_count(4)
    page.get_by_label("Over", exact=True).select_option("step")
    expect(page.locator(".axis-name", has_text="iterations")).to_be_visible()
    expect(page.locator("option[value=cost_usd]")).to_be_disabled()  # this run was free
    page.get_by_label("Over", exact=True).select_option("evaluations")
    page.get_by_role("button", name="island 0 best").click()
    expect(lines).to_have_count(3)
    best = served_stage.run_store.candidates(stage.FINISHED).list_best()[0]
    rows = page.get_by_role("table", name="Improvements").get_by_role("row")
    expect(rows.nth(1)).to_contain_text(best.id)
    page.get_by_text("As a table").click()
    expect(page.get_by_role("table", name="Best so far, values")).to_contain_text("island 2 best")


def test_chart_values_are_read_with_keys(page: Page, served_stage: Stage):
    page.goto(served_stage.at(f"runs/{stage.FINISHED}/overview"))
    expect(page.locator("path.series").first).to_be_attached()
    page.locator("svg.drawing").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator(".chart [role=status]")).to_contain_text("best so far")


def test_lineage_is_navigated_with_keys(page: Page, served_stage: Stage):
    page.goto(served_stage.at(f"runs/{stage.FINISHED}/lineage?by=tree"))
    expect(page.get_by_role("status").filter(has_text="151 candidates")).to_be_visible()
    best = served_stage.run_store.candidates(stage.FINISHED).list_best()[0]
    page.locator("canvas").focus()
    page.keyboard.press("b")
    chosen = page.get_by_role("status", name="Chosen candidate")
    expect(chosen).to_contain_text(best.id)
    page.keyboard.press("ArrowLeft")
    expect(chosen.get_by_role("link")).to_have_text(best.parents[-1])
    for key in ("+", "-", "0", "ArrowRight"):
        page.keyboard.press(key)
    expect(chosen.get_by_role("link")).to_have_text(best.id)
    page.get_by_label("Drawn").select_option("lanes")
    page.get_by_label("Drawn").select_option("time")
    page.mouse.move(700, 500)
    page.mouse.wheel(0, -400)
    page.locator("canvas").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name=f"Candidate {best.id}")).to_be_visible()


def test_best_path_is_a_table_too(page: Page, served_stage: Stage):
    page.goto(served_stage.at(f"runs/{stage.FINISHED}/lineage"))
    line = page.get_by_role("table", name="Path from the best to the initial candidate")
    expect(line.get_by_role("row").last).to_contain_text("0.0")


def test_candidates_are_sorted_filtered_and_found_by_id(page: Page, served_stage: Stage):
    page.goto(served_stage.at(f"runs/{stage.FAILING}/candidate"))
    rows = page.get_by_role("table", name="Candidates").locator("tbody tr")
    expect(rows).to_have_count(50)
    page.get_by_role("button", name="More").click()
    expect(rows).to_have_count(100)
    page.get_by_label("Sort").select_option("newest")
    page.get_by_label("Outcome").select_option("true")
    expect(rows.first).to_contain_text("rejected")
    page.get_by_label("Outcome").select_option("")
    page.get_by_label("Search").fill("12")
    expect(rows).to_have_count(2)
    rows.first.get_by_role("link").first.click()
    expect(page.get_by_role("heading", name="Candidate 12.")).to_be_visible()


def test_candidate_view_shows_details(page: Page, served_stage: Stage):
    page.goto(served_stage.at(f"runs/{stage.LLM_RUN}/candidate/5.0"))
    expect(page.get_by_role("region", name="Source of 5.0")).to_contain_text("2.5")
    expect(page.get_by_text("Accepted: it has a score.")).to_be_visible()
    expect(page.get_by_text("against 1.0")).to_be_visible()
    difference = page.get_by_role("region", name="Diff to 1.0")
    expect(difference.locator(".removed")).to_contain_text("1.0")
    expect(difference.locator(".added")).to_contain_text("2.5")
    page.get_by_role("button", name="Show side by side").click()
    expect(difference.locator("td.added")).to_have_text("2.5")
    expect(page.get_by_role("heading", name="Scores per instance")).to_be_visible()
    expect(page.get_by_role("table", name="Metrics")).to_contain_text("value")
    expect(page.get_by_role("region", name="Feedback").last).to_contain_text("2.5 is near")
    page.get_by_text("Call 0").click()
    expect(page.get_by_role("region", name="Prompt", exact=True)).to_contain_text("What comes next?")
    expect(page.get_by_role("region", name="Response", exact=True)).to_contain_text("2.5")
    page.get_by_role("link", name="1.0", exact=True).first.click()
    expect(page.get_by_role("heading", name="Candidate 1.0")).to_be_visible()


def test_failure_and_rejection_show_reason(page: Page, served_stage: Stage):
    page.goto(served_stage.at(f"runs/{stage.LLM_RUN}/candidate/4.0"))
    expect(page.get_by_role("region", name="Failure").last).to_contain_text("below zero")
    refused = next(row for row in served_stage.run_store.candidates(stage.FAILING) if row.verdict == "reject")
    page.goto(served_stage.at(f"runs/{stage.FAILING}/candidate/{refused.id}"))
    expect(page.get_by_text(f"Gate: reject by {refused.by} · {refused.reason}")).to_be_visible()


def test_islands_show_clusters_map_front_and_moves(page: Page, served_stage: Stage):
    page.goto(served_stage.at(f"runs/{stage.ELITES}/islands"))
    expect(page.get_by_role("table", name="Islands").locator("tbody tr")).to_have_count(3)
    expect(page.locator(".heat rect").first).to_be_attached()
    expect(page.locator(".shade")).to_have_count(6)  # the legend: five shades and empty cells
    expect(page.get_by_role("heading", name="Scores by island")).to_be_visible()
    page.get_by_label("Across").select_option("cheap")
    page.get_by_label("Upwards").select_option("value")
    expect(page.locator("circle.dot").first).to_be_attached()
    moves = page.get_by_role("table", name="Migrations and resets")
    expect(moves).to_contain_text("migrated")
    expect(moves).to_contain_text("reset")
    page.get_by_label("Show", exact=True).select_option("island 1")
    page.locator("svg[aria-roledescription^='heat map']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=re.compile("Candidate"))).to_be_visible()


def test_events_are_filtered_searched_and_opened(page: Page, served_stage: Stage):
    page.goto(served_stage.at(f"runs/{stage.LLM_RUN}/events"))
    rows = page.get_by_role("list", name="Events, newest first").get_by_role("listitem")
    expect(rows.first).to_contain_text("ended")
    page.get_by_label("Kind").select_option("replied")
    expect(rows).to_have_count(6)
    page.get_by_label("Search").fill("no number")
    expect(rows).to_have_count(1)
    rows.first.locator("summary").click()
    expect(rows.first.locator("pre")).to_contain_text("What comes next?")
    page.get_by_label("Search").fill("text that no record has")
    expect(page.get_by_text("No matching events.")).to_be_visible()


def test_models_show_calls_tokens_and_cost(page: Page, served_stage: Stage):
    page.goto(served_stage.at(f"runs/{stage.LLM_RUN}/models"))
    row = page.get_by_role("table", name="LLMs of the run").locator("tbody tr").first
    expect(row).to_contain_text("6")
    expect(row).to_contain_text("$0.0060")
    expect(row).to_contain_text("500 ms")
    page.goto(served_stage.at(f"runs/{stage.FINISHED}/models"))
    expect(page.get_by_text("This run uses no LLM")).to_be_visible()


def test_views_fit_phone_and_have_landmarks(page: Page, served_stage: Stage):
    page.set_viewport_size({"width": 360, "height": 720})
    for view in ("", *(f"runs/{stage.FINISHED}/{view}" for view in VIEWS)):
        page.goto(served_stage.at(view))
        expect(page.locator("main h1")).to_be_attached()
        expect(page.get_by_text("Loading …")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
        assert page.get_by_role("main").count() == page.get_by_role("banner").count() == 1
        nameless = page.evaluate(
            """() => [...document.querySelectorAll("main button, main input, main select, main a, main svg[role=img]")]
                .filter((node) => node.checkVisibility() && !(node.textContent.trim() || node.ariaLabel
                    || node.labels?.length || node.getAttribute("aria-labelledby"))).map((node) => node.outerHTML)"""
        )
        assert nameless == [], view
    page.get_by_role("button", name="Menu").click()
    expect(page.get_by_role("navigation", name="Views")).to_be_visible()


def test_unknown_run_shows_error(watched_page, served_stage: Stage):
    watched_page.page.goto(served_stage.at("runs/unknown/overview"))
    expect(watched_page.page.get_by_role("alert").first).to_contain_text("unknown")
    expect(watched_page.page.get_by_role("button", name="Try again").first).to_be_visible()
    watched_page.page.get_by_role("link", name="Runs").click()
    expect(watched_page.page.get_by_role("table", name="Runs of the store")).to_be_visible()
    watched_page.console_errors.clear()  # the browser itself notes every 404


def contrasts(page: Page) -> list[str]:
    """Returns the texts with a contrast below WCAG AA and their colors."""
    result: list[str] = page.evaluate(
        """() => {
            const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
            const rgb = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color;
                canvas.fillRect(0, 0, 1, 1);
                return [...canvas.getImageData(0, 0, 1, 1).data]; };
            const light = ([r, g, b]) => [r, g, b].map((each) => each / 255)
                .map((each) => (each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4))
                .reduce((sum, each, place) => sum + each * [0.2126, 0.7152, 0.0722][place], 0);
            const ground = (node) => { for (let at = node; at; at = at.parentElement) {
                const found = rgb(getComputedStyle(at).backgroundColor); if (found[3] > 250) return found; }
                return rgb("Canvas"); };
            const found = [];
            for (const node of document.querySelectorAll("body *")) {
                const own = [...node.childNodes].some((each) => each.nodeType === 3 && each.textContent.trim());
                if (!own || !node.checkVisibility() || node.closest("svg")) continue;
                const style = getComputedStyle(node);
                const [a, b] = [light(rgb(style.color)), light(ground(node))].sort((x, y) => y - x);
                const ratio = (a + 0.05) / (b + 0.05);
                if (ratio < 4.5) found.push(`${node.textContent.slice(0, 30)} ${style.color} ${ratio.toFixed(2)}`);
            }
            return [...new Set(found)];
        }"""
    )
    return result


def test_light_and_dark_mode_have_contrast_and_persist(page: Page, served_stage: Stage):
    page.emulate_media(color_scheme="dark")
    page.goto(served_stage.at(f"runs/{stage.LLM_RUN}/candidate/5.0"))
    expect(page.get_by_text("Accepted: it has a score.")).to_be_visible()
    assert contrasts(page) == []
    page.get_by_role("button", name="Switch to light mode").click()
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
    assert contrasts(page) == []
    page.goto(served_stage.at(f"runs/{stage.FINISHED}/overview"))
    page.reload()
    expect(page.get_by_role("table", name="Improvements")).to_contain_text("0.0")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
    assert contrasts(page) == []


def test_page_is_navigated_with_keys(page: Page, served_stage: Stage):
    page.goto(served_stage.at(f"runs/{stage.FINISHED}/overview"))
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    link = page.get_by_role("navigation").get_by_role("link", name="Events")
    link.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Events")).to_be_visible()
    expect(page.get_by_role("main")).to_be_focused()
    expect(link).to_have_attribute("aria-current", "page")
    page.go_back()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
