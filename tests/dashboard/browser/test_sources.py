"""Static checks of the page: no markup from text, no external files."""

import re
from pathlib import Path

import pytest

import atoll

PAGE = Path(atoll.__file__).parent / "dashboard" / "page"
MOST_LINES = 400
FIRST = ("app.js", "views/runs.js", "views/overview.js")  # the shell and the first views
SCRIPTS = sorted(PAGE.rglob("*.js"))
# Code that could turn text into markup, scripts or style attributes.
FORBIDDEN = re.compile(
    r"\b(innerHTML|outerHTML|insertAdjacentHTML|srcdoc\s*=|document\.write|eval|new Function|DOMParser|"
    r"createContextualFragment|setHTML\w*|cssText)\b|setAttribute\(\s*[\"']style|javascript:"
)
ELSEWHERE = re.compile(r"(?:https?:)?//(?!www\.w3\.org/2000/svg)[\w-]+\.[\w.-]+")


def get_name(path: Path) -> str:
    return str(path.relative_to(PAGE))


@pytest.mark.parametrize("path", SCRIPTS, ids=get_name)
def test_script_creates_no_markup_from_text(path):
    result = [line for line in path.read_text(encoding="utf-8").splitlines() if FORBIDDEN.search(line)]
    assert result == []


@pytest.mark.parametrize("path", SCRIPTS, ids=get_name)
def test_script_length_is_limited(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_page_uses_plain_words():
    text = "\n".join(path.read_text(encoding="utf-8") for path in SCRIPTS)
    words = r"May steer|without a child|Nobody swam|began anew|island mean"
    assert re.findall(words, text, re.IGNORECASE) == []


def test_the_page_has_no_inline_script_or_style():
    text = (PAGE / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)", text) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", text) == []


@pytest.mark.parametrize("path", sorted(PAGE.rglob("*.*")), ids=get_name)
def test_page_loads_no_external_files(path):
    if path.suffix in (".js", ".css", ".html"):
        assert ELSEWHERE.findall(path.read_text(encoding="utf-8")) == []


def test_views_are_registered():
    listed = set(re.findall(r'"\./views/(\w+)\.js"', (PAGE / "js" / "views.js").read_text(encoding="utf-8")))
    with_default = {path.stem for path in (PAGE / "js" / "views").glob("*.js") if "export default" in path.read_text()}
    assert with_default == listed


def find_imports(path: Path) -> set[Path]:
    """Returns a script and all its static imports."""
    result, pending = set[Path](), [path]
    while pending:
        current = pending.pop()
        if current not in result:
            result.add(current)
            imports = re.findall(
                r'^(?:import|export) [^;]*?from "([^"]+)"', current.read_text(encoding="utf-8"), re.MULTILINE
            )
            pending += [(current.parent / name).resolve() for name in imports]
    return result


def test_first_view_modules_are_preloaded():
    preloaded = set(re.findall(r'modulepreload" href="/ui/static/([^"]+)"', (PAGE / "index.html").read_text("utf-8")))
    needed = set[Path]().union(*(find_imports((PAGE / "js" / name).resolve()) for name in FIRST))
    assert preloaded == {get_name(path) for path in needed}
