"""Reflections: observations of an agent about its sessions, and adjustments that need an approved proposal."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from atoll import errors
from atoll.governed import reserved_keys
from atoll.governed.approval.proposals import Clock, now
from atoll.governed.errors import ParameterNotFound
from atoll.governed.parameters import ParameterStore

PREFIX = "reflections/"
REFLECTION_PERIOD = 10  # sessions between two periodic reflections

type ReflectionType = Literal["post_session", "on_error", "periodic"]
type AdjustmentType = Literal["prompt", "tool_priority", "context", "workflow", "lesson"]

REFLECTION_TYPES: tuple[ReflectionType, ...] = ("post_session", "on_error", "periodic")
ADJUSTMENT_TYPES: tuple[AdjustmentType, ...] = ("prompt", "tool_priority", "context", "workflow", "lesson")


class InvalidReflection(errors.SetupError):
    """The data is not a valid reflection."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Pattern that an agent noticed."""

    pattern: str
    frequency: int = 1
    impact: str = ""
    example: str = ""


@dataclass(frozen=True, slots=True)
class Adjustment:
    """Suggested change. `priority` is 1 to 5; 5 is the most urgent."""

    type: AdjustmentType
    description: str
    target: str = ""
    suggestion: str = ""
    priority: int = 3
    applied: bool = False


@dataclass(frozen=True, slots=True)
class SessionMetrics:
    """Resources that a session used.

    Attributes:
        duration: Nanoseconds.
    """

    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    tool_use_counts: Mapping[str, int] = field(default_factory=dict)
    errors: int = 0
    duration: int = 0
    completed: bool = False


@dataclass(frozen=True, slots=True)
class Reflection:
    """Result of reflecting on a session, a failure or several runs."""

    id: str
    session_id: str
    type: ReflectionType
    summary: str
    observations: tuple[Observation, ...] = ()
    adjustments: tuple[Adjustment, ...] = ()
    metrics: SessionMetrics = field(default_factory=SessionMetrics)
    created_at: str = ""

    def to_json(self) -> dict[str, Any]:
        """Returns JSON data for `from_json`."""
        data = {**asdict(self), "metrics": asdict(self.metrics)}
        return data | {name: list(data[name]) for name in ("observations", "adjustments")}


def _parse_adjustment(data: Mapping[str, Any]) -> Adjustment:
    text_fields = ("description", "target", "suggestion")
    if not all(isinstance(data.get(name, ""), str) for name in text_fields):
        raise TypeError("description, target and suggestion must be strings")
    # One line each: a lesson becomes one line of a prompt and must not look like several.
    return Adjustment(**{**data, **{name: " ".join(data[name].split()) for name in text_fields if name in data}})


def from_json(data: Mapping[str, Any]) -> Reflection:
    """Parses a reflection from `Reflection.to_json` or from an LLM.

    Raises:
        InvalidReflection: A field is missing or has the wrong type.
    """
    try:
        reflection = Reflection(
            **{
                **data,
                "observations": tuple(Observation(**observation) for observation in data.get("observations", ())),
                "adjustments": tuple(_parse_adjustment(adjustment) for adjustment in data.get("adjustments", ())),
                "metrics": SessionMetrics(**data.get("metrics", {})),
            }
        )
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InvalidReflection(f"The reflection is invalid: {error}.") from None
    if reflection.type not in REFLECTION_TYPES:
        raise InvalidReflection(f"Type {reflection.type!r:.40} is unknown. Use {', '.join(REFLECTION_TYPES)}.")
    for adjustment in reflection.adjustments:
        if adjustment.type not in ADJUSTMENT_TYPES or adjustment.priority not in range(1, 6):
            raise InvalidReflection(f"An adjustment has a type of {', '.join(ADJUSTMENT_TYPES)} and a priority 1 to 5.")
    return reflection


class SelfReflector:
    """Stores reflections. Adjustments take effect only through an approved proposal."""

    def __init__(self, store: ParameterStore, clock: Clock = now) -> None:
        self._store, self._clock = store, clock

    def record(self, content: Mapping[str, Any], author: str) -> Reflection:
        """Saves a reflection and returns it with its id and time. A missing type is chosen by `choose_reflection_type`.

        Raises:
            InvalidReflection: The content is not a valid reflection.
        """
        fields = {"session_id": "", "summary": "", "type": "post_session", **content}
        reflection = from_json({**fields, "id": f"r-{uuid.uuid4().hex[:12]}", "created_at": self._clock().isoformat()})
        unapplied = tuple(replace(adjustment, applied=False) for adjustment in reflection.adjustments)
        reflection = replace(reflection, adjustments=unapplied)
        if "type" not in content:
            runs, failed = 1 + len(self._store.list(PREFIX)), reflection.metrics.errors > 0
            reflection = replace(reflection, type=choose_reflection_type(runs, failed=failed))
        self._store.set(
            PREFIX + reflection.id,
            reflection.to_json(),
            f"reflected: {reflection.type}",
            author=author,
            expected_version=0,
        )
        return reflection

    def load_recent_reflections(self, limit: int = 10) -> reserved_keys.LoadResult[Reflection]:
        """Returns the newest reflections first, and an error message for each unreadable one."""
        reflections, messages = reserved_keys.load_all(self._store, PREFIX, self._read, InvalidReflection)
        newest = sorted(
            reflections,
            key=lambda reflection: (datetime.fromisoformat(reflection.created_at), reflection.id),
            reverse=True,
        )
        return reserved_keys.LoadResult(newest[: max(0, limit)], messages)

    def _read(self, name: str) -> Reflection:
        return from_json(self._store.get(PREFIX + name).value)

    def get_lessons(self) -> Sequence[Adjustment]:
        """Returns all lessons, the most urgent first."""
        reflections = self.load_recent_reflections(limit=10**9).items
        lessons = [
            adjustment
            for reflection in reflections
            for adjustment in reflection.adjustments
            if adjustment.type == "lesson"
        ]
        return sorted(lessons, key=lambda adjustment: -adjustment.priority)

    def find_adjustment(self, content: Mapping[str, Any]) -> tuple[Reflection, int, int]:
        """Returns the reflection of a proposal, its version, and the index of the adjustment.

        Raises:
            InvalidReflection: The adjustment does not exist or differs from the proposed one.
        """
        try:
            value, version = self._store.get(PREFIX + str(content["reflection"]))
            reflection, index = from_json(value), content["place"]
            if not isinstance(index, int) or index not in range(len(reflection.adjustments)):
                raise KeyError("place")
            proposed = _parse_adjustment(content["adjustment"])
        except (KeyError, TypeError, AttributeError, ParameterNotFound) as error:
            raise InvalidReflection(f"Adjustment not found: {error!r}.") from None
        if replace(reflection.adjustments[index], applied=False) != replace(proposed, applied=False):
            raise InvalidReflection("The proposed adjustment differs from the recorded one. Propose it again.")
        return reflection, version, index

    def mark_applied(self, content: Mapping[str, Any], author: str, token: str) -> str:
        """Marks an adjustment as applied. Called only after its proposal was approved.

        An adjustment of a prompt whose target is a parameter also sets that parameter to the suggestion.

        Raises:
            InvalidReflection: The adjustment differs from the approved one.
        """
        reflection, version, index = self.find_adjustment(content)
        key, adjustment = PREFIX + reflection.id, reflection.adjustments[index]
        adjustments = tuple(
            replace(item, applied=True) if position == index else item
            for position, item in enumerate(reflection.adjustments)
        )
        data = replace(reflection, adjustments=adjustments).to_json()
        has_target = adjustment.type == "prompt" and self._has_parameter(adjustment.target)
        with self._store.transaction(f"applied: {adjustment.description}", author=author) as changes:
            changes.set(key, data, expected_version=version, token=token)
            if has_target:
                changes.set(adjustment.target, adjustment.suggestion, token=f"{token}/1")
        outcome = ", ".join(f"{change.key}@{change.version}" for change in changes.changes)
        is_used = has_target or adjustment.type == "lesson"
        return outcome if is_used else f"{outcome} (recorded; its target is not a parameter, so nothing else changed)"

    def _has_parameter(self, key: str) -> bool:
        if not key or key.startswith(reserved_keys.RESERVED_PREFIXES):
            return False
        try:
            return isinstance(self._store.get(key).value, str)
        except errors.NotFound:
            return False

    def format_for_system_prompt(self, limit: int = 20) -> str:
        """Returns the approved lessons, one line each."""
        lines = [f"- {lesson.suggestion or lesson.description}" for lesson in self.get_lessons() if lesson.applied]
        return "\n".join(["Lessons from earlier runs:", *lines[:limit]]) if lines else ""


def choose_reflection_type(runs: int, *, failed: bool = False, period: int = REFLECTION_PERIOD) -> ReflectionType:
    """Returns `on_error` after a failure, `periodic` after every `period` runs, else `post_session`."""
    if failed:
        return "on_error"
    return "periodic" if runs and runs % period == 0 else "post_session"
