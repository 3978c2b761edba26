"""Access control: token, cookie, host names, request origin and response headers.

    read on loopback          every user of this machine
    read from elsewhere       requires the token
    change                    requires the token; browsers may send it only from the dashboard's page

In a store with principals, changes need the token of a principal instead. Reads accept either.

The token is sent as `Authorization: Bearer T`, as `X-Atoll-Token: T`, or as a cookie that `GET /?token=T` sets.
The cookie is a keyed hash, so it does not reveal the token.
"""

import asyncio
import hashlib
import hmac
import ipaddress
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from atoll import errors
from atoll.dashboard import connections
from atoll.store import access

MAX_BODY = 1 << 20
MAX_BODY_SECONDS = 20.0
MAX_SESSIONS = 1000
READ_METHODS = ("GET", "HEAD", "OPTIONS")
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


def is_loopback(host: str) -> bool:
    """Checks that only this machine can reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def make_token() -> str:
    return secrets.token_urlsafe(24)


@dataclass(frozen=True, slots=True)
class AccessToken:
    """Token of a server.

    Attributes:
        token: The secret.
        host: Address that the server is bound to.
    """

    token: str
    host: str

    def __post_init__(self) -> None:
        if len(self.token) < 8:
            raise errors.SetupError("The token is too short. Use at least 8 characters, or omit it.")

    @property
    def is_local(self) -> bool:
        return is_loopback(self.host)

    @property
    def cookie(self) -> str:
        return hmac.new(self.token.encode(), b"atoll dashboard cookie", hashlib.sha256).hexdigest()

    def is_known_host(self, host: str) -> bool:
        """Checks the Host header; this prevents DNS rebinding."""
        name = _strip_port(host)
        if self.is_local:
            return is_loopback(name)
        return _is_address(name) or name.lower() in ("localhost", self.host.lower())

    def matches(self, token: str) -> bool:
        return hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self.token.encode())

    def is_authorized(self, headers: Headers, cookie_name: str) -> bool:
        """Checks that a request has the token or the cookie."""
        return self.is_authorized_by_header(headers) or hmac.compare_digest(
            _get_cookie(headers, cookie_name).encode("utf-8", "surrogatepass"), self.cookie.encode()
        )

    def is_authorized_by_header(self, headers: Headers) -> bool:
        return any(map(self.matches, _list_header_tokens(headers)))


class SecurityMiddleware:
    """ASGI middleware that rejects requests without permission and adds the security headers."""

    def __init__(self, app: ASGIApp, access_token: AccessToken, is_principal: Callable[[str], bool]) -> None:
        self._app, self._access_token, self._is_principal = app, access_token, is_principal
        self._sessions: OrderedDict[str, str] = OrderedDict()  # token of a principal by the cookie of its login
        self._backoff = connections.TokenBackoff()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise errors.SetupError("The dashboard supports HTTP only.")
        response = self._refuse_guesses(scope)
        principal_token = "" if response else await self._find_principal_token(scope)
        response = response or self._make_early_response(scope, principal_token)
        if response is not None and response.status_code == 401 and _has_token(scope):
            self._backoff.add_failure(_get_address(scope))
        bounded_receive = _BoundedReceive(receive)
        if response is not None:
            await response(scope, receive, _add_headers(send))
            return
        with scope["app"].state.activity.track(scope["path"]), access.use_token(principal_token):
            # Never the token of the server's own environment.
            await self._app(scope, bounded_receive, _add_headers(send))

    def _refuse_guesses(self, scope: Scope) -> Response | None:
        """Refuses tokens from an address that sent several wrong ones; its cookies are still accepted."""
        address = _get_address(scope)
        seconds = self._backoff.get_wait(address)
        if not seconds or not _has_token(scope) or self._access_token.is_local:
            return None  # on one machine, all users have the same address
        refusal = make_refusal(429, f"Too many wrong tokens. Wait {math.ceil(seconds)} seconds.")
        refusal.headers["retry-after"] = str(math.ceil(seconds))
        return refusal

    async def _find_principal_token(self, scope: Scope) -> str:
        """Returns the token of the principal who sent a request; empty: there is none."""
        headers = Headers(scope=scope)
        cookie = _get_cookie(headers, get_cookie_name(scope))
        for token in (*_list_header_tokens(headers), self._sessions.get(cookie, "")):
            if ":" in token and await run_in_threadpool(self._is_principal, token):
                return token
        return ""

    def _make_early_response(self, scope: Scope, principal_token: str) -> Response | None:
        """Returns a response that replaces the application's; None: the request is allowed."""
        headers, method = Headers(scope=scope), scope["method"]
        if not self._access_token.is_known_host(headers.get("host", "")):
            return make_refusal(421, "Host name not allowed. Open the dashboard by its address.")
        if self._has_wrong_token(headers, principal_token):
            return make_refusal(401, "The token is wrong or was revoked. Ask an admin for a new one.")
        if _is_too_long(headers):
            return make_refusal(413, f"The body is longer than {MAX_BODY} bytes. Send less.")
        cookie_name = get_cookie_name(scope)
        if scope["path"] == "/" and method == "GET" and (login := self._login(scope, cookie_name)):
            return login
        if method not in READ_METHODS:
            return self._check_change(headers, scope["scheme"], cookie_name, principal_token)
        if principal_token or self._access_token.is_local or self._access_token.is_authorized(headers, cookie_name):
            return None
        make_response = make_plain_refusal if scope["path"] == "/" else make_refusal
        return make_response(401, "The token is missing. Open the address that 'atoll dashboard' printed.")

    def _has_wrong_token(self, headers: Headers, principal_token: str) -> bool:
        """Checks whether a request has tokens, and all of them are wrong."""
        tokens = _list_header_tokens(headers)
        return bool(tokens) and principal_token not in tokens and not any(map(self._access_token.matches, tokens))

    def _login(self, scope: Scope, cookie_name: str) -> Response | None:
        try:
            tokens = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=10).get("token")
        except ValueError:
            return make_plain_refusal(
                400, "The address has too many fields. Open the one that 'atoll dashboard' printed."
            )
        if not tokens:
            return None
        cookie = self._access_token.cookie
        if ":" in tokens[0] and self._is_principal(tokens[0]):
            self._sessions[cookie := secrets.token_urlsafe(24)] = tokens[0]
            if len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)
        elif not self._access_token.matches(tokens[0]):
            return make_plain_refusal(401, "The token is wrong. Open the address that 'atoll dashboard' printed.")
        response = RedirectResponse("/", 303)  # removes the token from the address bar and the history
        is_https = scope["scheme"] == "https"  # behind a TLS proxy; loopback has no certificate
        response.set_cookie(cookie_name, cookie, httponly=True, samesite="strict", path="/", secure=is_https)
        return response

    def _check_change(self, headers: Headers, scheme: str, cookie_name: str, principal_token: str) -> Response | None:
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return make_refusal(403, "Changes are accepted from the dashboard's own page only.")
        origin = headers.get("origin")
        if origin is not None and origin != f"{scheme}://{headers['host']}":
            return make_refusal(403, "Changes are accepted from the dashboard's own page only.")
        if self._access_token.is_authorized_by_header(headers) or principal_token in _list_header_tokens(headers):
            return None
        if not principal_token and not self._access_token.is_authorized(headers, cookie_name):
            return make_refusal(401, "Changes need the token. Open the address that 'atoll dashboard' printed.")
        # Browsers send the origin with every change, so a cookie without an origin is suspicious.
        return None if origin is not None else make_refusal(403, "Changes with a cookie need an Origin header.")


class _BoundedReceive:
    """Disconnects when a body is longer than `MAX_BODY`, or has not arrived after `MAX_BODY_SECONDS`."""

    def __init__(self, receive: Receive) -> None:
        self._receive, self._size = receive, 0
        self._deadline: float | None = time.monotonic() + MAX_BODY_SECONDS

    async def __call__(self) -> Message:
        if self._deadline is None:  # the body has arrived; the next message is the end of the connection
            return await self._receive()
        try:
            message = await asyncio.wait_for(self._receive(), max(0.0, self._deadline - time.monotonic()))
        except TimeoutError:
            return {"type": "http.disconnect"}
        self._size += len(message.get("body", b""))
        if not message.get("more_body"):
            self._deadline = None
        return message if self._size <= MAX_BODY else {"type": "http.disconnect"}


def make_refusal(status: int, message: str) -> Response:
    return JSONResponse({"detail": message}, status, {"cache-control": "no-store"})


def make_plain_refusal(status: int, message: str) -> Response:
    """Returns a refusal as plain text, for the address that users open directly."""
    return PlainTextResponse(f"{message}\n", status, {"cache-control": "no-store"})


def get_cookie_name(scope: Scope) -> str:
    """Returns a cookie name with the port, since browsers share cookies between the ports of a host."""
    server = scope.get("server") or ("", 0)
    return f"atoll_{server[1]}"


def can_change(scope: Scope) -> bool:
    """Checks that the sender of a request has the token."""
    access_token: AccessToken = scope["app"].state.access_token
    return access_token.is_authorized(Headers(scope=scope), get_cookie_name(scope))


def _add_headers(send: Send) -> Send:
    """Wraps `send` so that every response has the security headers."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return send_with_headers


def _get_address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _has_token(scope: Scope) -> bool:
    return bool(_list_header_tokens(Headers(scope=scope))) or b"token=" in scope["query_string"]


def _strip_port(host: str) -> str:
    """Removes the port from a Host header."""
    if host.startswith("["):
        return host.partition("]")[0].strip("[")
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _list_header_tokens(headers: Headers) -> list[str]:
    kind, _, credentials = headers.get("authorization", "").partition(" ")
    tokens = (credentials.strip() if kind.lower() == "bearer" else "", headers.get("x-atoll-token", ""))
    return [token for token in tokens if token]


def _get_cookie(headers: Headers, name: str) -> str:
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return cookie.value if cookie else ""


def _is_too_long(headers: Headers) -> bool:
    lengths: Iterable[str] = headers.getlist("content-length")
    # Digits are counted first, since Python refuses to parse very long numbers.
    return any(
        not length.isdecimal() or len(length) > len(str(MAX_BODY)) or int(length) > MAX_BODY for length in lengths
    )
