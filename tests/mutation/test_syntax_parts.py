"""The parts of the syntax engine: texts, kinds, numbers, trees."""

import ast
import math
from random import Random

import pytest

from atoll.mutation import Vocabulary
from atoll.mutation.syntax import numbers
from atoll.mutation.syntax.draft import EditSampler
from atoll.mutation.syntax.program import analyze
from atoll.mutation.syntax.source_text import SourceText, Splice, apply_splices
from atoll.mutation.syntax.trees import find_free_names, is_same, replace_node
from atoll.mutation.syntax.value_kinds import NameKinds, infer_kind


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_node_is_found_where_it_stands(newline):
    text = newline.join(["# é\f", "s = 'é' + chr(1) ; n = [1,", "  'ü', 22]", "x=3"])
    listing = SourceText(text)
    first, second, last = ast.parse(text).body
    assert [text[slice(*listing.get_span(node))].split()[0] for node in (first, second, last)] == ["s", "n", "x=3"]
    assert isinstance(second, ast.Assign)
    assert text[slice(*listing.get_span(second.value))] == f"[1,{newline}  'ü', 22]"
    assert [listing.get_indent(node) for node in (first, second, last)] == [None, None, ""]


def test_a_keyword_and_a_new_value_are_kept_apart():
    text = "def f(x):\n    return(x)if(x)else-x\n"
    [function] = ast.parse(text).body
    value = function.body[0].value  # type: ignore[attr-defined]
    listing = SourceText("def f(x):\n    return-x\n")
    negated = ast.parse(listing.text).body[0].body[0].value  # type: ignore[attr-defined]
    assert (
        apply_splices(listing.text, [listing.make_replacement(negated, expression("y"))]) == "def f(x):\n    return y\n"
    )
    assert "return y" in apply_splices(text, [SourceText(text).make_replacement(value, expression("y"))])


def test_changes_of_a_text_do_not_move_each_other():
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
def test_the_kind_of_an_expression(text, kind):
    assert infer_kind(expression(text), NAMES) == kind


def test_a_number_moves_in_many_ways_and_never_stays():
    rng = Random(0)
    for value in (0, 1, -3, 0.0, 2.5, 1e11, 1e-9):
        found = {numbers.move_number(rng, value, "number") for _ in range(300)}
        assert value not in found
        assert len(found) > 20
        assert all(math.isfinite(each) and abs(each) <= 1e12 for each in found)
    assert {1, 3, 4, -2} <= {numbers.move_number(rng, 2, "number") for _ in range(500)}
    assert all(isinstance(numbers.move_number(rng, 7, "integer"), int) for _ in range(100))


@pytest.mark.parametrize("value", [0, 3, -3, 0.5, -0.5, -0.0])
def test_a_number_is_written_as_python_reads_it(value):
    text = ast.unparse(ast.BinOp(numbers.make_literal(value), ast.Pow(), ast.Constant(2)))
    assert eval(text) == value**2
    assert numbers.parse_number(expression(repr(value))) == value


def test_a_tree_is_never_changed():
    tree = expression("a + f(b, c)[d]")
    before, place = ast.dump(tree), tree.right.value.args[1]  # type: ignore[attr-defined]
    assert ast.unparse(replace_node(tree, place, expression("x * y"))) == "a + f(b, x * y)[d]"
    assert ast.dump(tree) == before
    assert replace_node(tree, expression("elsewhere"), place) is tree


def test_trees_are_the_same_wherever_they_stand():
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
def test_free_names_are_those_read_from_around(text, names):
    assert find_free_names(expression(text)) == names


def names_at(source: str, root: str) -> dict[str, str]:
    program = analyze(source, Vocabulary())
    [place] = [each for each in program.expression_sites if ast.unparse(each.root) == root]
    return {name: kind for name, kind in place.names.items() if kind not in ("numpy", "math")}


def test_names_are_known_after_they_are_bound_on_every_way():
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
    assert names_at(source, "99").keys() == {"f", "a", "b", "late", "c", "inside"}
    assert "i" in names_at(source, "i")


def test_kinds_of_arguments_come_from_annotations_and_uses():
    source = """
import numpy as np
def f(x: np.ndarray, params: np.ndarray, state: np.ndarray, el: tuple[int, ...], rows: list[str], word, item,
      flag: bool, maybe: float | None, count=None, *rest, **options):
    state[0] + item[1] * 2
    word.lower()
    return 99
"""
    found = names_at(source, "99")
    assert found == {
        "f": "other", "x": "array", "params": "vector", "state": "vector", "el": "sequence", "rows": "items",
        "word": "text", "item": "sequence", "flag": "bool", "maybe": "other", "count": "other", "rest": "items",
        "options": "other",
    }  # fmt: skip


def test_what_ends_a_while_loop_stays():
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
    roots = [ast.unparse(place.root) for place in analyze(source, Vocabulary()).expression_sites]
    assert roots == ["0", "queue.append(steps * 3)", "steps"]


def test_names_of_a_class_body_are_not_added_to():
    source = "class A:\n    rate = 0.5\n    size = 2\n"
    program = analyze(source, Vocabulary())
    assert len(program.expression_sites) == 2
    assert not program.statement_sites
    draft = EditSampler(program, source, Vocabulary(), Random(0), 0.3, 150)
    assert all(child.text.count("=") == 2 for child in (draft.draw() for _ in range(50)) if child)
