"""Plans of edits as text: what a model writes and reads, and what differs between two versions of a file."""

import difflib
import re
from collections.abc import Callable, Iterator, Sequence

from atoll import mutation
from atoll.mind.actions import Action, Edit

_HEAD = re.compile(r"^[ \t]*(?:\*\*|#+ )?FILE:[ \t]*`?([^\n`*]+?)`?(?:\*\*)?[ \t]*$", re.MULTILINE)
_NEWLINE = re.compile(r"\r\n|\r")

FORM = """For every file that you change, a line FILE: with its path, and below it one block or several:

FILE: path/of/file.py
<<<<<<< SEARCH
lines that stand in the file, exactly and once
=======
what is to stand there instead
>>>>>>> REPLACE

A file that is not there yet is written by a block whose SEARCH part is empty."""


def written(trace: Sequence[Action]) -> str:
    """Returns the edits of a trace as blocks."""
    parts, path = list[str](), ""
    for each in trace:
        if isinstance(each, Edit):
            parts += [f"FILE: {each.path}"] if each.path != path else []
            parts.append(f"<<<<<<< SEARCH\n{_whole(each.old)}=======\n{_whole(each.new)}>>>>>>> REPLACE")
            path = each.path
    return "\n".join(parts)


def read(plan: str) -> tuple[Edit, ...]:
    """Returns the edits in a text, word for word."""
    return tuple(
        Edit(path, block.search, block.replace) for path, text in _sections(plan) for block in mutation.blocks_of(text)
    )


def settled(reply: str, body_of: Callable[[str], str | None]) -> tuple[Edit, ...]:
    """Returns the edits that a reply asks for, each made to fit the file that it changes.

    Args:
        reply: What somebody wrote; lines that it quotes may differ in white space from those of the file.
        body_of: Returns the text of a file, None where there is none.
    """
    found = list[Edit]()
    for path, text in _sections(reply):
        blocks, body = mutation.blocks_of(text), body_of(path)
        if body is None or any(not block.search.strip() for block in blocks):
            found += [Edit(path, "", block.replace) for block in blocks[:1]]
            continue
        try:
            after = mutation.edited(body, blocks)
        except ValueError:
            continue
        found += between(path, body, after.text) if not after.problems else read(f"FILE: {path}\n{text}")
    return tuple(dict.fromkeys(found))


def between(path: str, before: str, after: str) -> tuple[Edit, ...]:
    """Returns the edits that make one text of another, each with as many lines as make it stand there once."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    spans = [
        each[1:] for each in difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes() if each[0] != "equal"
    ]
    made = tuple(_unique(path, before, old, new, *span) for span in spans)
    if applied(before, made) == after:
        return made
    return (Edit(path, "", after),)


def applied(text: str, edits: Sequence[Edit]) -> str | None:
    """Returns a text after edits, None if one of them does not fit."""
    for each in edits:
        if each.old and text.count(each.old) != 1:
            return None
        text = text.replace(each.old, each.new) if each.old else each.new
    return text


def _unique(
    path: str, before: str, old: Sequence[str], new: Sequence[str], first: int, end: int, start: int, stop: int
) -> Edit:
    top, bottom = first, end
    wanted = "".join(old[top:bottom])
    while before.count(wanted) != 1 and (top > 0 or bottom < len(old)):
        top, bottom = max(0, top - 1), min(len(old), bottom + 1)
        wanted = "".join(old[top:bottom])
    return Edit(path, wanted, "".join((*old[top:first], *new[start:stop], *old[end:bottom])))


def _whole(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Yields the files that a text is about, each with what is said of it."""
    text = _NEWLINE.sub("\n", text)
    heads = list(_HEAD.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    for head, end in zip(heads, ends, strict=False):  # without a head there is still an end
        yield head[1].strip(), text[head.end() : end]
