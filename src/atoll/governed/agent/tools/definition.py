"""Tool definitions, their validation, the templates of their inputs, and the store of approved tools."""

import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import jsonschema
import referencing
import referencing.exceptions

from atoll import errors
from atoll.governed import reserved_keys
from atoll.governed.errors import ParameterNotFound
from atoll.governed.parameters import ParameterStore

type ExecutionType = Literal["script", "command", "composite"]

EXECUTION_TYPES: tuple[ExecutionType, ...] = ("script", "command", "composite")
PLACEHOLDER = re.compile(r"\{\{\s*\.([A-Za-z_][\w.-]{0,63})\s*\}\}")  # {{.param}}
MAX_DEPTH, MAX_CALLS = 5, 100  # composites: nested calls, and calls in total
PREVIOUS = "previous"  # placeholder for the output of the previous step
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_MAX_CHARS, _MAX_STEPS = 100_000, 20
_REQUIRED_FIELDS = ("name", "description", "input_schema", "execution_type")
_NO_REFERENCES = "replace the reference by the schema itself"
_NO_SLOW_CHECKS = "matching can take forever, so check it inside the tool"
_FORBIDDEN_KEYWORDS = {
    **dict.fromkeys(("$ref", "$dynamicRef", "$recursiveRef", "$id", "$schema", "$vocabulary"), _NO_REFERENCES),
    **dict.fromkeys(("pattern", "patternProperties", "uniqueItems"), _NO_SLOW_CHECKS),
}


class InvalidTool(errors.SetupError):
    """The tool definition or its input is invalid."""


@dataclass(frozen=True, slots=True)
class ToolStep:
    """One call of a composite: a tool and the templates of its inputs."""

    tool: str
    input: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """Definition of a tool.

    Attributes:
        name: Unique; lower-case letters, digits, `_` and `-`.
        input_schema: JSON Schema of an object. Inputs are checked before anything runs.
        execution_type: `script` for bash, `command` for one program without a shell, `composite` for other tools.
        script: Bash. Inputs are the variables TOOL_INPUT_NAME.
        command: Program and arguments with {{.param}} placeholders. An input never spans several arguments.
        steps: Calls of a composite.
        programs: Programs that a script may start besides bash.
        version: Counts from 1.
        concurrency_safe: Several calls may run at once.
        read_only: The tool has no lasting effects.
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
        """Returns JSON data for `from_json`."""
        data = {**asdict(self), "input_schema": dict(self.input_schema)}
        plain: dict[str, Any] = json.loads(json.dumps(data))  # tuples become lists, as after loading
        return plain

    @property
    def parameters(self) -> Sequence[str]:
        """Names of the inputs."""
        return list(self.input_schema.get("properties", {}))


def from_json(data: Mapping[str, Any]) -> ToolDefinition:
    """Parses a definition from the store or from an LLM.

    Raises:
        InvalidTool: A field is missing, unknown or invalid.
    """
    if not isinstance(data, Mapping):
        raise InvalidTool("A tool must be an object with name, description and the other fields.")
    unknown = set(data) - set(ToolDefinition.__slots__)
    if unknown:
        raise InvalidTool(f"A tool has no field {', '.join(sorted(map(str, unknown)))}. Remove it.")
    if missing := [name for name in _REQUIRED_FIELDS if name not in data]:
        raise InvalidTool(f"The tool has no {', '.join(missing)}. Add it.")
    try:
        steps = tuple(ToolStep(str(step["tool"]), dict(step.get("input", {}))) for step in data.get("steps", ()))
        lists = {name: tuple(map(str, data.get(name, ()))) for name in ("programs", "tags")}
        tool = ToolDefinition(**{**data, "steps": steps, **lists})
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise InvalidTool(f"The tool definition is invalid: {error}.") from None
    check_tool(tool)
    return tool


def check_tool(tool: ToolDefinition) -> None:
    """Checks a definition.

    Raises:
        InvalidTool: The name, the schema or the action is invalid.
    """
    _check_texts(tool)
    _check_schema(tool)
    code_by_type = {"script": tool.script, "command": tool.command, "composite": tool.steps}
    if tool.execution_type not in EXECUTION_TYPES:
        raise InvalidTool(f"Execution type {tool.execution_type!r} is unknown. Use {', '.join(EXECUTION_TYPES)}.")
    if not code_by_type[tool.execution_type] or any(
        code_by_type[other] for other in code_by_type if other != tool.execution_type
    ):
        raise InvalidTool(f"Tool {tool.name} is a {tool.execution_type}. Give only the field that this type runs.")
    if tool.execution_type == "command":
        build_argv(tool.command, dict.fromkeys(tool.parameters, "x"))
    if tool.execution_type == "composite":
        _check_steps(tool)
    build_environment(dict.fromkeys(tool.parameters, "x"))


def build_argv(template: str, inputs: Mapping[str, Any]) -> list[str]:
    """Returns a program and its arguments. The template is split into words before the inputs are filled in.

    So an input never becomes several arguments: `"; rm -rf"` stays one argument.

    Raises:
        InvalidTool: The template is not a command, or names an unknown input.
    """
    try:
        words = shlex.split(PLACEHOLDER.sub(lambda match: match[0].replace(" ", ""), template))
    except ValueError as error:
        raise InvalidTool(f"The command {template[:60]!r} cannot be parsed: {error}.") from None
    if not words or PLACEHOLDER.search(words[0]):
        raise InvalidTool("A command must begin with the name of a program, not with a placeholder.")
    filled = [fill_template(word, inputs) for word in words]
    if any("\x00" in word or not _is_text(word) for word in filled):
        raise InvalidTool("An input has a NUL character or a lone surrogate. Remove it.")
    return filled


def fill_template(template: str, inputs: Mapping[str, Any]) -> str:
    """Fills in the placeholders of a template. Strings stay as they are; other values become JSON.

    Raises:
        InvalidTool: A placeholder names an unknown input.
    """

    def replace_placeholder(match: re.Match[str]) -> str:
        if match[1] not in inputs:
            raise InvalidTool(f"{match[0]} is not an input. The inputs are {', '.join(inputs) or 'none'}.")
        return to_text(inputs[match[1]])

    return PLACEHOLDER.sub(replace_placeholder, template)


def build_environment(inputs: Mapping[str, Any]) -> dict[str, str]:
    """Returns the variables TOOL_INPUT_NAME of a script. Other characters than letters and digits become `_`.

    Raises:
        InvalidTool: Two inputs have the same variable name.
    """
    environment: dict[str, str] = {}
    for name, value in inputs.items():
        variable = f"TOOL_INPUT_{re.sub(r'[^A-Z0-9]', '_', name.upper())}"
        if variable in environment:
            raise InvalidTool(f"Two inputs have the variable {variable}. Rename one.")
        if "\x00" in (text := to_text(value)) or not _is_text(text):
            raise InvalidTool("An input has a NUL character or a lone surrogate. Remove it.")
        environment[variable] = text
    return environment


def to_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _check_texts(tool: ToolDefinition) -> None:
    text_fields = ("name", "script", "command", "rationale", "description")
    if invalid_fields := [name for name in text_fields if not _is_text(getattr(tool, name))]:
        raise InvalidTool(f"The {invalid_fields[0]} of the tool must be a string.")
    if not _NAME.fullmatch(tool.name):
        raise InvalidTool(f"{tool.name!r:.80} is not a valid tool name. Use a-z, 0-9, _ and -, up to 64 characters.")
    if not tool.description.strip():
        raise InvalidTool(f"Tool {tool.name} has no description. Say what it does.")
    for name in text_fields:
        if len(getattr(tool, name)) > _MAX_CHARS:
            raise InvalidTool(f"The {name} of tool {tool.name} has over {_MAX_CHARS:,} characters. Shorten it.")


def _check_schema(tool: ToolDefinition) -> None:
    schema: object = tool.input_schema  # untrusted: any type
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise InvalidTool(f"The input schema of tool {tool.name} must have the type object.")
    try:
        if forbidden := next((name for name in _iter_keywords(tool.input_schema) if name in _FORBIDDEN_KEYWORDS), None):
            raise InvalidTool(f"The input schema of {tool.name} has {forbidden}: {_FORBIDDEN_KEYWORDS[forbidden]}.")
        jsonschema.Draft202012Validator.check_schema(dict(tool.input_schema))
    except InvalidTool:
        raise
    except (jsonschema.SchemaError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise InvalidTool(f"The input schema of tool {tool.name} is invalid: {str(error).splitlines()[0]}.") from None
    if not all(isinstance(schema, Mapping) for schema in tool.input_schema.get("properties", {}).values()):
        raise InvalidTool(f"Every property in the input schema of tool {tool.name} must be an object.")


def _iter_keywords(schema: Any) -> Iterator[str]:
    """Yields every key of a schema at any depth."""
    if isinstance(schema, Mapping):
        for name, value in schema.items():
            yield str(name)
            yield from _iter_keywords(value)
    elif isinstance(schema, list | tuple):
        for item in schema:
            yield from _iter_keywords(item)


def _is_text(value: Any) -> bool:
    """Checks for a string without lone surrogates, which cannot be encoded."""
    return isinstance(value, str) and (value.isascii() or not _SURROGATES.search(value))


def _check_steps(tool: ToolDefinition) -> None:
    if len(tool.steps) > _MAX_STEPS:
        raise InvalidTool(f"Tool {tool.name} has {len(tool.steps)} steps. Use at most {_MAX_STEPS}.")
    placeholders = dict.fromkeys((*tool.parameters, PREVIOUS), "x")
    for step in tool.steps:
        for template in step.input.values():
            fill_template(str(template), placeholders)


def check_input(tool: ToolDefinition, inputs: Any) -> None:
    """Checks inputs against the schema of a tool.

    Raises:
        InvalidTool: An input does not match the schema.
    """
    if not isinstance(inputs, Mapping) or len(str(inputs)) > _MAX_CHARS:
        raise InvalidTool(f"The input of tool {tool.name} must be an object of at most {_MAX_CHARS:,} characters.")
    # The empty registry keeps the validator from fetching or reading other schemas.
    validator = jsonschema.Draft202012Validator(dict(tool.input_schema), registry=referencing.Registry())
    try:
        error = jsonschema.exceptions.best_match(validator.iter_errors(dict(inputs)))
    except (referencing.exceptions.Unresolvable, RecursionError, ArithmeticError, TypeError) as failure:
        raise InvalidTool(f"The input of tool {tool.name} cannot be checked: {str(failure)[:200]}.") from None
    if error is not None:
        path = "/".join(map(str, error.absolute_path)) or "the input"
        raise InvalidTool(f"Tool {tool.name} rejects {path}: {error.message[:200]}.")


PREFIX = "tools/"


class ToolBuilder:
    """Loads tools and saves approved ones.

    Args:
        store: Holds the tools.
        builtin_names: Names that new tools cannot use.
    """

    def __init__(self, store: ParameterStore, builtin_names: Collection[str] = ()) -> None:
        self._store, self._builtin_names = store, frozenset(builtin_names)

    def find(self, name: str) -> ToolDefinition:
        """Returns a tool by name.

        Raises:
            NotFound: The tool does not exist.
            InvalidTool: The stored value is not a tool.
        """
        try:
            return from_json(self._store.get(PREFIX + name).value)
        except ParameterNotFound:
            raise errors.NotFound(f"Tool {name!r:.80} not found.") from None

    def load_all(self) -> reserved_keys.LoadResult[ToolDefinition]:
        """Returns all tools, and an error message for each unreadable one."""
        return reserved_keys.load_all(self._store, PREFIX, self.find, InvalidTool)

    def prepare(self, content: Mapping[str, Any]) -> ToolDefinition:
        """Returns the checked tool as it would be saved, with the next version.

        Raises:
            InvalidTool: The definition is invalid, its name is reserved, or its steps form a cycle.
        """
        tool = from_json(content)
        if tool.name in self._builtin_names:
            raise InvalidTool(f"{tool.name} is the name of a built-in tool. Choose another name.")
        try:
            previous_version = self.find(tool.name).version
        except errors.NotFound:
            previous_version = 0
        self._check_steps(tool, (tool.name,), set())
        return replace(tool, version=previous_version + 1)

    def save(self, content: Mapping[str, Any], reason: str, author: str, token: str) -> str:
        """Saves an approved tool and returns its key and version.

        Raises:
            InvalidTool: The definition is invalid.
        """
        return reserved_keys.save_item(self._store, PREFIX, self.prepare(content), reason, author, token)

    def _check_steps(self, tool: ToolDefinition, callers: tuple[str, ...], visited: set[str]) -> None:
        for step in tool.steps:
            if step.tool in callers:
                raise InvalidTool(f"The tools call each other in a cycle: {' > '.join((*callers, step.tool))}.")
            if len(callers) > MAX_DEPTH:
                raise InvalidTool(f"The tools are nested too deep: {' > '.join((*callers, step.tool))}.")
            if step.tool in visited:
                continue
            try:
                step_tool = self.find(step.tool)
            except errors.NotFound:
                raise InvalidTool(f"Tool {tool.name} calls {step.tool}, which does not exist.") from None
            self._check_steps(step_tool, (*callers, step.tool), visited)
            visited.add(step.tool)
