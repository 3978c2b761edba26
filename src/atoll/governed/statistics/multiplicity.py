"""Several questions at once: which answers still stand."""

from collections.abc import Mapping

from atoll.governed.statistics.intervals import check_alpha


def holm(p_values: Mapping[str, float]) -> Mapping[str, float]:
    """Returns p-values adjusted after Holm (1979): one below alpha is wrong anywhere with probability alpha."""
    adjusted: dict[str, float] = {}
    worst = 0.0
    for index, name in enumerate(sorted(p_values, key=lambda name: (p_values[name], name))):
        worst = max(worst, min(1.0, p_values[name] * (len(p_values) - index)))
        adjusted[name] = worst
    return {name: adjusted[name] for name in p_values}


def e_bh(e_values: Mapping[str, float], alpha: float = 0.05) -> frozenset[str]:
    """Returns the findings whose share of false ones is alpha at most, however they depend on each other.

    The e-BH procedure of Wang and Ramdas (2022): the k largest where the k-th is at least n / (k alpha).
    """
    check_alpha(alpha)
    ranked = sorted(e_values, key=lambda name: (-e_values[name], name))
    passing_ranks = [rank for rank, name in enumerate(ranked, 1) if rank * e_values[name] >= len(ranked) / alpha]
    return frozenset(ranked[: max(passing_ranks, default=0)])
