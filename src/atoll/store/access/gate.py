"""The gate: every change of every versioned value passes it, from Python, command line, dashboard and imports.

The ledger calls it inside the transaction of the change, so that its data cannot change before the write. In a store
without principals and rules it does nothing. `atoll.gate.Gate` is another gate: it decides on candidates of a run.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from atoll.store.access import control as access_control
from atoll.store.access import proposal_checks
from atoll.store.access.control import ACCESS_KEY, EMPTY, AccessControl, Principal, get_token
from atoll.store.versions import change as entries
from atoll.store.versions.change import ChangeRequest, ChangeWriter
from atoll.store.versions.errors import AccessDenied

ACCESS_PREFIX = "access/"
# Roles that write the state of runs, rollouts and shadow runs. Agents and proposers only propose.
OPERATORS = ("service", "approver", "admin")
OPERATED_PREFIXES = ("control/", "nonces/", "playbook/", "run_labels/", "shadow/")
PROPOSED_PREFIXES = ("tools/", "skills/", "reflections/")
_USAGE_FIELDS = ("usage_count", "success_rate", "updated_at")


class Gate:
    """Checks changes against the access control of their store. One for each ledger."""

    def __init__(self) -> None:
        self._loaded = ("", EMPTY)  # hash of the last change that was read, and the access control then

    def check(self, writer: ChangeWriter, requests: Sequence[ChangeRequest]) -> Sequence[ChangeRequest]:
        """Returns the requests with their true authors.

        Raises:
            AccessDenied: A request is not allowed.
            InvalidValue: A value breaks a rule of the policy.
        """
        control = self._load(writer)
        has_access_change = any(request.key.startswith(ACCESS_PREFIX) for request in requests)
        if control is EMPTY and not has_access_change:
            return requests
        principal = None if control.is_single_user else control.authenticate(get_token())
        check = ChangeCheck(writer, control, principal, {request.key: request for request in requests})
        return [check.check(request) for request in requests]

    def finish(self, writer: ChangeWriter, requests: Sequence[ChangeRequest]) -> None:
        """Notes the end of a transaction, so that the next one need not read the access control again."""
        if not any(request.key.startswith(ACCESS_PREFIX) for request in requests):
            self._loaded = (writer.get_end().hash, self._loaded[1])

    def _load(self, writer: ChangeWriter) -> AccessControl:
        end_hash, (loaded_hash, control) = writer.get_end().hash, self._loaded
        if end_hash != loaded_hash:
            entry = proposal_checks.read_head(writer, ACCESS_KEY)
            control = EMPTY if entry is None else access_control.parse_control(entry.value or "null")
            self._loaded = (end_hash, control)
        return control


@dataclass(frozen=True, slots=True)
class ChangeCheck:
    """Checks the requests of one transaction.

    Attributes:
        principal: Author of the transaction; None in single-user mode.
        batch: Requests of the transaction by key.
    """

    writer: ChangeWriter
    control: AccessControl
    principal: Principal | None
    batch: Mapping[str, ChangeRequest]

    def check(self, request: ChangeRequest) -> ChangeRequest:
        if request.key.startswith(ACCESS_PREFIX):
            self._check_access(request)
        elif request.kind == entries.SET:
            self._check_set(request)
        elif request.kind in entries.KINDS:
            self._check_operation(request)
        return self._with_author(request)

    def _with_author(self, request: ChangeRequest) -> ChangeRequest:
        """Sets the principal as the author. Names of programs and users of the machine are replaced."""
        if self.principal is None or request.author == self.principal.name:
            return request
        other = self.control.find(request.author)
        if request.timestamp is not None:  # an import keeps the original author in the reason
            self._require(("admin",), "import a history")
            reason = f"imported from {request.author}: {request.reason}"
            return replace(request, author=self.principal.name, reason=reason)
        if other is not None and other is not self.principal:
            raise AccessDenied(f"Your token is that of {self.principal.name}, so you cannot write as {other.name}.")
        return replace(request, author=self.principal.name)

    def _check_access(self, request: ChangeRequest) -> None:
        self._require(("admin",), "change principals and the policy")
        if request.key != ACCESS_KEY or request.kind != entries.SET:
            raise AccessDenied(f"{request.key} cannot be changed in this way. Use 'atoll access'.")
        new_control = access_control.parse_control(request.value or "null")
        has_principals = not (self.control.is_single_user and new_control.is_single_user)
        if has_principals and not any(other.role == "admin" for other in new_control.principals.values()):
            raise AccessDenied("A store with principals needs an admin. Keep or add one.")

    def _check_operation(self, request: ChangeRequest) -> None:
        """Checks locks, unlocks, aliases and rollbacks."""
        if request.key.startswith(("proposals/", "rollout/", "nonces/", "shadow/", "reflections/")):
            self._require((), f"{request.kind} {request.key}, which records decisions")
        if self._is("service") and request.kind == entries.ROLLBACK and f"rollout/{request.key}" in self.batch:
            return
        self._require(("approver", "admin"), f"{request.kind} {request.key}")
        if request.kind == entries.ROLLBACK:
            old = self.writer.get_version(request.key, request.target or 0)
            if old is not None:
                self.control.get_policy(request.key).check_value(json.loads(old.value or "null"))

    def _check_set(self, request: ChangeRequest) -> None:
        if request.key.startswith("proposals/"):
            proposal_checks.check_proposal(self.writer, self.control, self.principal, request)
        elif request.key.startswith("rollout/"):
            self._require(OPERATORS, "change a rollout")
            proposal_checks.check_rollout(self.writer, self.control, self.principal, request)
        elif request.key.startswith(OPERATED_PREFIXES):
            self._require(OPERATORS, f"set {request.key}")
        elif request.key.startswith(PROPOSED_PREFIXES):
            self._check_artifact(request)
        else:
            self._check_parameter(request)

    def _check_artifact(self, request: ChangeRequest) -> None:
        """Checks a tool, a skill or a reflection."""
        old = proposal_checks.read_head(self.writer, request.key)
        if self.principal is None or (request.key.startswith("reflections/") and old is None):
            return
        if request.key.startswith("skills/") and old is not None and _differ_only_in_usage(old.value, request.value):
            return
        self._require_approved(request)

    def _check_parameter(self, request: ChangeRequest) -> None:
        key_policy = self.control.get_policy(request.key)
        key_policy.check_value(json.loads(request.value or "null"))
        if key_policy.needs("proposal"):
            self._require_approved(request)
        elif self.principal is not None:
            users = key_policy.get_users("set", ("admin",))
            if self.principal.role not in users and self.principal.name not in users:
                self._require_approved(request)

    def _require_approved(self, request: ChangeRequest) -> None:
        problem = proposal_checks.find_problem(self.writer, self.control, request, self.batch)
        if problem:
            name = "" if self.principal is None else f"{self.principal.name} ({self.principal.role}): "
            raise AccessDenied(f"{name}{request.key} changes only by an approved proposal, and {problem}.")
        self._require(OPERATORS, f"apply the proposal for {request.key}")

    def _is(self, role: str) -> bool:
        return self.principal is not None and self.principal.role == role

    def _require(self, roles: Sequence[str], action: str) -> None:
        if self.principal is None or self.principal.role in roles:
            return
        needed = f" That needs the role {' or '.join(roles)}." if roles else ""
        raise AccessDenied(f"{self.principal.name} has the role {self.principal.role} and may not {action}.{needed}")


def _differ_only_in_usage(old: str | None, new: str | None) -> bool:
    """Returns whether two versions of a skill differ in nothing but the statistics of its use."""
    values: list[Any] = [json.loads(text or "null") for text in (old, new)]
    if not all(isinstance(value, dict) for value in values):
        return False
    retained = [{name: item for name, item in value.items() if name not in _USAGE_FIELDS} for value in values]
    return bool(retained[0] == retained[1])
