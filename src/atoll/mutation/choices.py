"""The engine that picks other words from the lists that a program itself gives, without a language model.

Where a comment, a docstring or the code lists quoted words, such as `loader: ['csv', 'json']`, and one of them stands
in the program alone as a text, the others may stand there too.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from atoll import function
from atoll.mutation.markers import evolving
from atoll.mutation.skeletons import skeleton_of
from atoll.mutation.unfit import Unfit

_LIST = re.compile(r"[\[({]\s*((?:(['\"])[^'\"\n]*\2\s*,\s*)+(['\"])[^'\"\n]*\3)\s*,?\s*[\])}]")
_WORD = re.compile(r"(['\"])([^'\"\n]*)\1")


class Choice(NamedTuple):
    """A text in a program and what may stand in its place.

    Attributes:
        start: Where it begins, in characters, its quotes included.
        end: Where it ends.
    """

    start: int
    end: int
    word: str
    options: Sequence[str]


@dataclass(frozen=True, slots=True)
class Choices:
    """Makes one child by picking one or a few words anew; the same places of another parent lend theirs.

    Attributes:
        more: The chance of another pick after each one.
    """

    more: float = 0.4

    def propose(self, task: function.Task) -> Sequence[function.Function]:
        """Returns one child.

        Raises:
            Unfit: The parent has no choices.
        """
        parent = task.parents[-1]
        text = str(parent.skeleton())
        found = choices(text)
        if not found:
            raise Unfit("no list in the program says which words may stand in it: use an LLM for this source.")
        picked = self._picked(task, found)
        for choice in reversed(found):  # from the end, so that places before it stay where they are
            if choice.start in picked:
                text = text[: choice.start] + repr(picked[choice.start]) + text[choice.end :]
        edit = f"{len(picked)} words"
        return [function.draft(parent, skeleton_of(parent, text), parents=[parent], engine="choices", edit=edit)]

    def _picked(self, task: function.Task, found: Sequence[Choice]) -> Mapping[int, str]:
        """Returns new words by their places; at least one is new."""
        rng, picked = task.rng, dict[int, str]()
        while not picked or rng.random() < self.more:
            choice = rng.choice(found)
            picked[choice.start] = rng.choice([word for word in choice.options if word != choice.word])
        return picked


def choices(text: str) -> Sequence[Choice]:
    """Returns the texts of a program that may be others, in their order; of what is no Python, none."""
    try:
        tree = ast.parse(text)
        groups = list(_groups(text))
    except (SyntaxError, ValueError, RecursionError, tokenize.TokenError):
        return ()
    spans, lines = evolving(text), text.splitlines(keepends=True)
    made: list[Choice] = []
    for node in _alone(tree):
        options = next((group for group in groups if node.value in group and len(set(group)) > 1), None)
        if options and any(first < node.lineno <= end for first, end in spans):
            start = _offset(lines, node.lineno, node.col_offset)
            end = _offset(lines, node.end_lineno or node.lineno, node.end_col_offset or 0)
            made += [Choice(start, end, str(node.value), options)] if _WORD.fullmatch(text[start:end]) else []
    return sorted(made)


def _alone(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yields texts that stand alone: values of dicts, arguments, what is assigned or returned; no keys, no lists."""
    for node in ast.walk(tree):
        match node:
            case ast.Dict(values=values):
                found: Sequence[ast.expr | None] = values
            case ast.Call(args=args, keywords=keywords):
                found = [*args, *(each.value for each in keywords)]
            case ast.Assign(value=value) | ast.AnnAssign(value=value) | ast.Return(value=value):
                found = [value]
            case _:
                continue
        yield from (each for each in found if isinstance(each, ast.Constant) and isinstance(each.value, str))


def _groups(text: str) -> Iterator[Sequence[str]]:
    """Yields the lists of words in comments and texts first, then those in the code."""
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    told = [each.string for each in tokens if each.type in (tokenize.COMMENT, tokenize.STRING)]
    for source in (*told, text):
        for match in _LIST.finditer(source):
            yield [word for _, word in _WORD.findall(match[1])]


def _offset(lines: Sequence[str], line: int, column: int) -> int:
    """Returns a place in characters; the syntax tree counts columns in bytes."""
    before = sum(len(each) for each in lines[: line - 1])
    return before + len(lines[line - 1].encode()[:column].decode(errors="replace"))
