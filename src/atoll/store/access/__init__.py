"""Access control of versioned values: principals, policy, and the gate that every change passes."""

from atoll.store.access.control import (
    ACCESS_KEY,
    ROLES,
    TOKEN_VARIABLE,
    AccessControl,
    Principal,
    Role,
    get_token,
    get_token_name,
    load_control,
    make_principal,
    use_token,
)
from atoll.store.access.policy import KeyRule

__all__ = [
    "ACCESS_KEY",
    "ROLES",
    "TOKEN_VARIABLE",
    "AccessControl",
    "KeyRule",
    "Principal",
    "Role",
    "get_token",
    "get_token_name",
    "load_control",
    "make_principal",
    "use_token",
]
