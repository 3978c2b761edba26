"""Models by name, as they are written in a configuration or on the command line."""

import difflib
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from atoll import errors
from atoll.llm import agents, callable, local
from atoll.llm.endpoint import SERVICES
from atoll.llm.ensemble import Ensemble, Member
from atoll.llm.llm import LLM
from atoll.llm.mailbox import Mailbox
from atoll.llm.provider import Hosted, OpenAICompatible
from atoll.llm.recording import Replay

FORMS = (
    "none",
    *(f"{service}:NAME" for service in SERVICES),
    "openai:NAME@http://127.0.0.1:PORT/v1",
    "local",
    *(f"cli:{name}" for name in agents.AGENTS),
    "mailbox:DIR",
    "python:FILE.py:FUNCTION",
    "replay:FILE",
)
SCHEMES = (*SERVICES, "none", "local", "cli", "mailbox", "python", "replay")

_UNDERSTOOD = f"understood are {', '.join(FORMS[:-1])} and {FORMS[-1]}, and several of them with commas"
_OPTIONS = [name for name in inspect.signature(Hosted).parameters if name not in ("service", "model", "base_url")]


def make_llm(name: str, **options: Any) -> LLM | None:
    """Returns the model of this name, or None for `none`; of several names with commas, an `Ensemble`.

    Args:
        name: One of `FORMS`, or several, each with an optional weight: `openai:a*0.8,openai:b*0.2`.
        options: Of `Hosted`, and `cli_arguments` for an agent; None means the default, and what a model has no use
            for it ignores.

    Raises:
        SetupError: The name is not understood, or the model cannot be made; the message is one sentence.
    """
    _check(options)
    given = {option: value for option, value in options.items() if value is not None}
    members = list(_members(name))
    if len(members) == 1:
        return _made(members[0][0], given)
    made = {each: _made(each, given) for each, _ in members}
    if None in made.values():
        raise errors.SetupError(f"{name!r} names 'none' among others: leave it out, or write it alone.")
    return Ensemble([Member(each, model, weight) for (each, weight) in members if (model := made[each]) is not None])


def _members(name: str) -> Iterator[tuple[str, float]]:
    """Yields the names and their weights; a comma parts them only where another name begins."""
    schemes = "|".join(SCHEMES)
    for part in re.split(rf",\s*(?=(?:{schemes})\b)", name):
        text, _, weight = part.strip().rpartition("*")
        if text and re.fullmatch(r"\d*\.?\d+", weight.strip()):
            yield text.strip(), float(weight)
        else:
            yield part.strip().rstrip(","), 1.0


def _made(text: str, options: Mapping[str, Any]) -> LLM | None:
    scheme, colon, rest = (part.strip() for part in text.partition(":"))
    match scheme.lower(), bool(colon):
        case "", _:
            raise errors.SetupError(f"The model has no name: {_UNDERSTOOD}.")
        case "none", False:
            return None
        case "local", False:
            return local.Local(**_kept(options, *_OPTIONS))
        case service, True if service in SERVICES:
            return _hosted(service, rest, options)
        case "cli", True:
            return agents.make(rest, **_kept(options, "timeout_seconds", "cli_arguments"))
        case "mailbox", True:
            return Mailbox(_named(text, rest, "folder", "mailbox:DIR"), **_kept(options, "timeout_seconds"))
        case "python", True:
            return callable.load(_named(text, rest, "function", "python:FILE.py:FUNCTION"))
        case "replay", True:
            return Replay(_named(text, rest, "file", "replay:FILE with a recording in it"))
        case _:
            raise errors.SetupError(f"There is no model {text!r}{_meant(scheme, rest, text)}: {_UNDERSTOOD}.")


def _named(text: str, rest: str, what: str, form: str) -> str:
    if not rest:
        raise errors.SetupError(f"The model {text!r} names no {what}: write {form}.")
    return rest


def _kept(options: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name in names}


def _check(options: Mapping[str, Any]) -> None:
    for option in options.keys() - {*_OPTIONS, "base_url", "cli_arguments"}:
        hint = "".join(f", perhaps you mean {near}" for near in difflib.get_close_matches(option, _OPTIONS, 1))
        raise errors.SetupError(f"A model has no option {option!r}{hint}: there are {', '.join(_OPTIONS)}.")


def _hosted(service: str, rest: str, options: Mapping[str, Any]) -> Hosted:
    model, address = _split(rest)
    if not model:
        raise errors.SetupError(
            f"'{service}:{rest}' names no model: write {service}:NAME or {service}:NAME@http://HOST:PORT/v1."
        )
    given = {**_kept(options, *_OPTIONS, "base_url"), **({"base_url": address} if address else {})}
    if SERVICES[service].extra:
        return Hosted(service, model, **given)
    return OpenAICompatible(model, service=service, **given)


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
    near = difflib.get_close_matches(scheme.lower(), SCHEMES, 1)
    if scheme.lower() in ("http", "https"):
        meant = f"openai:NAME@{text}"
    elif near and near[0] in ("none", "local"):
        meant = near[0]
    elif near:
        meant = f"{near[0]}:{rest or ('FILE' if near[0] == 'replay' else 'NAME')}"
    elif not rest:
        meant = f"openai:{scheme}"
    else:
        return ""
    return f", perhaps you mean {meant}"
