"""Access control of a store: principals with roles and tokens, and its policy, one value in the audit log."""

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from atoll import errors
from atoll.store.access import policy
from atoll.store.access.policy import KeyPolicy, KeyRule
from atoll.store.versions.change import ChangeLog
from atoll.store.versions.errors import AccessDenied

type Role = Literal["agent", "proposer", "approver", "admin", "service"]

ROLES: tuple[Role, ...] = ("agent", "proposer", "approver", "admin", "service")
TOKEN_VARIABLE = "ATOLL_TOKEN"  # environment variable with the token of this process

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9@_.-]{0,62}[A-Za-z0-9])?")
_token: ContextVar[str | None] = ContextVar("access_token", default=None)


@dataclass(frozen=True, slots=True)
class Principal:
    """User, agent or service that may change the store.

    Attributes:
        name: Author of its changes.
        role: agent and proposer propose; approver decides; admin also sets values and the policy; service applies.
        token_hash: SHA-256 of the secret in its token. The secret itself is not stored.

    Raises:
        SetupError: The name or the role is not valid.
    """

    name: str
    role: Role
    token_hash: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(str(self.name)):
            raise errors.SetupError(
                f"{self.name!r:.60} is not a name of a principal. Use up to 64 letters, digits and the signs @ . _ -"
            )
        if self.role not in ROLES:
            raise errors.SetupError(f"Role {self.role!r:.40} is unknown. Use one of {', '.join(ROLES)}.")

    @property
    def identity(self) -> str:
        """Name as it is compared. Upper and lower case are equal."""
        return self.name.casefold()

    def has_token(self, token: str) -> bool:
        return hmac.compare_digest(_hash_secret(token.partition(":")[2]), str(self.token_hash))

    def to_json(self) -> Mapping[str, Any]:
        return asdict(self)


def make_principal(name: str, role: Role) -> tuple[Principal, str]:
    """Returns a new principal and its token. The token is shown once and cannot be read from the store."""
    secret = secrets.token_urlsafe(32)
    return Principal(name, role, _hash_secret(secret)), f"{name}:{secret}"


def _hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def get_token() -> str:
    """Returns the token of the current block, or that of the environment; empty if there is none."""
    token = _token.get()
    return os.environ.get(TOKEN_VARIABLE, "") if token is None else token


def get_token_name(token: str) -> str:
    """Returns the principal's name in a token. The name is a claim until the token is checked."""
    return token.partition(":")[0]


@contextmanager
def use_token(token: str) -> Iterator[None]:
    """Uses a token for changes inside the block, in this thread or task. An empty one means none."""
    previous = _token.set(token)
    try:
        yield
    finally:
        _token.reset(previous)


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
            raise AccessDenied(f"This store has principals, so a change needs a token. Set {TOKEN_VARIABLE}.")
        principal = self.find(get_token_name(token))
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
