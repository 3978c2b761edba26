"""Statistics for decisions: moments, intervals, confidence sequences, and multiple tests."""

from atoll.governed.statistics.intervals import (
    Interval,
    Moments,
    RatioCheck,
    bootstrap_interval,
    check_ratio,
    compute_sample_size,
    e_bh,
    holm,
    t_interval,
)
from atoll.governed.statistics.sequence import ConfidenceSequence, Evidence, compare_means

__all__ = [
    "ConfidenceSequence",
    "Evidence",
    "Interval",
    "Moments",
    "RatioCheck",
    "bootstrap_interval",
    "check_ratio",
    "compare_means",
    "compute_sample_size",
    "e_bh",
    "holm",
    "t_interval",
]
