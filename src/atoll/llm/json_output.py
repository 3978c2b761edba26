"""JSON responses that match a schema, from any LLM, with one attempt to repair them."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pydantic
import pydantic_core

from atoll import errors
from atoll.candidate import clean_text
from atoll.llm.base import LLM, ChatPrompt, continue_prompt, get_messages

_MAX_RESPONSE_CHARS = 2000  # of an invalid response, in the prompt that asks for a better one
_MAX_FORM_DEPTH = 5
_MAX_PARSE_FAILURES = 100  # brackets that do not begin JSON: a long program has thousands
_START = re.compile(r"[\[{]")
# Possessive quantifiers: backtracking over empty lines would be quadratic if the last fence is missing.
_FENCE = re.compile(r"```[a-zA-Z0-9]*+[^\S\n]*+\n\s*+(.*?)```", re.DOTALL)

_JSON_REQUEST = """{prompt}

Answer with one JSON value and nothing else, in this form, with your own values:
{form}"""

_REPAIR_REQUEST = """That cannot be used: {error}
Answer again with the corrected JSON value and nothing else."""


class InvalidResponse(errors.AtollError):
    """An LLM responded twice without the requested JSON.

    Attributes:
        text: Its last response.
    """

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text


def ask_json[T](model: LLM, prompt: str, schema: type[T]) -> T:
    """Asks for a value of a type. An invalid response is sent back once, with the error.

    Providers that enforce a schema get it. From other responses the JSON is extracted, also from prose and fences.

    Args:
        model: Called once or twice.
        prompt: Request in words; the form of the answer is appended.
        schema: Any type that pydantic supports: a model, a dataclass, `list[int]`, `dict[str, str]`.

    Raises:
        LLMError: The LLM did not respond.
        InvalidResponse: Both responses are invalid.
    """
    adapter = pydantic.TypeAdapter(schema)
    json_schema = adapter.json_schema()
    json_prompt = _make_prompt(prompt, json_schema)
    text = model(json_prompt).text
    parsed = _parse_response(adapter, text)
    if not isinstance(parsed, str):
        return parsed[0]
    response = model(continue_prompt(json_prompt, _truncate(text), _REPAIR_REQUEST.format(error=parsed)))
    repaired = _parse_response(adapter, response.text)
    if isinstance(repaired, str):
        raise InvalidResponse(f"{response.model} responded twice without the requested JSON: {repaired}", response.text)
    return repaired[0]


def extract_json(text: str) -> Iterator[Any]:
    """Yields the JSON values in a text, the likeliest first: the whole text, fenced blocks, a cut object, then prose.

    An object that ends too early, as at a token limit, has its complete values. From prose it takes objects and lists
    only, longest first.
    """
    for part in (text, *reversed(_FENCE.findall(text))):
        try:
            yield _clean(json.loads(part))
        except (ValueError, RecursionError):
            continue
    if (cut_object := _read_cut_object(text)) is not None:
        yield cut_object
    decoder = json.JSONDecoder()
    values, position, failures = list[tuple[int, Any]](), 0, 0
    while failures < _MAX_PARSE_FAILURES and (start := _START.search(text, position)):
        try:
            value, position = decoder.raw_decode(text, start.start())
            values.append((start.start() - position, _clean(value)))
        except (ValueError, RecursionError):
            position, failures = start.end(), failures + 1
    yield from (value for _, value in sorted(values, key=lambda item: item[0]))


def _read_cut_object(text: str) -> Any:
    """Returns the complete values of an object that the end of a text cuts off; None if the text has none."""
    rest = text[text.find("{") :].rstrip() if "{" in text else ""
    try:
        json.loads(rest)
    except json.JSONDecodeError as error:
        is_cut = error.msg.startswith("Unterminated string") or error.pos >= len(rest)
    except (ValueError, RecursionError):  # such as a number with thousands of digits
        return None
    else:
        return None
    try:
        value = pydantic_core.from_json(rest, allow_partial=True) if rest and is_cut else None
    except ValueError:
        return None
    return _clean(value) or None


def _clean(value: Any) -> Any:
    """Cleans the texts of a value: an escaped surrogate in a clean text becomes a real one in its JSON."""
    match value:
        case str():
            return clean_text(value)
        case list():
            return [_clean(item) for item in value]
        case dict():
            return {clean_text(key): _clean(item) for key, item in value.items()}
    return value


def _make_prompt(prompt: str, schema: Mapping[str, Any]) -> ChatPrompt:
    """Returns the prompt with the request for JSON at its end."""
    *first_messages, (role, text) = get_messages(prompt)
    form = json.dumps(_make_form(schema, schema.get("$defs", {})), ensure_ascii=False)
    request = _JSON_REQUEST.format(prompt=text, form=form)
    # Providers enforce schemas of objects only.
    return ChatPrompt(*first_messages, (role, request), schema=schema if schema.get("type") == "object" else None)


def _make_form(schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int = 0) -> Any:
    """Returns a value in the form of a schema, with the descriptions of texts. Small LLMs copy a schema itself."""
    if depth > _MAX_FORM_DEPTH:
        return "..."
    if reference := schema.get("$ref"):
        schema = definitions.get(str(reference).rpartition("/")[2], {})
    if choices := schema.get("enum"):
        return " | ".join(choices) if all(isinstance(choice, str) for choice in choices) else choices[0]
    if "const" in schema:
        return schema["const"]
    for key in ("anyOf", "oneOf", "allOf"):
        if options := schema.get(key):
            return _make_form(options[0], definitions, depth + 1)
    match schema.get("type"):
        case "object":
            properties = schema.get("properties") or {"...": schema.get("additionalProperties") or {}}
            return {
                name: _make_form(part if isinstance(part, Mapping) else {}, definitions, depth + 1)
                for name, part in properties.items()
            }
        case "array":
            items = schema.get("items")
            return [_make_form(items if isinstance(items, Mapping) else {}, definitions, depth + 1)]
        case "integer" | "number":
            low, high = (schema.get(key) for key in ("minimum", "maximum"))
            middle = (low or 0) if low is None or high is None else (low + high) / 2
            return schema.get("default", middle)  # small LLMs copy a range in words
        case "boolean":
            return True
        case "null":
            return None
    return schema.get("description") or "..."


def _parse_response[T](adapter: pydantic.TypeAdapter[T], text: str) -> tuple[T] | str:
    """Returns the value in a tuple, or a description of the error."""
    problem = "it contains no JSON."
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
