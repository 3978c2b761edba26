"""The evolver of parameters: proposes values from evidence, and applies what was approved."""

from atoll.governed.evolver.approval import Approval, HasApproval, ParameterProposal, HasProposal, get_refusal_reason
from atoll.governed.evolver.evolver import ApplyResult, ParameterEvolver
from atoll.governed.evolver.model import LLMProposer
from atoll.governed.evolver.proposer import Proposer, Suggestion
from atoll.governed.evolver.smoothing import EMAProposer
from atoll.governed.evolver.steering import PIDProposer
from atoll.governed.evolver.thompson import ThompsonProposer

__all__ = [
    "EMAProposer",
    "PIDProposer",
    "ApplyResult",
    "Approval",
    "HasApproval",
    "ParameterProposal",
    "LLMProposer",
    "ParameterEvolver",
    "HasProposal",
    "Proposer",
    "Suggestion",
    "ThompsonProposer",
    "get_refusal_reason",
]
