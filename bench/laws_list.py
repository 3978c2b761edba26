"""Laws of four lists beside those of `data/laws`: Feynman, Strogatz, Nguyen, Korns, and textbook laws.

Formulas are facts; the lists are those of Udrescu and Tegmark (2020), Strogatz (1994), Uy et al. (2011) and Korns
(2011). Variables are uniform in their ranges, which for `test_ood` move up by half their width. Noise is a share of the
deviation of y, in the training rows only.
"""

from typing import NamedTuple


class Law(NamedTuple):
    """Formula in Python, range of every variable, and noise."""

    formula: str
    ranges: dict[str, tuple[float, float]]
    noise: float = 0.0


def _same(names: str, low: float, high: float) -> dict[str, tuple[float, float]]:
    return dict.fromkeys(names.split(), (low, high))


LAWS = {
    "feynman_i_10_7": Law("m0/sqrt(1 - v**2/c**2)", {"m0": (1, 5), "v": (1, 2), "c": (4, 10)}),
    "feynman_i_13_4": Law("m*(v**2 + u**2 + w**2)/2", _same("m v u w", 1, 5)),
    "feynman_i_16_6": Law("(u + v)/(1 + u*v/c**2)", _same("u v c", 1, 5)),
    "feynman_i_18_4": Law("(m1*r1 + m2*r2)/(m1 + m2)", _same("m1 m2 r1 r2", 1, 5)),
    "feynman_i_27_6": Law("1/(1/d1 + n/d2)", _same("d1 d2 n", 1, 5)),
    "feynman_i_48_20": Law("m*c**2/sqrt(1 - v**2/c**2)", {"m": (1, 5), "v": (1, 2), "c": (3, 10)}),
    "feynman_ii_11_3": Law("q*e/(m*(w0**2 - w**2))", _same("q e m", 1, 3) | {"w0": (3, 5), "w": (1, 2)}),
    "feynman_iii_4_32": Law("1/(exp(h*w/t) - 1)", _same("h w t", 1, 4)),
    "feynman_iii_15_14": Law("h**2/(2*e*d**2)", _same("h e d", 1, 5), 0.01),
    "strogatz_predator": Law("x*(4 - x - y0/(1 + x))", _same("x y0", 0.5, 6)),
    "strogatz_laser": Law("g*n*p - k*p", _same("g n p k", 0.5, 3), 0.02),
    "nguyen_5": Law("sin(x**2)*cos(x) - 1", {"x": (-1, 1)}),
    "nguyen_6": Law("sin(x) + sin(x + x**2)", {"x": (-1, 1)}),
    "nguyen_7": Law("log(x + 1) + log(x**2 + 1)", {"x": (0, 2)}),
    "nguyen_10": Law("2*sin(x)*cos(y0)", _same("x y0", 0, 1)),
    "nguyen_12": Law("x**4 - x**3 + y0**2/2 - y0", _same("x y0", 0, 1)),
    "korns_4": Law("-2.3 + 0.13*sin(a)", {"a": (-5, 5), "b": (-5, 5), "c": (-5, 5)}),
    "korns_7": Law("213.80940889*(1 - exp(-0.54723748542*a))", {"a": (0, 5), "b": (0, 5), "c": (0, 5)}),
    "projectile": Law("v**2*sin(2*theta)/g", {"v": (5, 20), "theta": (0.2, 1.0), "g": (1.5, 10)}),
    "lens_maker": Law("(n - 1)*(1/r1 - 1/r2)", {"n": (1.2, 2), "r1": (1, 3), "r2": (4, 9)}, 0.01),
}
