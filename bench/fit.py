"""Speed and accuracy of fitting constants, compared with the published fitter of LLM-SR, in CPU time.

The published fitter is implemented as in its paper and code: BFGS on the mean squared error from ten ones, with
numerical gradients. Both get the text: theirs compiles it, Atoll parses it. Every error here is computed by numpy from
the text and the returned parameters, never by the fitter itself.

`--data DIR` is the folder with the four problems of LLM-SR (oscillator1, oscillator2, bactgrow, stressstrain, each with
a train.csv). Without it the six skeletons are fitted to data generated from themselves, and the laws are skipped.
"""

import argparse
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import geometric_mean, median
from typing import Any

import numpy as np
import scipy
from scipy import optimize

from atoll import errors
from atoll.llmsr import fit
from bench import outcome

# Skeletons in the style of an LLM. The columns are x0, x1, ... in file order.
SKELETONS = {
    "osc1 linear": ("oscillator1", "params[0]*x0 + params[1]*x1 + params[2]"),
    "osc1 5 terms": (
        "oscillator1",
        "params[0] + params[1]*x1 - params[2]*x0 + params[3]*x0*x1 - params[4]*x0**2*np.sin(x0)",
    ),
    "osc1 10 params": (
        "oscillator1",
        "params[0]*np.sin(params[1]*x0) + params[2]*x1**3 + params[3]*x0*x1 + params[4]*x0*np.exp(-params[5]*x0**2)"
        " + params[6]*np.cos(params[7]*x0) + params[8]*x1 + params[9]",
    ),
    "osc2 10 params": (
        "oscillator2",
        "params[0]*np.sin(params[1]*x0) - params[2]*x1 - params[3]*x2 + params[4]*x1**2 - params[5]*x2**3"
        " + params[6]*np.cos(params[7]*x0) - params[8]*x1*x2 + params[9]",
    ),
    "bactgrow 10 params": (
        "bactgrow",
        "params[0]*x0*x1/(params[1] + x1)*np.exp(-params[2]*((x2 - 35.0*params[3])/10.0)**2)"
        "*np.exp(-params[4]*(x3 - 7.0*params[5])**2)*(1 - params[6]*x0/10.0)"
        " + params[7]*x0/100.0 + params[8]*x1/100.0 + params[9]/100.0",
    ),
    "stress 10 params": (
        "stressstrain",
        "(params[0]*x0 + params[1]*x1 + params[2]*x0**2 + params[3]*x1**2 + params[4]*x0*x1 + params[5]*x0**3"
        " + params[6]*x1**3 + params[7]*x0**2*x1 + params[8]*x0*x1**2)/(1 + params[9]*x0)",
    ),
}
# Laws of the three problems without noise. Only this benchmark of the fitter uses them; no search may see them.
LAWS = {
    "oscillator1": "params[0]*np.sin(params[1]*x0) + params[2]*x1**3 + params[3]*x0**3 + params[4]*x0*x1"
    " + params[5]*x0*np.cos(params[6]*x0)",
    "oscillator2": "params[0]*np.sin(params[1]*x0) + params[2]*x2**3 + params[3]*x1*x2"
    " + params[4]*x1*np.exp(params[5]*x1)",
    "bactgrow": "params[0]*x0*x1/(params[1] + x1)*np.tanh(params[2]*(x2 - params[3]))"
    "/(1 + params[4]*(x2 - params[5])**4)*np.exp(-np.abs(x3 - params[6]))"
    "*np.sin((x3 - params[7])*np.pi/(params[8] - params[7]))**2",
}
# Generated data: rows, and the range of each column.
SHAPES: Mapping[str, tuple[int, Sequence[tuple[float, float]]]] = {
    "oscillator1": (10_000, [(-0.5, 0.5), (-0.5, 0.5)]),
    "oscillator2": (10_000, [(30, 50), (-0.6, 0.6), (-0.6, 0.6)]),
    "bactgrow": (7_500, [(1, 5), (1, 5), (1, 40), (2, 12)]),
    "stressstrain": (2_161, [(0, 1), (0, 1)]),
}
SCREEN_ROWS = 500


@dataclass(frozen=True, slots=True)
class Timed:
    """One fit: CPU milliseconds, and the error of the returned parameters (NaN if it failed)."""

    milliseconds: float
    nmse: float


def source_of(text: str, num_columns: int) -> str:
    return f"def equation({', '.join(names_of(num_columns))}, params):\n    return {text}\n"


def names_of(num_columns: int) -> list[str]:
    return [f"x{index}" for index in range(num_columns)]


def compiled(source: str) -> Callable[..., Any]:
    names: dict[str, Any] = {"np": np}
    exec(source, names)  # our own text above
    return names["equation"]  # type: ignore[no-any-return]


def nmse_of(source: str, data: fit.Data, params: Sequence[float]) -> float:
    with np.errstate(all="ignore"):
        values = compiled(source)(*data.columns, np.array(params))
    return float(np.mean((values - data.y) ** 2) / data.variance)


def published(source: str, data: fit.Data, num_params: int = 10) -> Timed:
    """Fits as LLM-SR does."""
    since = time.process_time()
    law = compiled(source)
    with np.errstate(all="ignore"):
        result = optimize.minimize(
            lambda params: np.mean((law(*data.columns, params) - data.y) ** 2), [1.0] * num_params, method="BFGS"
        )
    took = time.process_time() - since
    return Timed(took * 1e3, nmse_of(source, data, result.x) if math.isfinite(result.fun) else math.nan)


def ours(source: str, data: fit.Data, seed: int, **options: Any) -> Timed:
    since = time.process_time()
    equation = fit.parse(source, data.names)
    result = fit.fit(equation.expression, data, rng=Random(seed), **options)
    took = time.process_time() - since
    measured = data.get_subset(options.get("rows") or data.num_rows)
    return Timed(took * 1e3, math.nan if result.failure else nmse_of(source, measured, result.params))


def load(folder: Path | None, problem: str, skeleton: str) -> fit.Data:
    """Returns the training rows of a problem, or rows generated from the skeleton with 1 % noise."""
    if folder is not None:
        path = folder / problem / "train.csv"
        if not path.is_file():
            raise errors.SetupError(f"{path} not found. Pass the folder of LLM-SR problems as --data.")
        table = np.loadtxt(path, delimiter=",", skiprows=1)
        return fit.Data(names_of(table.shape[1] - 1), table[:, :-1], table[:, -1])
    rows, ranges = SHAPES[problem]
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.uniform(low, high, rows) for low, high in ranges])
    target = compiled(source_of(skeleton, len(ranges)))(*table.T, rng.uniform(0.5, 1.5, 10))
    return fit.Data(names_of(len(ranges)), table, target + 0.01 * target.std() * rng.normal(size=rows))


def skeleton_table(folder: Path | None, seeds: int) -> tuple[outcome.Tables, list[str]]:
    columns = ["skeleton", "rows", "published ms", "its NMSE", "ours ms", "our worst NMSE", "times as fast", "no worse"]
    columns += [f"ours on {SCREEN_ROWS} rows, ms"]
    rows: list[list[object]] = []
    for name, (problem, text) in SKELETONS.items():
        data = load(folder, problem, text)
        source = source_of(text, len(data.names))
        ours(source, data, 0)  # the first call fills library caches
        theirs = [published(source, data) for _ in range(3)]
        own = [ours(source, data, seed) for seed in range(seeds)]
        screen = [ours(source, data, seed, num_rows=SCREEN_ROWS) for seed in range(seeds)]
        slow, fast = median(their.milliseconds for their in theirs), median(item.milliseconds for item in own)
        worst = max(item.nmse for item in own)
        is_no_worse = not worst > theirs[0].nmse * (1 + 1e-9)
        rows.append([name, data.num_rows, slow, theirs[0].nmse, fast, worst, slow / fast, is_no_worse])
        rows[-1].append(median(item.milliseconds for item in screen))
    mean = geometric_mean([float(str(row[6])) for row in rows])
    num_good = sum(bool(row[7]) for row in rows)
    note = f"The six skeletons: {mean:.1f} times as fast in geometric mean; no worse on {num_good} of {len(rows)}."
    return {"Six skeletons, from text to parameters (medians)": (columns, rows)}, [note]


def law_table(folder: Path, seeds: int) -> tuple[outcome.Tables, list[str]]:
    columns = [
        "law",
        "published ms",
        "its NMSE",
        "ours ms (median)",
        "ours ms (worst)",
        "NMSE (median)",
        "NMSE (worst)",
    ]
    columns += ["under 1e-18"]
    rows: list[list[object]] = []
    for problem, text in LAWS.items():
        data = load(folder, problem, text)
        source = source_of(text, len(data.names))
        theirs = published(source, data)
        own = [ours(source, data, seed) for seed in range(seeds)]
        times, result = [item.milliseconds for item in own], [item.nmse for item in own]
        reached = f"{sum(item < 1e-18 for item in result)} of {seeds} seeds"
        their_error = "not finite: dropped" if math.isnan(theirs.nmse) else theirs.nmse
        rows.append(
            [problem, theirs.milliseconds, their_error, median(times), max(times), median(result), max(result), reached]
        )
    return {"The laws of the problems without noise, from the default starts": (columns, rows)}, []


def made_skeleton(rng: Random, num_columns: int, num_terms: int) -> str:
    """Returns a random sum of terms, some with an inner parameter, and a constant."""
    terms: list[str] = []
    used = 0
    for _ in range(num_terms):
        one, other = (f"x{rng.randrange(num_columns)}" for _ in range(2))
        inner = f"params[{used + 1}]*{one}"
        moving = [f"np.sin({inner})", f"{other}*np.exp(-({inner})**2)", f"{other}/(1 + ({inner})**2)"]
        moving += [f"np.tanh({inner})", f"{other}*np.sin({inner})"]
        still = [f"{one}*{other}", f"{one}**3", one, f"{one}**2*{other}", f"{one}**2"]
        form = rng.choice(moving + still)
        terms.append(f"params[{used}]*{form}")
        used += 2 if form in moving else 1
    return " + ".join([*terms, f"params[{used}]"])


def made_data(rows: int) -> fit.Data:
    rng = np.random.default_rng(1)
    table = rng.uniform(-2.0, 2.0, (rows, 3))
    x0, x1, x2 = table.T
    target = 1.2 * np.sin(1.7 * x0) + 0.3 * x2**2 + x1 * np.exp(-((0.8 * x0) ** 2)) + 0.4 * x1 * x2
    return fit.Data(names_of(3), table, target + 0.05 * rng.normal(size=rows))


def num_no_worse(own: Sequence[Timed], theirs: Sequence[Timed]) -> int:
    """Counts the errors that exceed theirs by at most a thousandth."""
    return sum(not one.nmse > other.nmse * 1.001 for one, other in zip(own, theirs, strict=True))


def throughput_table(num_skeletons: int) -> tuple[outcome.Tables, list[str]]:
    columns = ["rows", "published", "ours, default", "ours, one round of 2 starts"]
    columns += ["default no worse than published", "one round no worse"]
    rows: list[list[object]] = []
    for size in (SCREEN_ROWS, 10_000):
        data, rng = made_data(size), Random(0)
        sources = [source_of(made_skeleton(rng, 3, rng.randint(2, 5)), 3) for _ in range(num_skeletons)]
        theirs = [published(source, data) for source in sources]
        full = [ours(source, data, 0) for source in sources]
        quick = [ours(source, data, 0, num_starts=2, rounds=1) for source in sources]
        rates = [1e3 * len(item) / sum(one.milliseconds for one in item) for item in (theirs, full, quick)]
        rows.append([size, *rates, *(f"{num_no_worse(item, theirs)} of {num_skeletons}" for item in (full, quick))])
    return {"Skeletons fitted per CPU second (2 to 5 random terms, fitted once each)": (columns, rows)}, []


def growth_table() -> outcome.Tables:
    rows: list[list[object]] = []

    def measure(what: str, size: int, text: str, data: fit.Data, num_params: int) -> None:
        source = source_of(text, len(data.names))
        own = median(ours(source, data, seed).milliseconds for seed in range(3))
        rows.append([what, size, own, published(source, data, num_params).milliseconds])

    fixed = "params[0]*np.sin(params[1]*x0)*x1 + params[2]*x2**2 + params[3]*np.exp(-params[4]*x1) + params[5]"
    for size in (250, 1_000, 4_000, 16_000, 64_000):
        measure("rows", size, fixed, made_data(size), 6)
    for count in (2, 4, 8, 16, 32):
        terms = [f"params[{index}]*np.sin({index + 1}*x0 + x1)" for index in range(count - 1)]
        measure(
            "parameters, one not linear",
            count,
            " + ".join([*terms, f"np.tanh(params[{count - 1}]*x2)"]),
            made_data(1_000),
            count,
        )
    for count in (1, 4, 16, 64):
        inner = " + ".join(f"np.sin({index + 1}*params[1]*x0)*x1" for index in range(count))
        measure(
            "nodes",
            fit.parse(source_of(f"params[0]*({inner})", 3)).expression.size,
            f"params[0]*({inner})",
            made_data(1_000),
            2,
        )
    return {"Growth (ms)": (["of", "size", "ours", "published"], rows)}


def bad_input_table() -> outcome.Tables:
    data = made_data(50)
    tiny = fit.Data(data.names, data.X[:2], data.y[:2])
    broken = data.X.copy()
    broken[7, 1] = np.nan
    still = np.column_stack([data.X[:, 0], np.full(50, 2.0), data.X[:, 2]])

    def describe_fit(source: str, value: fit.Data = data) -> str:
        try:
            equation = fit.parse(source, value.names)
        except (fit.InvalidEquation, fit.UnsupportedEquation) as error:
            return str(error)
        result = fit.fit(equation.expression, value, rng=Random(0))
        return result.failure or f"fitted, NMSE {result.nmse:.3g}"

    try:
        fit.Data(data.names, broken, data.y)
        nan = "accepted"
    except errors.SetupError as error:
        nan = str(error)
    rows = [
        ["an unknown name", describe_fit(source_of("params[0]*w", 3))],
        ["the wrong shape", describe_fit(source_of("x0[:3]*params[0]", 3))],
        ["NaN in the data", nan],
        [
            "a constant column",
            describe_fit(source_of("params[0]*x0 + params[1]*x1 + params[2]", 3), fit.Data(data.names, still, data.y)),
        ],
        ["fewer rows than parameters", describe_fit(source_of("params[0]*x0 + params[1]*x1 + params[2]", 3), tiny)],
        ["values that are not finite", describe_fit(source_of("params[0]*np.log(x0)", 3))],
    ]
    return {"Bad input": (["input", "message"], rows)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with the four problems of LLM-SR")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="the six skeletons only; nothing is saved")
    options = parser.parse_args()
    tables, notes = skeleton_table(options.data, options.seeds)
    threads = os.environ.get("OPENBLAS_NUM_THREADS", "not set")
    notes.append(f"numpy {np.__version__}, scipy {scipy.__version__}; OPENBLAS_NUM_THREADS {threads}; CPU time.")
    if options.quick:
        outcome.show("fit", tables, notes)
        return
    laws: tuple[outcome.Tables, list[str]] = ({}, ["The laws need the problems of LLM-SR. Pass --data."])
    if options.data is not None:
        laws = law_table(options.data, options.seeds)
    rates = throughput_table(24)
    everything = {**tables, **laws[0], **rates[0], **growth_table(), **bad_input_table()}
    outcome.keep("fit", everything, [*notes, *laws[1], *rates[1]])


if __name__ == "__main__":
    main()
