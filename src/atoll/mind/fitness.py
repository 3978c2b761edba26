"""Fitness with five weighted terms. Raw metrics are stored, so each island can weight them differently."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Literal

from atoll import errors
from atoll.evaluation import Evaluation
from atoll.mind.worldline import METRICS

# `measured`: each term has its own source. `simple`: all come from the plan and its evaluation, as in version 0.1.
type TermSource = Literal["measured", "simple"]
type Strategy = Literal["balanced", "temporal", "divergence", "cost", "review", "progress"]


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the fitness: w1·tc + w2·(1 - div) + w3·progress + w4·review - w5·cost.

    Attributes:
        temporal_consistency: Weight of 1 minus the contradictions.
        divergence: Weight of similarity to the base; a negative weight rewards divergence.
        task_progress: Weight of the completed share of the task.
        review_feedback: Weight of the review: approved 1, rejected -1, none 0.
        resource_cost: Weight of the cost, which is subtracted.
    """

    temporal_consistency: float = 0.1
    divergence: float = 0.0
    task_progress: float = 0.8
    review_feedback: float = 0.1
    resource_cost: float = 0.0

    def compute_fitness(self, metrics: Mapping[str, float]) -> float:
        """Returns the weighted sum. A missing metric counts as 0."""
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
# The seed's islands: A consistency, B divergence, C cost, D review. The positive weights sum to 1. Island B rewards
# divergence from the base, so its second weight is negative.
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
    """Returns weights from five numbers, in the order of the formula.

    Raises:
        SetupError: The sequence does not have five numbers.
    """
    if len(values) != len(METRICS):
        raise errors.SetupError(f"mind.weights has {len(values)} numbers. Pass five, for {', '.join(METRICS)}.")
    return Weights(*values)


@dataclass(frozen=True, slots=True)
class IslandFitness:
    """Computes fitness with the weights of each island. A migrant gets a new fitness on its new island.

    Attributes:
        strategies: Weights of the islands of one problem, in turn.
        num_islands: Islands per problem.
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
    """Returns the raw metrics by name. Contradiction becomes consistency, so a positive weight rewards it."""
    values = (1.0 - contradiction, divergence, progress, review, cost)
    return dict(zip(METRICS, values, strict=True))
