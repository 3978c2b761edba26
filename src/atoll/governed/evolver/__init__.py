"""The evolver of parameters: proposes values from evidence, and applies what was approved."""

from atoll.governed.evolver.approval import Approval, Approved, Change, Proposed, refusal
from atoll.governed.evolver.evolver import Applied, ParameterEvolver
from atoll.governed.evolver.model import ModelProposer
from atoll.governed.evolver.proposer import Proposer, Suggestion
from atoll.governed.evolver.smoothing import EMA
from atoll.governed.evolver.steering import PID
from atoll.governed.evolver.thompson import Thompson

__all__ = [
    "EMA",
    "PID",
    "Applied",
    "Approval",
    "Approved",
    "Change",
    "ModelProposer",
    "ParameterEvolver",
    "Proposed",
    "Proposer",
    "Suggestion",
    "Thompson",
    "refusal",
]
