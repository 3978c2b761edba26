"""The model that an OpenEvolve configuration names: by our names, and with no key in it."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from atoll import errors, llm

PUBLIC_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"
_TOGETHER = hasattr(llm, "Ensemble")  # whether one name can stand for several models with weights


def chosen(primary: str | None, secondary: str | None, address: str | None, own: str | None) -> str:
    """Returns the model that `openevolve-run`'s options name: two, weighed as there, or the configuration's elsewhere.

    Args:
        primary: Weighs 1.
        secondary: Weighs 0.2.
        address: Where they are; None: where OpenAI's are.
        own: What the configuration names, by our names.

    Raises:
        SetupError: There is no model, or the address is none.
    """
    if address is not None and not re.match(r"https?://", address):
        raise errors.SetupError(f"--api-base {address} is no address: begin it with http:// or https://.")
    place = f"@{address.rstrip('/')}" if address and address.rstrip("/") != PUBLIC_URL else ""
    if primary is None and secondary is None:
        if not own:
            raise errors.SetupError("--api-base names no model: give --primary-model too.")
        return ",".join(re.sub(r"(@[^*]*)?((\*[\d.]+)?)$", rf"{place}\2", each, count=1) for each in own.split(","))
    models = [(name, weight) for name, weight in ((primary, 1.0), (secondary, 0.2)) if name]
    if len(models) == 1:
        return f"openai:{models[0][0]}{place}"
    return ",".join(f"openai:{name}{place}*{weight:g}" for name, weight in models)


def named(section: object) -> tuple[str | None, Sequence[str]]:
    """Returns the model that a section `llm` names, or None, and what is to be said of it.

    No key is ever read from the file: a key belongs into the environment.
    """
    found: Mapping[str, Any] = section if isinstance(section, Mapping) else {}
    models = _models(found)
    if not models:
        return None, _providers(found)
    notes = list(_providers(found))
    if variable := _variable(found.get("api_key")):
        if variable != KEY_VARIABLE:
            notes.append(f"its model's key is in {variable}: export {KEY_VARIABLE}=${variable} to use that model.")
    elif found.get("api_key"):
        notes.append(f"llm.api_key has no effect: a key is read from the environment alone, {KEY_VARIABLE}.")
    best = max(models, key=lambda each: each[1])[0]
    if len(models) > 1 and _TOGETHER:
        return ",".join(f"{name}*{weight:g}" for name, weight in models), notes
    if len(models) > 1:
        rest = ", ".join(name for name, _ in models if name != best)
        notes.append(f"of its models the heaviest can be asked, not {rest}.")
    return best, notes


def _models(found: Mapping[str, Any]) -> Sequence[tuple[str, float]]:
    """Returns names and weights; those of a list count, else the two of old configurations."""
    listed = found.get("models")
    models = [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    if not models:
        old = (("primary_model", 1.0), ("secondary_model", 0.2), ("name", 1.0))
        models = [{"name": found.get(key), "weight": found.get(f"{key}_weight", usual)} for key, usual in old]
    made = [(_name(each, found), _weight(each.get("weight", 1.0))) for each in models]
    return [(name, weight) for name, weight in made if name and weight > 0]


def _name(model: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    name = model.get("name")
    if not isinstance(name, str) or not name.strip():
        return ""
    address = model.get("api_base") or found.get("api_base")
    is_own = isinstance(address, str) and re.match(r"https?://", address) and address.rstrip("/") != PUBLIC_URL
    return f"openai:{name.strip()}@{str(address).rstrip('/')}" if is_own else f"openai:{name.strip()}"


def _weight(value: object) -> float:
    return float(value) if isinstance(value, int | float) and value == value else 0.0


def _variable(value: object) -> str:
    """Returns the name of the variable that a key is in, if it is in one."""
    match = re.fullmatch(r"\$\{(\w+)\}", value) if isinstance(value, str) else None
    return match[1] if match else ""


def _providers(found: Mapping[str, Any]) -> Sequence[str]:
    provider = found.get("provider")
    if provider in (None, "openai"):
        return ()
    return (f"llm.provider {provider!r:.30} has no effect: --llm names a model and who offers it.",)
