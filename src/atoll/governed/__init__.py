"""Governed self-evolution: parameters, evidence, approval, rollouts, tools and skills.

Names that need numpy or an LLM client are imported when they are first used.
"""

import importlib
from typing import Any

from atoll.governed.agent.evolver import Evolver, QuotaExceeded, SessionQuota
from atoll.governed.agent.tools import RuntimeTool, ToolBuilder, ToolDefinition
from atoll.governed.approval import DEFER, AlreadyDecided, Decider, Policy, Proposal, Proposals, SecretFound
from atoll.governed.parameters import (
    CachedParameters,
    Change,
    FileParameters,
    Gap,
    MemoryParameters,
    Parameters,
    ParameterStore,
    Rules,
    Snapshot,
    StoredParameters,
    Transaction,
    Value,
    author_context,
    get_current_author,
)

_MODULES = {
    "AggregatorReflector": "evidence.reflectors",
    "CascadeEvaluator": "rollout.evaluators",
    "Feedback": "evidence.feedback",
    "FeedbackChannel": "evidence.feedback",
    "FuncEvaluator": "rollout.evaluators",
    "LLMGenerator": "agent.generators",
    "LogEntry": "evidence.logs",
    "LogReplayer": "evidence.replayer",
    "LogSource": "evidence.logs",
    "ParameterEvolver": "rollout.parameter_evolver",
    "RuleEvaluator": "rollout.evaluators",
    "ShadowResult": "rollout.shadow_result",
    "ShadowRunner": "rollout.shadow_runner",
    "WeightedEvaluator": "rollout.evaluators",
}

__all__ = [
    "DEFER",
    "AggregatorReflector",
    "AlreadyDecided",
    "CachedParameters",
    "CascadeEvaluator",
    "Change",
    "Decider",
    "Evolver",
    "Feedback",
    "FeedbackChannel",
    "FileParameters",
    "FuncEvaluator",
    "Gap",
    "LLMGenerator",
    "LogEntry",
    "LogReplayer",
    "LogSource",
    "MemoryParameters",
    "ParameterEvolver",
    "ParameterStore",
    "Parameters",
    "Policy",
    "Proposal",
    "Proposals",
    "QuotaExceeded",
    "RuleEvaluator",
    "Rules",
    "RuntimeTool",
    "SecretFound",
    "SessionQuota",
    "ShadowResult",
    "ShadowRunner",
    "Snapshot",
    "StoredParameters",
    "ToolBuilder",
    "ToolDefinition",
    "Transaction",
    "Value",
    "WeightedEvaluator",
    "author_context",
    "get_current_author",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"atoll.governed.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'atoll.governed' has no attribute {name!r}")
