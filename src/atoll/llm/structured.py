"""Answers with a shape: JSON that a schema describes, from any model, with one chance to mend it."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pydantic

from atoll import errors
from atoll.llm.llm import LLM, JSONPrompt

_MAX_SHOWN = 2000  # characters of a wrong reply in the prompt that asks for a better one
_MAX_FAULTS = 100  # brackets that begin no JSON: a long program has thousands
_START = re.compile(r"[\[{]")
# Possessive: without a last fence, every way to share empty lines with the body would be tried to the end of the text.
_FENCE = re.compile(r"```[a-zA-Z0-9]*+[^\S\n]*+\n\s*+(.*?)```", re.DOTALL)

_WANTED = """{prompt}

Answer with one JSON value and nothing else. It must match this JSON schema:
{schema}"""

_REPAIR = """{prompt}

You answered:
{reply}

That cannot be used: {error}
Answer again with the corrected JSON value and nothing else."""


class Unreadable(errors.AtollError):
    """A model replied twice, and neither was what it was asked for.

    Attributes:
        text: Its last reply.
    """

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text


def ask_json[T](model: LLM, prompt: str, schema: type[T]) -> T:
    """Asks for a value of a type, and once more, with the error shown, if the first answer is none.

    Where the provider can hold a reply to a schema it is told to; else the JSON is found in prose and fences.

    Args:
        model: Asked once or twice.
        prompt: What is wanted, in words; the schema is added to it.
        schema: Anything that pydantic knows: a model, a dataclass, `list[int]`, `dict[str, str]`.

    Raises:
        NoReply: The model gave none.
        Unreadable: What it replied cannot be used.
    """
    adapter = pydantic.TypeAdapter(schema)
    described = adapter.json_schema()
    wanted = _WANTED.format(prompt=prompt, schema=json.dumps(described))
    text = model(_asking(wanted, described)).text
    found = _read(adapter, text)
    if not isinstance(found, str):
        return found[0]
    repair = _REPAIR.format(prompt=wanted, reply=_cut(text), error=found)
    reply = model(_asking(repair, described))
    again = _read(adapter, reply.text)
    if isinstance(again, str):
        raise Unreadable(f"{reply.model} replied twice without the JSON that was asked for: {again}", reply.text)
    return again[0]


def extract(text: str) -> Iterator[Any]:
    """Yields the JSON values in a text, the likeliest first: all of it, what is fenced, what stands in prose.

    Objects and lists are looked for in prose, longest first; a number in a sentence is none.
    """
    for part in (text, *reversed(_FENCE.findall(text))):
        try:
            yield json.loads(part)
        except (ValueError, RecursionError):
            continue
    decoder = json.JSONDecoder()
    found, position, faults = list[tuple[int, Any]](), 0, 0
    while faults < _MAX_FAULTS and (start := _START.search(text, position)):
        try:
            value, position = decoder.raw_decode(text, start.start())
            found.append((start.start() - position, value))
        except (ValueError, RecursionError):
            position, faults = start.end(), faults + 1
    yield from (value for _, value in sorted(found, key=lambda each: each[0]))


def _asking(text: str, schema: Mapping[str, Any]) -> JSONPrompt | str:
    # Providers hold replies to objects; a bare list or number is only asked for in words.
    return JSONPrompt(text, schema) if schema.get("type") == "object" else text


def _read[T](adapter: pydantic.TypeAdapter[T], text: str) -> tuple[T] | str:
    """Returns the value, or what is wrong."""
    wrong = "there is no JSON in it."
    for number, value in enumerate(extract(text)):
        try:
            return (adapter.validate_python(value),)
        except pydantic.ValidationError as error:
            wrong = wrong if number else _told(error)
    return wrong


def _told(error: pydantic.ValidationError) -> str:
    said = [f"{'.'.join(map(str, each['loc'])) or 'the value'}: {each['msg']}" for each in error.errors()[:5]]
    return f"{'; '.join(said)}."


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]} ..."
