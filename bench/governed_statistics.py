"""False alarms under continuous monitoring, time to detect an effect, rollouts, and off-policy estimates.

    scripts/bench governed_statistics            # full: 2,000 streams, 300 logs, 200 rollouts a case; ten minutes
    scripts/bench governed_statistics --quick    # short form for CI; saves nothing

A/A streams have no effect and are tested at every n from 20 to 2,000, so any detection is a false alarm. The naive
interval (mean plus and minus 1.96 standard errors) is compared with the confidence sequence on the same streams.
"""

import argparse
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atoll.governed import statistics
from atoll.governed.evidence import off_policy
from bench import governed_rollouts, outcome

type Floats = NDArray[np.float64]

ALPHA = 0.05
EXPECTED = 200.0
START = 20
STREAMS: Mapping[str, Callable[[Any, tuple[int, int]], Floats]] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "Bernoulli difference, p = 0.3": lambda rng, size: (
        (rng.random(size) < 0.3).astype(float) - (rng.random(size) < 0.3)
    ),
    "log-normal difference": lambda rng, size: rng.lognormal(size=size) - rng.lognormal(size=size),
}
ESTIMATORS = ("naive", "ips", "clipped_ips", "snips", "dm", "dr")


class Alarms(NamedTuple):
    """Shares of A/A streams with at least one false alarm."""

    naive: float
    naive_at_end: float
    sequence: float


class Stopping(NamedTuple):
    """Time to detect an effect, with the fixed sample size that detects it with a power of 80 %."""

    power: float
    median: float
    fixed: int


def log_e_values(values: Floats) -> Floats:
    """Returns the values of `statistics.ConfidenceSequence` after each sample, for many streams at once."""
    n, means, variances = _moments(values)
    mixture = statistics.compute_mixture_variance(ALPHA, EXPECTED) * variances
    information = n / np.maximum(variances, 1e-12)
    spread = 1 + information * mixture
    return means**2 * information**2 * mixture / (2 * spread) - np.log(spread) / 2


def _moments(values: Floats) -> tuple[Floats, Floats, Floats]:
    n = np.arange(1, values.shape[1] + 1, dtype=float)
    means = values.cumsum(1) / n
    variances = ((values**2).cumsum(1) / n - means**2) * n / np.maximum(n - 1, 1)
    return n, means, np.maximum(variances, 1e-12)


def find_detections(values: Floats) -> tuple[Any, Any]:
    """Returns where the naive interval and the sequence exclude 0."""
    n, means, variances = _moments(values)
    naive, sure = np.abs(means) > 1.96 * np.sqrt(variances / n), log_e_values(values) > math.log(1 / ALPHA)
    naive[:, : START - 1] = sure[:, : START - 1] = False
    return naive, sure


def false_alarms(name: str, *, num_streams: int = 2000, length: int = 2000, seed: int = 0) -> Alarms:
    rng = np.random.default_rng(seed)
    naive, sure = find_detections(STREAMS[name](rng, (num_streams, length)))
    return Alarms(float(naive.any(1).mean()), float(naive[:, -1].mean()), float(sure.any(1).mean()))


def stopping(effect: float, *, num_streams: int = 2000, length: int = 2000, seed: int = 0) -> Stopping:
    _, sure = find_detections(np.random.default_rng(seed).normal(effect, 1, (num_streams, length)))
    result = sure.any(1)
    median = float(np.median(sure.argmax(1)[result] + 1)) if result.any() else math.nan
    return Stopping(float(result.mean()), median, statistics.compute_sample_size(effect))


class World:
    """Synthetic log: 5 actions, 4 normal features, and rewards of 0 and 1 that depend on both."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.weights = self.rng.normal(size=(5, 4))
        _, chances, target = self._draw(200_000)
        self.truth = float((target * chances).sum(1).mean())

    def _draw(self, size: int) -> tuple[Floats, Floats, Floats]:
        features = self.rng.normal(size=(size, 4))
        chances = 1 / (1 + np.exp(-features @ self.weights.T))
        return features, chances, _softmax(3 * chances)

    def log(self, size: int) -> off_policy.LoggedData:
        """Returns decisions of a policy that prefers bad actions, with the probabilities of one that prefers good."""
        features, chances, target = self._draw(size)
        logging, rows = _softmax(-2 * chances), np.arange(size)
        actions = (logging.cumsum(1) > self.rng.random((size, 1))).argmax(1)
        rewards = (self.rng.random(size) < chances[rows, actions]).astype(float)
        return off_policy.LoggedData(actions, rewards, logging[rows, actions], target, features)


def _softmax(values: Floats) -> Floats:
    grown = np.exp(values)
    return np.asarray(grown / grown.sum(1, keepdims=True))


class Quality(NamedTuple):
    """Accuracy of an estimator over many logs of one world."""

    bias: float
    rmse: float
    coverage: float
    width: float


def estimates(*, repeats: int = 300, size: int = 5000, seed: int = 0) -> tuple[float, Mapping[str, Quality]]:
    """Returns the true value and the error of each estimator."""
    world = World(seed)
    result: dict[str, list[off_policy.Estimate]] = {name: [] for name in ESTIMATORS}
    for _ in range(repeats):
        logged = world.log(size)
        for name in ESTIMATORS:
            result[name].append(off_policy.estimate(logged, name))
    return world.truth, {name: _quality(item, world.truth) for name, item in result.items()}


def _quality(results: list[off_policy.Estimate], truth: float) -> Quality:
    errors = np.array([item.value for item in results]) - truth
    covered = np.mean([item.interval.low <= truth <= item.interval.high for item in results])
    width = np.mean([item.interval.high - item.interval.low for item in results])
    return Quality(float(errors.mean()), float(np.sqrt((errors**2).mean())), float(covered), float(width))


def measure(*, quick: bool = False) -> tuple[outcome.Tables, list[str]]:
    """Measures everything; the quick form takes a few seconds."""
    began = time.process_time()
    size = {"num_streams": 400, "length": 1000} if quick else {"num_streams": 2000, "length": 2000}
    alarms = [[name, *false_alarms(name, seed=11, **size)] for name in STREAMS]
    stops = [[effect, *stopping(effect, seed=12, **size)] for effect in (0.1, 0.2, 0.5)]
    stops = [[*row, row[2] / row[3]] for row in stops]
    truth, quality = estimates(repeats=20 if quick else 300, seed=0)
    num_runs = 2 if quick else 200
    tables: outcome.Tables = {
        "A/A streams, tested at every n: share with a false alarm": (
            ["data", "naive interval", "naive, one test at the end", "confidence sequence"],
            alarms,
        ),
        "A/B streams: when the confidence sequence stops": (
            ["effect (sd)", "power", "median stop", "fixed size for 80 %", "ratio"],
            stops,
        ),
        "Off-policy estimates from 5,000 decisions": (
            ["estimator", "bias", "RMSE", "coverage of 95 %", "width"],
            [[name, *quality[name]] for name in ESTIMATORS],
        ),
        f"Simulated rollouts, {num_runs} of each case: share rolled back and share promoted to full": (
            ["case", "rolled back, former", "full, former", "rolled back", "full"],
            governed_rollouts.run_cases(num_runs),
        ),
    }
    notes = [
        f"{size['num_streams']} streams of {size['length']}; alpha {ALPHA}; the sequence is tuned for {EXPECTED:.0f}.",
        f"The truth of the synthetic log is {truth:.4f}; its naive mean is the reward of the logging policy.",
        "Rollouts: guardrail with a margin of 0.1 standard deviations, alpha 0.05. The rest had not ended after 48 "
        "hours. The former method pooled the measurements of all steps.",
        f"CPU seconds: {time.process_time() - began:.1f}.",
    ]
    return tables, notes


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a few seconds; saves nothing")
    args = parser.parse_args()
    tables, notes = measure(quick=args.quick)
    if args.quick:
        outcome.show("governed_statistics", tables, notes)
    else:
        outcome.keep("governed_statistics", tables, notes)


if __name__ == "__main__":
    main()
