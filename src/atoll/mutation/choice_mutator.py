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
from atoll.mutation.applicability import NotApplicable, with_text
from atoll.mutation.text_blocks import find_evolving_spans

_WORD_LIST = re.compile(r"[\[({]\s*((?:(['\"])[^'\"\n]*\2\s*,\s*)+(['\"])[^'\"\n]*\3)\s*,?\s*[\])}]")
_WORD = re.compile(r"(['\"])([^'\"\n]*)\1")


class WordChoice(NamedTuple):
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
class ChoiceMutator:
    """Makes one child by picking one or a few words anew; the same places of another parent lend theirs.

    Attributes:
        more: The chance of another pick after each one.
    """

    repeat_probability: float = 0.4

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns one child.

        Raises:
            Unfit: The parent has no choices.
        """
        parent = context.parents[-1]
        text = str(parent.skeleton())
        word_choices = find_choices(text)
        if not word_choices:
            raise NotApplicable("no list in the program says which words may stand in it: use an LLM for this source.")
        new_words = self._pick_words(context, word_choices)
        for choice in reversed(word_choices):  # from the end, so that places before it stay where they are
            if choice.start in new_words:
                text = text[: choice.start] + repr(new_words[choice.start]) + text[choice.end :]
        edit = f"{len(new_words)} words"
        return [function.derive_child(parent, with_text(parent, text), parents=[parent], engine="choices", edit=edit)]

    def _pick_words(self, context: function.ProposalContext, word_choices: Sequence[WordChoice]) -> Mapping[int, str]:
        """Returns new words by their places; at least one is new."""
        rng, new_words = context.rng, dict[int, str]()
        while not new_words or rng.random() < self.repeat_probability:
            choice = rng.choice(word_choices)
            new_words[choice.start] = rng.choice([word for word in choice.options if word != choice.word])
        return new_words


def find_choices(text: str) -> Sequence[WordChoice]:
    """Returns the texts of a program that may be others, in their order; of what is no Python, none."""
    try:
        tree = ast.parse(text)
        word_lists = list(_iter_word_lists(text))
    except (SyntaxError, ValueError, RecursionError, tokenize.TokenError):
        return ()
    spans, lines = find_evolving_spans(text), text.splitlines(keepends=True)
    word_choices: list[WordChoice] = []
    for node in _iter_standalone_strings(tree):
        options = next(
            (word_list for word_list in word_lists if node.value in word_list and len(set(word_list)) > 1), None
        )
        if options and any(first < node.lineno <= end for first, end in spans):
            start = _get_offset(lines, node.lineno, node.col_offset)
            end = _get_offset(lines, node.end_lineno or node.lineno, node.end_col_offset or 0)
            word_choices += (
                [WordChoice(start, end, str(node.value), options)] if _WORD.fullmatch(text[start:end]) else []
            )
    return sorted(word_choices)


def _iter_standalone_strings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yields texts that stand alone: values of dicts, arguments, what is assigned or returned; no keys, no lists."""
    for node in ast.walk(tree):
        match node:
            case ast.Dict(values=values):
                expressions: Sequence[ast.expr | None] = values
            case ast.Call(args=args, keywords=keywords):
                expressions = [*args, *(keyword.value for keyword in keywords)]
            case ast.Assign(value=value) | ast.AnnAssign(value=value) | ast.Return(value=value):
                expressions = [value]
            case _:
                continue
        yield from (
            expression
            for expression in expressions
            if isinstance(expression, ast.Constant) and isinstance(expression.value, str)
        )


def _iter_word_lists(text: str) -> Iterator[Sequence[str]]:
    """Yields the lists of words in comments and texts first, then those in the code."""
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    texts = [token.string for token in tokens if token.type in (tokenize.COMMENT, tokenize.STRING)]
    for source in (*texts, text):
        for match in _WORD_LIST.finditer(source):
            yield [word for _, word in _WORD.findall(match[1])]


def _get_offset(lines: Sequence[str], line: int, column: int) -> int:
    """Returns a place in characters; the syntax tree counts columns in bytes."""
    before = sum(len(text) for text in lines[: line - 1])
    return before + len(lines[line - 1].encode()[:column].decode(errors="replace"))
