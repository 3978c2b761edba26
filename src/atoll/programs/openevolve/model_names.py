"""LLMs of OpenEvolve configurations and options, translated to ours. API keys stay where they are."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from atoll import errors
from atoll.candidate import EMPTY
from atoll.programs.openevolve.config_keys import LLM_KEYS, suggest_key

PUBLIC_URL = "https://api.openai.com/v1"
# Keys of one model, with our names of them. The section may set them for all models.
OPTION_NAMES = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_tokens": "max_tokens",
    "timeout": "timeout_seconds",
    "retries": "retries",
    "retry_delay": "backoff_seconds",
    "random_seed": "seed",
    "reasoning_effort": "thinking",
    "system_message": "system_message",
}
_THINKING_LEVELS = {"none": "off"} | {level: level for level in ("off", "minimal", "low", "medium", "high")}
_NAME_KEYS = ("name", "weight", "api_base", "api_key", "provider")


class ConfigModels(NamedTuple):
    """LLMs of a configuration.

    Attributes:
        name: All LLMs with their weights, for `run.llm`; None: it names none.
        options: Options of each LLM by name, for `llm.models`.
        notes: Sentences about keys without effect.
    """

    name: str | None = None
    options: Mapping[str, Mapping[str, Any]] = EMPTY
    notes: Sequence[str] = ()


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
            re.sub(r"(@[^*#]*)?((#\d+)?(\*[\d.]+)?)$", rf"{url_suffix}\2", name, count=1)
            for name in config_model.split(",")
        )
    models = [(name, weight) for name, weight in ((primary, 1.0), (secondary, 0.2)) if name]
    if len(models) == 1:
        return f"openai:{models[0][0]}{url_suffix}"
    return ",".join(f"openai:{name}{url_suffix}*{weight:g}" for name, weight in models)


def rename_options(old_name: str, new_name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of LLMs under the new names of these LLMs, which have the same order."""
    names = ([part.partition("*")[0] for part in name.split(",")] for name in (old_name, new_name))
    return {new: options[old] for old, new in zip(*names, strict=False) if old in options}


def parse_llm_section(section: object, file: Path | None = None) -> ConfigModels:
    """Reads the LLMs of a section `llm`.

    An API key such as `${NAME}` is read from the environment when the LLM is made, another one from the file.

    Args:
        section: The section as read from the file.
        file: The file.
    """
    config: Mapping[str, Any] = section if isinstance(section, Mapping) else {}
    notes = [] if config is section else ["llm has no effect: it must be keys with values."]
    notes += _make_provider_notes("llm", config)
    weights, options = dict[str, float](), dict[str, dict[str, Any]]()
    for path, model in _iter_models(config, notes):
        weight = _parse_weight(model.get("weight", 1.0))
        if not (name := _make_name(model, config)) or weight <= 0:
            notes.append(f"{path} has no effect: it needs a name and a weight above 0.")
            continue
        copies = sum(other.partition("#")[0] == name for other in weights)
        name += f"#{copies + 1}" if copies else ""
        weights[name] = weight
        options[name] = _parse_options(path, model, notes) | _make_key_place(path, model, config, file)
    if not weights:
        return ConfigModels(None, {}, notes)
    weighted_names = [f"{name}*{weight:g}" if len(weights) > 1 else name for name, weight in weights.items()]
    return ConfigModels(",".join(weighted_names), {name: model for name, model in options.items() if model}, notes)


def _iter_models(config: Mapping[str, Any], notes: list[str]) -> Sequence[tuple[str, Mapping[str, Any]]]:
    """Returns the list of models with their places, and those of the keys of old configurations."""
    raw_models = config.get("models")
    items = raw_models if isinstance(raw_models, list) else []
    if raw_models is not None and not isinstance(raw_models, list):
        notes.append("llm.models has no effect: it must be a list.")
    models = [(f"llm.models.{index}", item) for index, item in enumerate(items) if isinstance(item, Mapping)]
    if len(models) < len(items):
        notes.append("llm.models has items without keys, which have no effect.")
    for key, default_weight in (("primary_model", 1.0), ("secondary_model", 0.2)):
        weight = config.get(f"{key}_weight")
        if config.get(key) and (weight is None or weight):
            models.append((f"llm.{key}", {"name": config[key], "weight": default_weight if weight is None else weight}))
    if not models and config.get("name"):
        models.append(("llm.name", {"name": config["name"], "weight": config.get("weight", 1.0)}))
    return models


def _make_name(model: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    name = model.get("name")
    if not isinstance(name, str) or not name.strip():
        return ""
    base_url = model.get("api_base") or config.get("api_base")
    is_custom = isinstance(base_url, str) and re.match(r"https?://", base_url) and base_url.rstrip("/") != PUBLIC_URL
    return f"openai:{name.strip()}@{str(base_url).rstrip('/')}" if is_custom else f"openai:{name.strip()}"


def _parse_weight(value: object) -> float:
    return float(value) if isinstance(value, int | float) and value == value else 0.0


def _parse_options(path: str, model: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """Returns the options of one model; adds notes about its other keys."""
    notes += _make_provider_notes(path, model)
    options = dict[str, Any]()
    for key, value in model.items():
        if key == "api_key" and value is not None and not isinstance(value, str):
            notes.append(f"{path}.{key} has no effect: it is not a text. Put it in quotes.")
        if value is None or key in _NAME_KEYS:
            continue
        if key == "reasoning_effort" and value not in _THINKING_LEVELS:
            notes.append(make_effort_note(f"{path}.{key}", value))
        elif key in OPTION_NAMES:
            options[OPTION_NAMES[key]] = _THINKING_LEVELS[value] if key == "reasoning_effort" else value
        elif key in LLM_KEYS:
            notes.append(f"{path}.{key} has no effect: {LLM_KEYS[key].reason or 'it belongs to the section llm'}.")
        else:
            notes.append(f"{path}.{key} is not an OpenEvolve key{suggest_key(f'llm.{key}')}.")
    return options


def translate_effort(value: Any) -> str | None:
    """Returns our name of a reasoning effort, or None if it is unknown."""
    return _THINKING_LEVELS.get(value) if isinstance(value, str) else None


def make_effort_note(path: str, value: Any) -> str:
    return f"{path} {value!r:.40} has no effect: unknown."


def _make_key_place(
    path: str, model: Mapping[str, Any], config: Mapping[str, Any], file: Path | None
) -> dict[str, str]:
    """Returns the place of the API key, never the key; empty: the environment variable of the provider."""
    key, key_path = (model.get("api_key"), f"{path}.api_key") if model.get("api_key") else (None, "llm.api_key")
    key = key or config.get("api_key")
    if not isinstance(key, str) or not key.strip():
        return {}
    if re.fullmatch(r"\$\{\w+\}", key.strip()):
        return {"api_key": key.strip()}
    return {"api_key": f"@{file.absolute()}#{key_path}"} if file else {}


def _make_provider_notes(path: str, config: Mapping[str, Any]) -> Sequence[str]:
    provider = config.get("provider")
    if provider in (None, "openai"):
        return ()
    return (f"{path}.provider {provider!r:.30} has no effect: --llm names the LLM and its provider.",)
