"""The engine of texts: one part of a parent is written anew, tried on a minibatch, and goes on only if it is better."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, Protocol

from atoll import evaluation, function, gate, mutation
from atoll.candidate import JSON, digest
from atoll.programs.instances import Sample
from atoll.programs.merge import complement, merged_parts, tags_of

ONE = "text"  # the name of the only part of a single text
BATCHES_TRIED = 4  # before a parent that is perfect on all of them is changed all the same


class Form(NamedTuple):
    """How parts stand in a candidate's text: as JSON by name, or the text is the only one."""

    is_several: bool

    def parts(self, content: str) -> dict[str, str]:
        return json.loads(content) if self.is_several else {ONE: content}

    def joined(self, parts: Mapping[str, str]) -> str:
        return json.dumps(dict(parts), ensure_ascii=False) if self.is_several else parts[ONE]


class Order(NamedTuple):
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
    lessons: str
    score: float | None
    advice: Mapping[str, JSON]
    rng: Random
    other: Mapping[str, str] | None = None


class Written(NamedTuple):
    """A new text for the part, and in a sentence why."""

    text: str
    note: str = ""


class Writer(Protocol):
    """Writes one part of a candidate anew."""

    @property
    def name(self) -> str:
        """What its children are noted to be made by."""

    def write(self, order: Order) -> Written:
        """Returns another text; raises ValueError where none comes out of it."""

    def merge(self, order: Order) -> Written:
        """Returns a text that joins the part with the other candidate's."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Proposes one child: a part written anew, or two parents merged that are best on different instances.

    Attributes:
        form: How parts stand in the text.
        writer: A model that reflects, or edits without one.
        batches: Minibatches of the train part; none: there is no data and every child is judged at once.
        perfect: A score of an instance that cannot be better; a batch of such teaches nothing.
        merging: How often two parents that complement each other are merged.
    """

    form: Form
    writer: Writer
    batches: Sequence[Sequence[int]] = ()
    perfect: float | None = None
    merging: float = 0.2

    def propose(self, task: function.Task) -> Sequence[function.Function]:
        """Returns one child, with a note of how it did on its minibatch.

        A reply that is worth nothing is a child too, which the screen rejects: its trials were paid for, and count.
        """
        parent, other = task.parents[-1], task.parents[0]
        trials = self._trials(task, parent)
        batch, before = trials[-1] if trials else ((), None)
        content = str(parent.skeleton())
        order = Order("", self.form.parts(content), "", parent.score(), task.advice, task.rng)
        order = order._replace(lessons=_lessons([*self._birth(task, parent, trials), *(found for _, found in trials)]))
        meta: dict[str, Any] = {"tried": [list(each) for each, _ in trials]} if trials else {}
        text, made = self._made(order, parent, other)
        meta |= made
        if "why" in meta:
            meta |= {"after": None}
        elif before is not None:
            after = task.judge([_draft(parent, text, batch)])[0]
            meta |= {"before": before.score, "after": after.score}
            meta |= {"why": after.failure[:200]} if after.failure else {}
        made_from = [parent, other] if meta["engine"] == "merge" else [parent]
        return [function.draft(parent, mutation.skeleton_of(parent, text), parents=made_from, **meta)]

    def _made(self, order: Order, parent: function.Function, other: function.Function) -> tuple[str, dict[str, Any]]:
        """Returns the child's text and a note of its making; after a worthless reply the parent's, and why."""
        content = self.form.joined(order.parts)
        try:
            if complement(parent, other) and order.rng.random() < self.merging:
                parts, note, meta = self._merged(order, parent, other)
            else:
                parts, note, meta = self._written(order, parent, other)
        except ValueError as error:
            return content, {"engine": self.writer.name, "why": str(error)[:200]}
        text = self.form.joined(parts)
        if text.split() == content.split():
            return content, {**meta, "why": f"the {self.writer.name} gave back the text that it was given"}
        return text, {**meta, "note": note[:400]}

    def _trials(
        self, task: function.Task, parent: function.Function
    ) -> Sequence[tuple[Sequence[int], evaluation.Evaluation]]:
        """Tries the parent on minibatches until one still has something to teach."""
        trials: list[tuple[Sequence[int], evaluation.Evaluation]] = []
        for batch in task.rng.sample(self.batches, min(BATCHES_TRIED, len(self.batches))):
            trials.append((batch, task.judge([_draft(parent, str(parent.skeleton()), batch)])[0]))
            found = trials[-1][1]
            if self.perfect is None or found.score is None or min(found.scores) < self.perfect:
                break
        return trials

    def _birth(
        self, task: function.Task, parent: function.Function, trials: Sequence[tuple[Sequence[int], Any]]
    ) -> Sequence[evaluation.Evaluation | None]:
        """Returns what else is known of the parent: its judge's words, or its trial as a child, paid long ago."""
        if not trials:
            return [parent.evaluation]
        meta: Mapping[str, Any] = parent.candidate.meta if parent.candidate else {}
        born = [tuple(batch) for batch in meta.get("tried", ())][-1:]
        fresh = [batch for batch in born if batch not in [tuple(each) for each, _ in trials]]
        return task.judge([_draft(parent, str(parent.skeleton()), batch) for batch in fresh])

    def _written(
        self, order: Order, parent: function.Function, other: function.Function
    ) -> tuple[Mapping[str, str], str, dict[str, Any]]:
        part = order.rng.choice(sorted(order.parts))
        others = None if other is parent else self.form.parts(str(other.skeleton()))
        written = self.writer.write(order._replace(part=part, other=others))
        tags = _tagged(parent, part, written.text)
        return {**order.parts, part: written.text}, written.note, {"engine": self.writer.name, "part": part, **tags}

    def _merged(
        self, order: Order, parent: function.Function, other: function.Function
    ) -> tuple[Mapping[str, str], str, dict[str, Any]]:
        theirs = self.form.parts(str(other.skeleton()))
        note = f"merged {_id(other)} into {_id(parent)}"
        if self.form.is_several:
            parts, tags = merged_parts(order.parts, tags_of(parent), theirs, tags_of(other))
            return parts, note, {"engine": "merge", "tags": tags}
        written = self.writer.merge(order._replace(part=ONE, other=theirs))
        return {ONE: written.text}, written.note or note, {"engine": "merge", "part": ONE}


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
    told = f"{after:.6g} against {'none' if before is None else format(before, '.6g')} on the minibatch"
    return gate.Decision("accept" if is_better else "reject", told, "minibatch")


def _lessons(found: Sequence[evaluation.Evaluation | None]) -> str:
    said = [(each.failure, each.feedback.strip()) for each in found if each is not None]
    return "\n\n".join("\n".join(part for part in pair if part) for pair in said)


def _draft(parent: function.Function, text: str, batch: Sequence[int]) -> function.Function:
    return function.draft(parent, Sample.of(text, batch), engine="minibatch")


def _tagged(parent: function.Function, part: str, text: str) -> Mapping[str, JSON]:
    """Notes in a child's line that a part changed, so that a merge knows which line changed what."""
    if part == ONE:
        return {}
    tags = tags_of(parent)
    return {"tags": {**tags, part: [*tags.get(part, []), digest(text)[:8]]}}


def _id(fn: function.Function) -> str:
    return fn.candidate.id if fn.candidate else "a draft"
