"""Where a model is, and by which key it is asked."""

import os
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from atoll import errors

PUBLIC_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"

_NO_KEY = "no-key"  # most own servers want none, but the client wants to send one
_GIVE_ONE = "give one like http://127.0.0.1:8000/v1"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One model of one server.

    Attributes:
        model: As the server calls it.
        base_url: Without a slash at its end.
        api_key: Sent to the server and shown to nobody.
    """

    model: str
    base_url: str
    api_key: str = field(repr=False)

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).hostname or ""

    @property
    def is_public(self) -> bool:
        """Whether the server is OpenAI's own, and not only compatible with it."""
        return self.host == urlsplit(PUBLIC_URL).hostname

    @property
    def is_encrypted(self) -> bool:
        return self.base_url.startswith("https:")


def find(model: str, base_url: str | None, api_key: str | None) -> Endpoint:
    """Returns the endpoint; what is None comes from the environment.

    Raises:
        SetupError: There is no name, the address is none, or the key is missing or no key.
    """
    name = model.strip()
    if not name:
        raise errors.SetupError("The model has no name: give the name by which the server knows it.")
    url = _checked_url(base_url or os.environ.get(URL_VARIABLE) or PUBLIC_URL)
    key = (os.environ.get(KEY_VARIABLE, "") if api_key is None else api_key).strip()
    found = Endpoint(name, url, key or _NO_KEY)
    if not key and found.is_public:
        raise errors.SetupError(
            f"There is no key for {url}: set {KEY_VARIABLE}, or name a server of your own that needs none, "
            f"like openai:{name}@http://127.0.0.1:8000/v1."
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise errors.SetupError(f"The key for {url} has blanks or odd characters in it: set {KEY_VARIABLE} again.")
    return found


def _checked_url(text: str) -> str:
    text = text.strip().rstrip("/")
    try:
        url = urlsplit(text)
        _ = url.port
    except ValueError as error:
        raise errors.SetupError(f"The address {text!r} is none ({error}): {_GIVE_ONE}.") from None
    if "@" in url.netloc:  # it may be a password, so the address is not shown
        host = url.netloc.rpartition("@")[2]
        raise errors.SetupError(f"The address of {host} has an '@' in it: put the key into {KEY_VARIABLE} instead.")
    if url.scheme not in ("http", "https") or not url.hostname or any(each.isspace() for each in text):
        raise errors.SetupError(f"The address {text!r} is no http:// or https:// address of a server: {_GIVE_ONE}.")
    if url.query or url.fragment:
        raise errors.SetupError(f"The address {text!r} has a '?' or a '#' in it: {_GIVE_ONE}.")
    return text
