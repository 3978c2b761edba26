"""Three tools with which an agent proposes: a tool, a skill, a reflection. Each goes through `propose`."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from atoll import errors
from atoll.governed.evolution import Evolution
from atoll.governed.tools import ToolResult

_TEXT: Mapping[str, Any] = {"type": "string"}
_OBJECT: Mapping[str, Any] = {"type": "object"}


@dataclass(frozen=True, slots=True)
class MetaTool:
    """A tool that makes proposals."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    act: Callable[[Mapping[str, Any]], str]

    def execute(self, inputs: Mapping[str, Any]) -> ToolResult:
        """Proposes, and says how it ended; what is refused is an output with `is_error`."""
        try:
            return ToolResult(self.act(inputs), False)
        except errors.AtollError as error:
            return ToolResult(str(error), True)


def meta_tools(evolution: Evolution, agent: str) -> list[MetaTool]:
    """Returns CreateTool, LearnSkill and Reflect for an agent, whose name stands on all that it proposes."""

    def create(inputs: Mapping[str, Any]) -> str:
        return _proposed("new_tool", inputs)

    def learn(inputs: Mapping[str, Any]) -> str:
        return _proposed("new_skill", inputs)

    def _proposed(kind: Any, inputs: Mapping[str, Any]) -> str:
        content = inputs.get("definition")
        if not isinstance(content, Mapping):
            raise errors.SetupError("Give a definition: an object with name, description and the rest.")
        title = str(inputs.get("title") or content.get("name") or kind)
        done = evolution.propose(kind, title, content, agent, rationale=str(inputs.get("rationale", "")))
        return f"Proposal {done.id} is {done.status}{f': {done.outcome}' if done.outcome else ''}."

    def reflect(inputs: Mapping[str, Any]) -> str:
        evolution.proposals.refuse_secrets(inputs)
        kept = evolution.reflector.record(inputs, agent)
        ids = []
        for place, each in enumerate(kept.adjustments):
            content = {"reflection": kept.id, "place": place, "adjustment": asdict(each)}
            ids.append(evolution.propose("self_adjust", each.description, content, agent).id)
        return f"Reflection {kept.id} is kept; its adjustments are proposed: {', '.join(ids) or 'none'}."

    definition = {"type": "object", "properties": {"title": _TEXT, "rationale": _TEXT, "definition": _OBJECT}}
    definition = {**definition, "required": ["definition"]}
    reflection = {"type": "object", "properties": {"summary": _TEXT}, "required": ["summary"]}
    return [
        MetaTool("CreateTool", "Proposes a new tool; somebody else decides.", definition, create),
        MetaTool("LearnSkill", "Proposes a skill that worked; somebody else decides.", definition, learn),
        MetaTool("Reflect", "Keeps what was noticed; adjustments are proposed.", reflection, reflect),
    ]
