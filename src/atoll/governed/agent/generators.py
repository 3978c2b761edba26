"""Generators: ask an LLM for K different candidates in one prompt."""

import json
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

from atoll import errors, llm
from atoll.governed.approval.proposal import to_canonical_json
from atoll.llm import json_output

_MAX_RAW_CHARS = 2000  # characters of the response kept in the metadata
_REPAIR = "Your last response could not be used: {error}\nRespond again with the JSON array and nothing else."

SYSTEM_TEMPLATE = """Propose $K different candidates.
$RolesJoined
$Constraints
Respond with a JSON array of $K candidates and nothing else."""
USER_TEMPLATE = """Input:
$Input
$History"""


class InvalidK(errors.SetupError):
    """Fewer than one candidate was requested."""


class LLMFailed(errors.AtollError):
    """The LLM returned no response."""


class CandidateParseFailed(errors.AtollError):
    """The response has no JSON array of candidates.

    Attributes:
        text: The response.
    """

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text


@dataclass(frozen=True, slots=True)
class GeneratedCandidate:
    """Candidate proposed by an LLM.

    Attributes:
        payload: The proposal as JSON.
        meta: LLM, roles, tokens, cost and the start of the response.
    """

    id: str
    payload: Any
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """Options of one `generate` call.

    Attributes:
        roles: Points of view for the LLM to take.
        constraints: Rules that every candidate must follow.
        history: Earlier candidates and their results.
        calls: Number of LLM calls that share the K candidates.
        repairs: Number of retries after an unreadable response.
    """

    roles: Sequence[str] = ()
    constraints: Sequence[str] = ()
    history: Sequence[Mapping[str, Any]] = ()
    calls: int = 1
    repairs: int = 1


_DEFAULT_OPTIONS = GenerateOptions()


class Generator(Protocol):
    """Makes candidates."""

    def generate(
        self, input_data: Any, k: int, options: GenerateOptions = _DEFAULT_OPTIONS, /
    ) -> Sequence[GeneratedCandidate]:
        """Returns at most k candidates.

        Raises:
            InvalidK: k is below 1.
            LLMFailed: The LLM returned no response.
            CandidateParseFailed: A response has no JSON array.
        """


class LLMGenerator:
    """Asks an LLM for candidates.

    Args:
        model: Any `atoll.llm.LLM`. Sampling options belong to the LLM.
        template: The user message. May use $K, $Roles, $RolesJoined, $Input, $Constraints and $History; $$ is a dollar
            sign. None: our system and user message.

    Raises:
        SetupError: The template has an unknown placeholder.
    """

    def __init__(self, model: llm.LLM, template: str | None = None) -> None:
        user_template = string.Template(USER_TEMPLATE if template is None else template)
        self._llm, self._user_template = model, user_template
        self._system_template = string.Template(SYSTEM_TEMPLATE if template is None else "")
        known_names = {"K", "Roles", "RolesJoined", "Input", "Constraints", "History"}
        if not user_template.is_valid() or (unknown_names := set(user_template.get_identifiers()) - known_names):
            problem = f"names ${sorted(unknown_names)[0]}" if user_template.is_valid() else "has a $ without a name"
            raise errors.SetupError(
                f"The template {problem}. Use {', '.join(f'${name}' for name in sorted(known_names))}."
            )

    def generate(
        self, input_data: Any, k: int, options: GenerateOptions = _DEFAULT_OPTIONS, /
    ) -> Sequence[GeneratedCandidate]:
        """Returns at most k different candidates."""
        if k < 1:
            raise InvalidK(f"k={k}: request at least 1 candidate.")
        candidates: dict[str, GeneratedCandidate] = {}
        used_ids: set[str] = set()
        for size in _split_count(k, options.calls):
            for payload, meta in self._request_candidates(input_data, size, options):
                key = to_canonical_json(payload)
                if key not in candidates and len(candidates) < k:
                    candidates[key] = GeneratedCandidate(_choose_id(payload, used_ids), payload, meta)
        return list(candidates.values())

    def _request_candidates(
        self, input_data: Any, k: int, options: GenerateOptions
    ) -> Sequence[tuple[Any, Mapping[str, Any]]]:
        constraints = "\n".join(["Every candidate must follow these rules:", *options.constraints])
        values = {
            "K": k,
            "Roles": json.dumps(list(options.roles), ensure_ascii=False),
            "RolesJoined": f"Take these points of view: {', '.join(options.roles)}." if options.roles else "",
            "Input": input_data
            if isinstance(input_data, str)
            else json.dumps(input_data, ensure_ascii=False, default=str),
            "Constraints": constraints if options.constraints else "",
            "History": _format_history(options.history),
        }
        prompt: str = llm.ChatPrompt(
            ("system", self._system_template.substitute(values)), ("user", self._user_template.substitute(values))
        )
        current_prompt, problem = prompt, ""
        for _ in range(1 + max(0, options.repairs)):
            response = self._call_llm(current_prompt)
            items = _extract_items(response.text)
            if items is not None:
                cost = {
                    "tokens_in": response.cost.tokens_in,
                    "tokens_out": response.cost.tokens_out,
                    "usd": response.cost.usd,
                }
                meta = {
                    "model": response.model,
                    "roles": list(options.roles),
                    **cost,
                    "raw": response.text[:_MAX_RAW_CHARS],
                }
                return [(item, meta) for item in items[:k]]
            problem = "it has no JSON array"
            shown_text = response.text[:_MAX_RAW_CHARS]
            current_prompt = llm.continue_prompt(prompt, shown_text, _REPAIR.format(error=problem))
        raise CandidateParseFailed(f"The response of {response.model} cannot be used: {problem}.", response.text)

    def _call_llm(self, prompt: str) -> llm.Response:
        try:
            return self._llm(prompt)
        except llm.LLMError as error:
            raise LLMFailed(str(error)) from error


def _extract_items(text: str) -> list[Any] | None:
    """Returns the first JSON array of a response, or the one inside an object with a single key."""
    for value in json_output.extract_json(text):
        if isinstance(value, Mapping) and len(value) == 1:
            value = next(iter(value.values()))
        if isinstance(value, list):
            try:
                to_canonical_json(value)
            except ValueError:
                continue  # NaN or infinity
            return value
    return None


def _split_count(k: int, calls: int) -> Sequence[int]:
    num_calls = max(1, min(calls, k))
    return [k // num_calls + (index < k % num_calls) for index in range(num_calls)]


def _choose_id(payload: Any, used_ids: set[str]) -> str:
    own_id = payload.get("id") if isinstance(payload, Mapping) else None
    generated_ids = (f"c{index}" for index in count(1))
    chosen_id = (
        own_id
        if isinstance(own_id, str) and own_id and own_id not in used_ids
        else next(generated_id for generated_id in generated_ids if generated_id not in used_ids)
    )
    used_ids.add(chosen_id)
    return chosen_id


def _format_history(history: Sequence[Mapping[str, Any]]) -> str:
    lines = [json.dumps(dict(item), ensure_ascii=False, default=str) for item in history]
    return "\n".join(["Earlier candidates and their results:", *lines]) if lines else ""
