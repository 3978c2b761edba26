"""API for agents: values, decisions, feedback, proposals, changes; its client, webhooks and OpenFeature provider."""

import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from openfeature import api
from openfeature.evaluation_context import EvaluationContext
from openfeature.flag_evaluation import Reason
from starlette.testclient import TestClient

from atoll import errors, governed, store
from atoll.dashboard import server
from atoll.governed import notifications, openfeature_provider, principals, rollout
from atoll.governed.client import AgentClient
from atoll.governed.errors import AccessDenied
from atoll.governed.evidence import feedback_stores
from atoll.store import access

PLAN = {"guardrails": ["late::lower"], "shares": [0.5], "min_samples": 30, "min_seconds": 0, "bake_seconds": 0}
RULES = [{"prefix": "prompt/", "needs": ["canary"], "plan": PLAN}]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Site:
    """Server of a store with an admin, an approver, an agent and a service, and a clock."""

    def __init__(self, path: Any) -> None:
        self.time = NOW
        self.store = store.Store(path)
        self.parameters = governed.StoredParameters(self.store)
        for key, value in (("prompt/system", "Be kind."), ("limit", 1), ("is_on", True), ("rate", 1), ("set", [1])):
            self.parameters.set(key, value, "initial value", author="ann")
        self.tokens = {"ann": principals.add_principal(self.parameters, "ann", "admin", "first", author="ann")}
        with access.use_token(self.tokens["ann"]):
            roles: Any = (("bob", "approver"), ("agent", "agent"), ("cron", "service"))
            for name, role in roles:
                self.tokens[name] = principals.add_principal(self.parameters, name, role, "more", author="ann")
            principals.set_policy(self.parameters, RULES, "rules", author="ann")
        self.server = server.DashboardServer(self.store, host="127.0.0.1", port=0, clock=lambda: self.time)
        self.url = self.server.address.partition("/?")[0]
        self._thread = threading.Thread(target=self.server.run, daemon=True)
        self._thread.start()

    def client(self, name: str) -> AgentClient:
        return AgentClient(self.url, self.tokens.get(name, name), seconds=10)

    def close(self) -> None:
        self.server.stop()
        self._thread.join(10)
        self.store.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site") / "atoll.db")
    yield made
    made.close()


def test_agent_reads_values_and_reports_decision_and_feedback(site):
    agent = site.client("agent")
    values = agent.get_values(["prompt/system", "limit"], "user-1")
    assert values["prompt/system"] == ("prompt/system", "Be kind.", 1, "baseline")
    decision = agent.report_decision("user-1", values, {"answer": "hello"})
    assert agent.report_feedback("user-1", {"late": 1.0, "stars": 5}, decision_id=decision) == 2
    record = feedback_stores.SQLFeedback(site.store).query("user-1", NOW, "late")[0]
    assert (record.decision_id, record.timestamp) == (decision, NOW)
    arms = {"limit": "baseline", "prompt/system": "baseline"}
    assert record.meta == {"arms": arms, "decided_at": NOW.isoformat(), "reported_by": "agent"}


def test_feedback_of_unknown_decision_is_refused(site):
    with pytest.raises(errors.NotFound, match="d-unknown of user-2 not found"):
        site.client("agent").report_feedback("user-2", {"late": 1.0}, decision_id="d-unknown")
    assert feedback_stores.SQLFeedback(site.store).query("user-2", NOW) == []


@pytest.mark.parametrize("token", ["", "agent:wrong", "nobody:x", "just-a-word"])
def test_missing_or_wrong_token_is_one_clear_refusal(site, token):
    for call in (
        lambda client: client.get_value("limit", "u"),
        lambda client: client.report_feedback("u", {"late": 1.0}),
        lambda client: client.propose("T", {"limit": 2}),
        lambda client: next(client.watch(wait_seconds=0)),
    ):
        with pytest.raises(AccessDenied, match=r"[Tt]oken"):
            call(AgentClient(site.url, token))


def test_token_of_server_does_not_replace_that_of_a_principal(site):
    server_token = site.server.app.state.access_token.token
    for method, path, body in (
        ("GET", "/api/agent/values?entity=u&key=limit", None),
        ("POST", "/api/agent/feedback", {"measurements": [{"entity": "u", "metric": "late", "value": 1}]}),
    ):
        with TestClient(site.server.app, base_url="http://127.0.0.1") as client:
            response = client.request(method, path, json=body, headers={"authorization": f"Bearer {server_token}"})
        assert (response.status_code, "token of a principal" in response.json()["detail"]) == (401, True)


@pytest.mark.parametrize("key", ["access/control", "proposals/p-1", "rollout/limit"])
def test_reserved_keys_are_not_served(site, key):
    with pytest.raises(errors.SetupError, match="reserved"):
        site.client("agent").get_value(key, "user-1")


def test_agent_proposes_but_cannot_approve_set_or_update(site):
    agent = site.client("agent")
    proposal = agent.propose("Two", {"limit": 2, "rate": 3}, rationale="slow", evidence=[{"decision": "d-1"}])
    shown = agent.get_proposal(proposal["id"])
    assert (shown["status"], shown["author"], shown["evidence"]) == ("pending", "agent", [{"decision": "d-1"}])
    assert shown["may_approve"] == ["ann", "bob"]
    assert [(change["key"], change["segments"]) for change in shown["changes"]] == [
        ("limit", [["removed", "1"], ["added", "2"]]),
        ("rate", [["removed", "1"], ["added", "3"]]),
    ]
    decision = {"approve": True, "reason": "mine"}
    with pytest.raises((AccessDenied, errors.Conflict)):
        agent.decide(proposal["id"], proposal["content_hash"], by="agent", **decision)
    with pytest.raises(AccessDenied, match="token is that of agent"):
        agent.decide(proposal["id"], proposal["content_hash"], by="bob", **decision)
    with pytest.raises(errors.NotFound):
        site.client("cron").update_rollout("limit")
    done = site.client("bob").decide(proposal["id"], proposal["content_hash"], by="bob", **decision)
    assert (done["status"], done["outcome"]) == ("applied", "limit@2, rate@2")


def test_canary_is_served_measured_and_finished(site):
    agent, cron = site.client("agent"), site.client("cron")
    proposal = agent.propose("Short", {"prompt/system": "Be short."})
    site.client("bob").decide(proposal["id"], proposal["content_hash"], approve=True, reason="ok", by="bob")
    seen = set()
    site.time += timedelta(minutes=1)
    for number in range(80):
        values = agent.get_values(["prompt/system"], f"user-{number}")
        seen.add((values["prompt/system"].value, values["prompt/system"].arm))
        decision = agent.report_decision(f"user-{number}", values)
        is_new = values["prompt/system"].arm == "candidate"
        agent.report_feedback(f"user-{number}", {"late": number % 2 - 4.0 * is_new}, decision_id=decision)
    assert seen == {("Be kind.", "baseline"), ("Be short.", "candidate")}
    with pytest.raises(AccessDenied, match="may not change a rollout"):
        agent.update_rollout("prompt/system")
    site.time += timedelta(minutes=1)
    state = cron.update_rollout("prompt/system")
    assert (state["stage"], state["approved_by"]) == ("full", ["bob"])
    assert agent.get_value("prompt/system", "user-1").value == "Be short."
    assert agent.get_proposal(proposal["id"])["status"] == "applied"


def test_watch_reports_values_rollouts_and_proposals(site):
    agent = site.client("agent")
    start = site.parameters.ledger.change_log.get_end().seq
    changes = agent.watch(after=start, wait_seconds=5)

    def change() -> None:
        with access.use_token(site.tokens["ann"]):
            site.parameters.set("limit", 7, "by hand", author="ann")

    timer = threading.Timer(0.3, change)
    timer.start()
    notice = next(changes)
    assert (notice["key"], notice["kind"], notice["version"] > 1) == ("limit", "set", True)
    proposal = agent.propose("More", {"limit": 8})
    assert next(changes)["key"] == proposal["id"]
    assert [notice["key"] for notice, _ in zip(agent.watch("li"), range(1), strict=False)] == ["limit"]
    timer.join()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("feedback", {"measurements": []}),
        ("feedback", {"measurements": [{"entity": "u", "metric": "late", "value": "NaN"}]}),
        ("feedback", {"measurements": [{"entity": "", "metric": "late", "value": 1}]}),
        ("decisions", {"decisions": [{"entity": "u", "arms": {"limit": "other"}}]}),
        ("decisions", {"decisions": [{"entity": "u", "propensity": 2}]}),
        ("proposals", {"title": "T", "content": {"key": "access/control", "value": 1}}),
        ("proposals", {"title": "T", "content": {"key": "limit", "value": "AKIAIOSFODNN7EXAMPLE"}}),
        ("proposals", {"title": "T", "content": {"key": "limit", "value": 1}, "status": "approved"}),
    ],
)
def test_invalid_request_is_refused(site, path, body):
    with TestClient(site.server.app, base_url="http://127.0.0.1") as client:
        headers = {"authorization": f"Bearer {site.tokens['agent']}"}
        response = client.post(f"/api/agent/{path}", json=body, headers=headers)
    assert 400 <= response.status_code < 500
    assert response.json()["detail"]


def test_long_body_is_refused(site):
    with pytest.raises(errors.SetupError, match="Send at most"):
        site.client("agent").report_decision("u", {}, "x" * (1 << 20))


def test_unreachable_server_is_one_error():
    with pytest.raises(errors.StoreFailed, match="does not respond"):
        AgentClient("http://127.0.0.1:9", "t").get_value("limit", "u")


@contextmanager
def receive_posts() -> Iterator[tuple[str, list[tuple[dict[str, Any], bytes]]]]:
    """Runs an HTTP server that collects the headers and bodies of POST requests."""
    posts: list[tuple[dict[str, Any], bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posts.append((dict(self.headers), self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    receiver = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=receiver.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{receiver.server_port}/hook", posts
    finally:
        receiver.shutdown()
        thread.join()
        receiver.server_close()


def test_pending_proposal_notifies_approvers(monkeypatch):
    parameters = governed.MemoryParameters()
    with receive_posts() as (url, posts):
        monkeypatch.setenv(notifications.URL_VARIABLE, url)
        monkeypatch.setenv(notifications.KEY_VARIABLE, "a key of the receiver")
        observer = notifications.make_observer(parameters)
        evolver = governed.Evolver(parameters, governed.DEFER, observer=observer)
        title, rationale = "Faster <!channel>\nReason: none", "slow\u202e"
        proposal = evolver.propose("optimize", title, {"key": "speed", "value": 3}, "agent", rationale=rationale)
    ((headers, body),) = posts
    message = json.loads(body)
    assert message["subject"] == f"Approval needed: Faster <!channel> Reason: none ({proposal.id})"
    assert "<!channel>" not in message["text"]  # an agent cannot mention a channel
    assert "\u202e" not in message["body"]
    assert message["proposal"]["keys"] == ["speed"]
    assert proposal.content_hash in message["text"]
    expected = hmac.new(b"a key of the receiver", body, "sha256").hexdigest()
    assert {name.lower(): value for name, value in headers.items()}["x-atoll-signature"] == f"sha256={expected}"


def test_unreachable_receiver_does_not_stop_a_proposal(monkeypatch, caplog):
    monkeypatch.setenv(notifications.URL_VARIABLE, "http://127.0.0.1:9/secret-path")
    parameters = governed.MemoryParameters()
    evolver = governed.Evolver(parameters, governed.DEFER, observer=notifications.make_observer(parameters))
    assert evolver.propose("optimize", "T", {"key": "speed", "value": 3}, "agent").status == "pending"
    assert "secret-path" not in caplog.text
    monkeypatch.setenv(notifications.URL_VARIABLE, "ftp://example.org")
    with pytest.raises(errors.SetupError, match="http"):
        notifications.make_observer(parameters)


@pytest.mark.parametrize("kind", ["client", "store"])
def test_openfeature_evaluates_parameters(site, kind):
    source: Any = site.client("agent") if kind == "client" else openfeature_provider.StoreValues(site.parameters)
    api.set_provider(openfeature_provider.AtollProvider(source))
    flags, context = api.get_client(), EvaluationContext("user-1")
    try:
        assert flags.get_boolean_value("is_on", False, context) is True
        assert flags.get_string_value("prompt/system", "", context).startswith("Be ")
        assert flags.get_float_value("rate", 0.0, context) >= 1.0
        assert flags.get_object_value("set", {}, context) == [1]
        details = flags.get_integer_details("limit", 0, context)
        assert (details.reason, details.variant) == (Reason.STATIC, "baseline")
        assert details.flag_metadata["version"] in (1, 2, 3)
        wrong_type, missing = (
            flags.get_string_details("limit", "d", context),
            flags.get_string_details("no", "d", context),
        )
        assert (wrong_type.value, wrong_type.error_code) == ("d", "TYPE_MISMATCH")
        assert (missing.value, missing.error_code) == ("d", "FLAG_NOT_FOUND")
        assert flags.get_integer_details("limit", 5).error_code == "TARGETING_KEY_MISSING"
    finally:
        api.clear_providers()


def test_openfeature_variant_is_the_arm_of_a_rollout():
    parameters = governed.MemoryParameters()
    parameters.set("limit", 1, "initial value", author="ann")
    evolver = governed.Evolver(parameters, governed.DEFER)
    proposal = evolver.propose("optimize", "T", {"key": "limit", "value": 2}, "agent")
    approved = evolver.proposals.decide(
        proposal.id, "ann", approve=True, reason="ok", content_hash=proposal.content_hash
    )
    rollout.start_approved(parameters, approved, rollout.RolloutPlan.from_policy(PLAN))
    provider = openfeature_provider.AtollProvider(openfeature_provider.StoreValues(parameters))
    results = {
        (details.value, details.reason, details.variant)
        for details in (provider.resolve_integer_details("limit", 0, EvaluationContext(f"u{n}")) for n in range(40))
    }
    assert results == {(1, Reason.STATIC, "baseline"), (2, Reason.SPLIT, "candidate")}
