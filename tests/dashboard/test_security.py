"""Token, cookie, host, origin, security headers and body limits."""

import pytest
from starlette.testclient import TestClient

from atoll import errors, store
from atoll.dashboard import security, server
from tests.dashboard.conftest import TOKEN

CONTROL = "/api/runs/walk/control"
COMMAND = {"action": "budget", "limits": {"iterations": 100}}
BASE_URL = "http://127.0.0.1:8765"


def num_commands(run_store) -> int:
    return len(run_store.inbox("walk").read(0))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong token"}, 401),
        ({"authorization": f"Basic {TOKEN}"}, 401),
        ({"x-atoll-token": ""}, 401),
        ({"authorization": f"Bearer {TOKEN}", "origin": "http://evil.example"}, 403),
        ({"authorization": f"Bearer {TOKEN}", "origin": "null"}, 403),
        ({"authorization": f"Bearer {TOKEN}", "origin": "http://127.0.0.1:9999"}, 403),
        ({"authorization": f"Bearer {TOKEN}", "sec-fetch-site": "cross-site"}, 403),
        ({"authorization": f"Bearer {TOKEN}", "sec-fetch-site": "same-site"}, 403),
        ({"cookie": "atoll_8765=wrong", "origin": BASE_URL}, 401),
    ],
)
def test_change_without_token_or_from_other_origin_is_rejected(headers, status, client, run_store):
    before = num_commands(run_store)
    assert client.post(CONTROL, json=COMMAND, headers=headers).status_code == status
    assert num_commands(run_store) == before


@pytest.mark.parametrize("path", [CONTROL, "/api/runs/walk/life/watch", "/api/session"])
@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_other_methods_need_token(method, path, client):
    assert client.request(method, path).status_code == 401


def test_get_does_not_change(client, run_store, token_headers):
    before = num_commands(run_store)
    result = client.get(CONTROL, params={"action": "stop"}, headers=token_headers)
    assert result.status_code == 200
    assert "orders" in result.json()  # the list of commands
    assert num_commands(run_store) == before


@pytest.mark.parametrize("name", ["authorization", "x-atoll-token"])
def test_token_allows_changes(name, client, run_store):
    before = num_commands(run_store)
    body = f"Bearer {TOKEN}" if name == "authorization" else TOKEN
    result = client.post(CONTROL, json=COMMAND, headers={name: body})
    assert result.status_code == 200, result.text
    assert num_commands(run_store) == before + 1


def test_login_sets_http_only_cookie(run_store):
    with TestClient(server.create_app(run_store, token=TOKEN), base_url=BASE_URL) as browser:
        assert browser.get("/api/session").json()["can_change"] is False
        login = browser.get("/", params={"token": TOKEN}, follow_redirects=False)
        assert login.status_code == 303
        assert login.headers["location"] == "/"
        cookie = login.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert TOKEN not in cookie
        assert "Secure" not in cookie  # loopback has no certificate
        assert browser.get("/api/session").json()["can_change"] is True
        assert browser.post(CONTROL, json=COMMAND, headers={"origin": BASE_URL}).status_code == 200
        assert browser.post(CONTROL, json=COMMAND).status_code == 403  # browsers send an origin


def test_wrong_token_sets_no_cookie(client):
    result = client.get("/", params={"token": "guess"}, follow_redirects=False)
    assert result.text == "The token is wrong. Open the address that 'atoll dashboard' printed.\n"
    assert result.status_code == 401
    assert "set-cookie" not in result.headers


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "", "169.254.1.1"])
def test_unknown_host_is_rejected(host, client):
    assert client.get("/api/runs", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8765", "[::1]:8765", "127.0.0.2:1"])
def test_loopback_hosts_are_accepted(host, client):
    assert client.get("/api/session", headers={"host": host}).status_code == 200


def test_read_from_other_machine_needs_token(run_store):
    app = server.create_app(run_store, token=TOKEN, host="0.0.0.0")
    with TestClient(app, base_url="http://192.0.2.7:8765") as client:
        for path in (
            "/",
            "/ui",
            "/api/runs",
            "/events",
            "/metrics",
            "/snapshots",
            "/openapi.json",
            "/ui/static/index.html",
        ):
            assert client.get(path).status_code == 401, path
        assert client.get("/api/runs", headers={"x-atoll-token": TOKEN}).status_code == 200
        assert client.get("/", headers={"host": "evil.example", "x-atoll-token": TOKEN}).status_code == 421
        client.get("/", params={"token": TOKEN})
        assert client.get("/api/runs").status_code == 200


def test_public_address_needs_token(run_store):
    with pytest.raises(errors.SetupError, match="--token"):
        server.create_app(run_store, host="0.0.0.0")
    with pytest.raises(errors.SetupError, match="8 characters"):
        server.create_app(run_store, host="0.0.0.0", token="short")


def test_responses_have_security_headers(client):
    for path in ("/", "/api/runs", "/nothing", "/ui/static/index.html", "/api/runs/unknown", "/docs"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy, path
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers


def test_long_body_is_rejected(client, token_headers, run_store):
    before = num_commands(run_store)
    long = b'{"action": "set", "values": {"x": "' + b"y" * security.MAX_BODY + b'"}}'
    headers = {**token_headers, "content-type": "application/json"}
    assert client.post(CONTROL, content=long, headers=headers).status_code == 413

    def pieces():
        for start in range(0, len(long), 65536):
            yield long[start : start + 65536]

    assert client.post(CONTROL, content=pieces(), headers=headers).status_code >= 400
    assert num_commands(run_store) == before


@pytest.mark.parametrize("length", [b"0" * 5000, b"\xb2", b"-1", b"9" * 7])
def test_invalid_content_length_is_rejected(length, client):
    assert client.get("/api/session", headers={"content-length": length}).status_code == 413


def test_login_with_many_fields_is_rejected(client):
    assert client.get("/", params={f"x{number}": "y" for number in range(12)}).status_code == 400


@pytest.mark.parametrize(
    "body",
    [
        r'{"action": NaN}',
        r'{"action": "\ud800"}',
        r'{"action": "budget", "limits": {"usd": 1}, "by": "\ud800"}',
        r'{"action": "budget", "limits": {"usd": [Infinity]}}',
        r'{"action": "budget", "limits": {"\ud800": 1}}',
        r'{"action": "set", "values": {"\ud800": "\ud800"}}',
        r'{"action": "pause", "\ud800": "' + "x" * 100_000 + '"}',
    ],
)
def test_invalid_body_gets_short_error(body, client, token_headers, run_store):
    before = num_commands(run_store)
    result = client.post(CONTROL, content=body, headers={**token_headers, "content-type": "application/json"})
    assert result.status_code == 422
    assert len(result.content) < 2000
    assert num_commands(run_store) == before


def test_static_files_reject_path_traversal(client):
    for path in (
        "/ui/static/../server.py",
        "/ui/static/..%2fserver.py",
        "/ui/static/%2e%2e/dependencies.py",
        "/ui/static//etc",
    ):
        assert client.get(f"/ui/static/{path}").status_code == 404, path


def test_page_has_no_external_urls(client):
    page = client.get("/").text
    assert "http://" not in page
    assert "https://" not in page
    assert client.get("/docs").headers["content-type"].startswith("text/plain")


def test_app_closes_store_it_opened(tmp_path):
    with store.Store(tmp_path / "atoll.db") as run_store:
        run_store.create_run("run")
    app = server.create_app(tmp_path / "atoll.db")
    with TestClient(app, base_url=BASE_URL) as client:
        assert client.get("/api/runs").json()["total"] == 1
    with pytest.raises(errors.SetupError, match="closed"):
        app.state.store.list_runs()
