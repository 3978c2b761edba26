"""Proposals and approval: durable, bound to a content hash, decided by somebody else."""

from atoll.governed.proposals.deciders import LATER, ApprovalFunc, Decider, settle
from atoll.governed.proposals.policy import Policy
from atoll.governed.proposals.proposal import Proposal, Review
from atoll.governed.proposals.proposals import Decided, ProposalExpired, Proposals, SecretFound
from atoll.governed.proposals.webhook import Forged, SignedDecisions, sign

__all__ = [
    "LATER",
    "ApprovalFunc",
    "Decided",
    "Decider",
    "Forged",
    "Policy",
    "Proposal",
    "ProposalExpired",
    "Proposals",
    "Review",
    "SecretFound",
    "SignedDecisions",
    "settle",
    "sign",
]
