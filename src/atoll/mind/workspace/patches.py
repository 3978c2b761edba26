"""Plans of edits as text: SEARCH/REPLACE blocks per file, and edits between two versions of a file."""

import difflib
import re
from collections.abc import Callable, Iterator, Sequence

from atoll import mutation
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
