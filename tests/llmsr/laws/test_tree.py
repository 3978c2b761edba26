"""Trees, views and fits of the law search."""

import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atoll.llmsr import fit
from atoll.llmsr.laws import epoch, least_squares, terms_fit, tree, tree_moves, view_law, views
from tests.repetitions import choose

NAMES = ("a", "b", "c")
COLUMNS = np.random.default_rng(0).uniform(0.5, 3.0, (3, 200))
X, Y, Z = ("x", 0), ("x", 1), ("x", 2)


def make_rows(columns, target) -> least_squares.Rows:
    return least_squares.Rows(columns, target, float(target.var()))


def build_trees() -> st.SearchStrategy[tree.Tree]:
    leaves = st.one_of(
        st.sampled_from([X, Y, Z]), st.floats(-3.0, 3.0, allow_subnormal=False).map(lambda value: ("c", value))
    )
    unary = st.sampled_from(["sin", "cos", "exp", "log", "sqrt", "square", "reciprocal", "tanh", "neg", "abs"])
    binary = st.sampled_from(["+", "-", "*", "/", "**"])
    return st.recursive(
        leaves, lambda inner: st.one_of(st.tuples(unary, inner), st.tuples(binary, inner, inner)), max_leaves=12
    )


def assert_equal_values(left, right) -> None:
    with np.errstate(all="ignore"):
        left, right = (np.broadcast_to(np.asarray(item, dtype=float), (200,)) for item in (left, right))
    usable = np.isfinite(left) & np.isfinite(right) & (np.abs(left) < 1e6)
    assert left[usable] == pytest.approx(right[usable], rel=1e-6, abs=1e-6)


@given(build_trees())
@settings(max_examples=choose(50, 150), deadline=None)
def test_simplified_tree_has_same_values(expression):
    with np.errstate(all="ignore"):
        assert_equal_values(tree.evaluate(expression, COLUMNS), tree.evaluate(tree.simplify(expression), COLUMNS))


@given(build_trees())
@settings(max_examples=choose(50, 150), deadline=None)
def test_merged_factors_have_same_values(expression):
    expression = tree.simplify(expression)
    with np.errstate(all="ignore"):
        assert_equal_values(tree.evaluate(expression, COLUMNS), tree.evaluate(tree.merge_factors(expression), COLUMNS))


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (("*", X, ("*", ("square", X), Y)), "a**3*b"),
        (("/", ("/", X, Y), ("*", Z, ("sqrt", Y))), "a/(b**1.5*c)"),
        (("*", ("c", 2.0), ("reciprocal", ("*", X, X))), "2/a**2"),
        (("*", X, ("reciprocal", X)), "1"),
        (("square", ("*", ("c", 3.0), ("*", ("sqrt", X), ("sqrt", Y)))), "9*a*b"),
        (("square", ("*", X, Y)), "(a*b)**2"),
    ],
)
def test_factors_become_one_fraction(expression, text):
    assert tree.to_text(tree.merge_factors(expression), NAMES) == text


@given(build_trees())
@settings(max_examples=choose(50, 150), deadline=None)
def test_text_has_same_values(expression):
    expression = tree.simplify(expression)  # constants are folded, because Python divides by zero with an error
    text = tree.to_text(expression, NAMES)
    with np.errstate(all="ignore"):
        values = eval(text, {"np": np} | dict(zip(NAMES, COLUMNS, strict=True)))
        assert_equal_values(tree.evaluate(expression, COLUMNS), values)


@given(build_trees())
@settings(max_examples=choose(20, 50), deadline=None)
def test_tree_survives_json(expression):
    assert tree.from_data(json.loads(json.dumps(tree.to_data(expression)))) == expression


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (("+", ("*", ("c", -1.0), ("cos", X)), Y), "b - np.cos(a)"),
        (("/", X, ("/", Y, Z)), "a/(b/c)"),
        (("square", ("+", X, Y)), "(a + b)**2"),
        (("*", X, ("reciprocal", Y)), "a/b"),
        (("**", ("-", X, Y), ("c", -1.5)), "(a - b)**(-1.5)"),
        (("*", ("c", -1.0), ("square", X)), "-a**2"),
        (("+", ("*", ("c", 0.0), X), Y), "b"),
        (("sin", ("-", X, ("c", np.pi))), "-np.sin(a)"),
        (("cos", ("+", ("c", -0.5 * np.pi), X)), "np.sin(a)"),
        (("sin", ("+", ("c", 0.5 * np.pi), X)), "np.cos(a)"),
    ],
)
def test_text_is_short(expression, text):
    assert tree.to_text(tree.simplify(expression), NAMES) == text


def test_fit_finds_inner_constants():
    target = 2.0 - 3.0 * np.exp(-0.7 * COLUMNS[0]) + 0.5 * np.sin(1.3 * COLUMNS[1])
    sample = terms_fit.Sample(COLUMNS, target, np.ones(200), float(target.var()))
    terms = (("exp", ("*", ("c", -1.0), X)), ("sin", ("*", ("c", 1.0), Y)))
    fitted = terms_fit.fit_terms(terms, sample, 50, 1e-12)
    assert fitted is not None
    assert fitted.error < 1e-25
    assert fitted.coefficients == pytest.approx((2.0, -3.0, 0.5))
    assert tree.collect_constants(fitted.terms[0]) == pytest.approx([-0.7])


def test_terms_that_are_not_finite_or_equal_have_no_fit():
    sample = terms_fit.Sample(COLUMNS, COLUMNS[0], np.ones(200), 1.0)
    with np.errstate(all="ignore"):
        assert terms_fit.fit_terms((("log", ("neg", X)),), sample, 3) is None
        assert terms_fit.fit_terms((X, ("*", ("c", 2.0), X)), sample, 3) is None


def find_reduced(formula, columns=COLUMNS) -> tuple[set[str], str]:
    view = views.find_views(columns, formula(*columns))[0]
    return {tree.to_text(each, NAMES) for each in view.variables}, tree.to_text(view.factor, NAMES)


def test_view_combines_variables():
    assert find_reduced(lambda a, b, c: a * np.exp(-b / c)) == ({"b/c"}, "a")
    assert find_reduced(lambda a, b, c: np.cos(a - b) + c) == ({"a - b", "c"}, "1")


def test_view_of_noise_combines_nothing():
    noise = np.random.default_rng(1).normal(size=200)
    assert find_reduced(lambda a, b, c: noise) == ({"a", "b", "c"}, "1")


@pytest.mark.parametrize("link", list(views.LINKS))
def test_link_is_inverted(link):
    view = views.View((X, Y, Z), ("*", X, Y), link)
    rows = make_rows(COLUMNS, view_law.ViewLaw(view, (Z,), (0.5, 2.0)).predict(COLUMNS))
    refitted = view_law.refit(view_law.ViewLaw(view, (Z,), (1.0, 1.0)), rows, 10, 1e-9)
    assert refitted is not None
    assert refitted.error < 1e-25


def test_law_of_view_survives_json():
    law = view_law.ViewLaw(views.View((("/", X, Y), Z), ("square", X), "log y"), (("log", X), Y), (0.1, -2.0, 3.0))
    copy = view_law.from_data(json.loads(json.dumps(law.to_data())))
    assert isinstance(copy, view_law.ViewLaw)
    assert copy.tree == law.tree
    equation = fit.parse(law.to_text(NAMES), NAMES)
    assert fit.predict(equation.expression, (), COLUMNS.T) == pytest.approx(law.predict(COLUMNS), rel=1e-9)


def test_epoch_is_reproducible_and_improves():
    target = COLUMNS[0] / (COLUMNS[1] + COLUMNS[2] ** 2)
    rows = make_rows(COLUMNS, target)
    view = views.View((X, Y, Z), tree.ONE, "y")
    results = []
    for _ in range(2):
        search = epoch.ViewSearch(view, rows)
        known: list[tree_moves.Individual] = []
        for seed in range(3):
            known = search.run(known, random.Random(seed))
        results.append(known)
    assert results[0] == results[1]
    assert min(individual.error for individual in results[0]) < 0.02


def test_constants_that_overflow_are_no_error():
    law_tree = ("square", ("*", ("c", 1e200), ("x", 0)))
    assert tree.merge_factors(law_tree) == law_tree
    wave = ("sin", ("+", ("c", 1e300), ("x", 0)))
    assert tree.simplify(wave) == wave
