"""The files of the page: nothing in them can make markup out of text, or load anything from elsewhere."""

import re
from pathlib import Path

import pytest

import atoll

PAGE = Path(atoll.__file__).parent / "dashboard" / "page"
MOST_LINES = 400
FIRST = ("app.js", "views/runs.js", "views/overview.js")  # the shell, and where people come in
SCRIPTS = sorted(PAGE.rglob("*.js"))
# What would turn text into markup or code, or a style into an attribute.
FORBIDDEN = re.compile(
    r"\b(innerHTML|outerHTML|insertAdjacentHTML|srcdoc\s*=|document\.write|eval|new Function|DOMParser|"
    r"createContextualFragment|setHTML\w*|cssText)\b|setAttribute\(\s*[\"']style|javascript:"
)
ELSEWHERE = re.compile(r"(?:https?:)?//(?!www\.w3\.org/2000/svg)[\w-]+\.[\w.-]+")


def names(path: Path) -> str:
    return str(path.relative_to(PAGE))


@pytest.mark.parametrize("path", SCRIPTS, ids=names)
def test_a_script_makes_elements_out_of_nodes_only(path):
    found = [line for line in path.read_text(encoding="utf-8").splitlines() if FORBIDDEN.search(line)]
    assert found == []


@pytest.mark.parametrize("path", SCRIPTS, ids=names)
def test_a_script_is_no_longer_than_any_other_file(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_the_page_has_no_inline_script_or_style():
    text = (PAGE / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)", text) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", text) == []


@pytest.mark.parametrize("path", sorted(PAGE.rglob("*.*")), ids=names)
def test_nothing_of_the_page_comes_from_elsewhere(path):
    if path.suffix in (".js", ".css", ".html"):
        assert ELSEWHERE.findall(path.read_text(encoding="utf-8")) == []


def test_every_view_is_in_the_list():
    listed = set(re.findall(r'"\./views/(\w+)\.js"', (PAGE / "js" / "views.js").read_text(encoding="utf-8")))
    shown = {path.stem for path in (PAGE / "js" / "views").glob("*.js") if "export default" in path.read_text()}
    assert shown == listed


def imported(path: Path) -> set[Path]:
    """Returns a script with all that it imports at once, and what those import."""
    found, waiting = set[Path](), [path]
    while waiting:
        here = waiting.pop()
        if here not in found:
            found.add(here)
            names = re.findall(
                r'^(?:import|export) [^;]*?from "([^"]+)"', here.read_text(encoding="utf-8"), re.MULTILINE
            )
            waiting += [(here.parent / name).resolve() for name in names]
    return found


def test_what_the_first_view_needs_is_asked_for_at_once():
    asked = set(re.findall(r'modulepreload" href="/ui/static/([^"]+)"', (PAGE / "index.html").read_text("utf-8")))
    needed = set[Path]().union(*(imported((PAGE / "js" / name).resolve()) for name in FIRST))
    assert asked == {names(path) for path in needed}
