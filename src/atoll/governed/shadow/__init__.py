"""Shadow runs: a candidate value beside the present one, on the same samples, with nothing changed."""

from atoll.governed.shadow.comparison import Comparison, Dimension
from atoll.governed.shadow.guardrail import Guardrail
from atoll.governed.shadow.result import ShadowResult, Verdict, divergence
from atoll.governed.shadow.runner import Applier, Sampler, ShadowRunner
from atoll.governed.shadow.samplers import Fixed, by_hash

__all__ = [
    "Applier",
    "Comparison",
    "Dimension",
    "Fixed",
    "Guardrail",
    "Sampler",
    "ShadowResult",
    "ShadowRunner",
    "Verdict",
    "by_hash",
    "divergence",
]
