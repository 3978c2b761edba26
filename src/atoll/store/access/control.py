"""Access control of a store: its principals and its policy, one versioned value in the audit log."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from atoll import errors
from atoll.store.access import policy, principals
from atoll.store.access.policy import KeyPolicy, KeyRule
from atoll.store.access.principals import Principal
from atoll.store.versions.change_log import ChangeLog
from atoll.store.versions.errors import AccessDenied

ACCESS_KEY = "access/control"
SINGLE_USER_NOTE = (
    "Single-user mode: this store has no principals, so names are not checked and anyone who can write to it can "
    "approve. Add principals with 'atoll access add'."
)


@dataclass(frozen=True, slots=True)
class AccessControl:
    """Principals and rules of a store. Without principals it is in single-user mode: names are not checked.

    Attributes:
        principals: Principals by identity.
        rules: Rules of keys. They also apply in single-user mode.
    """

    principals: Mapping[str, Principal] = field(default_factory=dict)
    rules: tuple[KeyRule, ...] = ()

    @property
    def is_single_user(self) -> bool:
        return not self.principals

    def find(self, name: str) -> Principal | None:
        return self.principals.get(name.casefold())

    def authenticate(self, token: str) -> Principal:
        """Returns the principal of a token.

        Raises:
            AccessDenied: The token is missing or wrong.
        """
        if not token:
            raise AccessDenied(
                f"This store has principals, so a change needs a token. Set {principals.TOKEN_VARIABLE}."
            )
        principal = self.find(principals.get_token_name(token))
        if principal is None or not principal.has_token(token):
            raise AccessDenied("The token is wrong or was revoked. Ask an admin for a new one.")
        return principal

    def get_policy(self, key: str) -> KeyPolicy:
        return KeyPolicy(key, [rule for rule in self.rules if rule.matches(key)])

    def add(self, principal: Principal) -> "AccessControl":
        """Returns the access control with one more principal.

        Raises:
            SetupError: The name exists, or the first principal is not an admin.
        """
        if self.find(principal.name) is not None:
            raise errors.SetupError(f"Principal {principal.name} exists. Revoke it first, or choose another name.")
        if self.is_single_user and principal.role != "admin":
            raise errors.SetupError("The first principal must be an admin, who can add others. Pass --role admin.")
        return replace(self, principals={**self.principals, principal.identity: principal})

    def revoke(self, name: str) -> "AccessControl":
        """Returns the access control without a principal.

        Raises:
            NotFound: The principal does not exist.
            SetupError: It is the last admin.
        """
        principal = self.find(name)
        if principal is None:
            raise errors.NotFound(f"Principal {name!r:.80} not found.")
        others = {identity: other for identity, other in self.principals.items() if other is not principal}
        if not any(other.role == "admin" for other in others.values()):
            raise errors.SetupError(f"{principal.name} is the last admin. Add another admin first.")
        return replace(self, principals=others)

    def with_rules(self, rules: Iterable[Any]) -> "AccessControl":
        """Returns the access control with other rules, given as JSON data.

        Raises:
            SetupError: A rule is not valid.
        """
        return replace(self, rules=tuple(map(policy.parse_rule, rules)))

    def to_json(self) -> Mapping[str, Any]:
        return {
            "principals": [principal.to_json() for principal in self.principals.values()],
            "rules": [rule.to_json() for rule in self.rules],
        }


EMPTY = AccessControl()


def parse_control(text: str) -> AccessControl:
    """Reads the stored value.

    Raises:
        SetupError: It is not valid.
    """
    try:
        data = json.loads(text)
        members = [Principal(**item) for item in data["principals"]]
        control = AccessControl({member.identity: member for member in members})
        return control.with_rules(data["rules"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise errors.SetupError(f"The access control of the store is not valid: {error!r:.200}.") from error


def load_control(change_log: ChangeLog) -> AccessControl:
    """Returns the access control of a store.

    Raises:
        SetupError: The stored value is not valid.
    """
    stored = change_log.get_value(ACCESS_KEY)
    return EMPTY if stored is None else parse_control(stored[0])
