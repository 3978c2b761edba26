"""Dashboard page in a real browser, with 100,000 candidates and 1,000,000 events.

    scripts/bench dashboard_page                    # about 10 minutes, mostly to write the store
    scripts/bench dashboard_page --steps 5000       # a small store, for a trial
    scripts/bench dashboard_page --store big.db     # keep the store and use it again
    scripts/bench dashboard_page --real-time        # real-time priority: needs root, for a machine with other load

A view counts as displayed when it contains its own data, a filter when the list shows its matches. The page measures
both, from the navigation or the input event. `script` is the CPU time of the page thread, `server` that of the server;
other load affects them less. Memory is the V8 heap after the view is displayed, and the private memory of the process.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from bench import dashboard, outcome

REPEATS = 4
STARTS = 5  # of the server, for the first view
WALKS = 4
LIMIT = 120_000  # milliseconds
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --enable-precise-memory-info"
)
BROWSERS = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
GOALS = {"first view": 1000.0, "filter": 300.0, "memory": 100.0}

# Resolves with the time since navigation at which the page contains a text.
WAIT_FOR_TEXT = """([selector, text]) => new Promise((done) => {
    const holds = (node) => !text || node.textContent.includes(text);
    const fits = () => [...document.querySelectorAll(selector)].some(holds);
    const look = () => (fits() ? requestAnimationFrame(() => done(performance.now())) : setTimeout(look, 4));
    look();
})"""
# Sets a filter. Resolves with the times until the first and the last response.
FILTERED = """([selector, value, kind]) => new Promise((done) => {
    const field = document.querySelector(selector);
    const list = document.querySelector("ol.events");
    const status = document.querySelector(".view-events .bar [role=status]");
    const before = [list.firstElementChild, status.firstChild];
    const start = performance.now();
    let answered = null;
    field.value = value;
    field.dispatchEvent(new Event(kind, { bubbles: true }));
    const look = () => {
        const isNew = list.firstElementChild !== before[0] || status.firstChild !== before[1];
        if (isNew) answered ??= performance.now() - start;
        if (answered === null || list.hasAttribute("aria-busy")) setTimeout(look, 2);
        else requestAnimationFrame(() => done([answered, performance.now() - start]));
    };
    look();
})"""
# Moves the tree sixty times, frame by frame. Resolves with the time per frame.
PANNED = """() => new Promise((done) => {
    const canvas = document.querySelector("canvas");
    const at = (type, x) => canvas.dispatchEvent(new PointerEvent(type, { pointerId: 1, clientX: x, clientY: 400 }));
    canvas.setPointerCapture = () => {};
    const times = [];
    let last = performance.now();
    let n = 0;
    at("pointerdown", 600);
    const step = () => {
        const now = performance.now();
        times.push(now - last);
        last = now;
        n += 1;
        if (n > 60) { at("pointercancel", 600); done(times.slice(1)); return; }
        at("pointermove", 600 + 4 * n);
        requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
})"""

VIEWS: Sequence[tuple[str, str, str, str]] = (
    ("Runs", "", ".view-runs tbody a", dashboard.RUN),
    ("Overview", f"runs/{dashboard.RUN}/overview", "path.series", ""),
    ("Candidates", f"runs/{dashboard.RUN}/candidate", ".view-candidate tbody a", ""),
    ("Candidate", f"runs/{dashboard.RUN}/candidate/best", ".numbered .line", ""),
    ("Lineage", f"runs/{dashboard.RUN}/lineage", ".view-lineage .bar p", "candidates"),
    ("Islands", f"runs/{dashboard.RUN}/islands", ".view-islands tbody a", ""),
    ("Events", f"runs/{dashboard.RUN}/events", "ol.events li", ""),
    ("Models", f"runs/{dashboard.RUN}/models", ".view-models tbody td", "model-"),
)
FILTERS: Sequence[tuple[str, str, str]] = (
    ("select", "migrated", "change"),
    ("select", "observed", "change"),
    ("select", "", "change"),
    ("input[type=search]", "needle", "input"),
    ("input[type=search]", "needle 500", "input"),
    ("input[type=search]", "", "input"),
)


class MeasuredPage:
    """Page with access to its costs."""

    def __init__(self, browser: Browser) -> None:
        self.context = browser.new_context(viewport={"width": 1280, "height": 860})
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(LIMIT)
        self.session: CDPSession = self.context.new_cdp_session(self.page)
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def metric(self, name: str) -> float:
        result = self.session.send("Performance.getMetrics")["metrics"]
        return float(next(item["value"] for item in result if item["name"] == name))

    def heap_mb(self) -> float:
        self.session.send("HeapProfiler.collectGarbage")
        return self.metric("JSHeapUsedSize") / 2**20

    def open(self, url: str, selector: str, text: str) -> tuple[float, float]:
        """Opens a view. Returns the milliseconds until it is displayed, and those of script."""
        self.page.goto("about:blank")
        self.page.goto(url, wait_until="commit")
        took = float(self.page.evaluate(WAIT_FOR_TEXT, [selector, text]))
        return took, 1e3 * self.metric("TaskDuration")


@contextmanager
def launched() -> Iterator[Browser]:
    """Starts an installed browser, or the one of Playwright."""
    with sync_playwright() as playwright:
        result = next((position for position in BROWSERS if Path(position).exists()), None)
        browser = playwright.chromium.launch(executable_path=result, args=FLAGS.split())
        yield browser
        browser.close()


def private_mb(marks: str = "--type=renderer") -> float:
    """Returns the private memory of the largest page process in megabytes."""
    results = [0.0]
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if marks in (entry / "cmdline").read_text():
                lines = (entry / "smaps_rollup").read_text().splitlines()
                results.append(sum(int(line.split()[1]) for line in lines if line.startswith("Private")) / 1024)
        except OSError:
            continue
    return max(results)


def first_views(browser: Browser, path: Path) -> list[Sequence[object]]:
    """Opens the overview right after the start of a server, and then once more. Returns medians of some starts."""
    samples: dict[str, list[list[float]]] = {"first": [], "second": []}
    for _ in range(STARTS):
        with dashboard.serving(path) as server:
            for results in samples.values():
                view, began = MeasuredPage(browser), server.cpu_seconds()
                view.page.goto(f"{server.url}/ui/#/runs/{dashboard.RUN}/overview", wait_until="commit")
                answered = float(view.page.evaluate(WAIT_FOR_TEXT, [".headline", "best score"]))
                drawn = float(view.page.evaluate(WAIT_FOR_TEXT, ["path.series", ""]))
                costs = [1e3 * (server.cpu_seconds() - began), 1e3 * view.metric("TaskDuration")]
                results.append([answered, drawn, *costs, view.heap_mb(), private_mb()])
                print(results[-1], file=sys.stderr)
                view.context.close()
    columns = [(name, list(zip(*results, strict=True))) for name, results in samples.items()]
    return [
        (
            f"{name} view",
            *(round(statistics.median(column), 1) for column in values),
            *(round(min(values[n])) for n in (0, 1)),
        )
        for name, values in columns
    ]


def views(browser: Browser, server: dashboard.Server) -> list[Sequence[object]]:
    """Opens every view once, then several times."""
    rows: list[Sequence[object]] = []
    for name, path, selector, text in VIEWS:
        view = MeasuredPage(browser)
        url = f"{server.url}/ui/#/{path}"
        first, _ = view.open(url, selector, text)
        began = server.cpu_seconds()
        later = [view.open(url, selector, text) for _ in range(REPEATS)]
        served = 1e3 * (server.cpu_seconds() - began) / REPEATS
        best, median = min(later), statistics.median(took for took, _ in later)
        heap, private = view.heap_mb(), private_mb()
        rows.append((name, *(round(item, 1) for item in (first, median, *best, served, heap, private))))
        print(rows[-1], file=sys.stderr)
        view.context.close()
    return rows


def filters(browser: Browser, address: str) -> list[Sequence[object]]:
    """Filters and searches a million events with typed text and selected options."""
    view = MeasuredPage(browser)
    view.open(f"{address}/ui/#/runs/{dashboard.RUN}/events", "ol.events li", "")
    rows: list[Sequence[object]] = []
    for selector, value, kind in FILTERS:
        before = view.metric("TaskDuration")
        answered, ended = view.page.evaluate(FILTERED, [f".view-events {selector}", value, kind])
        script = 1e3 * (view.metric("TaskDuration") - before)
        name = f"{'kind' if kind == 'change' else 'search'} {value or 'all'}"
        rows.append((name, *(round(item, 1) for item in (answered, ended, script))))
        print(rows[-1], file=sys.stderr)
    view.context.close()
    return rows


def frames(browser: Browser, address: str) -> dict[str, float]:
    """Moves the tree of the newest 5,000 candidates. Returns the time per frame."""
    view = MeasuredPage(browser)
    view.open(f"{address}/ui/#/runs/{dashboard.RUN}/lineage", ".view-lineage .bar p", "candidates")
    view.page.wait_for_timeout(500)
    before = view.metric("TaskDuration")
    times: list[float] = view.page.evaluate(PANNED)
    work = 1e3 * (view.metric("TaskDuration") - before) / len(times)
    view.context.close()
    return {"work_ms": round(work, 2), "median_ms": round(statistics.median(times), 1)}


def stay(browser: Browser, address: str) -> dict[str, float]:
    """Visits all views several times in one page. Returns its memory afterwards."""
    view = MeasuredPage(browser)
    view.open(f"{address}/ui/", ".view-runs tbody a", "")
    for _ in range(WALKS):
        for _, path, selector, text in VIEWS:
            view.page.evaluate("(path) => { location.hash = `#/${path}`; }", path)
            view.page.evaluate(WAIT_FOR_TEXT, [selector, text])
    result = {"heap_mb": round(view.heap_mb(), 1), "private_mb": round(private_mb(), 1)}
    view.context.close()
    return result


def measure(path: Path) -> None:
    with launched() as browser:
        opened = first_views(browser, path)
    with launched() as browser, dashboard.serving(path) as server:
        server.wait_until_counted()
        result = views(browser, server)
        filtered = filters(browser, server.url)
        moved = frames(browser, server.url)
        walked = stay(browser, server.url)
    columns = ("view", "first ms", "median ms", "best ms", "script ms", "server ms", "heap MB", "private MB")
    shown = ("overview", "answer ms", "chart ms", "server CPU ms", "script CPU ms", "heap MB", "private MB")
    tables: dict[str, Any] = {
        "First view of a new server": ((*shown, "best answer ms", "best chart ms"), opened),
        "Views": (columns, result),
        "Event filters": (("filter", "answered ms", "all events read ms", "script ms"), filtered),
    }
    notes = [
        f"The first table has medians of {STARTS} starts of the server, and the best of them, since the machine has "
        "other load. CPU time depends less on it. Until the journal is counted, the answer has no cost of LLM calls.",
        f"Goals: the first view under {GOALS['first view']:.0f} ms, filters under {GOALS['filter']:.0f} ms, the page "
        f"under {GOALS['memory']:.0f} MB.",
        f"A frame of the tree of 5,000 candidates, while it is moved: {moved['work_ms']} ms of work, one every "
        f"{moved['median_ms']} ms.",
        f"After {WALKS} walks through all views: {walked['heap_mb']} MB heap, {walked['private_mb']} MB private.",
    ]
    outcome.keep("dashboard_page", tables, notes, frames=moved, stay=walked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000, help="iterations of the run, with ten events each")
    parser.add_argument("--store", type=Path, help="path of the store")
    parser.add_argument("--real-time", action="store_true", help="use real-time priority; needs root")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="atoll-bench-") as folder:
        path = options.store or Path(folder) / "big.db"
        if not path.exists():
            dashboard.fill(path, options.steps)
        if options.real_time:  # the server and the browser inherit it
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        measure(path)


if __name__ == "__main__":
    main()
