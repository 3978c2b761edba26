"""A run as one file for a browser."""

import itertools
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from atoll import store
from atoll.runs import html_export
from atoll.runs.progress import Improvement
from tests.runs import samples

RUNS = [samples.LONG_ID, "asked", "failing", "cut", "hostile", "empty", "bare"]
VOID = {"meta"}


@pytest.fixture(scope="module")
def run_store():
    with store.open(samples.library()) as opened:
        yield opened


class Reader(HTMLParser):
    """Reads a page as a browser does: its elements, their attributes, and the texts in them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def render(run_store: store.Store, run: str) -> str:
    return "".join(html_export.render_html(run_store, run))


@pytest.mark.parametrize("run", RUNS)
def test_html_escapes_candidates(run, run_store):
    read = Reader(render(run_store, run))
    assert not {"script", "img", "link", "iframe", "a", "object"} & set(read.tags)
    assert not {name for name in read.attributes if name.startswith("on") or name in ("href", "src", "style")}


def test_html_shows_hostile_text(run_store):
    text = "".join(Reader(render(run_store, "hostile")).texts)
    for options in (samples.SCRIPT, samples.MARKUP, samples.FORMULA, "größer ≥ 日本語 🙂 \\u202e\\x00\\ud800"):
        assert options in text
    assert "\x1b" not in text


@pytest.mark.parametrize("run", RUNS)
def test_html_is_one_file_that_loads_nothing(run, run_store):
    text = render(run_store, run)
    assert "Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"" in text
    assert not re.search(r"(url\(|@import|<link|<script)", text)
    text.encode()


def test_html_has_curve_best_lineage_and_islands(run_store):
    text = render(run_store, "failing")
    titles = re.findall("<h2>(.*?)</h2>", text)
    assert titles == [
        "What to do next",
        "Best candidate: 60.0",
        "Best score over evaluations",
        "Lineage of the best candidate",
        "Best candidates",
        "Islands",
        "Failures",
        "Last records",
        "Cost",
        "Settings",
    ]
    assert '<p class="headline">The best score is ' in text
    assert "<p>The gain is 6.60903, reached after 121 of 121 evaluations. By mutator: " in text
    assert "<p>Baselines: not run. &#x27;atoll resume failing --baselines&#x27; runs them.</p>" in text
    assert '<span class="added">+1.4537245840844952</span>' in text


def render_points(*scores: float, evaluations: int = 10) -> tuple[ElementTree.Element, list[tuple[float, float]]]:
    steps = [Improvement(1 + n, score, f"{n}.0", 0) for n, score in enumerate(scores)]
    root = ElementTree.fromstring(html_export.render_curve(steps, evaluations))
    return root, [(float(dot.attrib["cx"]), float(dot.attrib["cy"])) for dot in root.iter("circle")]


@pytest.mark.parametrize(
    "scores",
    [
        (1.0,),
        (0.0,),
        (-5.0, -1.0, 0.0),
        (-1e300, -1.0, 1e300),
        (-1.7e308, 1.7e308),
        (5e-324, 1.0, 1e308),
        (1.0, 1.0 + 1e-15),
    ],
)
def test_curve_rises_inside_its_frame(scores):
    _, dots = render_points(*scores)
    assert len(dots) == len(scores)
    assert all(html_export.LEFT <= x <= html_export.WIDTH and 0 <= y <= html_export.HEIGHT for x, y in dots)
    assert [y for _, y in dots] == sorted((y for _, y in dots), reverse=True)


def test_curve_uses_logarithmic_scale_for_distant_scores():
    root, dots = render_points(-1e6, -1e3, -1.0, -1e-3)
    heights = [before[1] - after[1] for before, after in itertools.pairwise(dots)]
    assert max(heights) < 3 * min(heights)
    assert "logarithmic" in "".join(root.itertext())
    assert "logarithmic" not in "".join(render_points(-4.0, -2.0, -1.0)[0].itertext())
