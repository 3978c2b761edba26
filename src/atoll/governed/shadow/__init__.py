"""Shadow runs: a candidate value beside the present one, on the same samples, with nothing changed."""

from atoll.governed.shadow.comparison import Comparison, Dimension
from atoll.governed.shadow.guardrail import Guardrail
from atoll.governed.shadow.result import ShadowResult, Verdict, compute_divergence
from atoll.governed.shadow.runner import Applier, Sampler, ShadowRunner
from atoll.governed.shadow.samplers import FixedSampler, hash_to_unit

__all__ = [
    "Applier",
    "Comparison",
    "Dimension",
    "FixedSampler",
    "Guardrail",
    "Sampler",
    "ShadowResult",
    "ShadowRunner",
    "Verdict",
    "hash_to_unit",
    "compute_divergence",
]
