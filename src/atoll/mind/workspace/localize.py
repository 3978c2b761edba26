"""Fault localization: ranks the functions of a repository for the prompt.

The evidence is the lines that failing tests execute, stack traces, names in the goal and in failing tests, and recent
changes.
"""

import ast
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from atoll.candidate import EMPTY

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,}")
_PART = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
_FRAME = re.compile(r'(?:File "([^"\n]+)", line (\d+))|(?:^|\s)([\w./-]+\.py):(\d+)', re.MULTILINE)
_MAX_SNIPPET_LINES = 150
_CONTEXT_LINES = 30
# Weights of the evidence: a line that only failing tests execute counts most.
_SPECTRUM, _TRACE, _NAME, _WORDS, _RECENT = 4.0, 2.0, 2.0, 1.0, 0.3


class Definition(NamedTuple):
    """Function, method or class header of a file, or a whole file without functions."""

    path: str
    name: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence about a fault or a goal.

    Attributes:
        goal: Text of the goal.
        failures: Output of the failing tests.
        failed: Names of the failing tests.
        suspicion: Suspicion of lines, 0 to 1, by file.
        recent: Files that changed recently, newest first.
    """

    goal: str = ""
    failures: str = ""
    failed: frozenset[str] = frozenset()
    suspicion: Mapping[str, Mapping[int, float]] = EMPTY
    recent: Sequence[str] = ()


class Snippet(NamedTuple):
    """Lines of a file for the prompt, with their score."""

    definition: Definition
    score: float


def find_definitions(path: str, text: str) -> list[Definition]:
    """Returns the functions and methods of a Python file, and the header of each class."""
    num_lines = text.count("\n") + 1
    if not path.endswith(".py"):
        return [Definition(path, path.rpartition("/")[2], 1, num_lines)]
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [Definition(path, path.rpartition("/")[2], 1, num_lines)]
    return list(_walk(path, tree.body, "")) or [Definition(path, path.rpartition("/")[2], 1, num_lines)]


def _walk(path: str, body: Sequence[ast.stmt], prefix: str) -> Iterator[Definition]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if isinstance(node, ast.ClassDef):
                methods = list(_walk(path, node.body, f"{prefix}{node.name}."))
                last = methods[0].first - 1 if methods else node.end_lineno or first
                yield Definition(path, f"{prefix}{node.name}", first, last)
                yield from methods
            else:
                yield Definition(path, f"{prefix}{node.name}", first, node.end_lineno or first)


def rank(texts: Mapping[str, str], evidence: Evidence, is_test: Mapping[str, bool]) -> list[Snippet]:
    """Returns the definitions of a repository with evidence, highest score first.

    Args:
        texts: Files by path.
        evidence: The evidence.
        is_test: Whether a file is a test. Only its failing tests are ranked.
    """
    definitions = [definition for path, text in texts.items() for definition in find_definitions(path, text)]
    test_sources = [_cut(texts[item.path], item) for item in definitions if _is_failed_test(item, evidence, is_test)]
    requested_names = Counter(_WORD.findall("\n".join((evidence.goal, *test_sources, *sorted(evidence.failed)))))
    goal_words = {part.lower() for part in _PART.findall(f"{evidence.goal} {' '.join(evidence.failed)}")}
    rarity = _compute_rarity(definitions, texts)
    frames = _find_frames(evidence.failures, texts)
    snippets = list[Snippet]()
    for item in definitions:
        if is_test.get(item.path):
            score = 3.0 if _is_failed_test(item, evidence, is_test) else 0.0
        else:
            lines = evidence.suspicion.get(item.path, {})
            suspicion = max((value for line, value in lines.items() if item.first < line <= item.last), default=0.0)
            trace = max(
                (weight for line, weight in frames.get(item.path, ()) if item.first <= line <= item.last), default=0.0
            )
            simple_name = item.name.rpartition(".")[2]
            names = rarity.get(simple_name, 0.0) * min(1.0, requested_names.get(simple_name, 0))
            parts = {part.lower() for part in _PART.findall(f"{item.path} {item.name}")}
            words = sum(rarity.get(part, 0.0) for part in parts & goal_words) / (1 + len(parts))
            recent = 1.0 / (1 + evidence.recent.index(item.path)) if item.path in evidence.recent else 0.0
            score = _SPECTRUM * suspicion + _TRACE * trace + _NAME * names + _WORDS * words
            score += _RECENT * recent if score else 0.05 * recent
        if score > 0:
            snippets.append(Snippet(item, score))
    return sorted(snippets, key=lambda snippet: (-snippet.score, snippet.definition))


def show(
    texts: Mapping[str, str], snippets: Sequence[Snippet], max_chars: int, suspicion: Mapping[str, Mapping[int, float]]
) -> str:
    """Returns the source of the best definitions, with line numbers in the headers, within a number of characters."""
    sections, remaining = list[str](), max_chars
    for definition, _ in snippets:
        first, last = _limit_lines(definition, suspicion.get(definition.path, {}))
        source = "\n".join(texts[definition.path].splitlines()[first - 1 : last])
        section = f"FILE: {definition.path}, lines {first}-{last} ({definition.name})\n```\n{source}\n```"
        if len(section) <= remaining:
            sections.append(section)
            remaining -= len(section)
        elif not sections:
            sections.append(section[:remaining])
            remaining = 0
    return "\n\n".join(sections)


def _limit_lines(item: Definition, suspicion: Mapping[int, float]) -> tuple[int, int]:
    """Returns the lines of a definition; of a long one, those around its most suspicious line."""
    if item.last - item.first < _MAX_SNIPPET_LINES:
        return item.first, item.last
    lines = [line for line in suspicion if item.first <= line <= item.last]
    center = max(lines, key=lambda line: suspicion[line], default=item.first + _CONTEXT_LINES)
    return max(item.first, center - _CONTEXT_LINES), min(item.last, center + _CONTEXT_LINES)


def _compute_rarity(definitions: Sequence[Definition], texts: Mapping[str, str]) -> dict[str, float]:
    """Returns the rarity of names and their parts, 0 to 1. A name that many definitions have says little."""
    counts = Counter[str]()
    for item in definitions:
        simple_name = item.name.rpartition(".")[2]
        counts.update({simple_name, *(part.lower() for part in _PART.findall(f"{item.path} {item.name}"))})
    total = math.log(1 + len(definitions)) or 1.0
    return {name: 1.0 - math.log(count) / total for name, count in counts.items()}


def _find_frames(failures: str, texts: Mapping[str, str]) -> dict[str, list[tuple[int, float]]]:
    """Returns lines of stack traces by file. The last frame of a trace counts most."""
    frames = dict[str, list[tuple[int, float]]]()
    for number, match in enumerate(_FRAME.finditer(failures)):
        path, line = (match[1], match[2]) if match[1] else (match[3], match[4])
        path = path.removeprefix("./")
        if path in texts:
            is_last = not _FRAME.match(failures, match.end())
            frames.setdefault(path, []).append((int(line), 1.0 if is_last else 0.6 - 0.001 * min(number, 100)))
    return frames


def _is_failed_test(item: Definition, evidence: Evidence, is_test: Mapping[str, bool]) -> bool:
    simple_name = item.name.rpartition(".")[2]
    if not is_test.get(item.path) or not simple_name.startswith("test"):
        return False
    module = item.path.removesuffix(".py").replace("/", ".")
    names = [name.replace("::", ".").replace("/", ".").replace(".py", "") for name in evidence.failed]
    module_name = module.rpartition(".")[2]
    return any(
        (name.endswith(item.name) and module_name in name) or name == module or name.endswith(f".{module_name}")
        for name in names
    )


def _cut(text: str, item: Definition) -> str:
    return "\n".join(text.splitlines()[item.first - 1 : item.last])
