"""Client of the HTTP API for agents: values, decisions, feedback, proposals and changes."""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from atoll import errors
from atoll.governed.errors import AccessDenied
from atoll.store import access

SECONDS = 30.0
MAX_REQUEST = 1 << 20  # limit of the server
MAX_RESPONSE = 1 << 26
WAIT_SECONDS = 20.0


class AssignedValue(NamedTuple):
    """Value of a parameter for an entity, its version, and the arm of a rollout."""

    key: str
    value: Any
    version: int
    arm: str


class AgentClient:
    """Client of a server that `atoll dashboard` started.

    Args:
        url: Address of the server, without the token.
        token: Token of a principal; None: that of the environment variable ATOLL_TOKEN.
        seconds: Time limit of a request.
    """

    def __init__(self, url: str, token: str | None = None, *, seconds: float = SECONDS) -> None:
        if not url.startswith(("http://", "https://")):
            raise errors.SetupError(f"{url!r:.80} is not an address. Use http://HOST:PORT.")
        self._url, self._seconds = url.rstrip("/"), seconds
        self._token = os.environ.get(access.TOKEN_VARIABLE, "") if token is None else token

    def get_value(self, key: str, entity: str) -> AssignedValue:
        """Returns the value of one parameter for an entity.

        Raises:
            NotFound: The parameter does not exist.
            AccessDenied: The token is wrong.
        """
        return self.get_values([key], entity)[key]

    def get_values(self, keys: Sequence[str], entity: str) -> Mapping[str, AssignedValue]:
        """Returns the values of parameters for an entity, by key."""
        query = urlencode([("entity", entity), *(("key", key) for key in keys)])
        rows = self._request("GET", f"/api/agent/values?{query}")["values"]
        return {row["key"]: AssignedValue(row["key"], row["value"], row["version"], row["arm"]) for row in rows}

    def report_decision(
        self,
        entity: str,
        values: Mapping[str, AssignedValue],
        payload: Any = None,
        *,
        decision_id: str = "",
        **fields: Any,
    ) -> str:
        """Logs a decision and returns its id, which feedback refers to.

        Args:
            values: Values in use, as `get_values` returned them.
            payload: Transcript, or other data of the decision.
            fields: `action`, `propensity`, `policy_version` or `meta`.
        """
        decision = {
            "entity": entity,
            "decision_id": decision_id,
            "payload": payload,
            "arms": {key: item.arm for key, item in values.items()},
            "values": {key: item.value for key, item in values.items()},
            **fields,
        }
        response = self._request("POST", "/api/agent/decisions", {"decisions": [decision]})
        return str(response["decision_ids"][0])

    def report_feedback(
        self,
        entity: str,
        metrics: Mapping[str, float],
        *,
        decision_id: str | None = None,
        observed_at: datetime | None = None,
    ) -> int:
        """Records measurements of a decision, or of an entity, and returns their number."""
        common: dict[str, Any] = {"entity": entity, "decision_id": decision_id}
        if observed_at is not None:
            common["observed_at"] = observed_at.isoformat()
        measurements = [{**common, "metric": metric, "value": value} for metric, value in metrics.items()]
        return int(self._request("POST", "/api/agent/feedback", {"measurements": measurements})["accepted"])

    def propose(
        self,
        title: str,
        changes: Mapping[str, Any],
        *,
        rationale: str = "",
        evidence: Sequence[Mapping[str, Any]] = (),
        author: str = "agent",
    ) -> dict[str, Any]:
        """Submits new values of parameters as one bundle. Returns id, status and content hash of the proposal.

        Args:
            author: Name in single-user mode. With principals it is that of the token.
        """
        content = {"changes": [{"key": key, "value": value} for key, value in changes.items()]}
        body = {"title": title, "content": content, "rationale": rationale, "evidence": list(evidence), "by": author}
        return self._request("POST", "/api/agent/proposals", body)

    def get_proposal(self, proposal_id: str) -> dict[str, Any]:
        """Returns a proposal with its reviews, and its changes by words."""
        return self._request("GET", f"/api/governance/proposals/{quote(proposal_id, safe='')}")

    def decide(self, proposal_id: str, content_hash: str, *, approve: bool, reason: str, by: str) -> dict[str, Any]:
        """Approves or rejects the content with this hash. Needs the token of an approver."""
        body = {"by": by, "reason": reason, "approve": approve, "content_hash": content_hash}
        return self._request("POST", f"/api/governance/proposals/{quote(proposal_id, safe='')}/decision", body)

    def update_rollout(self, key: str) -> dict[str, Any]:
        """Updates a rollout with the feedback so far and returns its state. Needs the token of a service."""
        return self._request("POST", "/api/governance/rollouts/update", {"key": key})

    def watch(
        self, prefix: str = "", *, after: int = 0, wait_seconds: float = WAIT_SECONDS
    ) -> Iterator[Mapping[str, Any]]:
        """Yields changes of parameters, rollouts and proposals as they happen, without end.

        Args:
            after: Number of the last known change (`seq`).
        """
        while True:
            query = urlencode({"prefix": prefix, "after": after, "wait": wait_seconds})
            response = self._request("GET", f"/api/agent/changes?{query}", seconds=self._seconds + wait_seconds)
            after = response["seq"]
            yield from response["changes"]

    def _request(self, method: str, path: str, body: Any = None, *, seconds: float | None = None) -> dict[str, Any]:
        """Sends a request and returns the JSON of its response.

        Raises:
            AccessDenied: The token is wrong, or its principal may not do this.
            NotFound: Something does not exist.
            Conflict: The state has changed, or does not allow the request.
            SetupError: The request is not valid.
            StoreFailed: The server cannot be reached, or failed.
        """
        headers = {"accept": "application/json", "content-type": "application/json"}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        if data is not None and len(data) > MAX_REQUEST:
            raise errors.SetupError(f"The request has {len(data):,} bytes. Send at most {MAX_REQUEST:,}.")
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=seconds or self._seconds) as response:
                return dict(json.loads(response.read(MAX_RESPONSE)))
        except urllib.error.HTTPError as error:
            with error:
                raise _make_error(error.code, error.read(MAX_RESPONSE)) from None
        except (OSError, ValueError) as error:
            raise errors.StoreFailed(f"{self._url} does not respond: {error}.") from error


def _make_error(status: int, body: bytes) -> errors.AtollError:
    try:
        detail = json.loads(body)["detail"]
    except (ValueError, KeyError, TypeError):
        detail = body[:500].decode("utf-8", "replace")
    message = detail if isinstance(detail, str) else json.dumps(detail)
    kinds: Mapping[int, type[errors.AtollError]] = {
        401: AccessDenied,
        403: AccessDenied,
        404: errors.NotFound,
        409: errors.Conflict,
        413: errors.SetupError,
        422: errors.SetupError,
    }
    return kinds.get(status, errors.StoreFailed)(message)
