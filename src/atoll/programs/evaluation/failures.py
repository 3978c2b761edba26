"""Artifacts of failed evaluations, with OpenEvolve's names, and errors that evaluators report beside a score."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from atoll import sandbox
from atoll.candidate import clean_text
from atoll.evaluation import BlobRef, Evaluation

TIMEOUT, CRASH = "timeout", "crash"  # error types without an exception
MAX_STDOUT_CHARS = 4000
_MAX_TRACEBACK_CHARS, _MAX_STDERR_CHARS, _MAX_ERROR_CHARS = 8000, 2000, 2000
_MAX_STACK_FRAMES = 20

_TRACEBACK_START = re.compile(r"^(?:  \+ Exception Group )?Traceback \(most recent call last\):$", re.MULTILINE)
_CHAIN_END = re.compile(
    r"(?:(?:direct cause of the following exception|another exception occurred):\n|^In the program:)\n\Z", re.MULTILINE
)  # before a traceback that belongs to the one above it
_PLACE = re.compile(r'^ +File "(?P<path>[^"\n]+)", line (?P<line>\d+)', re.MULTILINE)
_LIBRARY = re.compile(
    rf"/(?:site|dist)-packages/|/lib/python3|^<|^{re.escape(str(Path(sandbox.__file__).parents[1]))}/"
)
_LIMIT_NOTE = re.compile(r"^\[sandbox\] limit of .*\Z", re.MULTILINE)
_STACK_START = re.compile(
    r"^(?:Fatal Python error: .*\n\n)?Current thread .*\(most recent call first\):\n", re.MULTILINE
)
_STACK_FRAME = re.compile(r'  File "(?P<path>[^"\n]*)", line (?P<line>\d+) in (?P<function>.*)')
_FRAME = re.compile(r'^  File "[^"\n]*", line \d+, in ', re.MULTILINE)
_PROGRAM_PATH = re.compile(r"(?:\.|/atoll-scratch)/program\.\w+")  # in the scratch folder
_JOB_FILE = "evaluator_job.py"  # its frames and those that call it are Atoll's
_JOB_FRAME = re.compile(
    r'^  File "[^"\n]*(?:evaluator_job|apart/stand_in)\.py", line \d+, in .*\n(?:    .*\n)*', re.MULTILINE
)
_RAISED = re.compile(r"(?:it raised|the sandbox does not allow it:) (?P<type>\w+)(?:: (?P<message>.*))?", re.DOTALL)
_EXCEPTION_LINE = re.compile(r"^(?:\w+\.)*(?P<type>[A-Za-z_]\w*)(?::|$)")
_TOO_LONG = re.compile(r"it (?:took longer|used more) than (?P<seconds>\S+) s\b")
_TOO_MUCH_MEMORY = re.compile(r"it used more than \d+ MiB")

_MESSAGE_NAMES = ("error", "error_message", "exception")
_ERROR_NAMES = (*_MESSAGE_NAMES, "timeout", "error_type", "traceback", "failure_stage")
_FLAG = "true"
# An evaluator may store the text of a missing exception: `traceback.format_exc()` without one is "NoneType: None".
_NO_ERROR = frozenset(["", "null", "none", "false", "[]", "{}", '""', "n/a", "no error", "no errors", "nonetype: none"])


class SplitOutput(NamedTuple):
    """Output of a sandboxed process.

    Attributes:
        printed: Text that the evaluator and the program printed.
        traceback: Traceback of the exception, or the stack at the end of the process.
        note: Violated limit and usage.
    """

    printed: str
    traceback: str
    note: str


def make_failure_artifacts(
    response: sandbox.SandboxResult, program: str, stage: str, attempt: int
) -> tuple[Mapping[str, str], str]:
    """Returns the artifacts of a failed request and its printed output.

    Args:
        response: Result of the sandbox, with a failure.
        program: Text of the program, for the source lines of a stack.
        stage: Function of the evaluator that failed.
        attempt: Number of the evaluation of this program, from 1.
    """
    failure, output = str(response.failure), split_output(response, program)
    error_type = classify_failure(failure, output.traceback)
    if error_type == ChildProcessError.__name__ and (start := _find_traceback_start(output.printed)) is not None:
        command_traceback = _cut_start(output.printed[start:])  # the command's own says more
        output = output._replace(printed=output.printed[:start].rstrip(), traceback=command_traceback)
    raised = _RAISED.match(failure)
    message = (raised["message"] or "") if raised else failure
    artifacts = {
        "error_type": error_type,
        "failure_stage": name_stage(stage),
        "stderr": "\n".join(text for text in (message or failure, output.note) if text)[:_MAX_STDERR_CHARS],
        "traceback": output.traceback,
        "attempt": str(attempt),
    }
    if error_type == TIMEOUT and (limit := _TOO_LONG.match(failure)):
        artifacts |= {"timeout": _FLAG, "timeout_duration": limit["seconds"]}
    return {name: clean_text(text) for name, text in artifacts.items() if text}, output.printed


def find_place(traceback: str) -> str:
    """Returns the last line of the evaluator or the program in a traceback, as ` (evaluator.py, line 3)`."""
    frames = [match for match in _PLACE.finditer(traceback) if not _LIBRARY.search(match["path"])]
    return f" ({Path(frames[-1]['path']).name}, line {frames[-1]['line']})" if frames else ""


def name_stage(function_name: str) -> str:
    """Returns OpenEvolve's name of a stage: `stage2` for `evaluate_stage2`, `evaluation` for `evaluate`."""
    return function_name.removeprefix("evaluate_") if function_name != "evaluate" else "evaluation"


def classify_failure(failure: str, traceback: str = "") -> str:
    """Returns the class name of the exception, `timeout`, or `crash` for a process that died."""
    if _TOO_LONG.match(failure):
        return TIMEOUT
    if raised := _RAISED.match(failure):
        return raised["type"]
    if _TOO_MUCH_MEMORY.match(failure):
        return "MemoryError"
    lines = traceback.rstrip().splitlines() if _TRACEBACK_START.match(traceback) else []
    exception = _EXCEPTION_LINE.match(lines[-1]) if lines else None
    return exception["type"] if exception and lines[-1] != failure else CRASH


def split_output(response: sandbox.SandboxResult, program: str) -> SplitOutput:
    """Separates the printed text of a failed request from its traceback."""
    text = response.output.rstrip()
    note_match = _LIMIT_NOTE.search(text)
    note = note_match[0] if note_match else ""
    text = text.removesuffix(note).rstrip()
    start, stacks = _find_traceback_start(text), list(_STACK_START.finditer(text))
    if stacks and stacks[-1].start() >= (start or 0):  # the last one is not printed by the program
        stack = _format_stack(text[stacks[-1].end() :], program, str(response.failure))
        return SplitOutput(text[: stacks[-1].start()].rstrip(), stack, note)
    if start is None:
        return SplitOutput(text, "", note)
    return SplitOutput(text[:start].rstrip(), _cut_start(_JOB_FRAME.sub("", text[start:])), note)


def find_error(evaluation: Evaluation) -> str:
    """Returns the error of an evaluation; an empty text if it counts as successful.

    An evaluation without a score failed. One with a score failed too if its artifacts report an error: a text named
    `error`, `error_message` or `exception`, or a `timeout`, `error_type`, `traceback` or `failure_stage`. Numbers,
    false and empty values are not errors. Neither are `stderr` and warnings alone.

    Reads only the evaluation, not the store: the text is the start of a long artifact.
    """
    if evaluation.failure is not None:
        return evaluation.failure
    artifacts = evaluation.artifacts
    if artifacts.keys().isdisjoint(_ERROR_NAMES):
        return ""
    errors = {name: text for name in _ERROR_NAMES if name in artifacts and (text := _read_error(artifacts[name]))}
    if not errors:
        return ""
    text, stage = _describe_error(errors, artifacts), errors.get("failure_stage", "")
    if stage and stage != "evaluation":
        text = f"{stage}: {text}" if text else f"{stage} failed"
    return (text or "the evaluation failed")[:_MAX_ERROR_CHARS]


def _describe_error(errors: Mapping[str, str], artifacts: Mapping[str, BlobRef]) -> str:
    """Returns the most specific error, without the stage."""
    message = next((errors[name] for name in _MESSAGE_NAMES if errors.get(name, _FLAG).lower() != _FLAG), "")
    if not message and "stderr" in artifacts:
        message = artifacts["stderr"].head.strip()
    kind = errors.get("error_type", "")
    if message:
        return message if not kind or kind in (TIMEOUT, CRASH) or kind in message else f"{kind}: {message}"
    if "timeout" in errors:
        return "it timed out" if errors["timeout"].lower() == _FLAG else errors["timeout"]
    if kind:
        return kind
    return _read_last_line(artifacts["traceback"]) if "traceback" in errors else ""


def _read_error(ref: BlobRef) -> str:
    """Returns the text of an artifact that reports an error; an empty text if its value means no error."""
    text = ref.head.strip()
    if text.lower() in _NO_ERROR:
        return ""
    try:
        float(text)
    except ValueError:
        return text
    return ""  # a number is a measurement, e.g. an error rate or a time limit


def _read_last_line(ref: BlobRef) -> str:
    is_complete = len(ref.head.encode("utf-8", "surrogatepass")) == ref.size
    return ref.head.strip().splitlines()[-1].strip() if is_complete else "it raised an exception; see its traceback"


def _find_traceback_start(text: str) -> int | None:
    """Returns the start of the last traceback, with the tracebacks of its causes."""
    starts = [match.start() for match in _TRACEBACK_START.finditer(text)]
    while len(starts) > 1 and _CHAIN_END.search(text[starts[-2] : starts[-1]]):
        starts.pop()
    if not starts and (frame := _FRAME.search(text)):  # a small limit of the output cut the start
        return frame.start()
    return starts[-1] if starts else None


def _cut_start(text: str) -> str:
    """Cuts the start of a long traceback; its end has the last frames and the message."""
    return text if len(text) <= _MAX_TRACEBACK_CHARS else f"...\n{text[4 - _MAX_TRACEBACK_CHARS :]}"


def _format_stack(dump: str, program: str, failure: str) -> str:
    """Formats the stack of a killed process as a traceback: last call at the end, with lines of the program."""
    frames = list[re.Match[str]]()
    for line in dump.splitlines():
        frame = _STACK_FRAME.fullmatch(line)
        if frame is None or frame["path"].endswith(_JOB_FILE) or len(frames) >= _MAX_STACK_FRAMES:
            break
        frames.append(frame)
    lines = [line for frame in reversed(frames) for line in _format_frame(frame, program.splitlines())]
    return _cut_start("\n".join(["Traceback (most recent call last):", *lines, failure])) if lines else ""


def _format_frame(frame: re.Match[str], program_lines: list[str]) -> Iterator[str]:
    yield f'  File "{frame["path"]}", line {frame["line"]}, in {frame["function"]}'
    number = int(frame["line"])
    if _PROGRAM_PATH.fullmatch(frame["path"]) and 0 < number <= len(program_lines):
        yield f"    {program_lines[number - 1].strip()[:300]}"
