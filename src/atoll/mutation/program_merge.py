"""Puts the code of a response into its parent program: markers are optional, and fixed code never changes.

Python is merged by top-level statements, other languages by lines. Each guess becomes a note.
"""

import ast
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from atoll.mutation.python_statements import (
    Segment,
    collect_names,
    find_unbound_names,
    is_main_guard,
    iter_used_names,
    parse_python,
    split_fixed,
    split_segments,
)
from atoll.mutation.text_blocks import END_MARKER, START_MARKER, find_evolve_blocks, is_marker_line

_KNOWN_IMPORTS = {
    "np": "import numpy as np",
    "numpy": "import numpy",
    "pd": "import pandas as pd",
    "plt": "import matplotlib.pyplot as plt",
    "scipy": "import scipy",
    **{name: f"import {name}" for name in ("math", "random", "itertools", "functools", "collections", "time", "re")},
    **{name: f"from typing import {name}" for name in ("Any", "Callable", "Dict", "List", "Optional", "Tuple")},
    **{name: f"from collections import {name}" for name in ("defaultdict", "deque", "Counter")},
}


_WORD = re.compile(r"\w+")


class Merged(NamedTuple):
    """New program, and the guesses that led to it."""

    text: str
    notes: Sequence[str] = ()


def merge(parent: str, child: str, language: str = "python", required_names: Sequence[str] = ()) -> Merged:
    """Returns the parent with the code of the child. Lines outside of the parent's markers do not change."""
    parent_lines, child_lines = parent.split("\n"), child.split("\n")
    parent_blocks, child_blocks = find_evolve_blocks(parent_lines), find_evolve_blocks(child_lines)
    if parent_blocks and len(parent_blocks) == len(child_blocks):
        contents = ["\n".join(child_lines[first:end]) for first, end in child_blocks]
        return Merged(_fill_blocks(parent_lines, parent_blocks, contents))
    child = _strip_markers(child_lines)
    if language == "python":
        merged = _merge_python(parent, child, required_names)
        if merged is not None:
            return merged
    if not parent_blocks:
        return Merged(child)
    content = _strip_fixed_lines(parent_lines, parent_blocks, child.split("\n"))
    is_inside = parent_lines[parent_blocks[0][0] - 1][:1].isspace()  # the block is a part of a function or class
    if language == "python" and is_inside and set(parent_lines) & {line for line in content if _TOP_LEVEL.match(line)}:
        return Merged(parent, ["it repeats fixed code"])
    contents = ["\n".join(parent_lines[first:end]) for first, end in parent_blocks]
    contents[0] = "\n".join(content).strip("\n")
    return Merged(_fill_blocks(parent_lines, parent_blocks, contents), ["put the program between the markers"])


def _fill_blocks(lines: Sequence[str], blocks: Sequence[tuple[int, int]], contents: Sequence[str]) -> str:
    new_lines, position = list[str](), 0
    for (first, end), content in zip(blocks, contents, strict=True):
        new_lines += [*lines[position:first], *(content.split("\n") if content else ())]
        position = end
    return "\n".join([*new_lines, *lines[position:]])


def _strip_markers(lines: Sequence[str]) -> str:
    """Removes marker lines. If there is only one marker, removes the text on its outer side too."""
    starts = [index for index, line in enumerate(lines) if START_MARKER in line]
    ends = [index for index, line in enumerate(lines) if END_MARKER in line]
    if len(starts) == 1 and not ends:
        lines = lines[starts[0] + 1 :]
    elif len(ends) == 1 and not starts:
        lines = lines[: ends[0]]
    return "\n".join(line for line in lines if not is_marker_line(line))


def _strip_fixed_lines(parent: Sequence[str], blocks: Sequence[tuple[int, int]], child: Sequence[str]) -> Sequence[str]:
    """Removes the fixed lines before the first and after the last block from the ends of a child."""
    head = [line.rstrip() for line in parent[: blocks[0][0] - 1] if line.strip()]
    tail = [line.rstrip() for line in parent[blocks[-1][1] + 1 :] if line.strip()]
    first, end = _skip_equal(child, head), len(child) - _skip_equal(child[::-1], tail[::-1])
    return child[first:end] if first < end else child


def _skip_equal(lines: Sequence[str], fixed: Sequence[str]) -> int:
    """Returns the number of leading lines that equal the fixed lines, blank ones ignored; 0 if some differ."""
    count = 0
    for index, line in enumerate(lines):
        if count == len(fixed):
            return index
        if line.strip():
            if line.rstrip() != fixed[count]:
                return 0
            count += 1
    return len(lines) if count == len(fixed) else 0


def _merge_python(parent: str, child: str, required_names: Sequence[str]) -> Merged | None:
    """Merges by top-level statements; None if one of the programs is not valid Python."""
    parent_lines = parent.split("\n")
    blocks = find_evolve_blocks(parent_lines) or [(0, len(parent_lines))]
    has_markers = blocks != [(0, len(parent_lines))]
    contents = ["\n".join(parent_lines[first:end]) for first, end in blocks]
    editable = [split_segments(content) for content in contents]
    fixed = split_fixed(parent_lines, blocks) if has_markers else []
    parent_segments = split_segments(parent)
    child_segments = split_segments(child) or split_segments(_drop_broken(child, collect_names(fixed)))
    if parent_segments is None or not child_segments or None in editable:
        return None
    editable_parts = [list(part) for part in editable if part is not None]
    notes = list[str]()
    new_segments = _drop_fixed(child_segments, fixed, notes)
    new_segments = _drop_trials(new_segments, parent_segments, notes)
    parent_names = {name for part in editable_parts for segment in part for name in segment.names}
    bound_names = collect_names([*fixed, *new_segments])
    missing = (set(required_names) - bound_names) & parent_names
    if not parent_names <= bound_names:  # otherwise no name is unbound; a symbol table takes long
        rest = "".join(segment.text for segment in [*fixed, *new_segments])
        missing |= find_unbound_names(rest) & parent_names
    if not missing and len(editable_parts) == 1:
        if has_markers:
            notes.append("put the program between the markers")
        return Merged(_fill_segments(parent_lines, blocks, [new_segments]), notes)
    if not any(segment.names & parent_names for segment in new_segments if not segment.is_import):
        return None if not has_markers else Merged(parent, ["it defines nothing that the program has"])
    _replace_namesakes(editable_parts, new_segments)
    replaced = sorted(collect_names(new_segments) & parent_names)
    notes.append(f"replaced {', '.join(replaced[:5])} in the program; the rest is unchanged")
    return Merged(_fill_segments(parent_lines, blocks, editable_parts), notes)


_TOP_LEVEL = re.compile(r"^(?=@|(?:async def|def|class)\b)", re.M)


def _drop_broken(text: str, fixed_names: set[str]) -> str:
    """Removes invalid definitions whose names are fixed: the parent has them."""
    chunks = _TOP_LEVEL.split(text)[:200] if fixed_names else []
    for index in range(len(chunks) - 1, 0, -1):
        if chunks[index - 1].startswith("@"):  # a decorator belongs to its function
            chunks[index - 1 : index + 1] = [chunks[index - 1] + chunks[index]]
    pattern = re.compile(r"^(?:async )?(?:def|class) (\w+)", re.M)
    names = [match[1] if (match := pattern.search(chunk)) else "" for chunk in chunks]
    return "".join(
        chunk
        for name, chunk in zip(names, chunks, strict=True)
        if name not in fixed_names or parse_python(chunk) is not None
    )


def _fill_segments(lines: Sequence[str], blocks: Sequence[tuple[int, int]], parts: Sequence[Sequence[Segment]]) -> str:
    return _fill_blocks(lines, blocks, [_join_segments(part) for part in parts]).rstrip("\n") + "\n"


def _join_segments(segments: Sequence[Segment]) -> str:
    return "".join(segment.text for segment in segments).strip("\n")


def _drop_fixed(segments: Sequence[Segment], fixed: Sequence[Segment], notes: list[str]) -> list[Segment]:
    """Removes statements that repeat fixed code or define fixed names."""
    dumps, fixed_names = {segment.dump for segment in fixed}, collect_names(s for s in fixed if not s.is_import)
    remaining = list[Segment]()
    for segment in segments:
        if segment.dump in dumps:
            continue
        if segment.names and segment.names <= fixed_names and not segment.is_import:
            notes.append(f"ignored its version of {', '.join(sorted(segment.names)[:3])}, which is fixed")
        elif not (is_main_guard(segment) and fixed):
            remaining.append(segment)
    return remaining


def _drop_trials(segments: list[Segment], parent: Sequence[Segment], notes: list[str]) -> list[Segment]:
    """Removes top-level trials after the last definition, such as prints and loops, if the parent has none."""
    if any(_is_trial(segment) for segment in parent):
        return segments
    last = max((index for index, segment in enumerate(segments) if segment.is_definition), default=len(segments))
    if last + 1 >= len(segments):
        return segments
    body_names = {name for segment in segments[: last + 1] for name in iter_used_names(segment.nodes)} | {"sys"}
    defined_names = collect_names(segment for segment in segments[: last + 1] if segment.is_definition)
    end = len(segments)
    while end > last + 1 and (_is_trial(segments[end - 1]) or not (segments[end - 1].names & body_names)):
        if segments[end - 1].is_import or is_main_guard(segments[end - 1]):
            break
        changed_names = _find_changed_names(segments[end - 1].nodes)
        if segments[end - 1].names & defined_names or changed_names & (body_names | defined_names):
            break  # the functions need it
        end -= 1
    trials = segments[end:]
    if not any(_is_trial(segment) for segment in trials):
        return segments
    notes.append("removed code that only tries the program")
    return segments[:end]


def _find_changed_names(nodes: Iterable[ast.stmt]) -> set[str]:
    """Returns the names whose objects statements change: by an item, an attribute or a call of a method."""
    changed = list[ast.expr]()
    for node in (node for tree in nodes for node in ast.walk(tree)):
        if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            changed.append(node)
        elif (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Attribute)
        ):
            changed.append(node.value.func)
    names = set[str]()
    for expression in changed:
        while isinstance(expression, ast.Subscript | ast.Attribute):
            expression = expression.value
        names |= {expression.id} if isinstance(expression, ast.Name) else set()
    return names


def _is_trial(segment: Segment) -> bool:
    """Returns whether a segment calls something at the top level without binding a name that others may need."""
    return all(
        isinstance(node, ast.For | ast.While | ast.With)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
        for node in segment.nodes
    )


def _replace_namesakes(parts: Sequence[list[Segment]], new_segments: Sequence[Segment]) -> None:
    """Replaces each definition where its name is. New imports go to the top, other new code before its first use."""
    known_dumps = {segment.dump for part in parts for segment in part}
    inserted, placed = list[Segment](), list[Segment]()
    for segment in new_segments:
        if segment.dump in known_dumps:
            continue
        position = next(
            (
                (part, index)
                for part in parts
                for index, old in enumerate(part)
                if old.names & segment.names and not segment.is_import and not old.is_import
            ),
            None,
        )
        if position is not None:
            part, index = position
            if part[index] in placed:  # a second statement for the same name
                while index + 1 < len(part) and part[index + 1] in placed:
                    index += 1
                part.insert(index + 1, segment)
            else:
                part[index] = segment
                _remove_rebound(parts, segment, placed)
            placed.append(segment)
        elif segment.is_import:
            parts[0].insert(_count_header(parts[0]), segment)
        elif segment.names or _find_changed_names(segment.nodes) & collect_names(inserted):
            inserted.append(segment)
    first = parts[0]
    index = next((i for i, segment in enumerate(first) if segment.is_definition), len(first))
    first[index:index] = inserted


def _remove_rebound(parts: Sequence[list[Segment]], new: Segment, placed: Sequence[Segment]) -> None:
    """Removes old assignments to some of the names that a new one binds: they would undo it."""
    for part in parts if len(new.names) > 1 else ():
        part[:] = [
            old
            for old in part
            if old is new
            or old in placed
            or not all(isinstance(node, ast.Assign | ast.AnnAssign) for node in old.nodes)
            or not old.names <= new.names
        ]


def _count_header(segments: Sequence[Segment]) -> int:
    """Returns the number of leading docstrings and `__future__` imports."""
    count = 0
    for segment in segments:
        is_docstring = all(
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in segment.nodes
        )
        if not (is_docstring or "__future__" in segment.text):
            break
        count += 1
    return count


def add_missing_imports(text: str) -> Merged:
    """Adds well-known imports, such as numpy as np, that a Python program uses and lacks."""
    used = set(_WORD.findall(text)) & _KNOWN_IMPORTS.keys()
    bound_names = collect_names(split_segments(text) or ()) if used else set[str]()
    missing = sorted(used & find_unbound_names(text)) if used - bound_names else []
    if not missing:
        return Merged(text)
    lines = text.split("\n")
    blocks = find_evolve_blocks(lines)
    first = blocks[0][0] if blocks else 0
    content = "\n".join(lines[first:])
    header = _count_header(split_segments(content) or ()) if not blocks else 0
    if header:
        segment_lines = (parse_python(content) or ast.Module([], [])).body[header - 1].end_lineno or 0
        first += segment_lines
    indent = re.match(r"[ \t]*", lines[first - 1])[0] if blocks else ""  # type: ignore[index]  # it always matches
    added = [f"{indent}{_KNOWN_IMPORTS[name]}" for name in missing]
    return Merged("\n".join([*lines[:first], *added, *lines[first:]]), [f"added {', '.join(map(str.strip, added))}"])
