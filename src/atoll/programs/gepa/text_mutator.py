"""The engine of texts: one part of a parent is written anew, tried on a minibatch, and goes on only if it is better."""

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, Protocol

from atoll import cluster, evaluation, function, gate, mutation
from atoll.candidate import JSON, content_hash
from atoll.programs.gepa.dataset_evaluator import Minibatch

type ChangeTags = Mapping[str, Sequence[str]]  # by part: the changes that its text went through, oldest first


def are_complementary(first: function.Function, second: function.Function) -> bool:
    """Says whether each of two is better than the other on some instance: then both know something."""
    if first is second or first.evaluation is None or second.evaluation is None:
        return False
    pairs = list(zip(first.evaluation.scores, second.evaluation.scores, strict=False))
    return any(first_score > second_score for first_score, second_score in pairs) and any(
        second_score > first_score for first_score, second_score in pairs
    )


def get_tags(fn: function.Function) -> ChangeTags:
    """Returns the changes that each part of a candidate went through."""
    meta: Mapping[str, Any] = fn.candidate.meta if fn.candidate else {}
    return dict(meta.get("tags", {}))


def merge_parts(
    ours: Mapping[str, str], our_tags: ChangeTags, theirs: Mapping[str, str], their_tags: ChangeTags
) -> tuple[Mapping[str, str], ChangeTags]:
    """Takes each part from the line that changed it.

    Where one line went on from what the other has, the later text is taken; where both changed it apart from each
    other, that of `ours`, the better candidate.
    """
    parts, tags = dict(ours), {name: list(chain) for name, chain in our_tags.items()}
    for name, text in theirs.items():
        our_chain, their_chain = list(our_tags.get(name, ())), list(their_tags.get(name, ()))
        if len(their_chain) > len(our_chain) and their_chain[: len(our_chain)] == our_chain:
            parts[name], tags[name] = text, their_chain
    return parts, tags


SINGLE_PART = "text"  # the name of the only part of a single text
MAX_BATCHES = 4  # before a parent that is perfect on all of them is changed all the same


class TextFormat(NamedTuple):
    """How parts stand in a candidate's text: as JSON by name, or the text is the only one."""

    has_parts: bool

    def split_parts(self, content: str) -> dict[str, str]:
        return json.loads(content) if self.has_parts else {SINGLE_PART: content}

    def join_parts(self, parts: Mapping[str, str]) -> str:
        return json.dumps(dict(parts), ensure_ascii=False) if self.has_parts else parts[SINGLE_PART]


class RewriteRequest(NamedTuple):
    """What a writer is to do.

    Attributes:
        part: Name of the part to be written anew.
        parts: All parts of the parent.
        lessons: What its trial on the minibatch, or its judge, said.
        advice: What the learner says: what worked and what failed so far.
        rng: The dice of this step.
        other: The parts of another good candidate, to be merged or borrowed from.
    """

    part: str
    parts: Mapping[str, str]
    feedback: str
    score: float | None
    advice: Mapping[str, JSON]
    rng: Random
    other: Mapping[str, str] | None = None


class RewrittenText(NamedTuple):
    """A new text for the part, and in a sentence why."""

    text: str
    note: str = ""


class TextWriter(Protocol):
    """Writes one part of a candidate anew."""

    @property
    def name(self) -> str:
        """What its children are noted to be made by."""

    def write(self, request: RewriteRequest) -> RewrittenText:
        """Returns another text; raises ValueError where none comes out of it."""

    def merge(self, request: RewriteRequest) -> RewrittenText:
        """Returns a text that joins the part with the other candidate's."""


@dataclass(frozen=True, slots=True)
class TextMutator:
    """Proposes one child: a part written anew, or two parents merged that are best on different instances.

    Attributes:
        form: How parts stand in the text.
        writer: A model that reflects, or edits without one.
        batches: Minibatches of the train part; none: there is no data and every child is judged at once.
        perfect: A score of an instance that cannot be better; a batch of such teaches nothing.
        merging: How often two parents that complement each other are merged.
    """

    text_format: TextFormat
    writer: TextWriter
    batches: Sequence[Sequence[int]] = ()
    perfect_score: float | None = None
    merge_probability: float = 0.2

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns one child, with a note of how it did on its minibatch.

        A reply that is worth nothing is a child too, which the screen rejects: its trials were paid for, and count.
        """
        parent, other = context.parents[-1], context.parents[0]
        batch_results = self._evaluate_batches(context, parent)
        batch, parent_result = batch_results[-1] if batch_results else ((), None)
        content = str(parent.skeleton())
        request = RewriteRequest(
            "", self.text_format.split_parts(content), "", parent.score(), context.advice, context.rng
        )
        request = request._replace(
            feedback=_format_feedback(
                [*self._get_earlier_results(context, parent, batch_results), *(result for _, result in batch_results)]
            )
        )
        meta: dict[str, Any] = (
            {"tried": [list(tried_batch) for tried_batch, _ in batch_results]} if batch_results else {}
        )
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
        """Returns the child's text and a note of its making; after a worthless reply the parent's, and why."""
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
            return content, {**meta, "why": f"the {self.writer.name} gave back the text that it was given"}
        return text, {**meta, "note": note[:400]}

    def _evaluate_batches(
        self, context: function.ProposalContext, parent: function.Function
    ) -> Sequence[tuple[Sequence[int], evaluation.Evaluation]]:
        """Tries the parent on minibatches until one still has something to teach."""
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
        """Returns what else is known of the parent: its judge's words, or its trial as a child, paid long ago."""
        if not batch_results:
            return [parent.evaluation]
        meta: Mapping[str, Any] = parent.candidate.meta if parent.candidate else {}
        birth_batches = [tuple(batch) for batch in meta.get("tried", ())][-1:]
        new_batches = [
            batch for batch in birth_batches if batch not in [tuple(tried_batch) for tried_batch, _ in batch_results]
        ]
        return context.evaluate([_make_trial(parent, str(parent.skeleton()), batch) for batch in new_batches])

    def _rewrite_part(
        self, request: RewriteRequest, parent: function.Function, other: function.Function
    ) -> tuple[Mapping[str, str], str, dict[str, Any]]:
        part = request.rng.choice(sorted(request.parts))
        other_parts = None if other is parent else self.text_format.split_parts(str(other.skeleton()))
        rewritten = self.writer.write(request._replace(part=part, other=other_parts))
        tags = _add_tag(parent, part, rewritten.text)
        return (
            {**request.parts, part: rewritten.text},
            rewritten.note,
            {"engine": self.writer.name, "part": part, **tags},
        )

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
    """Rejects what is no better than its parent on the same few instances: a screen, so the full set is not paid.

    A merge of two need not be better there, only no worse: what it joins may lie elsewhere.
    """
    meta: Mapping[str, Any] = proposal.candidate.meta
    if "after" not in meta:
        return gate.Decision("accept", "there is no minibatch", "minibatch")
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
    """Notes in a child's line that a part changed, so that a merge knows which line changed what."""
    if part == SINGLE_PART:
        return {}
    tags = get_tags(parent)
    return {"tags": {**tags, part: [*tags.get(part, []), content_hash(text)[:8]]}}


def _get_id(fn: function.Function) -> str:
    return fn.candidate.id if fn.candidate else "a draft"


class InstanceCluster(cluster.EliteCluster):
    """All that are best on one instance; offers the better of two of them.

    An easy instance is solved by nearly all, so that equals drawn evenly would mostly be poor parents; GEPA leaves out
    what others dominate, for which it looks at the whole pool in every step.
    """

    def __init__(self, rng: Random, profilers: cluster.ClusterProfilers, instance: Any) -> None:
        super().__init__(rng, profilers, value=lambda fn: _get_instance_score(fn, instance), ties=True)

    def select_fn(self) -> function.Function:
        members = self._require_members()
        return self._emit_selected(max(self._rng.choice(members), self._rng.choice(members), key=function.get_fitness))


def make_pareto_population(island: int, rng: Random, profilers: cluster.ClusterProfilers) -> cluster.NichedPopulation:
    """Returns a pool with a niche per instance, each drawn as often as any."""

    def make_cluster(key: Hashable) -> InstanceCluster:
        return InstanceCluster(rng, profilers, key)

    return cluster.NichedPopulation(cluster.by_instance, make_cluster, cluster.WeightSelector(rng), num_parents=2)


def _get_instance_score(fn: function.Function, index: int) -> float:
    return fn.evaluation.scores[index] if fn.evaluation else float("-inf")
