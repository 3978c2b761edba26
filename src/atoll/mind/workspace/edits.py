"""Edits of files: plans as SEARCH/REPLACE blocks, and a search for edits at lines that failing tests execute."""

import difflib
import io
import math
import re
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random

from atoll import function, mutation
from atoll.evaluation import Evaluation
from atoll.mind.actions import Action, Edit

_FILE_HEADER = re.compile(r"^[ \t]*(?:\*\*|#+ )?FILE:[ \t]*`?([^\n`*]+?)`?(?:\*\*)?[ \t]*$", re.MULTILINE)
_NEWLINE = re.compile(r"\r\n|\r")

EDIT_FORMAT = """For each file that you change, write a line FILE: with its path, then one or more blocks:

FILE: path/of/file.py
<<<<<<< SEARCH
lines that match exactly one place in the file
=======
lines to replace them with
>>>>>>> REPLACE

To create a file, leave the SEARCH part empty."""


def format_edits(trace: Sequence[Action]) -> str:
    """Returns the edits of a trace as blocks."""
    parts, last_path = list[str](), ""
    for action in trace:
        if isinstance(action, Edit):
            parts += [f"FILE: {action.path}"] if action.path != last_path else []
            old, new = _end_with_newline(action.old), _end_with_newline(action.new)
            parts.append(f"<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE")
            last_path = action.path
    return "\n".join(parts)


def parse_edits(plan: str) -> tuple[Edit, ...]:
    """Returns the edits in a text without changes."""
    return tuple(
        Edit(path, block.search, block.replace)
        for path, text in _split_sections(plan)
        for block in mutation.parse_blocks(text)
    )


def fit_edits(response: str, read_text: Callable[[str], str | None]) -> tuple[Edit, ...]:
    """Returns the edits of a response, adjusted to the files that they change.

    Args:
        response: Response of an LLM. White space in SEARCH blocks may differ from the file.
        read_text: Returns the text of a file, or None.
    """
    edits = list[Edit]()
    for path, text in _split_sections(response):
        blocks, content = mutation.parse_blocks(text), read_text(path)
        if content is None or any(not block.search.strip() for block in blocks):
            edits += [Edit(path, "", block.replace) for block in blocks[:1]]
            continue
        edited = mutation.apply_blocks(content, blocks)
        edits += make_edits(path, content, edited.text) if not edited.problems else parse_edits(f"FILE: {path}\n{text}")
    return tuple(dict.fromkeys(edits))


def make_edits(path: str, before: str, after: str) -> tuple[Edit, ...]:
    """Returns the edits from one text to another. Each has enough lines to be unique."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    spans = [
        opcode[1:]
        for opcode in difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes()
        if opcode[0] != "equal"
    ]
    edits = tuple(_make_unique_edit(path, before, old, new, *span) for span in spans)
    if apply_edits(before, edits) == after:
        return edits
    return (Edit(path, "", after),)


def apply_edits(text: str, edits: Sequence[Edit]) -> str | None:
    """Returns a text after edits; None if one does not fit."""
    for edit in edits:
        if edit.old and text.count(edit.old) != 1:
            return None
        text = text.replace(edit.old, edit.new) if edit.old else edit.new
    return text


def _make_unique_edit(
    path: str,
    before: str,
    old: Sequence[str],
    new: Sequence[str],
    old_start: int,
    old_end: int,
    new_start: int,
    new_end: int,
) -> Edit:
    top, bottom = old_start, old_end
    search = "".join(old[top:bottom])
    while before.count(search) != 1 and (top > 0 or bottom < len(old)):
        top, bottom = max(0, top - 1), min(len(old), bottom + 1)
        search = "".join(old[top:bottom])
    return Edit(path, search, "".join((*old[top:old_start], *new[new_start:new_end], *old[old_end:bottom])))


def _end_with_newline(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _split_sections(text: str) -> Iterator[tuple[str, str]]:
    """Yields each file named in a text, with its section."""
    text = _NEWLINE.sub("\n", text)
    heads = list(_FILE_HEADER.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    for head, end in zip(heads, ends, strict=False):  # `ends` is never empty
        yield head[1].strip(), text[head.end() : end]


_TOKEN_GROUPS: Sequence[Sequence[str]] = (
    ("<", "<=", ">", ">=", "==", "!="),
    ("+", "-"),
    ("*", "/", "//", "%"),
    ("+=", "-="),
    ("*=", "/=", "//="),
    ("and", "or"),
    ("True", "False"),
    ("min", "max"),
    ("any", "all"),
    ("break", "continue"),
)
_ALTERNATIVES = {
    token: [alternative for alternative in group if alternative != token] for group in _TOKEN_GROUPS for token in group
}


def generate_swaps(text: str) -> Iterator[tuple[int, str]]:
    """Yields each valid variant of a program with one swapped token, with its line number.

    An invalid program yields nothing.
    """
    lines = text.splitlines(keepends=True)
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return
    for token in tokens:
        row, column = token.start
        for alternative in _get_alternatives(token):
            line = lines[row - 1]
            changed_line = line[:column] + alternative + line[token.end[1] :]
            changed_text = "".join((*lines[: row - 1], changed_line, *lines[row:]))
            if _compiles(changed_text):
                yield row, changed_text


def _get_alternatives(token: tokenize.TokenInfo) -> Sequence[str]:
    if token.type == tokenize.NUMBER and token.string.isdigit():
        value = int(token.string)
        return [str(neighbor) for neighbor in (value + 1, value - 1) if neighbor >= 0]
    if token.type in (tokenize.OP, tokenize.NAME):
        return _ALTERNATIVES.get(token.string, ())
    return ()


def _compiles(text: str) -> bool:
    try:
        compile(text, "<swap>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


_MAX_SWAPS = 400
_VARIANTS_PER_EDIT = 4  # drawn per edit: many are duplicates, or change a line without suspicion

# Numbers of failing and passing tests that execute each line of each file.
type Spectrum = Mapping[str, Mapping[int, tuple[int, int]]]


def compute_suspicion(spectrum: Spectrum, num_failing: int) -> Mapping[str, Mapping[int, float]]:
    """Returns the suspicion of each line, 0 to 1, by the Ochiai measure of spectrum-based fault localization."""
    return {
        path: {
            line: failing / math.sqrt(num_failing * (failing + passing))
            for line, (failing, passing) in lines.items()
            if failing
        }
        for path, lines in spectrum.items()
    }


def find_edits(
    files: Mapping[str, str], suspects: Mapping[str, Mapping[int, float]], seed: int, max_edits: int
) -> tuple[Edit, ...]:
    """Returns single edits of Python files: token swaps first, each group by suspicion.

    Args:
        files: Texts of the files that may change.
        suspects: Suspicion of their lines. Files without suspicious lines are skipped, unless no file has any.
        seed: Random seed.
        max_edits: Maximal number of syntax mutations; token swaps are extra.
    """
    target_files = {path: text for path, text in files.items() if suspects.get(path)} or files
    ranking: dict[Edit, tuple[bool, float]] = {}
    for path, text in sorted(target_files.items()):
        if path.endswith(".py") and mutation.is_mutable(text):
            line_suspicion = suspects.get(path, {})
            small_variants = [(False, variant) for _, variant in generate_swaps(text)]
            num_variants = max_edits * _VARIANTS_PER_EDIT // len(target_files)
            large_variants = (
                (True, variant) for variant in _generate_variants(text, Random(f"{seed}/{path}"), num_variants)
            )
            for is_large, variant_text in (*small_variants, *large_variants):
                weight = _compute_weight(text, variant_text, line_suspicion) if suspects else 1.0
                edits = make_edits(path, text, variant_text) if weight else ()
                if len(edits) == 1 and edits[0].old:
                    ranking.setdefault(edits[0], (is_large, -weight))
    ordered = sorted(ranking, key=lambda edit: ranking[edit])
    small_edits = [edit for edit in ordered if not ranking[edit][0]]
    return (*small_edits[:_MAX_SWAPS], *[edit for edit in ordered if ranking[edit][0]][:max_edits])


def _generate_variants(text: str, rng: Random, count: int) -> Iterator[str]:
    """Yields variants of a program with one edit each."""
    mutator = mutation.SyntaxMutator(repeat_probability=0.0)
    parent = function.DefaultFunction(
        function.DefaultFunctionProps(function.Text(text), candidate_evaluator=lambda skeleton: Evaluation(0.0))
    )
    for iteration in range(count):
        context = function.ProposalContext(
            0, iteration, 0, [parent], {}, {}, rng, None, lambda fns: [], lambda fn, result: None
        )
        try:
            yield from (str(fn.skeleton()) for fn in mutator.propose(context))
        except ValueError:
            return


def _compute_weight(before: str, after: str, line_suspicion: Mapping[int, float]) -> float:
    """Returns the highest suspicion of the lines that a variant changes."""
    matcher = difflib.SequenceMatcher(a=before.splitlines(), b=after.splitlines(), autojunk=False)
    changed_lines = [
        line
        for tag, first, end, _, _ in matcher.get_opcodes()
        if tag != "equal"
        for line in range(first, max(end, first + 1))
    ]
    return max((line_suspicion.get(line + 1, 0.0) for line in changed_lines), default=0.0)
