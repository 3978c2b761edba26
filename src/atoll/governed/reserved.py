"""Keys that are kept among the parameters and change by verbs of their own alone, each with its checks and risks."""

from atoll import errors

RESERVED_PREFIXES = (
    "control/",
    "nonces/",
    "playbook/",
    "proposals/",
    "reflections/",
    "rollout/",
    "shadow/",
    "skills/",
    "tools/",
)


def check_not_reserved(key: str) -> None:
    """Refuses to change as a parameter what is none: a proposal that was rejected would be open again.

    Raises:
        SetupError: The key is reserved.
    """
    if reserved_prefix := next((prefix for prefix in RESERVED_PREFIXES if key.strip().startswith(prefix)), None):
        raise errors.SetupError(f"{reserved_prefix} is no parameter's: what is kept there has a way of its own.")
