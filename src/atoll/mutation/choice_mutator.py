"""Mutator that replaces words by others from lists in the program. It needs no LLM.

A list of quoted words may be in a comment, a docstring or the code, such as `loader: ['csv', 'json']`. A string of the
program that equals one word of the list may become any other word of it.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from atoll import function
from atoll.mutation.text_blocks import NotApplicable, find_evolving_spans, with_text

_WORD_LIST = re.compile(r"[\[({]\s*((?:(['\"])[^'\"\n]*\2\s*,\s*)+(['\"])[^'\"\n]*\3)\s*,?\s*[\])}]")
_WORD = re.compile(r"(['\"])([^'\"\n]*)\1")


class WordChoice(NamedTuple):
    """String in a program and its alternatives.

    Attributes:
        start: Offset of its first character, which is a quote.
        end: Offset after its closing quote.
    """

    start: int
    end: int
    word: str
    options: Sequence[str]


@dataclass(frozen=True, slots=True)
class ChoiceMutator:
    """Makes one child by replacing one or a few words.

    Attributes:
        repeat_probability: Probability of replacing another word after each one.
    """

    repeat_probability: float = 0.4

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns one child.

        Raises:
            NotApplicable: The parent has no choices.
        """
        parent = context.parents[-1]
        text = str(parent.skeleton())
        word_choices = find_choices(text)
        if not word_choices:
            raise NotApplicable("The program has no list of words to choose from. Use an LLM.")
        new_words = self._pick_words(context, word_choices)
        for choice in reversed(word_choices):  # from the end, so that earlier offsets stay valid
            if choice.start in new_words:
                text = text[: choice.start] + repr(new_words[choice.start]) + text[choice.end :]
        edit = f"{len(new_words)} words"
        return [function.derive_child(parent, with_text(parent, text), parents=[parent], engine="choices", edit=edit)]

    def _pick_words(self, context: function.ProposalContext, word_choices: Sequence[WordChoice]) -> Mapping[int, str]:
        """Returns at least one new word by its offset."""
        rng, new_words = context.rng, dict[int, str]()
        while not new_words or rng.random() < self.repeat_probability:
            choice = rng.choice(word_choices)
            new_words[choice.start] = rng.choice([word for word in choice.options if word != choice.word])
        return new_words


def find_choices(text: str) -> Sequence[WordChoice]:
    """Returns the strings of a program that have alternatives, in order; none if it is not valid Python."""
    try:
        tree = ast.parse(text)
        word_lists = list(_iter_word_lists(text))
    except (SyntaxError, ValueError, RecursionError, tokenize.TokenError):
        return ()
    spans, lines = find_evolving_spans(text), text.splitlines(keepends=True)
    word_choices: list[WordChoice] = []
    for node in _iter_standalone_strings(tree):
        options = next((words for words in word_lists if node.value in words and len(set(words)) > 1), None)
        if options and any(first < node.lineno <= end for first, end in spans):
            start = _get_offset(lines, node.lineno, node.col_offset)
            end = _get_offset(lines, node.end_lineno or node.lineno, node.end_col_offset or 0)
            if _WORD.fullmatch(text[start:end]):
                word_choices.append(WordChoice(start, end, str(node.value), options))
    return sorted(word_choices)


def _iter_standalone_strings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yields string constants that are dict values, arguments, assigned or returned; not keys or list items."""
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
        yield from (item for item in expressions if isinstance(item, ast.Constant) and isinstance(item.value, str))


def _iter_word_lists(text: str) -> Iterator[Sequence[str]]:
    """Yields the word lists in comments and strings, then those in the code."""
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    texts = [token.string for token in tokens if token.type in (tokenize.COMMENT, tokenize.STRING)]
    for source in (*texts, text):
        for match in _WORD_LIST.finditer(source):
            yield [word for _, word in _WORD.findall(match[1])]


def _get_offset(lines: Sequence[str], line: int, column: int) -> int:
    """Returns an offset in characters. The syntax tree counts columns in bytes."""
    before = sum(len(text) for text in lines[: line - 1])
    return before + len(lines[line - 1].encode()[:column].decode(errors="replace"))
