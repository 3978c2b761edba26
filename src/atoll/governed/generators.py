"""Asks a model for K candidates: one template in, a list of JSON out, duplicates gone."""

import json
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

from atoll import errors, llm
from atoll.governed.proposals.proposal import canonical
from atoll.llm import structured

_MOST_RAW = 2000  # characters of a reply that are kept with its candidates
_REPAIR = "\n\nYour last answer could not be used: {error}\nAnswer again with the JSON array and nothing else."

TEMPLATE = """You propose $K different candidates.
$RolesJoined
The input:
$Input
$Constraints
$History
Answer with a JSON array of $K candidates and nothing else."""


class InvalidK(errors.SetupError):
    """Fewer than one candidate was asked for."""


class LLMFailed(errors.AtollError):
    """The model gave no reply."""


class CandidateParseFailed(errors.AtollError):
    """The reply holds no JSON array of candidates; the caller decides whether to ask again, relax or fall back.

    Attributes:
        text: The reply.
    """

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text


@dataclass(frozen=True, slots=True)
class Candidate:
    """One proposal of a model.

    Attributes:
        payload: What it proposed; JSON.
        meta: Which model, which role, how warm, what it cost, and the reply it came in.
    """

    id: str
    payload: Any
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What one call of a generator asks for besides.

    Attributes:
        roles: Points of view that the model takes.
        constraints: What every candidate must obey.
        history: Earlier candidates with what became of them.
        calls: How many times the model is asked, for about K/calls candidates each.
        repairs: How often it is asked again, with what was wrong, when a reply cannot be read.
    """

    roles: Sequence[str] = ()
    constraints: Sequence[str] = ()
    history: Sequence[Mapping[str, Any]] = ()
    calls: int = 1
    repairs: int = 1


_USUAL = Wishes()


class Generator(Protocol):
    """Makes candidates."""

    def generate(self, given: Any, k: int, wishes: Wishes = _USUAL, /) -> Sequence[Candidate]:
        """Returns at most k candidates.

        Raises:
            InvalidK: k is below 1.
            LLMFailed: A model gave no reply.
            CandidateParseFailed: A reply holds none.
        """


class LLMGenerator:
    """Asks a language model.

    Args:
        model: Any model of `atoll.llm`; its name stands in the meta data of every candidate, and what it is left to
            choose (temperature, top_p, max_tokens) is an option of the model: None there, and 0.0 is passed on.
        template: With $K, $Roles, $RolesJoined, $Input, $Constraints and $History in it; $$ is a dollar.

    Raises:
        SetupError: The template names something else.
    """

    def __init__(self, model: llm.LLM, template: str = TEMPLATE) -> None:
        self._model, self._template = model, string.Template(template)
        known = {"K", "Roles", "RolesJoined", "Input", "Constraints", "History"}
        if not self._template.is_valid() or (odd := set(self._template.get_identifiers()) - known):
            said = f"names ${sorted(odd)[0]}" if self._template.is_valid() else "has a $ that names nothing"
            raise errors.SetupError(
                f"The template {said}: it may name {', '.join(f'${each}' for each in sorted(known))}."
            )

    def generate(self, given: Any, k: int, wishes: Wishes = _USUAL, /) -> Sequence[Candidate]:
        """Returns at most k candidates, each once."""
        if k < 1:
            raise InvalidK(f"{k} candidates were asked for: ask for 1 or more.")
        found: dict[str, Candidate] = {}
        taken: set[str] = set()
        for part in _parts(k, wishes.calls):
            for payload, meta in self._ask(given, part, wishes):
                key = canonical(payload)
                if key not in found and len(found) < k:
                    found[key] = Candidate(_fresh_id(payload, taken), payload, meta)
        return list(found.values())

    def _ask(self, given: Any, k: int, wishes: Wishes) -> Sequence[tuple[Any, Mapping[str, Any]]]:
        prompt = self._template.substitute(
            K=k,
            Roles=json.dumps(list(wishes.roles), ensure_ascii=False),
            RolesJoined=f"Take these points of view: {', '.join(wishes.roles)}." if wishes.roles else "",
            Input=given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str),
            Constraints="\n".join(["Every candidate must obey:", *wishes.constraints]) if wishes.constraints else "",
            History=_told(wishes.history),
        )
        asked, wrong = prompt, ""
        for _ in range(1 + max(0, wishes.repairs)):
            reply = self._reply(asked)
            items = _items(reply.text)
            if items is not None:
                cost = {"tokens_in": reply.cost.tokens_in, "tokens_out": reply.cost.tokens_out, "usd": reply.cost.usd}
                meta = {"model": reply.model, "roles": list(wishes.roles), **cost, "raw": reply.text[:_MOST_RAW]}
                return [(each, meta) for each in items[:k]]
            wrong = "there is no JSON array in it"
            asked = prompt + _REPAIR.format(error=wrong)
        raise CandidateParseFailed(f"{reply.model} gave no candidates: {wrong}.", reply.text)

    def _reply(self, prompt: str) -> llm.Reply:
        try:
            return self._model(prompt)
        except llm.NoReply as error:
            raise LLMFailed(str(error)) from error


def _items(text: str) -> list[Any] | None:
    """Returns the candidates of a reply: the first array that stands in it, or is all that an object holds."""
    for value in structured.extract(text):
        if isinstance(value, Mapping) and len(value) == 1:
            value = next(iter(value.values()))
        if isinstance(value, list):
            try:
                canonical(value)
            except ValueError:
                continue  # NaN and the like
            return value
    return None


def _parts(k: int, calls: int) -> Sequence[int]:
    number = max(1, min(calls, k))
    return [k // number + (place < k % number) for place in range(number)]


def _fresh_id(payload: Any, taken: set[str]) -> str:
    own = payload.get("id") if isinstance(payload, Mapping) else None
    names = (f"c{number}" for number in count(1))
    chosen = (
        own if isinstance(own, str) and own and own not in taken else next(each for each in names if each not in taken)
    )
    taken.add(chosen)
    return chosen


def _told(history: Sequence[Mapping[str, Any]]) -> str:
    lines = [json.dumps(dict(each), ensure_ascii=False, default=str) for each in history]
    return "\n".join(["What was tried before, and what became of it:", *lines]) if lines else ""
