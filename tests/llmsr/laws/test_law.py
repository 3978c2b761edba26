import json
from random import Random
from typing import Any

import numpy as np
import pytest

from atoll.llmsr import fit
from atoll.llmsr.laws import domain, factor, law, least_squares, term_dictionary
from atoll.llmsr.laws.factor import ABSOLUTE, Factor

NAMES = ("x", "v")
COLUMNS = np.random.default_rng(0).uniform(0.5, 3.0, (2, 50))
TERMS: law.Terms = (
    (Factor("pow", (0,), 3.0), Factor("sin", (1,), 1.0, True, 2, (1.5, 0.25))),
    (Factor("exp", (0,), ABSOLUTE, True, 1, (-0.5, 1.25)), Factor("rec", (1,), 4.0, False, 1, (0.5,))),
    (Factor("log", (0, 1), theta=(2.0,)), Factor("abs", (0,), theta=(1.0,)), Factor("ln", (1,))),
    (Factor("pow", (0,), -2.0), Factor("pow", (1,), 0.5), Factor("cos", (0, 1), 2.0, theta=(0.3,))),
    (),
)
LAW = law.Law(TERMS, (2.0, -1.5, 0.25, -3.0, 0.75))


def test_a_law_reads_back_from_its_text_as_it_was():
    equation = fit.parse(LAW.to_text(NAMES), NAMES)
    assert fit.predict(equation.expression, (), COLUMNS.T) == pytest.approx(LAW.predict(COLUMNS), rel=1e-12)


def test_a_law_is_a_python_function_that_gives_the_same():
    names: dict[str, Any] = {"np": np}
    exec(LAW.to_source(NAMES), names)
    assert names["equation"](*COLUMNS) == pytest.approx(LAW.predict(COLUMNS), rel=1e-12)


def test_a_law_survives_json_to_the_last_bit():
    assert law.from_data(json.loads(json.dumps(LAW.to_data()))) == LAW


def test_a_law_without_terms_is_zero_and_has_one_node():
    nothing = law.Law((), ())
    assert not nothing.predict(COLUMNS).any()
    assert (nothing.size, nothing.to_text(NAMES)) == (1, "0.0")


def test_powers_of_one_variable_are_joined_and_equal_terms_stand_once():
    linear, square = Factor("pow", (0,)), Factor("pow", (0,), 2.0)
    assert law.merge_terms([(linear, square), (square, linear)]) == ((Factor("pow", (0,), 3.0),),)


def all_kinds() -> list[Factor]:
    kinds = {each.shape: each for each in term_dictionary.make_factors(COLUMNS, domain.Domain.from_columns(COLUMNS))}
    return list(kinds.values())


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.text(NAMES))
def test_slopes_are_those_of_differences(kind):
    read = factor.compute_argument(kind, COLUMNS)
    _, slopes = factor.evaluate(kind, kind.theta, read)
    assert len(slopes) == len(kind.theta)
    for place, slope in enumerate(slopes):
        step = 1e-6 * max(1.0, abs(kind.theta[place]))
        ends = [[*kind.theta], [*kind.theta]]
        ends[0][place] -= step
        ends[1][place] += step
        low, high = (factor.evaluate(kind, end, read, with_slopes=False)[0] for end in ends)
        assert slope == pytest.approx((high - low) / (2 * step), rel=1e-4, abs=1e-4 * max(1.0, np.abs(slope).max()))


def test_constants_are_found_to_the_last_digits():
    x = np.random.default_rng(1).uniform(-1.0, 4.0, (1, 300))
    truth = law.Law(
        ((Factor("exp", (0,), 2.0, True, 1, (-0.7, 1.3)),), (Factor("sin", (0,), theta=(3.0,)),)), (2.0, 0.5)
    )
    rows = least_squares.Rows(x, truth.predict(x), 1.0)
    start: law.Terms = ((Factor("exp", (0,), 2.0, True, 1, (-0.4, 1.0)),), (Factor("sin", (0,), theta=(2.7,)),))
    found = least_squares.fit(start, rows, steps=40, tolerance=1e-12)
    assert found is not None
    assert found.error < 1e-24
    assert law.collect_theta(found.law.terms) == pytest.approx([-0.7, 1.3, 3.0])


def test_terms_that_cannot_be_told_apart_have_no_fit():
    linear: law.Term = (Factor("pow", (0,)),)
    rows = least_squares.Rows(COLUMNS, COLUMNS[0], 1.0)
    assert least_squares.fit((linear, linear), rows) is None


def test_a_prediction_is_finite_even_where_no_law_could_hold():
    wild = law.Law(((Factor("exp", (0,), theta=(50.0,)), Factor("pow", (1,), -1.0)),), (1e300,))
    assert np.isfinite(wild.predict(np.array([[1e6, -1e6], [0.0, 0.0]]))).all()


class TestDomain:
    RANGES = domain.Domain([(1.0, 5.0), (-1.0, 1.0)], [(0.1, 9.0), (-3.0, 3.0)], [0.1, 0.1])

    @pytest.mark.parametrize(
        ("unsafe", "safe"),
        [
            (Factor("rec", (1,), theta=(1.0,)), Factor("rec", (0,), theta=(1.0,))),
            (Factor("rec", (1,), 2.0, theta=(-0.5,)), Factor("rec", (1,), 2.0, theta=(0.5,))),
            (Factor("ln", (1,)), Factor("ln", (0,))),
            (Factor("pow", (1,), -1.0), Factor("pow", (0,), -1.0)),
            (Factor("pow", (1,), 0.5), Factor("pow", (0,), 0.5)),
            (Factor("exp", (0,), theta=(40.0,)), Factor("exp", (0,), theta=(-40.0,))),
        ],
    )
    def test_what_could_leave_its_domain_is_refused(self, unsafe, safe):
        assert not self.RANGES.is_safe(unsafe)
        assert self.RANGES.is_safe(safe)

    def test_the_declared_ranges_are_wider_than_the_data_and_keep_its_sign(self):
        assert domain.Domain.from_columns(np.array([[1.0, 5.0], [-1.0, 1.0]])).declared == [(0.1, 9.0), (-3.0, 3.0)]

    def test_a_kink_outside_of_the_data_becomes_a_straight_line(self):
        bent: law.Terms = ((Factor("abs", (0,), theta=(-7.0,)),),)
        assert not self.RANGES.accepts(bent)
        assert self.RANGES.simplify(bent) == ((Factor("pow", (0,)),),)

    def test_a_wave_that_turns_between_neighbouring_values_is_invention(self):
        few = domain.Domain.from_columns(np.array([[0.0, 1.0, 2.0, 3.0]]))
        assert few.is_identifiable(Factor("sin", (0,), theta=(1.5,)))
        assert not few.is_identifiable(Factor("sin", (0,), theta=(2.0,)))
        assert not few.is_identifiable(Factor("exp", (0,), 2.0, True, 1, (-16.0, 1.5)))

    def test_safe_laws_are_finite_all_over_the_declared_ranges(self):
        rng, columns = Random(0), np.random.default_rng(0).uniform(-2.0, 2.0, (2, 40))
        ranges = domain.Domain.from_columns(columns)
        made = rng.sample(term_dictionary.make_factors(columns, ranges), 200)
        far = np.array([np.random.default_rng(1).uniform(*each, 2000) for each in ranges.declared])
        assert all(np.isfinite(factor.compute_values(each, far)).all() for each in made)
