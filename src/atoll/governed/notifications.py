"""Notifications of approvers: outgoing webhooks with a text that Slack, chat and e-mail gateways accept.

`ATOLL_NOTIFY_URL` has one or more addresses, separated by blanks. Each gets a POST when a proposal needs an approval.
The body is JSON: `text` for Slack and Mattermost, `subject`, `body` and `to` for e-mail gateways, and `proposal`.
With `ATOLL_NOTIFY_KEY` the header `X-Atoll-Signature` has the HMAC-SHA256 of the body.
"""

import json
import logging
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from atoll import errors
from atoll.governed import approval
from atoll.governed.parameters import ParameterStore

URL_VARIABLE = "ATOLL_NOTIFY_URL"
KEY_VARIABLE = "ATOLL_NOTIFY_KEY"
SECONDS = 5.0
MAX_TEXT = 500  # characters of a rationale in a message

_log = logging.getLogger(__name__)


def make_observer(store: ParameterStore, *, in_background: bool = False) -> Callable[[approval.Proposal], None]:
    """Returns an observer for an evolver, which notifies approvers if the environment has an address.

    Args:
        in_background: Send in a thread of its own, so that a server need not wait.

    Raises:
        SetupError: An address is not an HTTP address.
    """
    urls = os.environ.get(URL_VARIABLE, "").split()
    for url in urls:
        if urlsplit(url).scheme not in ("http", "https"):
            raise errors.SetupError(f"{URL_VARIABLE} has an address that does not begin with http:// or https://.")

    def notify(proposal: approval.Proposal) -> None:
        if proposal.status != "pending" or not urls:
            return
        arguments = (urls, make_payload(store, proposal), os.environ.get(KEY_VARIABLE, ""))
        if in_background:
            Thread(target=send, args=arguments, daemon=True).start()
        else:
            send(*arguments)

    return notify


def make_payload(store: ParameterStore, proposal: approval.Proposal) -> Mapping[str, Any]:
    """Returns the message that a proposal needs an approval."""
    keys = ", ".join(change.key for change in proposal.changes) or proposal.type
    approvers = list(approval.list_possible_approvers(store, proposal))
    subject = f"Approval needed: {_to_line(proposal.title)} ({proposal.id})"
    lines = [
        f"{_to_line(proposal.author)} proposes a change of {_to_line(keys)}, risk {proposal.risk}.",
        f"Reason: {_to_line(proposal.rationale) or 'none given'}",
        f"Read it: atoll proposals show {proposal.id}",
        f"Then: atoll proposals approve|reject {proposal.id} --hash {proposal.content_hash}",
        f"It expires at {proposal.expires_at:%Y-%m-%d %H:%M} UTC.",
    ]
    fields = ("id", "type", "title", "author", "risk", "status", "content_hash")
    body = "\n".join(lines)
    return {
        "text": _escape_chat(f"{subject}\n{body}"),
        "subject": subject,
        "body": body,
        "to": approvers,
        "event": "approval_needed",
        "proposal": {name: getattr(proposal, name) for name in fields}
        | {"keys": [change.key for change in proposal.changes], "expires_at": proposal.expires_at.isoformat()},
    }


def send(urls: Sequence[str], payload: Mapping[str, Any], key: str = "") -> int:
    """Posts a message to all addresses and returns the number of successes. A failure is logged, never raised."""
    body = json.dumps(payload).encode()
    headers = {"content-type": "application/json"}
    if key:
        headers["x-atoll-signature"] = f"sha256={approval.sign(body, key.encode())}"
    return sum(_post(url, body, headers) for url in urls)


def _post(url: str, body: bytes, headers: Mapping[str, str]) -> bool:
    request = urllib.request.Request(url, body, dict(headers), method="POST")
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as response:
            response.read(1000)
    except (OSError, ValueError, urllib.error.URLError) as error:
        # The address may contain a secret, so only its host is logged.
        _log.warning("No notification to %s: %s", urlsplit(url).hostname, type(error).__name__)
        return False
    return True


def _to_line(text: str) -> str:
    """Returns the beginning of a text on one line, without invisible characters: it comes from an agent."""
    line = re.sub(r"\s+", " ", text)[:MAX_TEXT]
    return "".join(char for char in line if char.isprintable())


def _escape_chat(text: str) -> str:
    """Escapes the characters that start links and mentions in Slack."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
