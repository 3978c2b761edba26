"""Text that wants to be more: shown as text, nothing runs, and the page stays usable."""

from playwright.sync_api import Page, expect

from tests.dashboard.browser import stage
from tests.dashboard.browser.stage import Stage

UNSAFE = "script:not([src^='/ui/static/']), iframe, object, embed, [onerror], [onload], a[href^='javascript']"


def is_untouched(page: Page) -> bool:
    """Checks that untrusted text created no elements and ran no scripts."""
    return bool(page.evaluate("(selector) => !globalThis.trapped && !document.querySelector(selector)", UNSAFE))


def test_markup_in_candidate_stays_text(page: Page, served_stage: Stage):
    page.goto(served_stage.at(f"runs/{stage.HOSTILE}/candidate/1.0"))
    expect(page.get_by_role("region", name="Source of 1.0")).to_contain_text("<script>")
    expect(page.get_by_role("table", name="Metrics")).to_contain_text("<img src=x")
    for summary in page.locator("section.card details > summary").all():
        summary.click()
    expect(page.get_by_role("region", name="Response", exact=True)).to_contain_text("<svg onload")
    expect(page.get_by_role("region", name="Prompt", exact=True)).to_contain_text("![i](http://example.org/x.png)")
    expect(page.get_by_role("region", name="Artifacts").locator("pre").first).to_contain_text("<iframe srcdoc")
    assert is_untouched(page)


def test_markup_stays_text_in_every_view(page: Page, served_stage: Stage):
    page.goto(served_stage.url)
    expect(page.get_by_role("table", name="Runs of the store")).to_contain_text("<img src=x")
    assert is_untouched(page)
    for view, text in (("overview", "done"), ("islands", "island 0"), ("events", "LLM response"), ("models", "<img")):
        page.goto(served_stage.at(f"runs/{stage.HOSTILE}/{view}"))
        expect(page.get_by_role("main")).to_contain_text(text)
        expect(page.get_by_text("Loading …")).to_have_count(0)
        assert is_untouched(page)


def test_direction_marks_and_controls_are_visible_and_isolated(page: Page, served_stage: Stage):
    page.goto(served_stage.at(f"runs/{stage.HOSTILE}/candidate/2.0"))
    source = page.get_by_role("region", name="Source of 2.0")
    for name in ("RLO", "PDF", "LRI", "PDI", "ESC", "NUL", "ZWSP"):
        expect(source.locator(".hidden-mark", has_text=name).first).to_be_visible()
    assert "\u202e" not in (source.text_content() or "")
    assert source.locator(".line").first.evaluate("(node) => getComputedStyle(node).unicodeBidi") == "isolate"


def test_page_stays_usable_with_five_megabyte_line(page: Page, served_stage: Stage):
    page.goto(served_stage.at(f"runs/{stage.HOSTILE}/candidate/3.0"))
    source = page.get_by_role("region", name="Source", exact=True)
    expect(source).to_contain_text("of 5,000,016 characters")
    source.get_by_role("button", name="more characters").click()
    source.get_by_role("button", name="Load more").click()
    expect(source).to_contain_text("The first 4,394,304 of 5,000,016 characters")
    page.get_by_text("5.0 MB").click()
    expect(page.get_by_role("region", name="Artifacts").locator("pre").first).to_contain_text("<img")
    assert page.evaluate("document.querySelectorAll('*').length") < 5000
    # The page stays responsive: a frame is drawn within a second of script time.
    page.get_by_role("link", name="All candidates").click()
    expect(page.get_by_role("table", name="Candidates").locator("tbody tr").first).to_be_visible()
    spent = page.evaluate(
        "new Promise((done) => { const start = performance.now();"
        " requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start))); })"
    )
    assert spent < 30_000
