"""Access control of versioned values: principals, policy, and the gate that every change passes."""

from atoll.store.access.control import ACCESS_KEY, AccessControl, load_control
from atoll.store.access.policy import KeyRule
from atoll.store.access.principals import (
    ROLES,
    TOKEN_VARIABLE,
    Principal,
    Role,
    get_token,
    get_token_name,
    make_principal,
    use_token,
)

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
