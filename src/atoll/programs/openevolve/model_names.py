"""LLM names of OpenEvolve configurations and options, translated to ours; API keys are never read from files."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from atoll import errors, llm

PUBLIC_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"
_HAS_ENSEMBLE = hasattr(llm, "EnsembleLLM")  # one name may list several LLMs with weights


def choose_model_name(
    primary: str | None, secondary: str | None, base_url: str | None, config_model: str | None
) -> str:
    """Returns the LLM name for the options of `openevolve-run`.

    Args:
        primary: LLM with weight 1.
        secondary: LLM with weight 0.2.
        base_url: Their base URL; None: OpenAI's.
        config_model: LLM of the configuration, used if only a URL is given.

    Raises:
        SetupError: No LLM is named, or the URL is invalid.
    """
    if base_url is not None and not re.match(r"https?://", base_url):
        raise errors.SetupError(f"--api-base {base_url} is not a URL: begin it with http:// or https://.")
    url_suffix = f"@{base_url.rstrip('/')}" if base_url and base_url.rstrip("/") != PUBLIC_URL else ""
    if primary is None and secondary is None:
        if not config_model:
            raise errors.SetupError("--api-base needs an LLM name: pass --primary-model too.")
        return ",".join(
            re.sub(r"(@[^*]*)?((\*[\d.]+)?)$", rf"{url_suffix}\2", name, count=1) for name in config_model.split(",")
        )
    models = [(name, weight) for name, weight in ((primary, 1.0), (secondary, 0.2)) if name]
    if len(models) == 1:
        return f"openai:{models[0][0]}{url_suffix}"
    return ",".join(f"openai:{name}{url_suffix}*{weight:g}" for name, weight in models)


def parse_llm_section(section: object) -> tuple[str | None, Sequence[str]]:
    """Returns the LLM of a section `llm`, or None, and notes for the user.

    API keys are read from the environment only, never from the file.
    """
    config: Mapping[str, Any] = section if isinstance(section, Mapping) else {}
    models = _parse_models(config)
    if not models:
        return None, _make_provider_notes(config)
    notes = list(_make_provider_notes(config))
    if variable := _parse_variable(config.get("api_key")):
        if variable != KEY_VARIABLE:
            notes.append(f"the API key of its LLM is in {variable}: run 'export {KEY_VARIABLE}=${variable}' to use it.")
    elif config.get("api_key"):
        notes.append(f"llm.api_key has no effect: set the environment variable {KEY_VARIABLE}.")
    best = max(models, key=lambda model: model[1])[0]
    if len(models) > 1 and _HAS_ENSEMBLE:
        return ",".join(f"{name}*{weight:g}" for name, weight in models), notes
    if len(models) > 1:
        other_names = ", ".join(name for name, _ in models if name != best)
        notes.append(f"only the LLM with the highest weight is used, not {other_names}.")
    return best, notes


def _parse_models(config: Mapping[str, Any]) -> Sequence[tuple[str, float]]:
    """Returns names and weights from the list of models, or from the keys of old configurations."""
    raw_models = config.get("models")
    models = [model for model in raw_models if isinstance(model, Mapping)] if isinstance(raw_models, list) else []
    if not models:
        old_keys = (("primary_model", 1.0), ("secondary_model", 0.2), ("name", 1.0))
        models = [
            {"name": config.get(key), "weight": config.get(f"{key}_weight", default_weight)}
            for key, default_weight in old_keys
        ]
    named_models = [(_make_name(model, config), _parse_weight(model.get("weight", 1.0))) for model in models]
    return [(name, weight) for name, weight in named_models if name and weight > 0]


def _make_name(model: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    name = model.get("name")
    if not isinstance(name, str) or not name.strip():
        return ""
    base_url = model.get("api_base") or config.get("api_base")
    is_custom = isinstance(base_url, str) and re.match(r"https?://", base_url) and base_url.rstrip("/") != PUBLIC_URL
    return f"openai:{name.strip()}@{str(base_url).rstrip('/')}" if is_custom else f"openai:{name.strip()}"


def _parse_weight(value: object) -> float:
    return float(value) if isinstance(value, int | float) and value == value else 0.0


def _parse_variable(value: object) -> str:
    """Returns the environment variable of a key such as `${NAME}`, or an empty string."""
    match = re.fullmatch(r"\$\{(\w+)\}", value) if isinstance(value, str) else None
    return match[1] if match else ""


def _make_provider_notes(config: Mapping[str, Any]) -> Sequence[str]:
    provider = config.get("provider")
    if provider in (None, "openai"):
        return ()
    return (f"llm.provider {provider!r:.30} has no effect: --llm names the LLM and its provider.",)
