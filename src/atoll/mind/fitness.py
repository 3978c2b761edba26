"""Fitness of five weighted terms; the raw metrics are kept, so that every island can weigh them its own way."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Literal

from atoll import errors
from atoll.evaluation import Evaluation
from atoll.mind.worldline import METRICS

type Strategy = Literal["balanced", "temporal", "divergence", "cost", "review", "progress"]


@dataclass(frozen=True, slots=True)
class Weights:
    """What the terms of the fitness count: w1·tc + w2·(1 - div) + w3·progress + w4·review - w5·cost.

    Attributes:
        temporal_consistency: Of 1 minus the contradictions, so that more is better.
        divergence: Of being like the base; below 0: of being unlike it.
        task_progress: Of what is done of the task.
        review_feedback: Of what a review said: approved 1, rejected -1, nothing 0.
        resource_cost: Against what it takes.
    """

    temporal_consistency: float = 0.1
    divergence: float = 0.0
    task_progress: float = 0.8
    review_feedback: float = 0.1
    resource_cost: float = 0.0

    def compute_fitness(self, metrics: Mapping[str, float]) -> float:
        """Returns the weighted sum; a metric that was not measured counts as none of it."""
        consistency, divergence, progress, review, cost = (metrics.get(name, 0.0) for name in METRICS)
        return (
            self.temporal_consistency * consistency
            + self.divergence * (1.0 - divergence)
            + self.task_progress * progress
            + self.review_feedback * review
            - self.resource_cost * cost
        )

    def to_list(self) -> list[float]:
        return list(astuple(self))


BALANCED = Weights()
# The seed's islands: A consistency, B divergence, C cost, D review; the sum of what can be earned stays 1. B wants to
# be unlike the base, so its second weight is below 0: with the formula's sign it would want to be like it.
STRATEGIES: Mapping[Strategy, Weights] = {
    "balanced": BALANCED,
    "temporal": Weights(0.2, 0.0, 0.7, 0.1, 0.0),
    "divergence": Weights(0.1, -0.05, 0.8, 0.1, 0.0),
    "cost": Weights(0.1, 0.0, 0.8, 0.1, 0.05),
    "review": Weights(0.1, 0.0, 0.7, 0.2, 0.0),
    "progress": Weights(0.0, 0.0, 1.0, 0.0, 0.0),
}
ISLAND_STRATEGIES: Sequence[Strategy] = ("temporal", "divergence", "cost", "review")


def parse_weights(values: Sequence[float]) -> Weights:
    """Makes weights of five numbers, in the order of the formula.

    Raises:
        SetupError: They are not five.
    """
    if len(values) != len(METRICS):
        raise errors.SetupError(f"mind.weights has {len(values)} numbers: give five, for {', '.join(METRICS)}.")
    return Weights(*values)


@dataclass(frozen=True, slots=True)
class IslandFitness:
    """How islands rank: each by the weights of its strategy, so that a migrant is ranked anew by its host.

    Attributes:
        strategies: Of the islands of one problem, in turn.
        num_islands: How many islands a problem has.
    """

    strategies: Sequence[Weights]
    num_islands: int

    def __call__(self, island: int, evaluation: Evaluation) -> float:
        return self.get_weights(island).compute_fitness(evaluation.metrics)

    def get_weights(self, island: int) -> Weights:
        return self.strategies[island % self.num_islands % len(self.strategies)]


def make_metrics(
    *, contradiction: float, divergence: float, progress: float, review: float, cost: float
) -> dict[str, float]:
    """Returns the raw vector by name; the contradictions become consistency, so that its weight is no penalty."""
    values = (1.0 - contradiction, divergence, progress, review, cost)
    return dict(zip(METRICS, values, strict=True))
