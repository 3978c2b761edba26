"""Models by name, as they are written in a configuration or on the command line."""

import difflib
import inspect
import re
from typing import Any

from atoll import errors
from atoll.llm.llm import LLM
from atoll.llm.provider import OpenAICompatible
from atoll.llm.recording import Replay

FORMS = ("none", "openai:NAME", "openai:NAME@http://127.0.0.1:PORT/v1", "replay:FILE")

_UNDERSTOOD = f"understood are {', '.join(FORMS[:-1])} and {FORMS[-1]}"


def make_llm(name: str, **options: Any) -> LLM | None:
    """Returns the model of this name, or None for `none`.

    Args:
        name: One of `FORMS`.
        options: Of `OpenAICompatible`; a replay needs none and ignores them.

    Raises:
        SetupError: The name is not understood, or the model cannot be made; the message is one sentence.
    """
    text = name.strip()
    scheme, colon, rest = (part.strip() for part in text.partition(":"))
    match scheme.lower(), bool(colon):
        case "", _:
            raise errors.SetupError(f"The model has no name: {_UNDERSTOOD}.")
        case "none", False:
            return None
        case "openai", True:
            return _openai(rest, options)
        case "replay", True:
            if not rest:
                raise errors.SetupError("The model 'replay:' names no file: write replay:FILE with a recording in it.")
            return Replay(rest)
        case _:
            raise errors.SetupError(f"There is no model {text!r}{_meant(scheme, rest, text)}: {_UNDERSTOOD}.")


def _openai(rest: str, options: dict[str, Any]) -> OpenAICompatible:
    model, address = _split(rest)
    if not model:
        raise errors.SetupError(
            f"'openai:{rest}' names no model: write openai:NAME or openai:NAME@http://HOST:PORT/v1."
        )
    known = [each for each in inspect.signature(OpenAICompatible).parameters if each not in ("model", "base_url")]
    for option in options.keys() - {*known, "base_url"}:
        hint = "".join(f", perhaps you mean {near}" for near in difflib.get_close_matches(option, known, 1))
        raise errors.SetupError(f"A model has no option {option!r}{hint}: there are {', '.join(known)}.")
    return OpenAICompatible(model, **({**options, "base_url": address} if address else options))


def _split(rest: str) -> tuple[str, str | None]:
    """Parts the name from the address; an @ may be in the name too, as in `@cf/meta/llama`."""
    if found := re.fullmatch(r"(.*?)@\s*(\w+://.*)", rest):
        return found[1].strip(), found[2]
    model, _, tail = rest.rpartition("@")
    if re.match(r"(localhost|[\w.-]+:\d+)(/|:|$)", tail) or (model and not tail):
        raise errors.SetupError(f"The address {tail!r} of model {model!r} is none: begin it with http:// or https://.")
    return rest, None


def _meant(scheme: str, rest: str, text: str) -> str:
    """Returns what the name is probably a slip of, to be put behind it."""
    near = difflib.get_close_matches(scheme.lower(), ("none", "openai", "replay"), 1)
    forms = {"none": "none", "openai": f"openai:{rest or 'NAME'}", "replay": f"replay:{rest or 'FILE'}"}
    if scheme.lower() in ("http", "https"):
        meant = f"openai:NAME@{text}"
    elif near:
        meant = forms[near[0]]
    elif not rest:
        meant = f"openai:{scheme}"
    else:
        return ""
    return f", perhaps you mean {meant}"
