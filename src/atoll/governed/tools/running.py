"""Runs tools, in the jail and nowhere else."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, NamedTuple, Protocol

from atoll import errors, executor, sandbox
from atoll.candidate import JSON
from atoll.governed.tools.definition import (
    DEEPEST,
    MOST_CALLS,
    PREVIOUS,
    ToolDefinition,
    ToolRefused,
    argv,
    check_input,
    fill,
    variables,
)

_BASH = "bash"
_MOST_OUTPUT = 20_000

type Progress = Callable[[str], None]


class ToolResult(NamedTuple):
    """What a call put out."""

    output: str
    is_error: bool


class Registry(Protocol):
    """Where the steps of a composite find other tools."""

    def find(self, name: str) -> ToolDefinition:
        """Returns a tool by its name.

        Raises:
            NotFound: There is none.
        """


@dataclass(frozen=True, slots=True)
class Command:
    """What runs in a jail: a program with arguments and variables, in an empty folder."""

    def __call__(self, request: Mapping[str, Any]) -> JSON:
        done = subprocess.run(
            request["argv"],
            env={"PATH": request["path"], "HOME": os.getcwd(), "LANG": "C.UTF-8", **request["env"]},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        said = done.stdout
        cut = (
            said if len(said) <= _MOST_OUTPUT else said[: _MOST_OUTPUT // 2] + b"\n[...]\n" + said[-_MOST_OUTPUT // 2 :]
        )
        return {"code": done.returncode, "output": cut.decode(errors="replace")}


class Workshop:
    """Runs programs in jails, one jail for each set of programs; opened when first needed.

    Args:
        place: The limits of a call and how strong the jail must be; its environment stays empty unless it names some.
    """

    def __init__(self, place: executor.Place) -> None:
        self._place, self._lock = place, Lock()
        self._opened: dict[tuple[str, ...], executor.Local] = {}

    def run(self, programs: tuple[str, ...], words: list[str], environment: Mapping[str, str]) -> ToolResult:
        """Runs one program.

        Raises:
            ToolRefused: A program is not on this machine.
        """
        paths = tuple(sorted({_path(name) for name in programs}))
        answer = sandbox.ask(
            self._jail(paths),
            {
                "argv": [_path(words[0]), *words[1:]],
                "env": dict(environment),
                "path": os.pathsep.join(sorted({os.path.dirname(path) for path in paths})),
            },
        )
        if answer.failure is not None:
            return ToolResult(f"{answer.failure}\n{answer.output}".strip(), True)
        match answer.value:
            case {"code": int(code), "output": str(output)}:
                return ToolResult(output, code != 0)
        return ToolResult("the tool answered with something else than its output", True)

    def close(self) -> None:
        """Ends all jails; a second call does nothing."""
        with self._lock:
            for each in self._opened.values():
                each.close()
            self._opened.clear()

    def _jail(self, paths: tuple[str, ...]) -> executor.Local:
        with self._lock:
            if paths not in self._opened:
                own = self._place.profile
                profile = replace(own, may_fork=True, programs=(*own.programs, *paths))
                self._opened[paths] = replace(self._place, profile=profile).open(Command)
            return self._opened[paths]


@dataclass(frozen=True, slots=True)
class RuntimeTool:
    """A tool that can be called.

    Attributes:
        definition: What it is.
        workshop: Where it runs; there is no other way.
        registry: Where a composite finds the others.
    """

    definition: ToolDefinition
    workshop: Workshop
    registry: Registry

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What a caller may want to know of it."""
        tool = self.definition
        return {
            "concurrency_safe": tool.concurrency_safe,
            "read_only": tool.read_only,
            "is_evolved": True,
            "version": tool.version,
        }

    def execute(self, inputs: Mapping[str, Any], progress: Progress = lambda line: None) -> ToolResult:
        """Calls it; what goes wrong is an output with `is_error`, never an exception.

        Args:
            inputs: As the schema wants them.
            progress: Gets a line when something begins.
        """
        try:
            return _Call(self.workshop, self.registry, progress).execute(self.definition, inputs, ())
        except errors.AtollError as error:
            return ToolResult(str(error), True)


class _Call:
    """One call of a tool, with all that it calls itself."""

    def __init__(self, workshop: Workshop, registry: Registry, progress: Progress) -> None:
        self._workshop, self._registry, self._progress, self._count = workshop, registry, progress, 0

    def execute(self, tool: ToolDefinition, inputs: Mapping[str, Any], above: tuple[str, ...]) -> ToolResult:
        self._count += 1
        if tool.name in above or len(above) > DEEPEST or self._count > MOST_CALLS:
            raise ToolRefused(f"Tools call each other in a circle, or too often: {' > '.join((*above, tool.name))}.")
        check_input(tool, inputs)
        self._progress(f"{tool.name} begins")
        if tool.execution_type == "command":
            words = argv(tool.command, inputs)
            return self._workshop.run((words[0], *tool.programs), words, {})
        if tool.execution_type == "script":
            words = [_BASH, "--noprofile", "--norc", "-c", tool.script]
            return self._workshop.run((_BASH, *tool.programs), words, variables(inputs))
        return self._in_sequence(tool, inputs, above)

    def _in_sequence(self, tool: ToolDefinition, inputs: Mapping[str, Any], above: tuple[str, ...]) -> ToolResult:
        result = ToolResult("", False)
        for step in tool.steps:
            known = {**inputs, PREVIOUS: result.output}
            below = self._registry.find(step.tool)
            given = {name: _valued(below, name, fill(str(template), known)) for name, template in step.input.items()}
            result = self.execute(below, given, (*above, tool.name))
            if result.is_error:
                return ToolResult(f"{step.tool} failed: {result.output}", True)
        return result


def _valued(tool: ToolDefinition, name: str, text: str) -> Any:
    """Returns a filled-in template as the tool's schema wants it: a number that stands alone is a number."""
    wanted = tool.input_schema.get("properties", {}).get(name, {}).get("type", "string")
    if wanted == "string":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _path(name: str) -> str:
    path = shutil.which(name) if "/" not in name else None
    if path is None:
        raise ToolRefused(f"There is no program {name[:60]!r} on this machine's path: name one that there is.")
    return os.path.realpath(path)
