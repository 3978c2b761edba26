"""The parts of the page that draw nothing: diffs, syntax highlighting, trees, hidden characters."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.dashboard.browser.stage import Stage

ASK = "async ([path, name, ...given]) => { const m = await import(`/ui/static/js/${path}`); return m[name](...given); }"


@pytest.fixture(scope="module")
def module_page(browser: Browser, served_stage: Stage) -> Iterator[Page]:
    """A page that holds modules and nothing else."""
    context = browser.new_context()
    created = context.new_page()
    created.goto(f"{served_stage.url}/ui/static/favicon.svg")
    yield created
    context.close()


@pytest.fixture
def call(module_page: Page):
    """Calls a function of a module in the browser."""
    return lambda path, name, *args: module_page.evaluate(ASK, [path, name, *args])


def test_diff_is_minimal_and_restores_both_texts(call):
    before = "a\nb\nc\nd\ne\nf\ng"
    after = "a\nB\nc\nd\nx\ne\ng"
    result = call("diff.js", "compare", before, after)
    assert [line for sign, line in result if sign != "+"] == before.split("\n")
    assert [line for sign, line in result if sign != "-"] == after.split("\n")
    assert sum(sign != " " for sign, _ in result) == 4  # b and B, x, f: no shorter one is possible


@pytest.mark.parametrize(("before", "after"), [("", ""), ("", "a"), ("a", ""), ("a\nb", "b\na"), ("same", "same")])
def test_diff_of_small_texts_restores_both(call, before, after):
    result = call("diff.js", "compare", before, after)
    assert "\n".join(line for sign, line in result if sign != "+") == before
    assert "\n".join(line for sign, line in result if sign != "-") == after


def test_scanned_pieces_join_to_source(call):
    text = '@cache\ndef f(x):  # why\n    """doc\n    more"""\n    return "a\\"b" + f\'{x}\' + 1.5e3 if x else None\n'
    result = call("code.js", "scan", text, "python")
    assert "".join(part for _, part in result) == text
    kinds = {part.strip(): kind for kind, part in result}
    assert kinds["def"] == kinds["return"] == "keyword"
    assert kinds["f"] in ("name", "")
    assert kinds["# why"] == "comment"
    assert kinds["1.5e3"] == "number"
    assert kinds["@cache"] == "decorator"


def test_unterminated_long_string_is_scanned_fast(call):
    text = "x = '''" + "a\\'" * 400_000
    assert "".join(part for _, part in call("code.js", "scan", text, "python")) == text


def test_tree_layout_has_row_per_leaf_and_no_cycle(call):
    nodes = [
        {"id": "0.0", "parents": [], "score": 1},
        {"id": "1.0", "parents": ["0.0"], "score": 2},
        {"id": "2.0", "parents": ["0.0", "1.0"], "score": 3},
        {"id": "3.0", "parents": ["3.0", "9.0", "2.0"], "score": None},
        {"id": "4.0", "parents": ["0.0"], "score": 0},
    ]
    result = call("tree.js", "layout", nodes, "tree")
    parents = result["parent"]
    assert list(parents.values() if isinstance(parents, dict) else parents) == [-1, 0, 1, 2, 0]
    assert result["height"] == 2


def test_tree_layout_of_long_chain(module_page: Page):
    depth = module_page.evaluate(
        """async () => {
            const { layout } = await import("/ui/static/js/tree.js");
            const node = (_, n) => ({ id: `${n}.0`, parents: n ? [`${n - 1}.0`] : [], score: n });
            const nodes = Array.from({ length: 100000 }, node);
            return layout(nodes, "tree").width;
        }"""
    )
    assert depth == 100_000


def test_hidden_characters_are_named_and_counted(module_page: Page):
    text = module_page.evaluate(
        """async () => {
            const { addVisible } = await import("/ui/static/js/text.js");
            const node = document.createElementNS("http://www.w3.org/1999/xhtml", "p");
            addVisible(node, "a\\u202eb\\u0000\\u0000\\u0000c\\ud800d\\ttab é 日本 🙂");
            return [node.textContent, node.querySelectorAll(".hidden-mark").length];
        }"""
    )
    assert text == ["aRLObNUL\N{MULTIPLICATION SIGN}3cU+D800d\ttab é 日本 🙂", 3]


def test_script_attributes_are_rejected(module_page: Page):
    messages = module_page.evaluate(
        """async () => {
            const { h } = await import("/ui/static/js/dom.js");
            const tried = [["onclick", "1"], ["ONERROR", "1"], ["srcdoc", "x"]];
            return tried.map(([name, value]) => {
                try { h("div", { [name]: value }); return "made"; } catch (error) { return error.message; }
            });
        }"""
    )
    assert all("is not allowed" in item for item in messages)


def test_score_format_equals_command_line(call):
    formatted = [call("format.js", "score", value) for value in (None, 0, 1.23456789, -0.5, 1e-9, 123456789)]
    assert formatted == ["\N{EN DASH}", "0", "1.23457", "\N{MINUS SIGN}0.5", "1.0000e-9", "1.2346e+8"]
    assert call("format.js", "duration", 4000) == "1 h 7 min"
    assert [call("format.js", "duration", item) for item in (59.7, 1439.8, 7199)] == [
        "1 min 0 s",
        "24 min 0 s",
        "2 h 0 min",
    ]
    assert call("format.js", "usd", 0.00123) == "$0.0012"
