"""Proposals and approval: durable, bound to a content hash, decided by somebody else."""

from atoll.governed.proposals.deciders import DEFER, ApprovalFunc, Decider, run_decider
from atoll.governed.proposals.policy import Policy
from atoll.governed.proposals.proposal import Proposal, Review
from atoll.governed.proposals.proposals import AlreadyDecided, ProposalExpired, Proposals, SecretFound
from atoll.governed.proposals.webhook import InvalidSignature, SignedDecisions, sign

__all__ = [
    "DEFER",
    "ApprovalFunc",
    "AlreadyDecided",
    "Decider",
    "InvalidSignature",
    "Policy",
    "Proposal",
    "ProposalExpired",
    "Proposals",
    "Review",
    "SecretFound",
    "SignedDecisions",
    "run_decider",
    "sign",
]
