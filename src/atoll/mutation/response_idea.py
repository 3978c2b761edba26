"""Finds what a response says about its change: the idea, the reason and directions for later changes."""

import re

from atoll.mutation.text_blocks import TUNED_SUFFIX

_IDEA_LINE = re.compile(  # possessive repeats: a long line of marks would take hours otherwise
    r"^[ \t>*_`-]*+(?:#|//|%)?+[ \t*_`]*+(?P<name>IDEA|WHY|NEXT)[*_`]*+[ \t]*+:[*_` \t]*+(?P<text>[^\n]*)", re.M
)
_IDEA_COMMENT = re.compile(r"^[ \t]*(?:#|//|--|%)[ \t*_`]*(?:IDEA|WHY|NEXT)[*_`]*[ \t]*:[^\n]*\n?", re.M)
_FIRST_COMMENT = re.compile(
    r"```\w*[ \t]*\n\s*(?P<line>(?:#|//)[ \t]*(?:(?:Your )?[Cc]hange: ?)?(?P<text>[A-Za-z][^\n]* [^\n]*))"
)
_FIRST_DOCSTRING = re.compile(r"```\w*[ \t]*\n\s*(?P<quotes>\"{3}|'{3})(?P<text>.*?)(?P=quotes)", re.S)
_CHANGE = re.compile(r"^[ \t]*changes?: *(?P<text>\S[^\n]*)", re.I | re.M)
_VAGUE = re.compile(r"(?:improved|better|new|updated|modified|enhanced|optimized)\b", re.I)
_SCORE = re.compile(r"\bscore[:= ]+-?\d", re.I)
_MAX_IDEA_CHARS, _MAX_DIRECTIONS = 200, 3
_MAX_INSTRUCTION_CHARS, _MIN_WORDS = 800, 3  # the first at the end of a prompt


def find_idea(
    response: str, parent: str = "", prompt: str = "", *, keeps_idea: bool = False
) -> dict[str, str | list[str]]:
    """Returns `idea`, `why` and `next` of a change, in the words of the LLM, as far as the response has them.

    Without a line `IDEA:` the idea is the comment on the first line of the program, or the first line of its docstring,
    unless the parent has it too. Small LLMs copy what they see, so these are no ideas: a sentence of the instruction at
    the end of the prompt, the idea of a program in the prompt (unless `keeps_idea`), and a claim about a score. Each
    line `NEXT:` is a direction for a later change.
    """
    idea, directions = dict[str, str | list[str]](), list[str]()
    for match in _IDEA_LINE.finditer(response):
        text = " ".join(match["text"].split()).strip("*_` ")[:_MAX_IDEA_CHARS].removesuffix(TUNED_SUFFIX)
        if match["name"] == "NEXT":
            directions += [text] if text and text not in directions else []
        elif text:
            idea.setdefault(match["name"].lower(), text)
    if directions:
        idea["next"] = directions[:_MAX_DIRECTIONS]
    first = _FIRST_COMMENT.search(response)
    if "idea" not in idea and first and first["line"].strip() not in map(str.strip, parent.splitlines()):
        idea["idea"] = " ".join(first["text"].split())[:_MAX_IDEA_CHARS]
    if "idea" not in idea and (text := _read_docstring(response, parent)):
        idea["idea"] = text
    if _is_copied(str(idea.get("idea", "")), prompt, keeps_idea):
        del idea["idea"]
    return idea


def _read_docstring(response: str, parent: str) -> str:
    """Returns what the first docstring of a program says about its change, or its first line if that is new."""
    match = _FIRST_DOCSTRING.search(response)
    if match is None:
        return ""
    docstring = match["text"].strip()
    change = _CHANGE.search(docstring)
    line = change["text"] if change else docstring.partition("\n")[0]
    text = " ".join(line.split())[:_MAX_IDEA_CHARS]
    is_useless = text.rstrip(".") in parent or len(text.split()) < _MIN_WORDS or _VAGUE.match(text)
    return "" if is_useless else text


def _is_copied(idea: str, prompt: str, keeps_idea: bool) -> bool:
    sentence, text = idea.rstrip(". ").lower(), f"{prompt.lower()}\n"
    if not sentence or _SCORE.search(idea):
        return bool(sentence)
    if any(f"idea: {sentence}{mark}\n" in text for mark in ("", ".", " ...", TUNED_SUFFIX)):
        return not keeps_idea
    end = text[-_MAX_INSTRUCTION_CHARS:]
    is_direction = any(f"{words}: {sentence}" in end for words in ("try this", "this method"))
    is_instruction = len(sentence.split()) >= _MIN_WORDS and sentence in end and not is_direction
    return is_instruction or f"\n# {sentence}\n" in text


def remove_idea(program: str, response: str = "") -> str:
    """Returns a program without the comments that state its idea."""
    program = _IDEA_COMMENT.sub("", program)
    first = _FIRST_COMMENT.search(response)
    if first and program.count(f"{first['line']}\n") == 1:
        program = program.replace(f"{first['line']}\n", "", 1)
    return program
