"""Fences, EVOLVE-BLOCK markers, cut texts and one-line summaries of changes."""

import ast
import re
import textwrap
from collections.abc import Sequence
from functools import lru_cache

from atoll import function


def fence(text: str, language: str = "") -> str:
    """Returns a text as a fenced block. The fence is longer than any run of backticks in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    delimiter = "`" * max(3, longest + 1)
    return f"{delimiter}{language}\n{text.rstrip('\n')}\n{delimiter}"


TUNED_SUFFIX = " (constants tuned)"  # of the idea of a tuned program
START_MARKER, END_MARKER = "EVOLVE-BLOCK-START", "EVOLVE-BLOCK-END"


def is_marker_line(line: str) -> bool:
    return START_MARKER in line or END_MARKER in line


def find_evolving_spans(text: str) -> Sequence[tuple[int, int]]:
    """Returns the line ranges between markers as (first, end), counted from 0; without markers, all lines."""
    lines = text.split("\n")
    return find_evolve_blocks(lines) or [(0, len(lines))]


def find_evolve_blocks(lines: Sequence[str]) -> Sequence[tuple[int, int]]:
    """Returns the lines between each START and the next END.

    It reads the lines once: searching from each START would take minutes for many STARTs without an END.
    """
    blocks, first = list[tuple[int, int]](), 0
    for index, line in enumerate(lines):
        if not first and START_MARKER in line:
            first = index + 1
        elif first and END_MARKER in line:
            blocks.append((first, index))
            first = 0
    return blocks


def hide_markers(text: str) -> str:
    """Returns a program without marker lines."""
    lines = text.split("\n")
    if not find_evolve_blocks(lines):
        return text
    return "\n".join(line for line in lines if not is_marker_line(line)).strip("\n") + "\n"


_DEFINITION = re.compile(
    r"(?:[a-z]+ )*(?:class|struct|enum|trait|impl|fn|function\*?) +(?P<name>\w+)|(?P<r_name>[\w.]+) *<- *function\b"
    r"|(?:(?:pub|export|const|static|let|var) )*(?P<constant>[A-Za-z_]\w*) *(?::[^=]+)?(?:=[^=]|<-)"
)
_NO_STATEMENT = re.compile(r"\W*$|#|//|use\b|import\b|library\(")
_MAX_NAMES = 8


@lru_cache(maxsize=32)  # the best program is in most prompts
def describe_editable_part(text: str) -> str:
    """Returns the names that the EVOLVE-BLOCKs of a program define, or their first and last lines.

    Empty without markers, and if only comments, imports and a docstring are outside of the blocks.
    """
    lines = text.split("\n")
    blocks = find_evolve_blocks(lines)
    inside = {index for first, end in blocks for index in range(first, end)}
    outside = "\n".join(line for i, line in enumerate(lines) if i not in inside and not is_marker_line(line))
    if not blocks or not _has_code(outside):
        return ""
    return ", ".join(filter(None, (_describe_block(lines[first:end]) for first, end in blocks)))


def _describe_block(lines: Sequence[str]) -> str:
    names = _find_python_names("\n".join(lines)) or _find_other_names(lines)
    if 0 < len(names) <= _MAX_NAMES:
        return ", ".join(f"`{name}`" for name in names)
    texts = [textwrap.shorten(line, _MAX_LINE_LENGTH, placeholder=" ...") for line in lines if re.search(r"\w", line)]
    if len(texts) < 2:
        return f"the line `{texts[0]}`" if texts else ""
    return f"the lines from `{texts[0]}` to `{texts[-1]}`"


def _find_python_names(text: str) -> Sequence[str]:
    """Returns the names that Python statements define; none if one of them defines nothing."""
    try:
        statements = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    names = dict[str, None]()
    for statement in statements:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names[statement.name] = None
            case ast.Assign() | ast.AnnAssign():
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                parts = [part for target in targets for part in getattr(target, "elts", [target])]
                if not all(isinstance(part, ast.Name) for part in parts):
                    return ()
                names |= dict.fromkeys(part.id for part in parts if isinstance(part, ast.Name))
            case ast.Import() | ast.ImportFrom() | ast.Expr(ast.Constant()):
                pass
            case _:
                return ()
    return list(names)


def _find_other_names(lines: Sequence[str]) -> Sequence[str]:
    """Returns the names that outer lines of another language define; none if one of them defines nothing."""
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    names = dict[str, None]()
    for line in lines:
        if not line.strip() or len(line) - len(line.lstrip()) > min(indents) or _NO_STATEMENT.match(line.strip()):
            continue
        match = _DEFINITION.match(line.strip())
        if match is None:
            return ()
        names[match["name"] or match["r_name"] or match["constant"]] = None
    return list(names)


_PASSIVE_LINE = re.compile(r"\s*(?:#|//|import\b|from\b|use\b|library\(|$)")


def _has_code(text: str) -> bool:
    """Returns whether a text has lines besides comments, imports and a leading docstring."""
    without_docstring = re.sub(r"\A\s*(\"{3}|'{3}).*?\1", "", text, flags=re.S)
    return any(not _PASSIVE_LINE.match(line) for line in without_docstring.splitlines())


CUT_MARKER = "\n[... cut ...]\n"


def cut_middle(text: str, max_size: int) -> str:
    """Shortens a long text to its beginning and end. The end of an error message is its most useful part."""
    if len(text) <= max_size:
        return text
    half = (max_size - len(CUT_MARKER)) // 2
    return text[:half] + CUT_MARKER + text[-half:] if half > 0 else ""


_MAX_LINE_LENGTH, _MAX_LINES, _MAX_READ_LENGTH = 70, 2, 20_000
_MAX_COMPARED, _MAX_COMPARED_LENGTH, _SIMILAR = 20, 2000, 0.5  # lines, and their smallest share of equal words
_WORD = re.compile(r"\w+|[^\w\s]")
_CUT = " ..."
_DOCSTRING = re.compile(r"^[ \t]*(\"{3}|'{3}).*?\1", re.M | re.S)


def summarize_change(parent: str, child: str) -> str:
    """Returns the number of removed and added lines, and two of each. Moved lines do not count.

    The first added line is the one that replaces the first removed line, if there is one. Long lines that differ late
    are shown from there.
    """
    removed, added = _find_missing(parent, child), _find_missing(child, parent)
    title = f"{len(removed)} lines removed, {len(added)} added"
    if removed and (index := _find_similar(removed[0], added[:_MAX_COMPARED])) is not None:
        added = [added[index], *added[:index], *added[index + 1 :]]
    counterparts = [added[:1], removed[:1]]
    lines = [
        f"{sign} {_cut_line(line, *(counterpart if index == 0 else ()))}"
        for sign, texts, counterpart in zip("-+", (removed, added), counterparts, strict=True)
        for index, line in enumerate(texts[:_MAX_LINES])
    ]
    return "\n".join([title, *lines])


def _find_similar(line: str, others: Sequence[str]) -> int | None:
    """Returns the index of the line that shares most words; None if none shares many."""
    words, *other_words = (set(_WORD.findall(text[:_MAX_COMPARED_LENGTH])) for text in (line, *others))
    shares = [len(words & other) / len(words | other) for other in other_words]
    best = max(range(len(shares)), key=shares.__getitem__, default=None)
    return best if best is not None and shares[best] >= _SIMILAR else None


def _cut_line(line: str, other: str = "") -> str:
    """Returns a line, or of a long one the part from the first difference to another line."""
    if len(line) <= _MAX_LINE_LENGTH:
        return line
    pairs = enumerate(zip(line, other, strict=False))
    same = next((index for index, (char, other_char) in pairs if char != other_char), min(len(line), len(other)))
    end = min(same, len(line) - 1)
    first = max(line.rfind(" ", 0, end) + 1, end - _MAX_LINE_LENGTH // 2) if same > _MAX_LINE_LENGTH // 2 else 0
    rest = line[first:]
    return f"{'... ' if first else ''}{rest[:_MAX_LINE_LENGTH].rstrip()}{_CUT if len(rest) > _MAX_LINE_LENGTH else ''}"


def _find_missing(text: str, other_text: str) -> Sequence[str]:
    """Returns the lines that the other text does not have, statements before comments, imports and docstrings."""
    other_lines = set(other_text.split("\n"))
    statements = _DOCSTRING.sub(lambda match: "\n" * match[0].count("\n"), text).split("\n")
    missing = [
        (bool(_PASSIVE_LINE.match(statement)), line.strip()[:_MAX_READ_LENGTH])
        for line, statement in zip(text.split("\n"), statements, strict=True)
        if line not in other_lines and line.strip()
    ]
    return [line for _, line in sorted(missing, key=lambda item: item[0])]


def with_text(parent: function.Function, text: str) -> function.AnySkeleton:
    """Returns a copy of the parent's skeleton with a new text."""
    skeleton = parent.skeleton()
    if isinstance(skeleton, function.Rewritable):
        return skeleton.with_text(text)
    new_skeleton: function.AnySkeleton = type(skeleton)(text)  # type: ignore[call-arg]  # takes only its text
    return new_skeleton


class NotApplicable(ValueError):
    """The mutator cannot change these parents. Another mutator may take the iteration."""
