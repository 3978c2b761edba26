"""The parts of the page that draw nothing: differences, the colours of a source, trees, hidden characters."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.dashboard.browser.stage import Stage

ASK = "async ([path, name, ...given]) => { const m = await import(`/ui/static/js/${path}`); return m[name](...given); }"


@pytest.fixture(scope="module")
def blank(browser: Browser, shown: Stage) -> Iterator[Page]:
    """A page that holds modules and nothing else."""
    context = browser.new_context()
    made = context.new_page()
    made.goto(f"{shown.url}/ui/static/favicon.svg")
    yield made
    context.close()


@pytest.fixture
def ask(blank: Page):
    """Calls a function of a module in the browser."""
    return lambda path, name, *given: blank.evaluate(ASK, [path, name, *given])


def test_a_difference_keeps_what_is_alike_and_gives_both_texts_back(ask):
    before = "a\nb\nc\nd\ne\nf\ng"
    after = "a\nB\nc\nd\nx\ne\ng"
    found = ask("diff.js", "compare", before, after)
    assert [line for sign, line in found if sign != "+"] == before.split("\n")
    assert [line for sign, line in found if sign != "-"] == after.split("\n")
    assert sum(sign != " " for sign, _ in found) == 4  # b and B, x, f: no shorter one is possible


@pytest.mark.parametrize(("before", "after"), [("", ""), ("", "a"), ("a", ""), ("a\nb", "b\na"), ("same", "same")])
def test_a_difference_of_small_texts_gives_both_back(ask, before, after):
    found = ask("diff.js", "compare", before, after)
    assert "\n".join(line for sign, line in found if sign != "+") == before
    assert "\n".join(line for sign, line in found if sign != "-") == after


def test_the_pieces_of_a_source_are_its_text(ask):
    text = '@cache\ndef f(x):  # why\n    """doc\n    more"""\n    return "a\\"b" + f\'{x}\' + 1.5e3 if x else None\n'
    found = ask("code.js", "scan", text, "python")
    assert "".join(part for _, part in found) == text
    kinds = {part.strip(): kind for kind, part in found}
    assert kinds["def"] == kinds["return"] == "keyword"
    assert kinds["f"] in ("name", "")
    assert kinds["# why"] == "comment"
    assert kinds["1.5e3"] == "number"
    assert kinds["@cache"] == "decorator"


def test_an_open_string_of_a_megabyte_is_scanned_at_once(ask):
    text = "x = '''" + "a\\'" * 400_000
    assert "".join(part for _, part in ask("code.js", "scan", text, "python")) == text


def test_a_tree_gives_every_leaf_a_row_and_no_circle(ask):
    nodes = [
        {"id": "0.0", "parents": [], "score": 1},
        {"id": "1.0", "parents": ["0.0"], "score": 2},
        {"id": "2.0", "parents": ["0.0", "1.0"], "score": 3},
        {"id": "3.0", "parents": ["3.0", "9.0", "2.0"], "score": None},
        {"id": "4.0", "parents": ["0.0"], "score": 0},
    ]
    found = ask("tree.js", "layout", nodes, "tree")
    assert list(found["parent"].values() if isinstance(found["parent"], dict) else found["parent"]) == [-1, 0, 1, 2, 0]
    assert found["height"] == 2


def test_a_tree_of_a_hundred_thousand_in_one_line_is_laid_out(blank: Page):
    depth = blank.evaluate(
        """async () => {
            const { layout } = await import("/ui/static/js/tree.js");
            const node = (_, n) => ({ id: `${n}.0`, parents: n ? [`${n - 1}.0`] : [], score: n });
            const nodes = Array.from({ length: 100000 }, node);
            return layout(nodes, "tree").width;
        }"""
    )
    assert depth == 100_000


def test_hidden_characters_are_shown_by_name_and_counted(blank: Page):
    text = blank.evaluate(
        """async () => {
            const { addVisible } = await import("/ui/static/js/text.js");
            const node = document.createElementNS("http://www.w3.org/1999/xhtml", "p");
            addVisible(node, "a\\u202eb\\u0000\\u0000\\u0000c\\ud800d\\ttab é 日本 🙂");
            return [node.textContent, node.querySelectorAll(".hidden-mark").length];
        }"""
    )
    assert text == ["aRLObNUL\N{MULTIPLICATION SIGN}3cU+D800d\ttab é 日本 🙂", 3]


def test_no_attribute_that_runs_text_can_be_made(blank: Page):
    said = blank.evaluate(
        """async () => {
            const { h } = await import("/ui/static/js/dom.js");
            const tried = [["onclick", "1"], ["ONERROR", "1"], ["srcdoc", "x"]];
            return tried.map(([name, value]) => {
                try { h("div", { [name]: value }); return "made"; } catch (error) { return error.message; }
            });
        }"""
    )
    assert all("is not allowed" in each for each in said)


def test_numbers_read_as_on_the_command_line(ask):
    shown = [ask("format.js", "score", value) for value in (None, 0, 1.23456789, -0.5, 1e-9, 123456789)]
    assert shown == ["\N{EN DASH}", "0", "1.23457", "\N{MINUS SIGN}0.5", "1.0000e-9", "1.2346e+8"]
    assert ask("format.js", "duration", 4000) == "1 h 7 min"
    assert [ask("format.js", "duration", each) for each in (59.7, 1439.8, 7199)] == [
        "1 min 0 s",
        "24 min 0 s",
        "2 h 0 min",
    ]
    assert ask("format.js", "usd", 0.00123) == "$0.0012"
