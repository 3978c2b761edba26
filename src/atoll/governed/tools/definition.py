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
PLACE = re.compile(r"\{\{\s*\.([A-Za-z_][\w.-]{0,63})\s*\}\}")  # {{.param}}
DEEPEST, MOST_CALLS = 5, 100  # of composites: calls within calls, and calls in all
PREVIOUS = "previous"  # in a composite: what the step before put out
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_HALVES = re.compile(r"[\ud800-\udfff]")
_MOST_CHARS, _MOST_STEPS = 100_000, 20
_NEEDED = ("name", "description", "input_schema", "execution_type")
_ELSEWHERE, _ENDLESS = "it refers elsewhere, so write it out", "checking it may take for ever, so check it in the tool"
_REFUSED = {
    **dict.fromkeys(("$ref", "$dynamicRef", "$recursiveRef", "$id", "$schema", "$vocabulary"), _ELSEWHERE),
    **dict.fromkeys(("pattern", "patternProperties", "uniqueItems"), _ENDLESS),
}


class ToolRefused(errors.SetupError):
    """A tool cannot be what it says; nothing of it was kept."""


@dataclass(frozen=True, slots=True)
class Step:
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
    steps: tuple[Step, ...] = ()
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
        found = {**asdict(self), "input_schema": dict(self.input_schema)}
        plain: dict[str, Any] = json.loads(json.dumps(found))  # tuples become lists, as they will when they come back
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
        raise ToolRefused("A tool is an object with a name, a description and the rest.")
    unknown = set(data) - set(ToolDefinition.__slots__)
    if unknown:
        raise ToolRefused(f"A tool has no {', '.join(sorted(map(str, unknown)))}.")
    if missing := [name for name in _NEEDED if name not in data]:
        raise ToolRefused(f"A tool needs {', '.join(missing)} too.")
    try:
        steps = tuple(Step(str(each["tool"]), dict(each.get("input", {}))) for each in data.get("steps", ()))
        lists = {name: tuple(map(str, data.get(name, ()))) for name in ("programs", "tags")}
        made = ToolDefinition(**{**data, "steps": steps, **lists})
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise ToolRefused(f"This is no definition of a tool: {error}.") from None
    check(made)
    return made


def check(tool: ToolDefinition) -> None:
    """Refuses what could not work, or only by accident.

    Raises:
        ToolRefused: The name, the schema, or what it runs is wrong; one sentence says which.
    """
    _check_texts(tool)
    _check_schema(tool)
    body = {"script": tool.script, "command": tool.command, "composite": tool.steps}
    if tool.execution_type not in EXECUTION_TYPES:
        raise ToolRefused(f"A tool is a {', a '.join(EXECUTION_TYPES)}, not {tool.execution_type!r}.")
    if not body[tool.execution_type] or any(body[other] for other in body if other != tool.execution_type):
        raise ToolRefused(f"{tool.name} is a {tool.execution_type}: give what that runs, and nothing else.")
    if tool.execution_type == "command":
        argv(tool.command, dict.fromkeys(tool.parameters, "x"))
    if tool.execution_type == "composite":
        _check_steps(tool)
    variables(dict.fromkeys(tool.parameters, "x"))


def argv(template: str, inputs: Mapping[str, Any]) -> list[str]:
    """Returns a program and its arguments: the template is cut into words first, and only then filled in.

    So an input is never more than the word it stands in: `"; rm -rf"` is an argument with odd characters.

    Raises:
        ToolRefused: The template is no command, or names an input that there is not.
    """
    try:
        words = shlex.split(PLACE.sub(lambda found: found[0].replace(" ", ""), template))
    except ValueError as error:
        raise ToolRefused(f"The command {template[:60]!r} cannot be read: {error}.") from None
    if not words or PLACE.search(words[0]):
        raise ToolRefused("A command begins with the name of a program, which no input can change.")
    filled = [fill(word, inputs) for word in words]
    if any("\x00" in word or not _is_text(word) for word in filled):
        raise ToolRefused("An input has a NUL or half a character in it.")
    return filled


def fill(template: str, inputs: Mapping[str, Any]) -> str:
    """Returns a text with its places filled in: texts as they are, other values as JSON.

    Raises:
        ToolRefused: There is no input of that name.
    """

    def value(found: re.Match[str]) -> str:
        if found[1] not in inputs:
            raise ToolRefused(f"{found[0]} names no input; there are {', '.join(inputs) or 'none'}.")
        return text_of(inputs[found[1]])

    return PLACE.sub(value, template)


def variables(inputs: Mapping[str, Any]) -> dict[str, str]:
    """Returns the environment of a script: TOOL_INPUT_NAME, in capitals, with `_` for what no name may have.

    Raises:
        ToolRefused: Two inputs would have the same name.
    """
    found: dict[str, str] = {}
    for name, value in inputs.items():
        variable = f"TOOL_INPUT_{re.sub(r'[^A-Z0-9]', '_', name.upper())}"
        if variable in found:
            raise ToolRefused(f"Two inputs would both be {variable}: rename one.")
        if "\x00" in (text := text_of(value)) or not _is_text(text):
            raise ToolRefused("An input has a NUL or half a character in it.")
        found[variable] = text
    return found


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _check_texts(tool: ToolDefinition) -> None:
    texts = ("name", "script", "command", "rationale", "description")
    if odd := [name for name in texts if not _is_text(getattr(tool, name))]:
        raise ToolRefused(f"The {odd[0]} of a tool is no text.")
    if not _NAME.fullmatch(tool.name):
        raise ToolRefused(f"{tool.name!r:.80} is no name of a tool: use a-z, 0-9, _ and -, up to 64.")
    if not tool.description.strip():
        raise ToolRefused(f"{tool.name} has no description: say what it does, for whoever may call it.")
    for name in texts:
        if len(getattr(tool, name)) > _MOST_CHARS:
            raise ToolRefused(f"The {name} of {tool.name} has over {_MOST_CHARS:,} characters.")


def _check_schema(tool: ToolDefinition) -> None:
    schema: object = tool.input_schema  # from outside: it may be anything
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise ToolRefused(f"The input schema of {tool.name} must be of an object.")
    try:
        if odd := next((name for name in _keywords(tool.input_schema) if name in _REFUSED), None):
            raise ToolRefused(f"The input schema of {tool.name} says {odd}: {_REFUSED[odd]}.")
        jsonschema.Draft202012Validator.check_schema(dict(tool.input_schema))
    except ToolRefused:
        raise
    except (jsonschema.SchemaError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ToolRefused(f"The input schema of {tool.name} is none: {str(error).splitlines()[0]}.") from None
    if not all(isinstance(each, Mapping) for each in tool.input_schema.get("properties", {}).values()):
        raise ToolRefused(f"Every property in the input schema of {tool.name} is an object.")


def _keywords(schema: Any) -> Iterator[str]:
    """Yields every name in a schema, wherever it stands."""
    if isinstance(schema, Mapping):
        for name, value in schema.items():
            yield str(name)
            yield from _keywords(value)
    elif isinstance(schema, list | tuple):
        for each in schema:
            yield from _keywords(each)


def _is_text(value: Any) -> bool:
    """Says whether something is a text that can be sent anywhere; half characters cannot."""
    return isinstance(value, str) and (value.isascii() or not _HALVES.search(value))


def _check_steps(tool: ToolDefinition) -> None:
    if len(tool.steps) > _MOST_STEPS:
        raise ToolRefused(f"{tool.name} has {len(tool.steps)} steps: give at most {_MOST_STEPS}.")
    known = dict.fromkeys((*tool.parameters, PREVIOUS), "x")
    for step in tool.steps:
        for template in step.input.values():
            fill(str(template), known)


def check_input(tool: ToolDefinition, inputs: Any) -> None:
    """Refuses inputs that the schema does not allow.

    Raises:
        ToolRefused: With what is wrong.
    """
    if not isinstance(inputs, Mapping) or len(str(inputs)) > _MOST_CHARS:
        raise ToolRefused(f"{tool.name} takes an object of at most {_MOST_CHARS:,} characters.")
    # The registry is empty: nothing is fetched or read, whatever a schema says.
    validator = jsonschema.Draft202012Validator(dict(tool.input_schema), registry=referencing.Registry())
    try:
        error = jsonschema.exceptions.best_match(validator.iter_errors(dict(inputs)))
    except (referencing.exceptions.Unresolvable, RecursionError, ArithmeticError, TypeError) as wrong:
        raise ToolRefused(f"The input of {tool.name} cannot be checked: {str(wrong)[:200]}.") from None
    if error is not None:
        where = "/".join(map(str, error.absolute_path)) or "the input"
        raise ToolRefused(f"{tool.name} cannot take this: {where}: {error.message[:200]}.")
