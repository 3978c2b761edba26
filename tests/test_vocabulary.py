"""Names and texts use the project's vocabulary (CONTRIBUTING.md, "Words").

The lists are short on purpose: each entry has a plain replacement, given beside it. A word that is right in one place
(a stored format, a quotation) is allowed there by name.
"""

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
RECORDED = {"mind_workspace", "mailbox"}  # a program of its own, and messages of LLMs
EXAMPLES = [path for path in sorted((ROOT / "examples").rglob("*.py")) if RECORDED.isdisjoint(path.parts)]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += sorted((ROOT / "src").rglob("README.md"))

# Identifiers: the whole name, without leading underscores.
NAMES = {
    "found": "result, match, row",
    "kept": "store, population, retained",
    "told": "describe_x (a function), message (a variable)",
    "said": "message, text, response",
    "shown": "format_x, display_text",
    "made": "the type: config, parser, child",
    "asked": "request_x, prompt",
    "wanted": "requested, required",
    "given": "options, value",
    "seen": "observation, known_x",
    "each": "the element: row, candidate, metric",
    "whole": "full_x",
    "dear": "expensive",
    "upto": "end",
    "dice": "rng",
    "kin": "known_candidates",
    "rivals": "baselines",
    "wishes": "options",
}
# Parts of identifiers: `parse_judge`, `JailConfig`.
NAME_PARTS = {
    "judge": "evaluator",
    "judged": "evaluated",
    "jail": "sandbox",
    "zygote": "fork_server",
    "warden": "fork_server_client",
    "purse": "budget",
    "voyage": "migration",
    "harbour": "actor_pool",
    "luggage": "task_files",
}
# Phrases in docstrings, comments, messages and documents.
PHRASES = {
    r"\b(some|no|any)body\b": "name the actor: you, the run, the evaluator, an approver",
    r"\bwhoever\b": "name the actor",
    r"\bis no (?!longer\b|more\b|\w+er\b)": "'is not a'",
    r"\bThere (is|are) no\b": "'not found', or 'X has no Y'",
    r"\bjail(s|ed)?\b": "sandbox",
    r"\bjudg(e|es|ed|ing|ement)\b": "evaluate, evaluator",
    r"\bpurse\b": "budget",
    r"\bzygote\b": "fork server",
    r"\bgo(es)? on\b": "continue, resume",
    r"\bin vain\b": "failed",
    r"\banew\b": "again",
    r"\b(optim|summar|minim|maxim|initial|recogn|normal)is(e|ed|er|es|ing|ation)\b": "American spelling",
    r"\b(behaviour|neighbour|colour|licence)\w*": "American spelling",
}
STORED_NAMES = {("doctor.py", "found")}  # a JSON key of `atoll doctor`
ANY_PHRASE = re.compile("|".join(PHRASES), re.IGNORECASE)
FIRST_WORD = re.compile(r"\s*(What|Who|Whose|Where|How|Whether|Which)\b")
ALLOWED = re.compile(
    r"LLM[- ]judge|LLM-as-a-judge|judged_?|`judged`|no ?longer|No one"  # the record kind, and what papers call it
)


class Words(NamedTuple):
    """Words of a file, each with its line: names that it binds, its texts and comments, and its docstrings."""

    names: list[tuple[int, str]]
    texts: list[tuple[int, str]]
    docstrings: list[tuple[int, str]]


@functools.cache
def words_of(name: str) -> set[str]:
    return set(re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower().split("_"))


@functools.cache
def read_words(path: Path) -> Words:
    source, words = path.read_text("utf-8"), Words([], [], [])
    for node in ast.walk(ast.parse(source)):
        # `match` would take three times as long.
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                words.names.append((node.lineno, node.id))
        elif isinstance(node, ast.Attribute):
            if isinstance(node.ctx, ast.Store):
                words.names.append((node.lineno, node.attr))
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str) and " " in node.value:
                words.texts.extend(enumerate(node.value.split("\n"), node.lineno))
        elif isinstance(node, ast.arg):
            words.names.append((node.lineno, node.arg))
        elif isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            words.docstrings.append((node.body[0].lineno if node.body else 0, ast.get_docstring(node) or ""))
            if not isinstance(node, ast.Module):
                words.names.append((node.lineno, node.name))
    # Everything after a "#", also inside strings: a tokenizer would take ten times as long as all the rest.
    lines = enumerate(source.split("\n"), 1)
    words.texts.extend((number, line[line.index("#") :]) for number, line in lines if "#" in line)
    return words


def bad_phrases(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[str]:
    for number, line in lines:
        text = ALLOWED.sub("", line)
        for phrase, instead in PHRASES.items() if ANY_PHRASE.search(text) else ():
            if match := re.search(phrase, text, re.IGNORECASE):
                yield f"{path.relative_to(ROOT)}:{number}: {match[0]!r}; write: {instead}"


def test_names_are_plain() -> None:
    wrong = []
    for path in [*SOURCES, *EXAMPLES]:
        for line, name in read_words(path).names:
            instead = None if (path.name, name) in STORED_NAMES else NAMES.get(name.strip("_").lower())
            instead = instead or next((NAME_PARTS[word] for word in words_of(name) if word in NAME_PARTS), None)
            if instead:
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {name}; write: {instead}")
    assert not wrong, "\n".join(wrong)


def test_texts_are_plain() -> None:
    wrong: list[str] = []
    for path in [*SOURCES, *EXAMPLES]:
        wrong += bad_phrases(path, read_words(path).texts)
    for path in PAGES:
        wrong += bad_phrases(path, enumerate(path.read_text("utf-8").split("\n"), 1))
    assert not wrong, "\n".join(wrong)


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {text[:60]!r}"
        for path in SOURCES
        for line, text in read_words(path).docstrings
        if FIRST_WORD.match(text)
    ]
    assert not wrong, "\n".join(wrong)
