"""Who may ask what, and how a browser must treat the answers."""

import pytest
from starlette.testclient import TestClient

from atoll import errors, store
from atoll.dashboard import security, server
from tests.dashboard.conftest import TOKEN

CONTROL = "/api/runs/walk/control"
ORDER = {"action": "budget", "limits": {"iterations": 100}}
OURS = "http://127.0.0.1:8765"


def told(kept) -> int:
    return len(kept.inbox("walk").read(0))


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
        ({"cookie": "atoll_8765=wrong", "origin": OURS}, 401),
    ],
)
def test_a_change_without_the_token_or_from_another_origin_is_refused(headers, status, client, kept):
    before = told(kept)
    assert client.post(CONTROL, json=ORDER, headers=headers).status_code == status
    assert told(kept) == before


@pytest.mark.parametrize("path", [CONTROL, "/api/runs/walk/life/watch", "/api/session"])
@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_other_ways_to_change_are_refused(method, path, client):
    assert client.request(method, path).status_code == 401


def test_a_change_by_get_does_nothing(client, kept, owner):
    before = told(kept)
    found = client.get(CONTROL, params={"action": "stop"}, headers=owner)
    assert found.status_code == 200
    assert "orders" in found.json()  # the log of orders, which is only read
    assert told(kept) == before


@pytest.mark.parametrize("name", ["authorization", "x-atoll-token"])
def test_who_has_the_token_may_change(name, client, kept):
    before = told(kept)
    said = f"Bearer {TOKEN}" if name == "authorization" else TOKEN
    found = client.post(CONTROL, json=ORDER, headers={name: said})
    assert found.status_code == 200, found.text
    assert told(kept) == before + 1


def test_the_address_with_the_token_leaves_a_cookie_that_no_script_reads(kept):
    with TestClient(server.create_app(kept, token=TOKEN), base_url=OURS) as browser:
        assert browser.get("/api/session").json()["can_change"] is False
        login = browser.get("/", params={"token": TOKEN}, follow_redirects=False)
        assert login.status_code == 303
        assert login.headers["location"] == "/"
        cookie = login.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert TOKEN not in cookie
        assert "Secure" not in cookie  # there is no certificate on loopback
        assert browser.get("/api/session").json()["can_change"] is True
        assert browser.post(CONTROL, json=ORDER, headers={"origin": OURS}).status_code == 200
        assert browser.post(CONTROL, json=ORDER).status_code == 403  # no page of ours: a browser says its origin


def test_a_wrong_token_leaves_no_cookie(client):
    found = client.get("/", params={"token": "guess"}, follow_redirects=False)
    assert found.text == "The token is wrong. Open the address that 'atoll dashboard' printed.\n"
    assert found.status_code == 401
    assert "set-cookie" not in found.headers


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "", "169.254.1.1"])
def test_a_name_that_is_not_ours_is_refused(host, client):
    assert client.get("/api/runs", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8765", "[::1]:8765", "127.0.0.2:1"])
def test_all_names_of_this_machine_are_ours(host, client):
    assert client.get("/api/session", headers={"host": host}).status_code == 200


def test_elsewhere_every_read_needs_the_token(kept):
    app = server.create_app(kept, token=TOKEN, host="0.0.0.0")
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


def test_an_address_that_others_reach_needs_a_token(kept):
    with pytest.raises(errors.SetupError, match="--token"):
        server.create_app(kept, host="0.0.0.0")
    with pytest.raises(errors.SetupError, match="8 characters"):
        server.create_app(kept, host="0.0.0.0", token="short")


def test_every_answer_forbids_what_a_page_does_not_need(client):
    for path in ("/", "/api/runs", "/nothing", "/ui/static/index.html", "/api/runs/nobody", "/docs"):
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


def test_a_body_that_is_too_long_is_refused(client, owner, kept):
    before = told(kept)
    long = b'{"action": "set", "values": {"x": "' + b"y" * security.MAX_BODY + b'"}}'
    headers = {**owner, "content-type": "application/json"}
    assert client.post(CONTROL, content=long, headers=headers).status_code == 413

    def pieces():
        for start in range(0, len(long), 65536):
            yield long[start : start + 65536]

    assert client.post(CONTROL, content=pieces(), headers=headers).status_code >= 400
    assert told(kept) == before


@pytest.mark.parametrize("length", [b"0" * 5000, b"\xb2", b"-1", b"9" * 7])
def test_a_length_that_is_none_is_refused(length, client):
    assert client.get("/api/session", headers={"content-length": length}).status_code == 413


def test_an_address_of_many_fields_is_refused(client):
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
def test_a_body_that_no_json_can_repeat_is_refused_in_short(body, client, owner, kept):
    before = told(kept)
    found = client.post(CONTROL, content=body, headers={**owner, "content-type": "application/json"})
    assert found.status_code == 422
    assert len(found.content) < 2000
    assert told(kept) == before


def test_no_path_leads_out_of_the_page(client):
    for path in (
        "/ui/static/../server.py",
        "/ui/static/..%2fserver.py",
        "/ui/static/%2e%2e/dependencies.py",
        "/ui/static//etc",
    ):
        assert client.get(f"/ui/static/{path}").status_code == 404, path


def test_the_page_needs_nothing_from_elsewhere(client):
    page = client.get("/").text
    assert "http://" not in page
    assert "https://" not in page
    assert client.get("/docs").headers["content-type"].startswith("text/plain")


def test_the_store_of_a_path_is_closed_with_the_application(tmp_path):
    with store.Store(tmp_path / "atoll.db") as kept:
        kept.create_run("run")
    app = server.create_app(tmp_path / "atoll.db")
    with TestClient(app, base_url=OURS) as client:
        assert client.get("/api/runs").json()["total"] == 1
    with pytest.raises(errors.SetupError, match="closed"):
        app.state.store.list_runs()
