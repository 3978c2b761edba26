"""Changes of texts without an LLM: random edits, examples, and candidates of several named parts, which can merge."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, NamedTuple

from atoll import function
from atoll.candidate import Candidate, content_hash

_MAX_ATTEMPTS = 8  # swapping two equal sentences changes nothing
_SENTENCE = re.compile(r"(?<=[.!?;:])\s+")


@dataclass(frozen=True, slots=True)
class RandomTextProposer:
    """Makes one random edit. Most are useless; an LLM does far better, but needs a key."""

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns the parent with one edit."""
        parent, rng = context.parents[-1], context.rng
        text = str(parent.skeleton())
        other_texts = [str(fn.skeleton()) for fn in context.parents[:-1] if str(fn.skeleton()) != text]
        segments, separator = _split_segments(text)
        other_segments = _split_segments(rng.choice(other_texts))[0] if other_texts else []
        kinds = ["drop", "double", "swap", "shuffle"] if len(segments) > 1 else ["double"]
        kinds += ["borrow", "cross"] if other_segments else []
        for _ in range(_MAX_ATTEMPTS):
            kind = rng.choice(kinds)
            new_text = separator.join(_apply_edit(kind, segments, other_segments, rng))
            if new_text.split() != text.split():
                break
        return [function.derive_child(parent, function.Text(new_text), parents=[parent], engine="edits", idea=kind)]


def _split_segments(text: str) -> tuple[list[str], str]:
    """Returns lines, or the sentences of a single line, or its words, and their separator."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1:
        return lines, "\n"
    sentences = [sentence for sentence in _SENTENCE.split(text.strip()) if sentence]
    return (sentences, " ") if len(sentences) > 1 else (text.split(), " ")


def _apply_edit(kind: str, segments: Sequence[str], other_segments: Sequence[str], rng: Random) -> list[str]:
    result = list(segments)
    index = rng.randrange(len(result)) if result else 0
    match kind:
        case "drop":
            del result[index]
        case "double":
            result.insert(rng.randrange(len(result) + 1), result[index] if result else "")
        case "swap":
            other_index = (index + 1 + rng.randrange(len(result) - 1)) % len(result)
            result[index], result[other_index] = result[other_index], result[index]
        case "shuffle":
            rng.shuffle(result)
        case "borrow":
            result.insert(index, rng.choice(other_segments))
        case "cross":
            result = result[: rng.randrange(len(result) + 1)] + list(
                other_segments[rng.randrange(len(other_segments) + 1) :]
            )
    return result or list(segments)


EXAMPLES_ENGINE = "examples"
BATCH_KEY = "batch"  # in the advice: training instances on which the child is compared with its parent
_EXAMPLES_TITLE = "Examples:"
_EXAMPLE_COUNTS = (2, 4, 6)
_MAX_EXAMPLE_CHARS = 1200


@dataclass(frozen=True, slots=True)
class ExampleProposer:
    """Adds training instances with their answers to a text, as examples. Needs no LLM.

    Attributes:
        proposer: Makes the children if no examples are requested.
        examples: The training instances as texts; an empty one is never added.
        share: Probability of examples, if the advice names no engine.
    """

    proposer: function.Proposer
    examples: Sequence[str]
    share: float = 0.0

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns the parent with new examples instead of earlier ones, or children of the other proposer."""
        engine = context.advice.get("engine")
        is_requested = engine == EXAMPLES_ENGINE or (
            engine is None and self.share > 0 and context.rng.random() < self.share
        )
        compared: Any = context.advice.get(BATCH_KEY, ())
        allowed = [
            text
            for index, text in enumerate(self.examples)
            if 0 < len(text) <= _MAX_EXAMPLE_CHARS and index not in compared
        ]
        if not is_requested or not allowed:
            return self.proposer.propose(context)
        parent = context.parents[-1]
        text = self._remove_examples(str(parent.skeleton())).rstrip("\n")
        count = min(context.rng.choice(_EXAMPLE_COUNTS), len(allowed))
        chosen = context.rng.sample(allowed, count)
        content = function.Text("\n\n".join([text, f"{_EXAMPLES_TITLE}\n{chosen[0]}", *chosen[1:]]))
        idea = f"{count} training instances as examples"
        return [function.derive_child(parent, content, parents=[parent], engine=EXAMPLES_ENGINE, idea=idea)]

    def _remove_examples(self, text: str) -> str:
        """Returns a text without the examples at its end. Examples that the user wrote stay."""
        head, _, tail = text.rpartition(f"\n\n{_EXAMPLES_TITLE}\n")
        for example in filter(None, self.examples):
            tail = tail.replace(example, "")
        return head if head and not tail.strip() else text


type ChangeTags = Mapping[str, Sequence[str]]  # by part: hashes of its changes, oldest first

SINGLE_PART = "text"  # name of the only part of a single text
PART_KEY, OTHER_PARTS_KEY = "part", "other_parts"  # in the advice: name of the part, and the texts of the others


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


class TextFormat(NamedTuple):
    """Format of a candidate's text: JSON of named parts, or a single text."""

    has_parts: bool

    def split_parts(self, content: str) -> dict[str, str]:
        return json.loads(content) if self.has_parts else {SINGLE_PART: content}

    def join_parts(self, parts: Mapping[str, str]) -> str:
        return json.dumps(dict(parts), ensure_ascii=False) if self.has_parts else parts[SINGLE_PART]


@dataclass(frozen=True, slots=True)
class PartProposer:
    """Lets a proposer of single texts change one part; the parts take turns. A new text ends like the old one.

    A request to combine two candidates takes each part from the lineage that changed it, without an LLM call.

    Attributes:
        proposer: Changes one text.
        text_format: Format of the candidates.
    """

    proposer: function.Proposer
    text_format: TextFormat

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns the children, each with all parts."""
        parent = context.parents[-1]
        parts = self.text_format.split_parts(str(parent.skeleton()))
        has_parts = self.text_format.has_parts
        if has_parts and context.advice.get("mode") == "cross" and (merged := self._merge(context, parent, parts)):
            return [merged]
        names = sorted(parts)
        name = names[context.iteration % len(names)]
        others = {other: text for other, text in parts.items() if other != name}
        advice = {**context.advice, PART_KEY: name, OTHER_PARTS_KEY: others} if has_parts else context.advice
        view = context._replace(
            parents=[self._show_part(fn, name) for fn in context.parents],
            inspirations={
                role: [self._show_part(fn, name) for fn in fns] for role, fns in context.inspirations.items()
            },
            advice=advice,
        )
        return [self._join(parent, child, parts, name) for child in self.proposer.propose(view)]

    def _show_part(self, fn: function.Function, name: str) -> function.Function:
        text = self.text_format.split_parts(str(fn.skeleton())).get(name, "")
        clone, candidate = fn.clone(function.Text(text)), fn.candidate
        if candidate is None:
            return clone
        return clone.with_evaluation(candidate, fn.evaluation, fn.score() if fn.evaluation else None)

    def _join(
        self, parent: function.Function, child: function.Function, parts: Mapping[str, str], name: str
    ) -> function.Function:
        text = str(child.skeleton())
        if not parts[name].endswith("\n"):
            text = text.rstrip("\n")
        content = self.text_format.join_parts({**parts, name: text})
        candidate = child.candidate or Candidate("", content)
        meta, tags = dict(candidate.meta), get_tags(parent)
        if self.text_format.has_parts:
            meta |= {"part": name, "tags": {**tags, name: [*tags.get(name, []), content_hash(text)[:8]]}}
        return child.clone(function.Text(content)).with_evaluation(replace(candidate, content=content, meta=meta))

    def _merge(
        self, context: function.ProposalContext, parent: function.Function, parts: Mapping[str, str]
    ) -> function.Function | None:
        """Returns a merge with a candidate that is better on other instances; None if there is none."""
        for other in (fn for fns in context.inspirations.values() for fn in fns):
            if not are_complementary(parent, other):
                continue
            other_parts = self.text_format.split_parts(str(other.skeleton()))
            merged, tags = merge_parts(parts, get_tags(parent), other_parts, get_tags(other))
            if merged not in (parts, other_parts):
                content = function.Text(self.text_format.join_parts(merged))
                idea = f"merged {_get_id(other)} into {_get_id(parent)}"
                meta: dict[str, Any] = {"engine": "merge", "idea": idea, "tags": tags}
                return function.derive_child(parent, content, parents=[parent, other], **meta)
        return None


def _get_id(fn: function.Function) -> str:
    return fn.candidate.id if fn.candidate else "a draft"
