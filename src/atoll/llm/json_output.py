"""Answers with a shape: JSON that a schema describes, from any model, with one chance to mend it."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pydantic

from atoll import errors
from atoll.llm.base import LLM, JSONPrompt

_MAX_RESPONSE_CHARS = 2000  # characters of a wrong reply in the prompt that asks for a better one
_MAX_PARSE_FAILURES = 100  # brackets that begin no JSON: a long program has thousands
_START = re.compile(r"[\[{]")
# Possessive: without a last fence, every way to share empty lines with the body would be tried to the end of the text.
_FENCE = re.compile(r"```[a-zA-Z0-9]*+[^\S\n]*+\n\s*+(.*?)```", re.DOTALL)

_JSON_PROMPT = """{prompt}

Answer with one JSON value and nothing else. It must match this JSON schema:
{schema}"""

_REPAIR_PROMPT = """{prompt}

You answered:
{reply}

That cannot be used: {error}
Answer again with the corrected JSON value and nothing else."""


class InvalidResponse(errors.AtollError):
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
    json_schema = adapter.json_schema()
    json_prompt = _JSON_PROMPT.format(prompt=prompt, schema=json.dumps(json_schema))
    text = model(_make_prompt(json_prompt, json_schema)).text
    parsed = _parse_response(adapter, text)
    if not isinstance(parsed, str):
        return parsed[0]
    repair_prompt = _REPAIR_PROMPT.format(prompt=json_prompt, reply=_truncate(text), error=parsed)
    response = model(_make_prompt(repair_prompt, json_schema))
    repaired = _parse_response(adapter, response.text)
    if isinstance(repaired, str):
        raise InvalidResponse(
            f"{response.model} replied twice without the JSON that was asked for: {repaired}", response.text
        )
    return repaired[0]


def extract_json(text: str) -> Iterator[Any]:
    """Yields the JSON values in a text, the likeliest first: all of it, what is fenced, what stands in prose.

    Objects and lists are looked for in prose, longest first; a number in a sentence is none.
    """
    for part in (text, *reversed(_FENCE.findall(text))):
        try:
            yield json.loads(part)
        except (ValueError, RecursionError):
            continue
    decoder = json.JSONDecoder()
    values, position, failures = list[tuple[int, Any]](), 0, 0
    while failures < _MAX_PARSE_FAILURES and (start := _START.search(text, position)):
        try:
            value, position = decoder.raw_decode(text, start.start())
            values.append((start.start() - position, value))
        except (ValueError, RecursionError):
            position, failures = start.end(), failures + 1
    yield from (value for _, value in sorted(values, key=lambda item: item[0]))


def _make_prompt(text: str, schema: Mapping[str, Any]) -> JSONPrompt | str:
    # Providers hold replies to objects; a bare list or number is only asked for in words.
    return JSONPrompt(text, schema) if schema.get("type") == "object" else text


def _parse_response[T](adapter: pydantic.TypeAdapter[T], text: str) -> tuple[T] | str:
    """Returns the value, or what is wrong."""
    problem = "there is no JSON in it."
    for index, value in enumerate(extract_json(text)):
        try:
            return (adapter.validate_python(value),)
        except pydantic.ValidationError as error:
            problem = problem if index else _describe_error(error)
    return problem


def _describe_error(error: pydantic.ValidationError) -> str:
    messages = [f"{'.'.join(map(str, detail['loc'])) or 'the value'}: {detail['msg']}" for detail in error.errors()[:5]]
    return f"{'; '.join(messages)}."


def _truncate(text: str) -> str:
    return text if len(text) <= _MAX_RESPONSE_CHARS else f"{text[:_MAX_RESPONSE_CHARS]} ..."
