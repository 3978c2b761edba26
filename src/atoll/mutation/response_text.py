"""Finds the programs in the text of a response: fences, missing fences, JSON, line numbers, placeholders."""

import ast
import itertools
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from atoll.mutation.python_statements import parse_python

_OPENING = re.compile(r"(?P<indent>[ \t]*+)(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<label>[^\s`]*+)[^`]*+")
_FENCE_LINE = re.compile(r"^[ \t]*+(?:```|~~~)", re.M)
_ALIASES: Mapping[str, Sequence[str]] = {
    "python": ("python", "py", "python3"),
    "javascript": ("javascript", "js"),
    "typescript": ("typescript", "ts"),
    "rust": ("rust", "rs"),
    "c++": ("c++", "cpp", "cxx"),
    "shell": ("shell", "sh", "bash"),
}
_REASONING = [
    (re.compile(f"<{tag}>", re.I), re.compile(f"</{tag}>", re.I)) for tag in ("think", "thinking", "reasoning")
]
_CODE_LINE = re.compile(
    r"(?:from\s+[\w.]+\s+import|import\s+\w|(?:async\s+)?def\s+\w+\s*\(|class\s+\w+\s*[(:]|@\w|#|[rRfF]?\"{3}|[A-Z_]{2,}\s*=)"
)
_PROSE = re.compile(
    r"(?!from |import |def |class |return |for |while |if |with )[-*#>]*\s?[A-Za-z][\w'-]*(?:,? +[\w'`(\"-]+){2}"
)
_NUMBERED = re.compile(r"[ \t]*(\d+)(?:[ \t]*[|:.)]|\t|(?=[ ]|$))[ ]?(.*)")
_NOTEBOOK = re.compile(r"[ \t]*(?:>>>|\.\.\.(?!\S)|In \[\d*\]:|\.\.\.:)[ ]?(.*)")
_TYPOGRAPHY = str.maketrans(
    "\u00a0\u2007\u202f\u2018\u2019\u201c\u201d\u2212", "   ''\"\"-", "\u200b\u200c\u200d\ufeff"
)
_PLACEHOLDER = re.compile(
    r"\s*+(?:#|//|--)\s*+(?:\.{3}|…)?\s*+\(?(?:(?:the\s+)?(?:rest|remain|existing|previous|other|unchanged|same|keep)\b|\.{3}|…).*",
    re.I,
)
_PLACEHOLDER_WORDS = re.compile(r"\.{3}|…|unchanged|the same|as before|as above|remains?\b|rest of|existing", re.I)
_OMISSION = re.compile(r"(?:\.{3}|…).*\w|unchanged", re.I)
MAX_RESPONSE_LENGTH = 500_000  # characters that are read
GUESS = "(guess)"  # label of a part that is not in a fence
MAX_GUESS_LENGTH = 100_000
MAX_CANDIDATES = 12  # blocks of a response that are read in full
_MAX_CUTS = 20  # each cut costs one more parse


def is_delimiter(line: str) -> bool:
    """Returns whether a line is a delimiter of an edit: five or more of `<`, `=` or `>`, perhaps with a label."""
    mark = line.strip()[:5]
    return mark in ("<<<<<", "=====", ">>>>>") and len(line.strip()) < 40


class FencedBlock(NamedTuple):
    """Text between two fences, and the label of the first."""

    label: str
    text: str

    def has_language(self, language: str) -> bool:
        labels = _ALIASES.get(language.lower(), (language.lower(),))
        return self.label.lower().strip("{}.:") in labels


def clean_response(response: str) -> str:
    """Returns a response with plain line ends and without reasoning tags."""
    text = re.sub(r"\r\n?", "\n", response[:MAX_RESPONSE_LENGTH])
    for opening, closing in _REASONING:
        text = _strip_between(text, opening, closing)
    if text.startswith(">") and all(line[:1] in (">", "") for line in text.split("\n")):
        text = "\n".join(line.removeprefix(">").removeprefix(" ") for line in text.split("\n"))
    return text


def _strip_between(text: str, opening: re.Pattern[str], closing: re.Pattern[str]) -> str:
    """Removes the text between tags; before a closing tag without an opening one, which the prompt may contain.

    An opening tag in a line of code or in a fence belongs to the program.
    """
    parts, position, search_position = list[str](), 0, 0
    while end := closing.search(text, search_position):
        start = opening.search(text, search_position, end.start())
        search_position = end.end()
        if start and not _begins_reasoning(text, position, start.start()):
            continue
        if not start and position != 0:
            continue
        if start:
            parts.append(text[position : start.start()])
        position = end.end()
    rest = text[position:]
    return "".join([*parts, rest]) if rest.strip() or any(part.strip() for part in parts) else text


def _begins_reasoning(text: str, first: int, tag: int) -> bool:
    """Returns whether a tag begins a line outside of a fence."""
    before = text[first:tag]
    line_start = before.rpartition("\n")[2]
    return not line_start.strip() and len(_FENCE_LINE.findall(before)) % 2 == 0


def iter_fenced_blocks(response: str, *, is_nested: bool = False) -> Iterator[FencedBlock]:
    """Yields the blocks of a response. A missing last fence ends the block with the text.

    Args:
        is_nested: A fence with a label inside a block opens an inner block. Otherwise it starts the next block.
    """
    opening: re.Match[str] | None = None
    body, depth = list[str](), 0
    for line in response.split("\n"):
        match = _OPENING.fullmatch(line)
        if opening is None:
            if match is not None:
                opening, body, depth = match, [], 0
            continue
        is_fence = match is not None and match["fence"].startswith(opening["fence"])
        if match is None or not is_fence:
            body.append(_unindent(line, opening["indent"]))
        elif match["label"] and not is_nested:
            yield FencedBlock(opening["label"], "\n".join(body).rstrip() + "\n")
            opening, body = match, []
        elif match["label"] or depth:
            depth += 1 if match["label"] else -1
            body.append(_unindent(line, opening["indent"]))
        else:
            yield FencedBlock(opening["label"], "\n".join(body).rstrip() + "\n")
            opening = None
    if opening is not None:
        yield FencedBlock(opening["label"], "\n".join(body).rstrip() + "\n")


def _unindent(line: str, indent: str) -> str:
    """Removes at most the indentation of the fence: a list item indents its whole block."""
    count = 0
    while count < len(indent) and line[count : count + 1] in (" ", "\t"):
        count += 1
    return line[count:]


def extract_text(response: str) -> str:
    """Returns a text from a response: its main fenced block, or the whole response if there is none.

    A response that is mostly outside of its blocks is itself the text, with examples in fences.
    """
    cleaned = clean_response(response).strip()
    blocks = [block.text for block in iter_fenced_blocks(cleaned, is_nested=True) if block.text.strip()]
    if not blocks:
        return cleaned
    longest = max(blocks, key=len)
    is_main = len(longest) * 2 >= len(cleaned) or len(cleaned.split("```")[0].strip()) <= 400
    return longest if is_main else cleaned


def find_programs(response: str, language: str) -> Sequence[FencedBlock]:
    """Returns all parts of a response that may be a program: first its blocks, then guesses that look like code."""
    blocks = [block for block in iter_fenced_blocks(response) if block.text.strip()]
    guesses = [guess for guess in _iter_guesses(response, blocks, language) if guess.strip()]
    parts = [*blocks, *(FencedBlock(GUESS, guess) for guess in dict.fromkeys(guesses) if _is_code(guess, language))]
    if len(parts) <= MAX_CANDIDATES:
        return parts
    chosen = {*sorted(range(len(parts)), key=lambda index: -len(parts[index].text))[: MAX_CANDIDATES - 4]}
    chosen |= set(range(len(parts) - 4, len(parts)))
    return [parts[index] for index in sorted(chosen)]


def _iter_guesses(response: str, blocks: Sequence[FencedBlock], language: str) -> Iterator[str]:
    lines = response.split("\n")
    fence_lines = [index for index, line in enumerate(lines) if _OPENING.fullmatch(line)]
    if len(blocks) > 1:
        own = [block.text for block in blocks if block.has_language(language)]
        yield "\n".join(own or [block.text for block in blocks])
        yield "\n".join(lines[fence_lines[0] + 1 : fence_lines[-1]]) + "\n"  # a docstring may contain fences
    if fence_lines and not lines[fence_lines[0]].strip("`~ \t"):
        yield "\n".join(lines[: fence_lines[0]]) + "\n"  # the opening fence may be missing
    yield from _iter_json_texts([response, *(block.text for block in blocks[:4])])
    if "<<<<<" in response or ">>>>>" in response:  # incomplete edits may hold a program
        pieces = "\n".join("```" if is_delimiter(line) else line for line in lines).split("```")
        yield from (piece.strip("\n") + "\n" for piece in pieces[:MAX_CANDIDATES])
    yield "\n".join(line for line in lines if not _OPENING.fullmatch(line)) + "\n"


def _is_code(text: str, language: str) -> bool:
    if language == "python":
        tree = parse_python(mend_python(text)[0]) if len(text) < MAX_GUESS_LENGTH else None
        return tree is not None and any(not isinstance(node, ast.Expr) for node in tree.body)
    lines = [line for line in text.split("\n") if line.strip()]
    return 2 * sum(line[:1].isspace() or line.rstrip()[-1] in ";{}()=,>" for line in lines) >= len(lines)


def _iter_json_texts(texts: Sequence[str]) -> Iterator[str]:
    """Yields the longer strings of JSON objects."""
    for text in texts:
        stripped = text.strip()
        if stripped[:1] != "{":
            continue
        try:
            data: Any = json.loads(stripped, strict=False)
        except (ValueError, RecursionError):
            continue
        values = [value for value in data.values() if isinstance(value, str)]
        texts_with_lines = (re.sub(r"\r\n?", "\n", value) for value in values)
        yield from (value for value in texts_with_lines if "\n" in value)


def mend_python(text: str) -> tuple[str, str]:
    """Returns valid Python made from a text, and a note about the change; the text itself if nothing helps."""
    if parse_python(text) is not None:
        return text, ""
    mended = text.translate(_TYPOGRAPHY)
    steps: Sequence[tuple[Callable[[str], str], str]] = (
        (str, "replaced typographic characters"),
        (textwrap.dedent, "removed indentation"),
        (_strip_prefixes, "removed line numbers or prompts"),
        (lambda value: value.expandtabs(4), "replaced tabs"),
    )
    for change, note in steps:
        mended = change(mended)
        if parse_python(mended) is not None:
            return mended, note
    if cut := _cut_to_code(mended):
        return cut, "removed text around the code"
    return text, ""


def _strip_prefixes(text: str) -> str:
    """Removes line numbers, notebook prompts or quote marks that all lines have."""
    lines = text.split("\n")
    filled = [line for line in lines if line.strip()]
    numbers = [_NUMBERED.fullmatch(line) for line in filled]
    values = [int(match[1][:9]) for match in numbers if match]
    if filled and len(values) == len(filled) and all(a < b for a, b in itertools.pairwise(values)):
        return "\n".join(match[2] if (match := _NUMBERED.fullmatch(line)) else line for line in lines)
    if any(line.lstrip().startswith((">>>", "In [")) for line in filled):
        return "\n".join(match[1] for line in lines if (match := _NOTEBOOK.fullmatch(line)))
    for mark in ("> ", "+ ", "- ", "* ", "| "):
        if filled and all(line.startswith(mark) or line == mark.strip() for line in filled):
            return "\n".join(line[2:] for line in lines)
    return text


def _cut_to_code(text: str) -> str:
    """Returns the code between prose; empty if there is none. A program with an invalid line is not cut there."""
    lines = text.split("\n")
    starts = [index for index, line in enumerate(lines) if _CODE_LINE.match(line)]
    for first in starts[:3]:
        end = len(lines)
        for _ in range(_MAX_CUTS):
            error_line = _find_error(lines[first:end])
            if error_line is None:
                code = "\n".join(lines[first:end]).rstrip() + "\n"
                if "def " in code or "class " in code:
                    return code
                break
            end = first + min(error_line - 1, end - first - 1)
            if end <= first or not _PROSE.match(lines[end]):
                break
    return ""


def drop_incomplete_end(text: str) -> tuple[str, str]:
    """Removes the last top-level statement of a truncated Python program; returns a note too."""
    lines = text.rstrip("\n").split("\n")
    error_line = _find_error(lines)
    starts = [index for index, line in enumerate(lines) if line[:1].strip() and line[0] not in "#)]}\"'"]
    if error_line is None or not starts or starts[-1] + 1 > error_line:
        return text, ""
    last = starts[-1]
    while last and lines[last - 1].startswith("@"):
        last -= 1
    remaining = "\n".join(lines[:last]) + "\n"
    return (remaining, "removed the incomplete end") if last and parse_python(remaining) is not None else (text, "")


def _find_error(lines: Sequence[str]) -> int | None:
    """Returns the number of the first invalid line; None if all are valid."""
    try:
        compile("\n".join(lines), "<response>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return max(1, error.lineno or 1)
    except (ValueError, RecursionError, MemoryError, OverflowError):
        return 1
    return None


def fill_placeholders(parent: str, child: str) -> str:
    """Replaces lines such as "# ... rest unchanged" by the parent's lines between the same neighbors."""
    lines = child.split("\n")
    marks = [i for i, line in enumerate(lines) if _PLACEHOLDER.fullmatch(line) and _PLACEHOLDER_WORDS.search(line)]
    parent_lines = parent.split("\n")
    known_lines = {line.strip() for line in parent_lines}
    marks += [i for i, line in enumerate(lines) if line.strip() in ("...", "…")]
    marks = [i for i in marks if lines[i].strip() not in known_lines]
    for index in sorted(marks, reverse=True)[:20]:
        before = next((line for line in reversed(lines[:index]) if line.strip()), None)
        after = next((line for line in lines[index + 1 :] if line.strip()), None)
        if hidden := _find_between(parent_lines, before, after):
            lines[index : index + 1] = hidden
    return "\n".join(lines)


def find_omission(parent: str, child: str) -> str:
    """Returns the first line of a body that stands for omitted code; empty if there is none."""
    known_lines = {line.strip() for line in parent.split("\n")}
    for line in child.split("\n"):
        is_inside = line[:1].isspace() and line.strip() not in known_lines
        if is_inside and _PLACEHOLDER.fullmatch(line) and _OMISSION.search(line):
            return line.strip()
    return ""


def _find_between(parent_lines: Sequence[str], before: str | None, after: str | None) -> Sequence[str]:
    """Returns the parent's lines between two lines; without `after`, the rest of the function."""
    stripped = [line.strip() for line in parent_lines]
    if before is None or stripped.count(before.strip()) != 1:
        return []
    first = stripped.index(before.strip()) + 1
    if after is not None and after.strip() in stripped[first:]:
        return parent_lines[first : stripped.index(after.strip(), first)]
    indent = len(parent_lines[first - 1]) - len(parent_lines[first - 1].lstrip())
    is_end = after is None or not after[:1].isspace()
    if not is_end or not indent:
        return []
    end = first
    while end < len(parent_lines) and (not stripped[end] or parent_lines[end][:1].isspace()):
        end += 1
    return parent_lines[first:end]
