"""Three tools for agents: propose a tool, propose a skill, record a reflection."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from atoll import errors
from atoll.governed.agent.evolver import Evolver
from atoll.governed.agent.tools import ToolResult
from atoll.governed.approval.proposal import Type

_TEXT_SCHEMA: Mapping[str, Any] = {"type": "string"}
_OBJECT_SCHEMA: Mapping[str, Any] = {"type": "object"}


@dataclass(frozen=True, slots=True)
class ProposalTool:
    """Tool that submits proposals."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    handler: Callable[[Mapping[str, Any]], str]

    def execute(self, inputs: Mapping[str, Any]) -> ToolResult:
        """Runs the tool. Errors become an output with `is_error`."""
        try:
            return ToolResult(self.handler(inputs), False)
        except errors.AtollError as error:
            return ToolResult(str(error), True)


def make_proposal_tools(evolver: Evolver, agent: str) -> list[ProposalTool]:
    """Returns CreateTool, LearnSkill and Reflect. The agent is the author of every proposal."""

    def propose(proposal_type: Type, inputs: Mapping[str, Any]) -> str:
        content = inputs.get("definition")
        if not isinstance(content, Mapping):
            raise errors.SetupError("definition is missing. Pass an object with name, description and other fields.")
        title = str(inputs.get("title") or content.get("name") or proposal_type)
        proposal = evolver.propose(proposal_type, title, content, agent, rationale=str(inputs.get("rationale", "")))
        return f"Proposal {proposal.id} is {proposal.status}{f': {proposal.outcome}' if proposal.outcome else ''}."

    def reflect(inputs: Mapping[str, Any]) -> str:
        evolver.proposals.check_no_secrets(inputs)
        saved = evolver.reflector.record(inputs, agent)
        ids = []
        for index, adjustment in enumerate(saved.adjustments):
            content = {"reflection": saved.id, "place": index, "adjustment": asdict(adjustment)}
            ids.append(evolver.propose("self_adjust", adjustment.description, content, agent).id)
        return f"Reflection {saved.id} saved. Proposed adjustments: {', '.join(ids) or 'none'}."

    definition_schema = {
        "type": "object",
        "properties": {"title": _TEXT_SCHEMA, "rationale": _TEXT_SCHEMA, "definition": _OBJECT_SCHEMA},
        "required": ["definition"],
    }
    create_tool, learn_skill = partial(propose, "new_tool"), partial(propose, "new_skill")
    reflection_schema = {"type": "object", "properties": {"summary": _TEXT_SCHEMA}, "required": ["summary"]}
    return [
        ProposalTool("CreateTool", "Propose a new tool. An approver decides.", definition_schema, create_tool),
        ProposalTool("LearnSkill", "Propose a skill that worked. An approver decides.", definition_schema, learn_skill),
        ProposalTool("Reflect", "Record observations and propose the adjustments.", reflection_schema, reflect),
    ]
