"""Mutator of texts: rewrites one part of a parent and compares parent and child on a minibatch."""

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, Protocol

from atoll import cluster, evaluation, function, gate, mutation
from atoll.candidate import JSON, content_hash
from atoll.programs.gepa.dataset_evaluator import Minibatch

type ChangeTags = Mapping[str, Sequence[str]]  # by part: hashes of its changes, oldest first


def are_complementary(first: function.Function, second: function.Function) -> bool:
    """Returns whether each of two is better than the other on some instance."""
    if first is second or first.evaluation is None or second.evaluation is None:
        return False
    pairs = list(zip(first.evaluation.scores, second.evaluation.scores, strict=False))
    return any(left > right for left, right in pairs) and any(right > left for left, right in pairs)


def get_tags(fn: function.Function) -> ChangeTags:
    """Returns the changes of each part of a candidate."""
    meta: Mapping[str, Any] = fn.candidate.meta if fn.candidate else {}
    return dict(meta.get("tags", {}))


def merge_parts(
    ours: Mapping[str, str], our_tags: ChangeTags, theirs: Mapping[str, str], their_tags: ChangeTags
) -> tuple[Mapping[str, str], ChangeTags]:
    """Takes each part from the lineage that changed it.

    If one lineage continues the other, the later text is taken. If both changed a part independently, `ours`, the
    better candidate, wins.
    """
    parts, tags = dict(ours), {name: list(chain) for name, chain in our_tags.items()}
    for name, text in theirs.items():
        our_chain, their_chain = list(our_tags.get(name, ())), list(their_tags.get(name, ()))
        if len(their_chain) > len(our_chain) and their_chain[: len(our_chain)] == our_chain:
            parts[name], tags[name] = text, their_chain
    return parts, tags


SINGLE_PART = "text"  # name of the only part of a single text
MAX_BATCHES = 4  # tried to find an imperfect one


class TextFormat(NamedTuple):
    """Format of a candidate's text: JSON of named parts, or a single text."""

    has_parts: bool

    def split_parts(self, content: str) -> dict[str, str]:
        return json.loads(content) if self.has_parts else {SINGLE_PART: content}

    def join_parts(self, parts: Mapping[str, str]) -> str:
        return json.dumps(dict(parts), ensure_ascii=False) if self.has_parts else parts[SINGLE_PART]


class RewriteRequest(NamedTuple):
    """Request to rewrite a part.

    Attributes:
        part: Name of the part to rewrite.
        parts: All parts of the parent.
        feedback: Feedback on the parent, from the minibatch or the evaluator.
        advice: The learner's notes on changes that worked and failed.
        rng: Random generator of this iteration.
        other: Parts of another good candidate, to merge or borrow from.
    """

    part: str
    parts: Mapping[str, str]
    feedback: str
    score: float | None
    advice: Mapping[str, JSON]
    rng: Random
    other: Mapping[str, str] | None = None


class RewrittenText(NamedTuple):
    """The new text of the part, and the reason in a sentence."""

    text: str
    note: str = ""


class TextWriter(Protocol):
    """Rewrites one part of a candidate."""

    @property
    def name(self) -> str:
        """Value of `meta.engine` of its children."""

    def write(self, request: RewriteRequest) -> RewrittenText:
        """Returns another text; raises ValueError if it cannot."""

    def merge(self, request: RewriteRequest) -> RewrittenText:
        """Returns a text that combines the part with the other candidate's."""


@dataclass(frozen=True, slots=True)
class TextMutator:
    """Proposes one child: a rewritten part, or a merge of two parents that are best on different instances.

    Attributes:
        text_format: Format of the text.
        writer: An LLM that reflects, or random edits.
        batches: Minibatches of training instances; none: every child is evaluated at once.
        perfect_score: The best possible score of an instance; perfect batches are skipped.
        merge_probability: Probability of merging two complementary parents.
    """

    text_format: TextFormat
    writer: TextWriter
    batches: Sequence[Sequence[int]] = ()
    perfect_score: float | None = None
    merge_probability: float = 0.2

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns one child, with its minibatch scores in `meta`.

        A useless response also becomes a child, which the prefilter rejects: its trials were paid for and count.
        """
        parent, other = context.parents[-1], context.parents[0]
        batch_results = self._evaluate_batches(context, parent)
        batch, parent_result = batch_results[-1] if batch_results else ((), None)
        results = [*self._get_earlier_results(context, parent, batch_results), *(result for _, result in batch_results)]
        parts, feedback = self.text_format.split_parts(str(parent.skeleton())), _format_feedback(results)
        request = RewriteRequest("", parts, feedback, parent.score(), context.advice, context.rng)
        meta: dict[str, Any] = {"tried": [list(tried) for tried, _ in batch_results]} if batch_results else {}
        text, notes = self._make_child(request, parent, other)
        meta |= notes
        if "why" in meta:
            meta |= {"after": None}
        elif parent_result is not None:
            child_result = context.evaluate([_make_trial(parent, text, batch)])[0]
            meta |= {"before": parent_result.score, "after": child_result.score}
            meta |= {"why": child_result.failure[:200]} if child_result.failure else {}
        child_parents = [parent, other] if meta["engine"] == "merge" else [parent]
        return [function.derive_child(parent, mutation.with_text(parent, text), parents=child_parents, **meta)]

    def _make_child(
        self, request: RewriteRequest, parent: function.Function, other: function.Function
    ) -> tuple[str, dict[str, Any]]:
        """Returns the child's text and notes; after a useless response the parent's text and the reason."""
        content = self.text_format.join_parts(request.parts)
        try:
            if are_complementary(parent, other) and request.rng.random() < self.merge_probability:
                parts, note, meta = self._merge_parents(request, parent, other)
            else:
                parts, note, meta = self._rewrite_part(request, parent, other)
        except ValueError as error:
            return content, {"engine": self.writer.name, "why": str(error)[:200]}
        text = self.text_format.join_parts(parts)
        if text.split() == content.split():
            return content, {**meta, "why": f"the {self.writer.name} returned the same text"}
        return text, {**meta, "note": note[:400]}

    def _evaluate_batches(
        self, context: function.ProposalContext, parent: function.Function
    ) -> Sequence[tuple[Sequence[int], evaluation.Evaluation]]:
        """Evaluates the parent on minibatches until one is not perfect."""
        batch_results: list[tuple[Sequence[int], evaluation.Evaluation]] = []
        for batch in context.rng.sample(self.batches, min(MAX_BATCHES, len(self.batches))):
            batch_results.append((batch, context.evaluate([_make_trial(parent, str(parent.skeleton()), batch)])[0]))
            result = batch_results[-1][1]
            if self.perfect_score is None or result.score is None or min(result.scores) < self.perfect_score:
                break
        return batch_results

    def _get_earlier_results(
        self,
        context: function.ProposalContext,
        parent: function.Function,
        batch_results: Sequence[tuple[Sequence[int], Any]],
    ) -> Sequence[evaluation.Evaluation | None]:
        """Returns earlier results of the parent: its evaluation, or its own minibatch as a child."""
        if not batch_results:
            return [parent.evaluation]
        meta: Mapping[str, Any] = parent.candidate.meta if parent.candidate else {}
        birth_batches = [tuple(batch) for batch in meta.get("tried", ())][-1:]
        tried_batches = [tuple(tried) for tried, _ in batch_results]
        new_batches = [batch for batch in birth_batches if batch not in tried_batches]
        return context.evaluate([_make_trial(parent, str(parent.skeleton()), batch) for batch in new_batches])

    def _rewrite_part(
        self, request: RewriteRequest, parent: function.Function, other: function.Function
    ) -> tuple[Mapping[str, str], str, dict[str, Any]]:
        part = request.rng.choice(sorted(request.parts))
        other_parts = None if other is parent else self.text_format.split_parts(str(other.skeleton()))
        rewritten = self.writer.write(request._replace(part=part, other=other_parts))
        meta = {"engine": self.writer.name, "part": part, **_add_tag(parent, part, rewritten.text)}
        return {**request.parts, part: rewritten.text}, rewritten.note, meta

    def _merge_parents(
        self, request: RewriteRequest, parent: function.Function, other: function.Function
    ) -> tuple[Mapping[str, str], str, dict[str, Any]]:
        other_parts = self.text_format.split_parts(str(other.skeleton()))
        note = f"merged {_get_id(other)} into {_get_id(parent)}"
        if self.text_format.has_parts:
            parts, tags = merge_parts(request.parts, get_tags(parent), other_parts, get_tags(other))
            return parts, note, {"engine": "merge", "tags": tags}
        rewritten = self.writer.merge(request._replace(part=SINGLE_PART, other=other_parts))
        return {SINGLE_PART: rewritten.text}, rewritten.note or note, {"engine": "merge", "part": SINGLE_PART}


def better_on_batch(proposal: gate.Proposal) -> gate.Decision:
    """Prefilter: rejects children that are not better than their parent on the minibatch.

    A merge only has to be as good: its gains may be on other instances.
    """
    meta: Mapping[str, Any] = proposal.candidate.meta
    if "after" not in meta:
        return gate.Decision("accept", "no minibatch", "minibatch")
    before, after = meta.get("before"), meta["after"]
    if after is None:
        return gate.Decision("reject", str(meta.get("why") or "it failed"), "minibatch")
    is_better = before is None or after > before or (after == before and meta["engine"] == "merge")
    reason = f"{after:.6g} against {'none' if before is None else format(before, '.6g')} on the minibatch"
    return gate.Decision("accept" if is_better else "reject", reason, "minibatch")


def _format_feedback(results: Sequence[evaluation.Evaluation | None]) -> str:
    texts = [(result.failure, result.feedback.strip()) for result in results if result is not None]
    return "\n\n".join("\n".join(part for part in pair if part) for pair in texts)


def _make_trial(parent: function.Function, text: str, batch: Sequence[int]) -> function.Function:
    return function.derive_child(parent, Minibatch.create(text, batch), engine="minibatch")


def _add_tag(parent: function.Function, part: str, text: str) -> Mapping[str, JSON]:
    """Returns the tags of a child whose part changed, for later merges."""
    if part == SINGLE_PART:
        return {}
    tags = get_tags(parent)
    return {"tags": {**tags, part: [*tags.get(part, []), content_hash(text)[:8]]}}


def _get_id(fn: function.Function) -> str:
    return fn.candidate.id if fn.candidate else "a draft"


class InstanceCluster(cluster.EliteCluster):
    """The best candidates of one instance; selects the better of two random members.

    Nearly all candidates solve an easy instance, so a uniform draw would mostly give poor parents. GEPA removes
    dominated candidates instead, which scans the full population in every iteration.
    """

    def __init__(self, rng: Random, profilers: cluster.ClusterProfilers, instance: Any) -> None:
        super().__init__(rng, profilers, value=lambda fn: _get_instance_score(fn, instance), ties=True)

    def select_fn(self) -> function.Function:
        members = self._require_members()
        return self._emit_selected(max(self._rng.choice(members), self._rng.choice(members), key=function.get_fitness))


def make_pareto_population(island: int, rng: Random, profilers: cluster.ClusterProfilers) -> cluster.NichedPopulation:
    """Returns a population with one niche per instance, drawn uniformly."""

    def make_cluster(key: Hashable) -> InstanceCluster:
        return InstanceCluster(rng, profilers, key)

    return cluster.NichedPopulation(cluster.by_instance, make_cluster, cluster.WeightSelector(rng), num_parents=2)


def _get_instance_score(fn: function.Function, index: int) -> float:
    return fn.evaluation.scores[index] if fn.evaluation else float("-inf")
