"""Principals and policy of a parameter store: adding, revoking, rules of keys."""

from collections.abc import Iterable
from typing import Any

from atoll import errors, identities
from atoll.governed.errors import VersionConflict
from atoll.governed.parameters import Parameters, ParameterStore
from atoll.store.access import ACCESS_KEY, ROLES, AccessControl, Role, make_principal
from atoll.store.access.control import SINGLE_USER_NOTE

__all__ = ["ROLES", "SINGLE_USER_NOTE", "add_principal", "get_author", "get_control", "revoke_principal", "set_policy"]


def get_control(store: ParameterStore) -> AccessControl:
    """Returns the access control of a store. Stores of other makers are in single-user mode."""
    return store.get_access() if isinstance(store, Parameters) else AccessControl()


def get_author(store: ParameterStore, author: str) -> str:
    """Returns the author of a change: the principal of the token or, in single-user mode, the given name.

    Raises:
        AccessDenied: The token is missing or wrong, or the name is that of another principal.
    """
    return store.get_author(author) if isinstance(store, Parameters) else author


def add_principal(store: Parameters, name: str, role: Role, reason: str, *, author: str) -> str:
    """Adds a principal and returns its token, which is not stored.

    Raises:
        SetupError: The name is used or similar to a used one, or the first principal is not an admin.
        AccessDenied: The current principal is not an admin.
        Conflict: Proposals from single-user mode have reviews whose authors were not checked.
    """
    control = store.get_access()
    principal, token = make_principal(name, role)
    known = {identities.normalize_name(other.name) for other in control.principals.values()}
    if identities.normalize_name(name) in known and control.find(name) is None:
        raise errors.SetupError(f"{name} looks like the name of another principal. Choose another name.")
    if control.is_single_user:
        _check_no_open_reviews(store)
    _save(store, control.add(principal), reason, author)
    return token


def revoke_principal(store: Parameters, name: str, reason: str) -> None:
    """Revokes a principal. Its token no longer works, and its approvals no longer count.

    Raises:
        NotFound: The principal does not exist.
        SetupError: It is the last admin.
        AccessDenied: The current principal is not an admin.
    """
    _save(store, store.get_access().revoke(name), reason, store.get_author())


def set_policy(store: Parameters, rules: Iterable[Any], reason: str, *, author: str) -> None:
    """Replaces the rules of keys, given as JSON data.

    Raises:
        SetupError: A rule is not valid.
        AccessDenied: The current principal is not an admin.
    """
    _save(store, store.get_access().with_rules(rules), reason, author)


def _save(store: Parameters, control: AccessControl, reason: str, author: str) -> None:
    try:
        version = store.get(ACCESS_KEY).version
    except errors.NotFound:
        version = 0
    try:
        store.set(ACCESS_KEY, control.to_json(), reason, author=author, expected_version=version)
    except VersionConflict:
        raise errors.Conflict("The access control was changed at the same time. Try again.") from None


def _check_no_open_reviews(store: Parameters) -> None:
    for key in store.list("proposals/"):
        value = store.get(key).value
        if isinstance(value, dict) and value.get("status") in ("pending", "approved", "applying") and value["reviews"]:
            raise errors.Conflict(
                f"{key} has reviews from single-user mode, whose authors were not checked. Apply or withdraw it first."
            )
