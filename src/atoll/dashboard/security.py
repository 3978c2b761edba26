"""Who may ask what: the token, the names a browser may know this server by, and what a page of ours may load.

    a read on loopback        anybody on this machine
    a read elsewhere          who has the token
    a change                  who has the token, and from a browser only our own page

The token comes as `Authorization: Bearer T`, as `X-Atoll-Token: T`, or as a cookie that `GET /?token=T` leaves behind.
The cookie is no copy of the token: from it nobody learns what was given to `--token`.
"""

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from atoll import errors

MAX_BODY = 1 << 20
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
    """Says whether an address can be reached from this machine only."""
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
    """What opens the server.

    Attributes:
        token: The secret word.
        host: The address that the server is bound to.
    """

    token: str
    host: str

    def __post_init__(self) -> None:
        if len(self.token) < 8:
            raise errors.SetupError("A token needs 8 characters at least: give a longer one, or none to get a new one.")

    @property
    def is_local(self) -> bool:
        return is_loopback(self.host)

    @property
    def cookie(self) -> str:
        return hmac.new(self.token.encode(), b"atoll dashboard cookie", hashlib.sha256).hexdigest()

    def is_known_host(self, host: str) -> bool:
        """Says whether a browser may call us so: a name that is not ours may lead here by a trick of its DNS."""
        name = _strip_port(host)
        if self.is_local:
            return is_loopback(name)
        return _is_address(name) or name.lower() in ("localhost", self.host.lower())

    def matches(self, token: str) -> bool:
        return hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self.token.encode())

    def is_authorized(self, headers: Headers, cookie_name: str) -> bool:
        """Says whether a request brings the token or the cookie."""
        return self.is_authorized_by_header(headers) or hmac.compare_digest(
            _get_cookie(headers, cookie_name).encode("utf-8", "surrogatepass"), self.cookie.encode()
        )

    def is_authorized_by_header(self, headers: Headers) -> bool:
        kind, _, credentials = headers.get("authorization", "").partition(" ")
        bearer = credentials.strip() if kind.lower() == "bearer" else ""
        return self.matches(bearer) or self.matches(headers.get("x-atoll-token", ""))


class SecurityMiddleware:
    """Stands before the application and lets in what may come in."""

    def __init__(self, app: ASGIApp, access_token: AccessToken) -> None:
        self._app, self._access_token = app, access_token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise errors.SetupError("The dashboard speaks HTTP only.")
        response = self._make_early_response(scope)
        bounded_receive = _BoundedReceive(receive)
        if response is not None:
            await response(scope, receive, _add_headers(send))
        else:
            await self._app(scope, bounded_receive, _add_headers(send))

    def _make_early_response(self, scope: Scope) -> Response | None:
        """Returns what is answered instead of the application; None: it may answer."""
        headers, method = Headers(scope=scope), scope["method"]
        if not self._access_token.is_known_host(headers.get("host", "")):
            return make_refusal(421, "This server does not go by that name: open it by its address.")
        if _is_too_long(headers):
            return make_refusal(413, f"The body is longer than {MAX_BODY} bytes.")
        cookie_name = get_cookie_name(scope)
        if scope["path"] == "/" and method == "GET" and (login := self._login(scope, cookie_name)):
            return login
        if method not in READ_METHODS:
            return self._check_change(headers, scope["scheme"], cookie_name)
        if self._access_token.is_local or self._access_token.is_authorized(headers, cookie_name):
            return None
        make_response = make_plain_refusal if scope["path"] == "/" else make_refusal
        return make_response(401, "Open the address that 'atoll dashboard' printed, with its token.")

    def _login(self, scope: Scope, cookie_name: str) -> Response | None:
        try:
            tokens = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=10).get("token")
        except ValueError:
            return make_plain_refusal(
                400, "The address has too many fields: open the one that 'atoll dashboard' printed."
            )
        if not tokens:
            return None
        if not self._access_token.matches(tokens[0]):
            return make_plain_refusal(401, "That is not the token: open the address that 'atoll dashboard' printed.")
        response = RedirectResponse("/", 303)  # the token leaves the address bar and the history
        is_https = scope["scheme"] == "https"  # behind a proxy that says so; loopback has no certificate
        response.set_cookie(
            cookie_name, self._access_token.cookie, httponly=True, samesite="strict", path="/", secure=is_https
        )
        return response

    def _check_change(self, headers: Headers, scheme: str, cookie_name: str) -> Response | None:
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return make_refusal(403, "A change is taken from the dashboard's own page only.")
        origin = headers.get("origin")
        if origin is not None and origin != f"{scheme}://{headers['host']}":
            return make_refusal(403, "A change is taken from the dashboard's own page only.")
        if self._access_token.is_authorized_by_header(headers):
            return None
        if not self._access_token.is_authorized(headers, cookie_name):
            return make_refusal(401, "A change needs the token: open the address that 'atoll dashboard' printed.")
        # Every browser names the origin of a change; who has a cookie but no origin is none of ours.
        return None if origin is not None else make_refusal(403, "A change by cookie needs an Origin.")


class _BoundedReceive:
    """Reads a body, and no more of it than is allowed."""

    def __init__(self, receive: Receive) -> None:
        self._receive, self._size = receive, 0

    async def __call__(self) -> Message:
        message = await self._receive()
        self._size += len(message.get("body", b""))
        return message if self._size <= MAX_BODY else {"type": "http.disconnect"}


def make_refusal(status: int, message: str) -> Response:
    return JSONResponse({"detail": message}, status, {"cache-control": "no-store"})


def make_plain_refusal(status: int, message: str) -> Response:
    """Returns a refusal for the one address that people open by hand."""
    return PlainTextResponse(f"{message}\n", status, {"cache-control": "no-store"})


def get_cookie_name(scope: Scope) -> str:
    """Returns the name of our cookie: browsers share cookies between the ports of a host."""
    server = scope.get("server") or ("", 0)
    return f"atoll_{server[1]}"


def can_change(scope: Scope) -> bool:
    """Says whether whoever asks has the token."""
    access_token: AccessToken = scope["app"].state.lock
    return access_token.is_authorized(Headers(scope=scope), get_cookie_name(scope))


def _add_headers(send: Send) -> Send:
    """Returns a `send` that gives every answer our headers."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return send_with_headers


def _strip_port(host: str) -> str:
    """Returns a Host header without its port."""
    if host.startswith("["):
        return host.partition("]")[0].strip("[")
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _get_cookie(headers: Headers, name: str) -> str:
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return cookie.value if cookie else ""


def _is_too_long(headers: Headers) -> bool:
    lengths: Iterable[str] = headers.getlist("content-length")
    # By its digits first: Python reads no number of thousands of them.
    return any(
        not length.isdecimal() or len(length) > len(str(MAX_BODY)) or int(length) > MAX_BODY for length in lengths
    )
