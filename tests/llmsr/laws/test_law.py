import json
from random import Random
from typing import Any

import numpy as np
import pytest

from atoll.llmsr import fit
from atoll.llmsr.laws import domain, law, least_squares, term_dictionary
from atoll.llmsr.laws.law import ABSOLUTE, Factor

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


def test_law_text_roundtrip():
    equation = fit.parse(LAW.to_text(NAMES), NAMES)
    assert fit.predict(equation.expression, (), COLUMNS.T) == pytest.approx(LAW.predict(COLUMNS), rel=1e-12)


def test_law_source_gives_same_values():
    names: dict[str, Any] = {"np": np}
    exec(LAW.to_source(NAMES), names)
    assert names["equation"](*COLUMNS) == pytest.approx(LAW.predict(COLUMNS), rel=1e-12)


def test_law_json_roundtrip():
    assert law.from_data(json.loads(json.dumps(LAW.to_data()))) == LAW


def test_law_without_terms_is_zero():
    nothing = law.Law((), ())
    assert not nothing.predict(COLUMNS).any()
    assert (nothing.size, nothing.to_text(NAMES)) == (1, "0.0")


def test_merge_terms_joins_powers_and_equal_terms():
    linear, square = Factor("pow", (0,)), Factor("pow", (0,), 2.0)
    assert law.merge_terms([(linear, square), (square, linear)]) == ((Factor("pow", (0,), 3.0),),)


def list_factors() -> list[Factor]:
    factors = term_dictionary.make_factors(COLUMNS, domain.Domain.from_columns(COLUMNS))
    return list({item.shape: item for item in factors}.values())


@pytest.mark.parametrize("kind", list_factors(), ids=lambda kind: kind.to_text(NAMES))
def test_factor_slopes_match_differences(kind):
    argument = law.compute_argument(kind, COLUMNS)
    _, slopes = law.evaluate(kind, kind.theta, argument)
    assert len(slopes) == len(kind.theta)
    for index, slope in enumerate(slopes):
        step = 1e-6 * max(1.0, abs(kind.theta[index]))
        ends = [[*kind.theta], [*kind.theta]]
        ends[0][index] -= step
        ends[1][index] += step
        low, high = (law.evaluate(kind, end, argument, with_slopes=False)[0] for end in ends)
        assert slope == pytest.approx((high - low) / (2 * step), rel=1e-4, abs=1e-4 * max(1.0, np.abs(slope).max()))


def test_fit_finds_exact_constants():
    x = np.random.default_rng(1).uniform(-1.0, 4.0, (1, 300))
    truth = law.Law(
        ((Factor("exp", (0,), 2.0, True, 1, (-0.7, 1.3)),), (Factor("sin", (0,), theta=(3.0,)),)), (2.0, 0.5)
    )
    rows = least_squares.Rows(x, truth.predict(x), 1.0)
    start: law.Terms = ((Factor("exp", (0,), 2.0, True, 1, (-0.4, 1.0)),), (Factor("sin", (0,), theta=(2.7,)),))
    fitted = least_squares.fit(start, rows, steps=40, tolerance=1e-12)
    assert fitted is not None
    assert fitted.error < 1e-24
    assert law.collect_theta(fitted.law.terms) == pytest.approx([-0.7, 1.3, 3.0])


def test_fit_rejects_dependent_terms():
    linear: law.Term = (Factor("pow", (0,)),)
    rows = least_squares.Rows(COLUMNS, COLUMNS[0], 1.0)
    assert least_squares.fit((linear, linear), rows) is None


def test_prediction_is_always_finite():
    unsafe = law.Law(((Factor("exp", (0,), theta=(50.0,)), Factor("pow", (1,), -1.0)),), (1e300,))
    assert np.isfinite(unsafe.predict(np.array([[1e6, -1e6], [0.0, 0.0]]))).all()


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
    def test_unsafe_factor_is_rejected(self, unsafe, safe):
        assert not self.RANGES.is_safe(unsafe)
        assert self.RANGES.is_safe(safe)

    def test_declared_ranges_are_wider_and_keep_sign(self):
        assert domain.Domain.from_columns(np.array([[1.0, 5.0], [-1.0, 1.0]])).declared == [(0.1, 9.0), (-3.0, 3.0)]

    def test_kink_outside_of_data_becomes_line(self):
        bent: law.Terms = ((Factor("abs", (0,), theta=(-7.0,)),),)
        assert not self.RANGES.accepts(bent)
        assert self.RANGES.simplify(bent) == ((Factor("pow", (0,)),),)

    def test_fast_wave_is_not_identifiable(self):
        few = domain.Domain.from_columns(np.array([[0.0, 1.0, 2.0, 3.0]]))
        assert few.is_identifiable(Factor("sin", (0,), theta=(1.5,)))
        assert not few.is_identifiable(Factor("sin", (0,), theta=(2.0,)))
        assert not few.is_identifiable(Factor("exp", (0,), 2.0, True, 1, (-16.0, 1.5)))

    def test_safe_laws_are_finite_in_declared_ranges(self):
        rng, columns = Random(0), np.random.default_rng(0).uniform(-2.0, 2.0, (2, 40))
        ranges = domain.Domain.from_columns(columns)
        factors = rng.sample(term_dictionary.make_factors(columns, ranges), 200)
        far = np.array([np.random.default_rng(1).uniform(*interval, 2000) for interval in ranges.declared])
        assert all(np.isfinite(law.compute_values(item, far)).all() for item in factors)
