"""Proposals and approval: durable, bound to a content hash, never approved by their author."""

from atoll.governed.approval.deciders import (
    DEFER,
    ApprovalFunc,
    Decider,
    InvalidSignature,
    SignedDecisions,
    run_decider,
    sign,
)
from atoll.governed.approval.description import ChangeDescription, Segment, describe_changes, list_possible_approvers
from atoll.governed.approval.proposal import Policy, Proposal, Review
from atoll.governed.approval.proposals import AlreadyDecided, ProposalExpired, Proposals, SecretFound

__all__ = [
    "DEFER",
    "AlreadyDecided",
    "ApprovalFunc",
    "ChangeDescription",
    "Decider",
    "InvalidSignature",
    "Policy",
    "Proposal",
    "ProposalExpired",
    "Proposals",
    "Review",
    "SecretFound",
    "Segment",
    "SignedDecisions",
    "describe_changes",
    "list_possible_approvers",
    "run_decider",
    "sign",
]
