"""Runs tools in the sandbox."""

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
from atoll.governed.agent.tools.definition import (
    MAX_CALLS,
    MAX_DEPTH,
    PREVIOUS,
    InvalidTool,
    ToolDefinition,
    build_argv,
    build_environment,
    check_input,
    fill_template,
)

_BASH = "bash"
_MAX_OUTPUT_BYTES = 20_000

type Progress = Callable[[str], None]


class ToolResult(NamedTuple):
    """Output of a tool call."""

    output: str
    is_error: bool


class ToolRegistry(Protocol):
    """Source of the tools that a composite calls."""

    def find(self, name: str) -> ToolDefinition:
        """Returns a tool by name.

        Raises:
            NotFound: The tool does not exist.
        """


@dataclass(frozen=True, slots=True)
class ProgramJob:
    """Sandbox job that runs a program in an empty folder."""

    def __call__(self, request: Mapping[str, Any]) -> JSON:
        process = subprocess.run(
            request["argv"],
            env={"PATH": request["path"], "HOME": os.getcwd(), "LANG": "C.UTF-8", **request["env"]},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        output = process.stdout
        shortened = (
            output
            if len(output) <= _MAX_OUTPUT_BYTES
            else output[: _MAX_OUTPUT_BYTES // 2] + b"\n[...]\n" + output[-_MAX_OUTPUT_BYTES // 2 :]
        )
        return {"code": process.returncode, "output": shortened.decode(errors="replace")}


class ToolRunner:
    """Runs programs in sandboxes, one sandbox for each set of programs. Sandboxes are opened on demand.

    Args:
        config: Limits of a call, required sandbox level, and environment variables to pass on.
    """

    def __init__(self, config: executor.ExecutorConfig) -> None:
        self._config, self._lock = config, Lock()
        self._executors: dict[tuple[str, ...], executor.LocalExecutor] = {}

    def run(self, programs: tuple[str, ...], words: list[str], environment: Mapping[str, str]) -> ToolResult:
        """Runs one program.

        Raises:
            InvalidTool: A program is not installed.
        """
        paths = tuple(sorted({_find_program(name) for name in programs}))
        result = sandbox.run_job(
            self._get_executor(paths),
            {
                "argv": [_find_program(words[0]), *words[1:]],
                "env": dict(environment),
                "path": os.pathsep.join(sorted({os.path.dirname(path) for path in paths})),
            },
        )
        if result.failure is not None:
            return ToolResult(f"{result.failure}\n{result.output}".strip(), True)
        match result.value:
            case {"code": int(code), "output": str(output)}:
                return ToolResult(output, code != 0)
        return ToolResult("the tool returned no valid output", True)

    def close(self) -> None:
        """Closes all sandboxes; a second call does nothing."""
        with self._lock:
            for tool_executor in self._executors.values():
                tool_executor.close()
            self._executors.clear()

    def _get_executor(self, paths: tuple[str, ...]) -> executor.LocalExecutor:
        with self._lock:
            if paths not in self._executors:
                base_permissions = self._config.permissions
                permissions = replace(base_permissions, may_fork=True, programs=(*base_permissions.programs, *paths))
                self._executors[paths] = replace(self._config, permissions=permissions).open(ProgramJob)
            return self._executors[paths]


@dataclass(frozen=True, slots=True)
class RuntimeTool:
    """Callable tool.

    Attributes:
        runner: Runs the programs.
        registry: Finds the tools that a composite calls.
    """

    definition: ToolDefinition
    runner: ToolRunner
    registry: ToolRegistry

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Properties for callers."""
        tool = self.definition
        return {
            "concurrency_safe": tool.concurrency_safe,
            "read_only": tool.read_only,
            "is_evolved": True,
            "version": tool.version,
        }

    def execute(self, inputs: Mapping[str, Any], progress: Progress = lambda line: None) -> ToolResult:
        """Calls the tool. Errors become an output with `is_error`.

        Args:
            inputs: Inputs that match the schema.
            progress: Called with a line when a tool starts.
        """
        try:
            return _ToolCall(self.runner, self.registry, progress).execute(self.definition, inputs, ())
        except errors.AtollError as error:
            return ToolResult(str(error), True)


class _ToolCall:
    """One call of a tool with its nested calls."""

    def __init__(self, runner: ToolRunner, registry: ToolRegistry, progress: Progress) -> None:
        self._runner, self._registry = runner, registry
        self._progress, self._count = progress, 0

    def execute(self, tool: ToolDefinition, inputs: Mapping[str, Any], callers: tuple[str, ...]) -> ToolResult:
        self._count += 1
        if tool.name in callers or len(callers) > MAX_DEPTH or self._count > MAX_CALLS:
            raise InvalidTool(f"Tools call each other in a cycle or too often: {' > '.join((*callers, tool.name))}.")
        check_input(tool, inputs)
        self._progress(f"{tool.name} begins")
        if tool.execution_type == "command":
            words = build_argv(tool.command, inputs)
            return self._runner.run((words[0], *tool.programs), words, {})
        if tool.execution_type == "script":
            words = [_BASH, "--noprofile", "--norc", "-c", tool.script]
            return self._runner.run((_BASH, *tool.programs), words, build_environment(inputs))
        return self._run_steps(tool, inputs, callers)

    def _run_steps(self, tool: ToolDefinition, inputs: Mapping[str, Any], callers: tuple[str, ...]) -> ToolResult:
        result = ToolResult("", False)
        for step in tool.steps:
            template_inputs = {**inputs, PREVIOUS: result.output}
            step_tool = self._registry.find(step.tool)
            step_inputs = {
                name: _parse_input(step_tool, name, fill_template(str(template), template_inputs))
                for name, template in step.input.items()
            }
            result = self.execute(step_tool, step_inputs, (*callers, tool.name))
            if result.is_error:
                return ToolResult(f"{step.tool} failed: {result.output}", True)
        return result


def _parse_input(tool: ToolDefinition, name: str, text: str) -> Any:
    """Parses a filled-in template as JSON unless the schema asks for a string."""
    json_type = tool.input_schema.get("properties", {}).get(name, {}).get("type", "string")
    if json_type == "string":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _find_program(name: str) -> str:
    path = shutil.which(name) if "/" not in name else None
    if path is None:
        raise InvalidTool(f"Program {name[:60]!r} not found on the PATH. Install it, or name another program.")
    return os.path.realpath(path)
