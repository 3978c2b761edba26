"""Principals: named users, agents and services with a role and a token."""

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any, Literal

from atoll import errors

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
