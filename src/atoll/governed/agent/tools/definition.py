"""A tool that an agent proposed: plain data, checked before anybody sees it."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import jsonschema
import referencing
import referencing.exceptions

from atoll import errors

type ExecutionType = Literal["script", "command", "composite"]

EXECUTION_TYPES: tuple[ExecutionType, ...] = ("script", "command", "composite")
PLACEHOLDER = re.compile(r"\{\{\s*\.([A-Za-z_][\w.-]{0,63})\s*\}\}")  # {{.param}}
MAX_DEPTH, MAX_CALLS = 5, 100  # of composites: calls within calls, and calls in all
PREVIOUS = "previous"  # in a composite: what the step before put out
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_MAX_CHARS, _MAX_STEPS = 100_000, 20
_REQUIRED_FIELDS = ("name", "description", "input_schema", "execution_type")
_NO_REFERENCES, _NO_SLOW_CHECKS = (
    "it refers elsewhere, so write it out",
    "checking it may take for ever, so check it in the tool",
)
_FORBIDDEN_KEYWORDS = {
    **dict.fromkeys(("$ref", "$dynamicRef", "$recursiveRef", "$id", "$schema", "$vocabulary"), _NO_REFERENCES),
    **dict.fromkeys(("pattern", "patternProperties", "uniqueItems"), _NO_SLOW_CHECKS),
}


class InvalidTool(errors.SetupError):
    """A tool cannot be what it says; nothing of it was kept."""


@dataclass(frozen=True, slots=True)
class ToolStep:
    """One call of a composite: another tool, its inputs by templates."""

    tool: str
    input: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """What a tool is.

    Attributes:
        name: Lower-case letters, digits, `_` and `-`; no other tool has it.
        input_schema: JSON Schema of an object; inputs are checked against it before anything runs.
        execution_type: `script` for bash, `command` for one program without a shell, `composite` for other tools.
        script: Bash; inputs are variables TOOL_INPUT_NAME.
        command: A program and its arguments with {{.param}} in them; an input is always one argument, or part of one.
        steps: Of a composite.
        programs: What a script may start beside bash itself and its own words.
        version: 1, and one more with each iteration.
        concurrency_safe: Several calls may run at once.
        read_only: It changes nothing that lasts.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any]
    execution_type: ExecutionType
    script: str = ""
    command: str = ""
    steps: tuple[ToolStep, ...] = ()
    programs: tuple[str, ...] = ()
    version: int = 1
    created_at: str = ""
    created_by: str = ""
    rationale: str = ""
    tags: tuple[str, ...] = ()
    concurrency_safe: bool = False
    read_only: bool = False

    def to_json(self) -> dict[str, Any]:
        """Returns plain data that `from_json` reads back."""
        data = {**asdict(self), "input_schema": dict(self.input_schema)}
        plain: dict[str, Any] = json.loads(json.dumps(data))  # tuples become lists, as they will when they come back
        return plain

    @property
    def parameters(self) -> Sequence[str]:
        """The names of its inputs."""
        return list(self.input_schema.get("properties", {}))


def from_json(data: Mapping[str, Any]) -> ToolDefinition:
    """Reads a definition, as it was stored or as a model wrote it.

    Raises:
        ToolRefused: It is none, with the reason.
    """
    if not isinstance(data, Mapping):
        raise InvalidTool("A tool is an object with a name, a description and the rest.")
    unknown = set(data) - set(ToolDefinition.__slots__)
    if unknown:
        raise InvalidTool(f"A tool has no {', '.join(sorted(map(str, unknown)))}.")
    if missing := [name for name in _REQUIRED_FIELDS if name not in data]:
        raise InvalidTool(f"A tool needs {', '.join(missing)} too.")
    try:
        steps = tuple(ToolStep(str(step["tool"]), dict(step.get("input", {}))) for step in data.get("steps", ()))
        lists = {name: tuple(map(str, data.get(name, ()))) for name in ("programs", "tags")}
        tool = ToolDefinition(**{**data, "steps": steps, **lists})
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise InvalidTool(f"This is no definition of a tool: {error}.") from None
    check_tool(tool)
    return tool


def check_tool(tool: ToolDefinition) -> None:
    """Refuses what could not work, or only by accident.

    Raises:
        ToolRefused: The name, the schema, or what it runs is wrong; one sentence says which.
    """
    _check_texts(tool)
    _check_schema(tool)
    code_by_type = {"script": tool.script, "command": tool.command, "composite": tool.steps}
    if tool.execution_type not in EXECUTION_TYPES:
        raise InvalidTool(f"A tool is a {', a '.join(EXECUTION_TYPES)}, not {tool.execution_type!r}.")
    if not code_by_type[tool.execution_type] or any(
        code_by_type[other] for other in code_by_type if other != tool.execution_type
    ):
        raise InvalidTool(f"{tool.name} is a {tool.execution_type}: give what that runs, and nothing else.")
    if tool.execution_type == "command":
        build_argv(tool.command, dict.fromkeys(tool.parameters, "x"))
    if tool.execution_type == "composite":
        _check_steps(tool)
    build_environment(dict.fromkeys(tool.parameters, "x"))


def build_argv(template: str, inputs: Mapping[str, Any]) -> list[str]:
    """Returns a program and its arguments: the template is cut into words first, and only then filled in.

    So an input is never more than the word it stands in: `"; rm -rf"` is an argument with odd characters.

    Raises:
        ToolRefused: The template is no command, or names an input that there is not.
    """
    try:
        words = shlex.split(PLACEHOLDER.sub(lambda match: match[0].replace(" ", ""), template))
    except ValueError as error:
        raise InvalidTool(f"The command {template[:60]!r} cannot be read: {error}.") from None
    if not words or PLACEHOLDER.search(words[0]):
        raise InvalidTool("A command begins with the name of a program, which no input can change.")
    filled = [fill_template(word, inputs) for word in words]
    if any("\x00" in word or not _is_text(word) for word in filled):
        raise InvalidTool("An input has a NUL or half a character in it.")
    return filled


def fill_template(template: str, inputs: Mapping[str, Any]) -> str:
    """Returns a text with its places filled in: texts as they are, other values as JSON.

    Raises:
        ToolRefused: There is no input of that name.
    """

    def replace_placeholder(match: re.Match[str]) -> str:
        if match[1] not in inputs:
            raise InvalidTool(f"{match[0]} names no input; there are {', '.join(inputs) or 'none'}.")
        return to_text(inputs[match[1]])

    return PLACEHOLDER.sub(replace_placeholder, template)


def build_environment(inputs: Mapping[str, Any]) -> dict[str, str]:
    """Returns the environment of a script: TOOL_INPUT_NAME, in capitals, with `_` for what no name may have.

    Raises:
        ToolRefused: Two inputs would have the same name.
    """
    environment: dict[str, str] = {}
    for name, value in inputs.items():
        variable = f"TOOL_INPUT_{re.sub(r'[^A-Z0-9]', '_', name.upper())}"
        if variable in environment:
            raise InvalidTool(f"Two inputs would both be {variable}: rename one.")
        if "\x00" in (text := to_text(value)) or not _is_text(text):
            raise InvalidTool("An input has a NUL or half a character in it.")
        environment[variable] = text
    return environment


def to_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _check_texts(tool: ToolDefinition) -> None:
    text_fields = ("name", "script", "command", "rationale", "description")
    if invalid_fields := [name for name in text_fields if not _is_text(getattr(tool, name))]:
        raise InvalidTool(f"The {invalid_fields[0]} of a tool is no text.")
    if not _NAME.fullmatch(tool.name):
        raise InvalidTool(f"{tool.name!r:.80} is no name of a tool: use a-z, 0-9, _ and -, up to 64.")
    if not tool.description.strip():
        raise InvalidTool(f"{tool.name} has no description: say what it does, for whoever may call it.")
    for name in text_fields:
        if len(getattr(tool, name)) > _MAX_CHARS:
            raise InvalidTool(f"The {name} of {tool.name} has over {_MAX_CHARS:,} characters.")


def _check_schema(tool: ToolDefinition) -> None:
    schema: object = tool.input_schema  # from outside: it may be anything
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise InvalidTool(f"The input schema of {tool.name} must be of an object.")
    try:
        if forbidden := next((name for name in _iter_keywords(tool.input_schema) if name in _FORBIDDEN_KEYWORDS), None):
            raise InvalidTool(f"The input schema of {tool.name} says {forbidden}: {_FORBIDDEN_KEYWORDS[forbidden]}.")
        jsonschema.Draft202012Validator.check_schema(dict(tool.input_schema))
    except InvalidTool:
        raise
    except (jsonschema.SchemaError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise InvalidTool(f"The input schema of {tool.name} is none: {str(error).splitlines()[0]}.") from None
    if not all(
        isinstance(property_schema, Mapping) for property_schema in tool.input_schema.get("properties", {}).values()
    ):
        raise InvalidTool(f"Every property in the input schema of {tool.name} is an object.")


def _iter_keywords(schema: Any) -> Iterator[str]:
    """Yields every name in a schema, wherever it stands."""
    if isinstance(schema, Mapping):
        for name, value in schema.items():
            yield str(name)
            yield from _iter_keywords(value)
    elif isinstance(schema, list | tuple):
        for item in schema:
            yield from _iter_keywords(item)


def _is_text(value: Any) -> bool:
    """Says whether something is a text that can be sent anywhere; half characters cannot."""
    return isinstance(value, str) and (value.isascii() or not _SURROGATES.search(value))


def _check_steps(tool: ToolDefinition) -> None:
    if len(tool.steps) > _MAX_STEPS:
        raise InvalidTool(f"{tool.name} has {len(tool.steps)} steps: give at most {_MAX_STEPS}.")
    placeholders = dict.fromkeys((*tool.parameters, PREVIOUS), "x")
    for step in tool.steps:
        for template in step.input.values():
            fill_template(str(template), placeholders)


def check_input(tool: ToolDefinition, inputs: Any) -> None:
    """Refuses inputs that the schema does not allow.

    Raises:
        ToolRefused: With what is wrong.
    """
    if not isinstance(inputs, Mapping) or len(str(inputs)) > _MAX_CHARS:
        raise InvalidTool(f"{tool.name} takes an object of at most {_MAX_CHARS:,} characters.")
    # The registry is empty: nothing is fetched or read, whatever a schema says.
    validator = jsonschema.Draft202012Validator(dict(tool.input_schema), registry=referencing.Registry())
    try:
        error = jsonschema.exceptions.best_match(validator.iter_errors(dict(inputs)))
    except (referencing.exceptions.Unresolvable, RecursionError, ArithmeticError, TypeError) as failure:
        raise InvalidTool(f"The input of {tool.name} cannot be checked: {str(failure)[:200]}.") from None
    if error is not None:
        path = "/".join(map(str, error.absolute_path)) or "the input"
        raise InvalidTool(f"{tool.name} cannot take this: {path}: {error.message[:200]}.")
