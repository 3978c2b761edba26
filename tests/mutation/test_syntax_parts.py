"""Parts of the syntax mutator: source text, kinds, numbers, trees, sites."""

import ast
import math
from random import Random

import pytest

from atoll.mutation import Vocabulary
from atoll.mutation.syntax import numbers
from atoll.mutation.syntax.mutator import EditSampler
from atoll.mutation.syntax.program import analyze
from atoll.mutation.syntax.source_text import SourceText, Splice, apply_splices, find_free_names, is_same, replace_node
from atoll.mutation.syntax.value_kinds import NameKinds, infer_kind


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_source_text_returns_span_of_node(newline):
    text = newline.join(["# é\f", "s = 'é' + chr(1) ; n = [1,", "  'ü', 22]", "x=3"])
    source_text = SourceText(text)
    first, second, last = ast.parse(text).body
    assert [text[slice(*source_text.get_span(node))].split()[0] for node in (first, second, last)] == ["s", "n", "x=3"]
    assert isinstance(second, ast.Assign)
    assert text[slice(*source_text.get_span(second.value))] == f"[1,{newline}  'ü', 22]"
    assert [source_text.get_indent(node) for node in (first, second, last)] == [None, None, ""]


def test_replacement_keeps_space_after_keyword():
    text = "def f(x):\n    return(x)if(x)else-x\n"
    [function] = ast.parse(text).body
    value = function.body[0].value  # type: ignore[attr-defined]
    source_text = SourceText("def f(x):\n    return-x\n")
    negated = ast.parse(source_text.text).body[0].body[0].value  # type: ignore[attr-defined]
    assert (
        apply_splices(source_text.text, [source_text.make_replacement(negated, expression("y"))])
        == "def f(x):\n    return y\n"
    )
    assert "return y" in apply_splices(text, [SourceText(text).make_replacement(value, expression("y"))])


def test_splices_do_not_move_each_other():
    assert apply_splices("abcdef", [Splice(0, 0, "<"), Splice(0, 1, "A"), Splice(4, 6, "")]) == "<Abcd"


NAMES: NameKinds = {
    "x": "number", "n": "integer", "i": "index", "a": "array", "params": "vector", "el": "sequence", "rows": "items",
    "s": "text", "np": "numpy", "math": "math", "sqrt": "function", "o": "other",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1", "integer"), ("1.5", "number"), ("True", "bool"), ("'a'", "text"), ("None", "other"), ("f'{x}'", "text"),
        ("n + i", "integer"), ("n / i", "number"), ("n ** 2", "number"), ("x * a", "array"), ("params[0]", "number"),
        ("params[0] * a", "array"), ("el[i]", "number"), ("el[1:]", "sequence"), ("s[0]", "text"), ("s + o", "text"),
        ("rows[0]", "other"), ("a > 1", "mask"), ("x > 1", "bool"), ("x in o", "bool"), ("not o", "bool"),
        ("-x", "number"), ("-i", "integer"), ("x if n else n", "number"), ("len(el)", "integer"), ("sum(el)", "number"),
        ("max(el)", "number"), ("max(n, i)", "integer"), ("max(x for x in el)", "number"), ("min(rows)", "other"),
        ("abs(a)", "array"), ("abs(n)", "integer"), ("round(x)", "integer"), ("round(x, 2)", "number"),
        ("sorted(el)", "sequence"), ("sorted(rows)", "items"), ("math.sin(x)", "number"), ("sqrt(x)", "number"),
        ("np.sin(a)", "array"), ("np.sin(x)", "number"), ("np.sum(a)", "number"), ("np.sum(a, axis=0)", "array"),
        ("np.argmax(a)", "integer"), ("np.zeros(n)", "array"), ("np.pi", "number"), ("a.mean()", "number"),
        ("a.size", "integer"), ("s.lower()", "text"), ("s.split()", "items"), ("s.count('a')", "integer"),
        ("el.count(0)", "integer"), ("rows.pop()", "other"), ("[1, 2]", "sequence"), ("[s]", "items"), ("()", "items"),
        ("[e * 2 for e in el]", "sequence"), ("[c for c in s]", "items"), ("[k for k, e in enumerate(el)]", "sequence"),
        ("o(x)", "other"), ("o(x) * 2", "number"), ("o - o", "number"), ("o + o", "other"), ("lambda: 1", "other"),
        ("x > 1 and n > 1", "bool"), ("a > 1 and n > 1", "array"), ("n & 1", "integer"), ("el + el", "sequence"),
    ],
)  # fmt: skip
def test_infer_kind(text, kind):
    assert infer_kind(expression(text), NAMES) == kind


def test_move_number_always_changes_value():
    rng = Random(0)
    for value in (0, 1, -3, 0.0, 2.5, 1e11, 1e-9):
        moved = {numbers.move_number(rng, value, "number") for _ in range(300)}
        assert value not in moved
        assert len(moved) > 20
        assert all(math.isfinite(number) and abs(number) <= 1e12 for number in moved)
    assert {1, 3, 4, -2} <= {numbers.move_number(rng, 2, "number") for _ in range(500)}
    assert all(isinstance(numbers.move_number(rng, 7, "integer"), int) for _ in range(100))


@pytest.mark.parametrize("value", [0, 3, -3, 0.5, -0.5, -0.0])
def test_number_literal_roundtrip(value):
    text = ast.unparse(ast.BinOp(numbers.make_literal(value), ast.Pow(), ast.Constant(2)))
    assert eval(text) == value**2
    assert numbers.parse_number(expression(repr(value))) == value


def test_replace_node_does_not_change_tree():
    tree = expression("a + f(b, c)[d]")
    before, node = ast.dump(tree), tree.right.value.args[1]  # type: ignore[attr-defined]
    assert ast.unparse(replace_node(tree, node, expression("x * y"))) == "a + f(b, x * y)[d]"
    assert ast.dump(tree) == before
    assert replace_node(tree, expression("elsewhere"), node) is tree


def test_is_same_ignores_positions():
    assert is_same(expression("a +  f( b )"), expression("a+f(b)"))
    assert not is_same(expression("a + 1"), expression("a + 1.0"))
    assert not is_same(expression("f(a)"), expression("f(a, a)"))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x * sum(x for x in xs)", {"x", "sum", "xs"}),
        ("[x for x in xs if y]", {"xs", "y"}),
        ("[x for x in x]", {"x"}),
        ("{k: v for k, v in d.items()}", {"d"}),
        ("lambda a, b=c: a + d", {"c", "d"}),
    ],
)
def test_find_free_names(text, names):
    assert find_free_names(expression(text)) == names


def get_names_at(source: str, root: str) -> dict[str, str]:
    program = analyze(source, Vocabulary())
    [site] = [site for site in program.expression_sites if ast.unparse(site.root) == root]
    return {name: kind for name, kind in site.names.items() if kind not in ("numpy", "math")}


def test_names_are_in_scope_if_bound_on_every_path():
    source = """
def f(a, b):
    if a > 1:
        both = 1
        one = 2
    else:
        both = 3
    for i in range(3):
        inner = i
    if b > 2:
        late = 4
    else:
        return 0
    with b as c:
        inside = 5
    del both
    return 99
"""
    assert get_names_at(source, "99").keys() == {"f", "a", "b", "late", "c", "inside"}
    assert "i" in get_names_at(source, "i")


def test_argument_kinds_come_from_annotations_and_usage():
    source = """
import numpy as np
def f(x: np.ndarray, params: np.ndarray, state: np.ndarray, el: tuple[int, ...], rows: list[str], word, item,
      flag: bool, maybe: float | None, count=None, *rest, **options):
    state[0] + item[1] * 2
    word.lower()
    return 99
"""
    kinds = get_names_at(source, "99")
    assert kinds == {
        "f": "other", "x": "array", "params": "vector", "state": "vector", "el": "sequence", "rows": "items",
        "word": "text", "item": "sequence", "flag": "bool", "maybe": "other", "count": "other", "rest": "items",
        "options": "other",
    }  # fmt: skip


def test_code_that_ends_a_while_loop_has_no_site():
    source = """
def f(n, queue):
    steps = 0
    while n > 1:
        n = n // 2
        steps += 1
        if steps > 100:
            break
        queue.append(steps * 3)
    return steps
"""
    roots = [ast.unparse(site.root) for site in analyze(source, Vocabulary()).expression_sites]
    assert roots == ["0", "queue.append(steps * 3)", "steps"]


def test_class_body_gets_no_new_names():
    source = "class A:\n    rate = 0.5\n    size = 2\n"
    program = analyze(source, Vocabulary())
    assert len(program.expression_sites) == 2
    assert not program.statement_sites
    sampler = EditSampler(program, source, Vocabulary(), Random(0), 0.3, 150)
    assert all(child.text.count("=") == 2 for child in (sampler.draw() for _ in range(50)) if child)
