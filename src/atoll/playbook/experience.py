"""What an agent went through, and who draws deltas from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from atoll.candidate import JSON, EMPTY
from atoll.playbook.delta import Delta, Tag
from atoll.playbook.playbook import Playbook


@dataclass(frozen=True, slots=True)
class Experience:
    """One turn or one question, as a reflector is told of it.

    Attributes:
        task: What was to be done.
        action: What was done or answered.
        feedback: What came of it, in words.
        is_success: Whether it went well; None: nobody can tell.
        used: Ids of the bullets that the agent says it used.
        lesson: A rule that the environment itself gives away, if it does.
        section: Where that rule belongs.
        facts: Anything else, for reflectors that know the agent.
        playbook: What the agent knew.
    """

    task: str
    action: str = ""
    feedback: str = ""
    is_success: bool | None = None
    used: tuple[str, ...] = ()
    lesson: str = ""
    section: str = "reflections"
    facts: Mapping[str, JSON] = EMPTY
    playbook: Playbook = field(default_factory=Playbook)


class Reflector(Protocol):
    """Draws proposals from an experience."""

    def reflect(self, experience: Experience, /) -> Sequence[Delta]:
        """Returns deltas, maybe none, for a curator to decide on.

        Never raises for a bad experience or a model's bad reply; a model that gives none is a `NoReply`.
        """


class TaggingReflector:
    """Reflects without a model: tags what was used by how it went, and keeps the lesson that the feedback states."""

    def reflect(self, experience: Experience) -> Sequence[Delta]:
        deltas = [
            Delta("tag", ids=(id,), tag=_choose_tag(experience.is_success), evidence=experience.feedback[:200])
            for id in dict.fromkeys(experience.used)
        ]
        if experience.lesson.strip():
            evidence = experience.feedback[:200] or experience.task[:200]
            addition = Delta("add", experience.section, content=experience.lesson, evidence=evidence, source="reflector")
            deltas.append(addition)
        return deltas


def _choose_tag(is_success: bool | None) -> Tag:
    return "neutral" if is_success is None else "helpful" if is_success else "harmful"
