"""Proposal contexts for tests of mutators."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from atoll import evaluation, function
from atoll.candidate import Candidate, content_hash


def fn(text: str, score: float = 0.0, **fields: Any) -> function.Function:
    """Returns an evaluated program."""
    props = function.DefaultFunctionProps(
        function.PyAstSkeleton(text), candidate_evaluator=lambda skeleton: evaluation.Evaluation(0.0)
    )
    candidate = Candidate(content_hash(text)[:8], text)
    return function.DefaultFunction(props).with_evaluation(candidate, evaluation.Evaluation(score, **fields), score)


def task(
    *parents: function.Function, seed: object = 0, others: Mapping[str, Sequence[function.Function]] | None = None
) -> function.ProposalContext:
    rng = Random(str(seed))
    return function.ProposalContext(
        0, 1, 0, parents, others or {}, {}, rng, None, lambda fns: [], lambda fn, result: None
    )


def make_child(engine: function.Proposer, *texts: str, seed: object = 0) -> str:
    """Returns the text of one child. The last text is that of its parent."""
    [child] = engine.propose(task(*map(fn, texts), seed=seed))
    return str(child.skeleton())
