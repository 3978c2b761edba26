"""LLMs by name, as written in a configuration or on the command line."""

import difflib
import inspect
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any

from atoll import errors
from atoll.candidate import EMPTY
from atoll.llm import command_line, function_llm, local_server
from atoll.llm.base import LLM
from atoll.llm.endpoint import SERVICES
from atoll.llm.ensemble import EnsembleLLM, EnsembleMember
from atoll.llm.hosted import HostedLLM, OpenAICompatibleLLM
from atoll.llm.mailbox import MailboxLLM
from atoll.llm.recording import RecordedLLM

NAME_FORMS = (
    "none",
    *(f"{service}:NAME" for service in SERVICES),
    "openai:NAME@http://127.0.0.1:PORT/v1",
    "local",
    *(f"cli:{name}" for name in command_line.AGENTS),
    "mailbox:DIR",
    "python:FILE.py:FUNCTION",
    "recorded:FILE",
)
SCHEMES = (*SERVICES, "none", "local", "cli", "mailbox", "python", "recorded")
_ARGUMENTS = {"mailbox": "DIR", "python": "FILE.py:FUNCTION", "recorded": "FILE"}  # others: NAME

_log = logging.getLogger(__name__)
_SUPPORTED_NAMES = f"Use {', '.join(NAME_FORMS[:-1])} or {NAME_FORMS[-1]}, or several with commas"
_HOSTED_OPTIONS = [
    name for name in inspect.signature(HostedLLM).parameters if name not in ("service", "model", "base_url")
]


def make_llm(name: str, *, models: Mapping[str, Mapping[str, Any]] = EMPTY, **options: Any) -> LLM | None:
    """Returns the LLM of this name, None for `none`, or an `EnsembleLLM` for several names.

    Args:
        name: One of `NAME_FORMS`, or several with commas and optional weights: `openai:a*0.8,openai:b*0.2`. A number
            at the end, as in `openai:a#2`, names the same LLM again, with other options.
        models: Options of single LLMs by name, without the weight. An `api_key` may be a function that returns it.
        options: Options of `HostedLLM`, and `cli_arguments` for agents. None means the default. LLMs ignore options
            that they do not support.

    Raises:
        SetupError: The name or an option is invalid.
    """
    _check_options({**options, **{option: None for model in models.values() for option in model}})
    set_options = {option: value for option, value in options.items() if value is not None}
    members = list(split_names(name))
    llms = {
        member_name: _make_one(member_name, {**set_options, **models.get(member_name, {})})
        for member_name, _ in members
    }
    if len(members) == 1:
        return llms[members[0][0]]
    if None in llms.values():
        raise errors.SetupError(f"{name!r} combines 'none' with others. Remove 'none', or use it alone.")
    return EnsembleLLM(
        [
            EnsembleMember(member_name, model, weight)
            for (member_name, weight) in members
            if (model := llms[member_name]) is not None
        ]
    )


def split_names(name: str) -> Iterator[tuple[str, float]]:
    """Yields names and weights. A comma separates them only before another name."""
    schemes = "|".join((*SCHEMES, "replay"))
    for part in re.split(rf",\s*(?=(?:{schemes})\b)", name):
        text, _, weight = part.strip().rpartition("*")
        if text and re.fullmatch(r"\d*\.?\d+", weight.strip()):
            yield text.strip(), float(weight)
        else:
            yield part.strip().rstrip(","), 1.0


def _make_one(text: str, options: Mapping[str, Any]) -> LLM | None:
    scheme, colon, argument = (part.strip() for part in text.partition(":"))
    match scheme.lower(), bool(colon):
        case "", _:
            raise errors.SetupError(f"The LLM has no name. {_SUPPORTED_NAMES}.")
        case "none", False:
            return None
        case "local", False:
            return local_server.LocalLLM(**_filter_options(options, *(set(_HOSTED_OPTIONS) - {"api_key"})))
        case service, True if service in SERVICES:
            return _make_hosted(service, argument, options)
        case "cli", True:
            return command_line.make_command_line_llm(
                argument, **_filter_options(options, "timeout_seconds", "cli_arguments")
            )
        case "mailbox", True:
            return MailboxLLM(
                _require_argument(text, argument, "folder", "mailbox:DIR"),
                **_filter_options(options, "timeout_seconds"),
            )
        case "python", True:
            return function_llm.load_function_llm(
                _require_argument(text, argument, "function", "python:FILE.py:FUNCTION")
            )
        case "recorded" | "replay" as scheme_name, True:
            if scheme_name == "replay":
                _log.info("%s: 'replay:' is the old name of 'recorded:'. Write recorded:%s.", text, argument)
            return RecordedLLM(_require_argument(text, argument, "file", "recorded:FILE, with recorded responses"))
        case _:
            raise errors.SetupError(
                f"LLM {text!r} not found{_suggest_name(scheme, argument, text) or '.'} {_SUPPORTED_NAMES}."
            )


def _require_argument(text: str, argument: str, kind: str, form: str) -> str:
    if not argument:
        raise errors.SetupError(f"LLM {text!r} does not name a {kind}. Write {form}.")
    return argument


def _filter_options(options: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name in names}


def _check_options(options: Mapping[str, Any]) -> None:
    for option in options.keys() - {*_HOSTED_OPTIONS, "base_url", "cli_arguments"}:
        hint = "".join(f"; did you mean {match}?" for match in difflib.get_close_matches(option, _HOSTED_OPTIONS, 1))
        raise errors.SetupError(
            f"LLMs have no option {option!r}{hint or '.'} Options are {', '.join(_HOSTED_OPTIONS)}."
        )


def _make_hosted(service: str, argument: str, options: Mapping[str, Any]) -> HostedLLM:
    model, base_url = _split_url(re.sub(r"#\d+$", "", argument))
    if not model:
        raise errors.SetupError(
            f"'{service}:{argument}' does not name a model. Write {service}:NAME or {service}:NAME@http://HOST:PORT/v1."
        )
    hosted_options = {
        **_filter_options(options, *_HOSTED_OPTIONS, "base_url"),
        **({"base_url": base_url} if base_url else {}),
    }
    if callable(api_key := hosted_options.get("api_key")):
        hosted_options["api_key"] = api_key()
    if SERVICES[service].extra:
        return HostedLLM(service, model, **hosted_options)
    return OpenAICompatibleLLM(model, service=service, **hosted_options)


def _split_url(argument: str) -> tuple[str, str | None]:
    """Splits name and address. A name may contain an @ too, as in `@cf/meta/llama`."""
    if match := re.fullmatch(r"(.*?)@\s*(\w+://.*)", argument):
        return match[1].strip(), match[2]
    model, _, url = argument.rpartition("@")
    if re.match(r"(localhost|[\w.-]+:\d+)(/|:|$)", url) or (model and not url):
        raise errors.SetupError(
            f"The address {url!r} of LLM {model!r} is not valid. Begin it with http:// or https://."
        )
    return argument, None


def _suggest_name(scheme: str, argument: str, text: str) -> str:
    """Returns a suggestion for a misspelled name, or an empty string."""
    matches = difflib.get_close_matches(scheme.lower(), SCHEMES, 1)
    if scheme.lower() in ("http", "https"):
        suggestion = f"openai:NAME@{text}"
    elif matches and matches[0] in ("none", "local"):
        suggestion = matches[0]
    elif matches:
        suggestion = f"{matches[0]}:{argument or _ARGUMENTS.get(matches[0], 'NAME')}"
    elif not argument:
        suggestion = f"openai:{scheme}"
    else:
        return ""
    return f"; did you mean {suggestion}?"
