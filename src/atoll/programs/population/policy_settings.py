"""Settings of the policy `leader` by budget: a run of 30 LLM calls is not a run of 3,000."""

from typing import NamedTuple


class PolicySettings(NamedTuple):
    """Settings of the policy for a budget.

    Attributes:
        explore_start: Share of challenges while the best score rises.
        explore_end: Share of challenges in lasting stagnation.
        num_challengers: Challengers at the same time.
        num_inspirations: Programs in a prompt beside the best one.
        num_islands: Number of islands.
        opening: Share of the budget that goes to samples first.
        has_samples: Whether later calls may be samples as well, and prompts may leave out the history of the run.
    """

    explore_start: float
    explore_end: float
    num_challengers: int
    num_inspirations: int
    num_islands: int
    opening: float = 0.0
    has_samples: bool = False


def choose_settings(num_calls: int | None) -> PolicySettings:
    """Returns the settings for a budget in LLM calls; None: unlimited."""
    if num_calls is None:
        return PolicySettings(0.2, 0.5, 2, 2, 1)
    if num_calls < 50:
        return PolicySettings(0.1, 0.4, 1, 1, 1)
    if num_calls < 500:
        return PolicySettings(0.2, 0.5, 1 if num_calls < 250 else 2, 2, 1, 0.08, True)
    return PolicySettings(0.25, 0.6, 3, 3, 2 if num_calls < 2000 else 4, 0.04, True)


def choose_window(num_calls: int | None) -> int | None:
    """Returns the most iterations in flight, so that 12 generations fit into the budget; None: any number."""
    return None if num_calls is None else max(1, num_calls // 12)
