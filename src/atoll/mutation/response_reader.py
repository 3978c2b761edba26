"""Reads the response of an LLM as a new program. It accepts everything that may be one and records each guess.

In order of preference: edits; the fence with the markers; the last fence that is valid and defines the required names;
the longest valid fence; the whole text if it is valid. `response_text` finds the parts, `diffs` applies edits, and
`program_merge` puts the code into the parent.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from atoll.mutation import program_merge, python_statements
from atoll.mutation.diffs import DiffBlock, DiffParser, apply_blocks, parse_blocks, parse_loose_blocks
from atoll.mutation.response_text import (
    GUESS,
    FencedBlock,
    clean_response,
    drop_incomplete_end,
    extract_text,
    fill_placeholders,
    find_omission,
    find_programs,
    is_delimiter,
    iter_fenced_blocks,
    mend_python,
)
from atoll.mutation.text_blocks import START_MARKER

type Form = Literal["edits", "program", "text"]
type Problem = Literal["unreadable", "edits", "syntax", "names", "unchanged", "length", "duplicate"]

_CONTEXT_LINES = 3  # above and below an invalid line


class UnusableResponse(ValueError):
    """The response gives no new program.

    Attributes:
        kind: What is wrong.
        text: The program, if there is one that does not compile or lacks a name.
    """

    def __init__(self, message: str, kind: Problem = "unreadable", text: str = "") -> None:
        super().__init__(message)
        self.kind, self.text = kind, text


class ReadProgram(NamedTuple):
    """New program in a response.

    Attributes:
        text: The complete program.
        form: Form of the response.
        notes: Guesses of the reader.
        problems: Edits that could not be applied.
    """

    text: str
    form: Form
    notes: Sequence[str] = ()
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ResponseReader:
    """Makes a new program from a parent and a response.

    Attributes:
        language: Language of the program. Python is checked; of "text", a response without a fence is the new text.
        required_names: Functions and classes that the caller needs; None: found in each parent.
        diff_parser: Returns the edits of a response.
        max_length: Maximum length of a program, in characters.
    """

    language: str = "python"
    required_names: Sequence[str] | None = None
    diff_parser: DiffParser = parse_blocks
    max_length: int = 100_000

    def read(self, parent: str, response: str) -> ReadProgram:
        """Returns the new program.

        Raises:
            UnusableResponse: The response has none, or it is invalid, too long or equal to the parent.
        """
        text = clean_response(response)
        failures = list[UnusableResponse]()
        for attempt in self._iter_attempts(parent, text):
            try:
                return self._check(parent, attempt)
            except UnusableResponse as failure:
                failures.append(failure)
            except (RecursionError, MemoryError):
                failures.append(UnusableResponse("The program is nested too deeply.", "syntax", attempt.text))
        raise _choose_failure(failures, response)

    def _iter_attempts(self, parent: str, text: str) -> Iterator[ReadProgram]:
        """Yields possible readings, best first. One with problems and an empty text could apply no edit."""
        blocks = self.diff_parser(text) or parse_loose_blocks(text)
        edited = self._apply_edits(parent, blocks) if blocks else None
        if edited is not None and not edited.problems:
            yield edited
        if self.language != "text":
            fenced = list(iter_fenced_blocks(text))
            if edited is not None:
                programs = [block for block in fenced if not any(map(is_delimiter, block.text.split("\n")))]
            else:
                if len(fenced) == 1:  # nearly always the program: guesses take ten times as long
                    yield from self._iter_programs(parent, text, fenced)
                programs = list(find_programs(text, self.language))
            yield from self._iter_programs(parent, text, [*programs, *self._find_edit_parts(parent, blocks)])
        elif not blocks:
            yield ReadProgram(extract_text(text).rstrip("\n") + "\n", "text")
        if edited is not None and edited.problems:
            yield edited

    def _apply_edits(self, parent: str, blocks: Sequence[DiffBlock]) -> ReadProgram:
        result = apply_blocks(parent, blocks)
        if 2 * result.num_applied < len(blocks):
            return ReadProgram("", "edits", (), result.problems)
        merged = program_merge.merge(parent, result.text, self.language)
        return ReadProgram(merged.text, "edits", [*result.notes, *merged.notes], result.problems)

    def _find_edit_parts(self, parent: str, blocks: Sequence[DiffBlock]) -> Sequence[FencedBlock]:
        """Returns parts of edits that are programs themselves: a whole one, or definitions to replace."""
        if self.language != "python":
            return []
        names, known = set(self._get_names(parent)), _get_defined_names(parent)
        replacements = [FencedBlock("", block.replace) for block in blocks if known & _get_defined_names(block.replace)]
        searches = [FencedBlock("", b.search) for b in blocks if names and names <= _get_defined_names(b.search)]
        return [*replacements, *searches]

    def _iter_programs(self, parent: str, response: str, blocks: Sequence[FencedBlock]) -> Iterator[ReadProgram]:
        """Yields programs: first with markers, then with the required names, valid, labelled, longest, or later."""
        is_python, names = self.language == "python", set(self._get_names(parent))
        longest = max((len(block.text) for block in blocks), default=0)
        rated = list[tuple[float, int, str, list[str]]]()
        for index, block in enumerate(blocks):
            if len(block.text) > 2 * self.max_length:
                continue
            text = fill_placeholders(parent, block.text) if is_python else block.text
            notes = ["filled in omitted lines"] if text != block.text else []
            text, note = mend_python(text) if is_python else (text, "")
            if is_python and not note and response.rstrip().endswith(block.text.rstrip()):
                text, note = drop_incomplete_end(text)
            notes += [note] if note else []
            points = 8.0 * (START_MARKER in text) + block.has_language(self.language) + (len(block.text) == longest)
            points += 4.0 * (bool(names) and names <= _get_defined_names(text)) - 2.0 * (
                bool(note) + (block.label == GUESS)
            )
            points += 3.0 * (is_python and python_statements.parse_python(text) is not None)
            rated.append((points, index, text, notes))
        for _, _, text, notes in sorted(rated, reverse=True):
            if is_python and (omission := find_omission(parent, text)):
                yield ReadProgram("", "program", notes, [omission])
                continue
            merged = program_merge.merge(parent, text, self.language, sorted(names))
            yield ReadProgram(merged.text, "program", [*notes, *merged.notes])

    def _get_names(self, parent: str) -> Sequence[str]:
        if self.required_names is None:
            return python_statements.find_required_names(parent) if self.language == "python" else ()
        return self.required_names

    def _check(self, parent: str, program: ReadProgram) -> ReadProgram:
        """Checks a program without running it.

        Raises:
            UnusableResponse: The program cannot be used.
        """
        text = program.text
        if program.problems and not text and program.form == "program":
            raise UnusableResponse(f"The program omits code: {program.problems[0]!r:.80}. Write all of it.", "syntax")
        if program.problems and not text:
            raise UnusableResponse(f"Too few edits could be applied: {'; '.join(program.problems)}.", "edits")
        if self.language == "python":
            added = program_merge.add_missing_imports(text)
            text, program = added.text, program._replace(text=added.text, notes=[*program.notes, *added.notes])
        if len(text) > self.max_length:
            raise UnusableResponse(f"The program has {len(text)} characters. The limit is {self.max_length}.", "length")
        if not text.strip():
            raise UnusableResponse("The response has no program.")
        if _is_equal(parent, text, self.language):
            raise UnusableResponse("The response repeats the program in the prompt.", "unchanged", text)
        if self.language == "python":
            _check_python(parent, text, self._get_names(parent))
        return program


DEFAULT_READER = ResponseReader()


def _choose_failure(failures: Sequence[UnusableResponse], response: str) -> UnusableResponse:
    """Returns the most useful failure: of edits first, then of a program that nearly works."""
    for kind in ("edits", "length", "names", "syntax", "unchanged"):
        for failure in failures:
            if failure.kind == kind:
                return failure
    start = " ".join(response.split())[:80]
    return UnusableResponse(f"The response has no program: {start!r}.")


def _get_defined_names(text: str) -> set[str]:
    """Returns the functions and classes of a Python text; none if it is invalid."""
    segments = python_statements.split_segments(text) or ()
    return {name for segment in segments if segment.is_definition for name in segment.names}


def _is_equal(parent: str, text: str, language: str) -> bool:
    if text.split() == parent.split():
        return True
    if language != "python":
        return False
    old, new = (python_statements.split_segments(program) for program in (parent, text))
    return bool(old and new) and [part.dump for part in old or ()] == [part.dump for part in new or ()]


def _check_python(parent: str, text: str, names: Sequence[str]) -> None:
    try:
        # Without its bare constants, an invalid import of `__future__` would compile.
        if "__future__" in text or python_statements.compile_python(text) is None:
            compile(text, "<program>", "exec", dont_inherit=True)
    except SyntaxError as error:
        raise UnusableResponse(describe_syntax_error(text, error), "syntax", text) from error
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise UnusableResponse(f"The program does not compile: {error}.", "syntax", text) from error
    signatures, old_signatures = _get_signatures(text), _get_signatures(parent)
    segments = python_statements.split_segments(text) or ()
    bound = {name for segment in segments for name in segment.names}
    if missing := [name for name in names if name not in bound]:
        raise UnusableResponse(
            f"The program does not define {', '.join(missing)}, which its caller needs.", "names", text
        )
    for name in names:
        old, new = old_signatures.get(name), signatures.get(name)
        if old is not None and new is not None and not new.accepts(old):
            raise UnusableResponse(f"{name} takes ({new.text}), but its caller passes ({old.text}).", "names", text)


class _Signature(NamedTuple):
    text: str
    required: int
    maximum: float
    required_keywords: int

    def accepts(self, old: "_Signature") -> bool:
        """Returns whether a call that fits the old signature can fit this one."""
        return (
            self.required <= old.maximum
            and self.maximum >= old.required
            and (self.required_keywords <= old.required_keywords)
        )


def _get_signatures(text: str) -> dict[str, _Signature]:
    tree = python_statements.parse_python(text)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)] if tree else []
    signatures = dict[str, _Signature]()
    for node in functions:
        arguments = node.args
        total = len(arguments.posonlyargs) + len(arguments.args)
        keywords = sum(default is None for default in arguments.kw_defaults)
        maximum = float("inf") if arguments.vararg else total
        required = total - len(arguments.defaults)
        names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        signatures[node.name] = _Signature(", ".join(names), required, maximum, keywords)
    return signatures


def describe_syntax_error(text: str, error: SyntaxError) -> str:
    """Describes why a program does not compile, with the lines around the error."""
    lines, number = text.split("\n"), error.lineno or 1
    line_numbers = range(max(1, number - _CONTEXT_LINES), min(len(lines), number + _CONTEXT_LINES) + 1)
    rows = [f"{'>' if index == number else ' '} {index}: {lines[index - 1][:200]}" for index in line_numbers]
    return "\n".join([f"The program does not compile: {error.msg} in line {number}:", *rows])
