"""Attacks on the governance of a store with principals. Each is refused and changes nothing."""

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from atoll import cli, errors, governed, playbook, store
from atoll.dashboard import server
from atoll.governed import principals, rollout
from atoll.governed.agent import agent_tools
from atoll.governed.approval.proposal import Review
from atoll.governed.rollout import parameter_evolver, shadow_result
from atoll.store import access

TOOL = {
    "name": "say",
    "description": "Says it.",
    "input_schema": {"type": "object"},
    "execution_type": "command",
    "command": "echo hello",
}
RULES = [
    {"prefix": "prompt/", "needs": ["proposal"], "quorum": 2},
    {"prefix": "speed", "schema": {"type": "number", "maximum": 10}},
    {"prefix": "careful/", "needs": ["canary"]},
    {"prefix": "watched/", "needs": ["shadow"]},
]


class World:
    """Store with an admin, two approvers, an agent, a service, a policy and a pending proposal."""

    def __init__(self, url: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
        self.url, self.folder, self._monkeypatch, self._capsys = url, folder, monkeypatch, capsys
        monkeypatch.delenv("ATOLL_TOKEN", raising=False)
        self.parameters = governed.StoredParameters(url)
        for key, value in (("prompt/system", "Be kind."), ("speed", 1), ("careful/x", 1), ("watched/x", 1)):
            self.parameters.set(key, value, "initial value", author="ann")
        principals.set_policy(self.parameters, RULES, "policy", author="ann")
        self.tokens = {"ann": principals.add_principal(self.parameters, "ann", "admin", "first", author="ann")}
        roles: Any = (("bob", "approver"), ("eve", "approver"), ("agent", "agent"), ("cron", "service"))
        for name, role in roles:
            with self.as_("ann"):
                self.tokens[name] = principals.add_principal(self.parameters, name, role, "more", author="ann")
        with self.as_("ann"):
            self.parameters.lock("speed", "release", author="ann")
            self.parameters.set("open", 1, "initial value", author="ann")
        self.pending = self.propose({"key": "prompt/system", "value": "Be rude."})

    def as_(self, name: str) -> Any:
        return access.use_token(self.tokens.get(name, name))

    @property
    def evolver(self) -> governed.Evolver:
        return governed.Evolver(self.parameters, governed.DEFER)

    def propose(self, content: dict[str, Any], kind: Any = "optimize") -> governed.Proposal:
        with self.as_("agent"):
            return self.evolver.propose(kind, "A title", content, "agent")

    def approve(self, proposal: governed.Proposal, name: str) -> governed.Proposal:
        with self.as_(name):
            return self.evolver.proposals.decide(
                proposal.id, name, approve=True, reason="fine", content_hash=proposal.content_hash
            )

    def cli(self, name: str, *arguments: str) -> None:
        """Runs a command with the token of a principal; raises if it is refused."""
        self._monkeypatch.setenv("ATOLL_TOKEN", self.tokens.get(name, name))
        self._capsys.readouterr()
        status = cli.main([*arguments, "--store", self.url])
        self._monkeypatch.delenv("ATOLL_TOKEN")
        if status:
            raise errors.SetupError(self._capsys.readouterr().err)

    def write(self, content: Any) -> str:
        path = self.folder / "content.json"
        path.write_text(json.dumps(content))
        return str(path)

    def post(self, path: str, body: dict[str, Any], token: str = "dashboard token", **headers: str) -> None:
        """Sends a change to the dashboard; raises if it is refused."""
        app = server.create_app(self.url, token="dashboard token")
        with TestClient(app, base_url="http://127.0.0.1:8765") as client:
            sent = {"authorization": f"Bearer {self.tokens.get(token, token)}", **headers}
            response = client.post(path, content=json.dumps(body), headers=sent)
        if response.status_code != 200:
            raise errors.SetupError(response.text)

    def state(self) -> Any:
        locks = [self.parameters.get_lock(key) is None for key in ("speed", "prompt/system")]
        return self.parameters.snapshot().values, locks


@pytest.fixture(params=["sqlite", "postgres"])
def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> Iterator[World]:
    is_file = request.param == "sqlite"
    made = World(
        str(tmp_path / "atoll.db") if is_file else request.getfixturevalue("postgres_url"),
        tmp_path,
        monkeypatch,
        capsys,
    )
    yield made
    made.parameters.close()


ATTACKS: dict[str, Callable[[World], Any]] = {}


def attack(function: Callable[[World], Any]) -> Callable[[World], Any]:
    ATTACKS[function.__name__] = function
    return function


@attack
def set_without_proposal(world: World) -> None:
    world.cli("agent", "params", "set", "prompt/system", "Be rude.", "-m", "why not")


@attack
def set_without_token(world: World) -> None:
    world.cli("", "params", "set", "open", "2", "-m", "why not")


@attack
def set_with_wrong_secret(world: World) -> None:
    world.cli("ann:guessed", "params", "set", "open", "2", "-m", "why not")


@attack
def set_under_the_name_of_the_admin(world: World) -> None:
    world.cli("agent", "params", "set", "open", "2", "-m", "why not", "--author", "ann")


@attack
def admin_sets_a_key_that_needs_a_proposal(world: World) -> None:
    world.cli("ann", "params", "set", "prompt/system", "Be rude.", "-m", "I may")


@attack
def admin_breaks_the_schema(world: World) -> None:
    world.cli("ann", "params", "unlock", "speed", "-m", "test")
    try:
        world.cli("ann", "params", "set", "speed", "400", "-m", "fast")
    finally:
        world.cli("ann", "params", "lock", "speed", "-m", "test")


@attack
def agent_unlocks(world: World) -> None:
    world.cli("agent", "params", "unlock", "speed", "-m", "why not")


@attack
def agent_locks(world: World) -> None:
    world.cli("agent", "params", "lock", "prompt/system", "-m", "why not")


@attack
def agent_rolls_back(world: World) -> None:
    world.cli("agent", "params", "rollback", "speed", "1", "-m", "why not")


@attack
def agent_moves_an_alias(world: World) -> None:
    world.cli("agent", "params", "alias", "speed", "production", "1", "-m", "why not")


@attack
def author_approves_own_proposal(world: World) -> None:
    world.cli("agent", "proposals", "approve", world.pending.id, "-m", "ok", "--hash", world.pending.content_hash)


@attack
def author_approves_under_another_name(world: World) -> None:
    arguments = ("-m", "ok", "--hash", world.pending.content_hash, "--author", "bob")
    world.cli("agent", "proposals", "approve", world.pending.id, *arguments)


@attack
def service_approves(world: World) -> None:
    world.cli("cron", "proposals", "approve", world.pending.id, "-m", "ok", "--hash", world.pending.content_hash)


@attack
def approval_without_hash(world: World) -> None:
    world.cli("bob", "proposals", "approve", world.pending.id, "-m", "ok")


@attack
def approval_of_another_hash(world: World) -> None:
    world.cli("bob", "proposals", "approve", world.pending.id, "-m", "ok", "--hash", "0" * 64)


@attack
def proposal_under_another_name(world: World) -> None:
    content = world.write({"key": "open", "value": 3})
    world.cli("agent", "proposals", "submit", "optimize", content, "--title", "T", "--author", "bob")


@attack
def agent_withdraws_the_proposal_of_another(world: World) -> None:
    with world.as_("bob"):
        foreign = world.evolver.propose("optimize", "By bob", {"key": "open", "value": 7}, "bob")
    world.cli("agent", "proposals", "withdraw", foreign.id, "-m", "mine now")


@attack
def import_of_values(world: World) -> None:
    world.cli("agent", "params", "import", world.write({"prompt/system": "Be rude."}), "-m", "import")


@attack
def import_of_a_reserved_folder(world: World) -> None:
    folder = governed.FileParameters(world.folder / "flyto")
    folder.set("tools/say", TOOL, "install", author="ann")
    folder.close()
    world.cli("ann", "params", "import", "--flyto", str(world.folder / "flyto"))


@attack
def import_of_a_forged_history(world: World) -> None:
    folder = governed.FileParameters(world.folder / "flyto")
    folder.set("history", 1, "approved by ann", author="ann")
    folder.close()
    world.cli("agent", "params", "import", "--flyto", str(world.folder / "flyto"))


@attack
def agent_adds_an_admin(world: World) -> None:
    world.cli("agent", "access", "add", "mallory", "--role", "admin")


@attack
def agent_revokes_an_approver(world: World) -> None:
    world.cli("agent", "access", "revoke", "bob", "-m", "why not")


@attack
def approver_changes_the_policy(world: World) -> None:
    world.cli("bob", "access", "policy", world.write({"rules": []}), "-m", "no rules")


@attack
def access_control_as_a_parameter(world: World) -> None:
    world.cli("ann", "params", "set", "access/control", "{}", "-m", "no rules")


@attack
def rollback_of_the_access_control(world: World) -> None:
    with world.as_("ann"):
        world.parameters.rollback("access/control", 1, "back to single-user mode")


@attack
def empty_access_control(world: World) -> None:
    with world.as_("ann"):
        world.parameters.set("access/control", {"principals": [], "rules": []}, "to single-user mode", author="ann")


@attack
def python_store_without_token(world: World) -> None:
    with governed.StoredParameters(world.url) as parameters:
        parameters.set("open", 5, "why not", author="ann")


@attack
def python_versions_without_token(world: World) -> None:
    with store.Store(world.url) as run_store:
        run_store.versions().set("prompt/system", "Be rude.", "why not", "ann")


@attack
def python_forges_approvals(world: World) -> None:
    forged = Review("bob", True, "fine", datetime.now(UTC), world.pending.content_hash)
    forged_proposal = replace(world.pending, reviews=(forged, replace(forged, by="eve")), status="approved")
    with world.as_("agent"):
        world.parameters.set(f"proposals/{world.pending.id}", forged_proposal.to_json(), "approved", author="agent")


@attack
def python_uses_the_token_of_a_pending_proposal(world: World) -> None:
    with world.as_("cron"):
        world.parameters.set("prompt/system", "Be rude.", "applied", author="cron", token=world.pending.token)


@attack
def approver_casts_both_votes(world: World) -> None:
    world.approve(world.pending, "bob")
    try:
        world.approve(world.pending, "bob")
    finally:
        assert world.evolver.proposals.get(world.pending.id).status == "pending"
        with world.as_("agent"):  # back to the first content, without reviews
            world.evolver.proposals.edit(world.pending.id, world.pending.content, "agent", "again")


@attack
def process_policy_lowers_the_quorum(world: World) -> None:
    world.approve(world.pending, "bob")
    try:
        with world.as_("cron"):
            governed.Evolver(world.parameters, governed.DEFER, policy=governed.Policy()).apply(world.pending.id)
    finally:
        with world.as_("agent"):
            world.evolver.proposals.edit(world.pending.id, world.pending.content, "agent", "again")


@attack
def rollout_without_proposal(world: World) -> None:
    arguments = ("-m", "go", "--skip-shadow", "--proposed-by", "agent", "--guard", "late:0.1")
    world.cli("bob", "rollout", "start", "prompt/system", "Be rude.", *arguments)


@attack
def rollout_breaks_the_schema(world: World) -> None:
    arguments = ("-m", "go", "--skip-shadow", "--proposed-by", "agent", "--guard", "late:0.1")
    world.cli("ann", "rollout", "start", "speed", "400", *arguments)


@attack
def python_rollout_of_an_unapproved_value(world: World) -> None:
    proposal = parameter_evolver.ParameterProposal("p1", "open", 9, "agent", 1)
    decision = parameter_evolver.Approval.for_proposal(proposal, is_approved=True, approver="bob", reason="ok")
    plan = rollout.RolloutPlan([shadow_result.Guardrail("late")], needs_shadow=False)
    with world.as_("cron"):
        rollout.Rollout(world.parameters, "open").start(proposal, decision, plan)


@attack
def approval_skips_the_canary(world: World) -> None:
    proposal = world.propose({"key": "careful/x", "value": 2})
    world.approve(proposal, "bob")
    with world.as_("bob"):
        world.parameters.set("careful/x", 2, "apply", author="bob", token=proposal.token)


@attack
def approval_skips_the_shadow_run(world: World) -> None:
    proposal = world.propose({"key": "watched/x", "value": 2})
    world.approve(proposal, "bob")
    with world.as_("bob"):
        world.parameters.set("watched/x", 2, "apply", author="bob", token=proposal.token)


@attack
def agent_saves_a_shadow_result(world: World) -> None:
    with world.as_("agent"):
        world.parameters.set("shadow/watched/x", {"value": 2, "verdict": "promote"}, "measured", author="agent")


@attack
def agent_installs_a_tool(world: World) -> None:
    with world.as_("agent"):
        world.evolver.tool_builder.save(TOOL, "install", "agent", "p-1/abc")


@attack
def agent_installs_a_skill(world: World) -> None:
    with world.as_("agent"):
        world.evolver.skill_learner.save({"name": "greet", "description": "Greets."}, "install", "agent", "t")


@attack
def mcp_agent_with_the_name_of_an_approver(world: World) -> None:
    with world.as_("agent"):
        tool = agent_tools.make_proposal_tools(world.evolver, "bob")[0]
        result = tool.execute({"definition": TOOL})
    if result.is_error:
        raise errors.SetupError(result.output)


@attack
def agent_changes_a_playbook(world: World) -> None:
    with world.as_("agent"), store.Store(world.url) as run_store:
        playbook.PlaybookStore(run_store.versions(), key="playbook/x").versions.set("playbook/x", "{}", "r", "agent")


@attack
def dashboard_token_approves(world: World) -> None:
    body = {"approve": True, "by": "bob", "reason": "ok", "content_hash": world.pending.content_hash}
    world.post(f"/api/governance/proposals/{world.pending.id}/decision", body)


@attack
def dashboard_agent_approves_as_ceo(world: World) -> None:
    body = {"approve": True, "by": "ceo", "reason": "ok", "content_hash": world.pending.content_hash}
    world.post(f"/api/governance/proposals/{world.pending.id}/decision", body, "agent")


@attack
def dashboard_token_unlocks(world: World) -> None:
    world.post("/api/governance/parameters/unlock", {"key": "speed", "by": "ann", "reason": "ok"})


@attack
def dashboard_token_rolls_back(world: World) -> None:
    body = {"key": "speed", "version": 1, "by": "ann", "reason": "ok"}
    world.post("/api/governance/parameters/rollback", body)


def _sign(world: World, by: str, key: str) -> tuple[dict[str, Any], str]:
    body = {"proposal": world.pending.id, "content_hash": world.pending.content_hash, "by": by, "approve": True}
    body |= {"reason": "ok", "nonce": f"n-{by}", "at": datetime.now(UTC).isoformat()}
    return body, hmac.new(key.encode(), json.dumps(body).encode(), hashlib.sha256).hexdigest()


@attack
def webhook_with_the_shared_key(world: World) -> None:
    world._monkeypatch.setenv("ATOLL_WEBHOOK_KEY", "a shared key of 16 bytes")
    body, signature = _sign(world, "bob", "a shared key of 16 bytes")
    world.post("/api/proposals/decisions", body, **{"x-atoll-signature": signature})


@attack
def webhook_votes_for_another_principal(world: World) -> None:
    body, signature = _sign(world, "eve", world.tokens["bob"])
    world.post("/api/proposals/decisions", body, "bob", **{"x-atoll-signature": signature})


@attack
def revoked_principal_approves(world: World) -> None:
    token = principals_after_revocation(world)
    with access.use_token(token):
        world.evolver.proposals.decide(
            world.pending.id, "zoe", approve=True, reason="ok", content_hash=world.pending.content_hash
        )


def principals_after_revocation(world: World) -> str:
    with world.as_("ann"):
        token = principals.add_principal(world.parameters, "zoe", "approver", "short", author="ann")
        principals.revoke_principal(world.parameters, "zoe", "left")
    return token


@attack
def agent_api_with_the_token_of_the_server(world: World) -> None:
    world.post("/api/agent/proposals", {"title": "T", "content": {"key": "open", "value": 2}})


@attack
def agent_api_with_a_wrong_secret(world: World) -> None:
    world.post("/api/agent/proposals", {"title": "T", "content": {"key": "open", "value": 2}}, "agent:guessed")


@attack
def agent_proposes_by_http_under_another_name(world: World) -> None:
    world.post("/api/agent/proposals", {"title": "T", "content": {"key": "open", "value": 2}, "by": "bob"}, "agent")


@attack
def service_proposes_by_http(world: World) -> None:
    world.post("/api/agent/proposals", {"title": "T", "content": {"key": "open", "value": 2}, "by": "cron"}, "cron")


@attack
def bundle_hides_a_reserved_key(world: World) -> None:
    changes = [{"key": "open", "value": 2}, {"key": "access/control", "value": {"principals": [], "rules": []}}]
    world.post("/api/agent/proposals", {"title": "T", "content": {"changes": changes}, "by": "agent"}, "agent")


@attack
def bundle_hides_a_key_that_needs_a_canary(world: World) -> None:
    proposal = world.propose({"changes": [{"key": "open", "value": 2}, {"key": "careful/x", "value": 2}]})
    world.approve(proposal, "bob")
    with world.as_("bob"), world.parameters.transaction("apply", author="bob") as changes:
        changes.set("open", 2, token=proposal.token)
        changes.set("careful/x", 2, token=f"{proposal.token}/1")


@attack
def agent_ends_a_canary_by_http(world: World) -> None:
    start_canary(world)
    try:
        world.post("/api/governance/rollouts/update", {"key": "careful/x"}, "agent")
    finally:
        with world.as_("bob"):
            rollout.Rollout(world.parameters, "careful/x").abort("end of the test", author="bob")


@attack
def canary_of_a_bundle_gets_another_value(world: World) -> None:
    start_canary(world)
    with world.as_("cron"):
        stored = world.parameters.get("rollout/careful/x")
        world.parameters.set("rollout/careful/x", {**stored.value, "value": 9}, "forged", author="cron")


CANARY_ATTACKS = ("agent_ends_a_canary_by_http", "canary_of_a_bundle_gets_another_value")  # start one first


def start_canary(world: World) -> None:
    proposal = world.propose({"changes": [{"key": "careful/x", "value": 2}, {"key": "open", "value": 2}]})
    approved = world.approve(proposal, "bob")
    plan = rollout.RolloutPlan([shadow_result.Guardrail("late")], needs_shadow=False)
    with world.as_("bob"):
        rollout.start_approved(world.parameters, approved, plan)


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_is_refused_and_changes_nothing(world: World, name: str) -> None:
    before, locks = world.state()
    with pytest.raises((errors.SetupError, errors.Conflict)):
        ATTACKS[name](world)
    after, locks_after = world.state()
    ignored = ("access/", "nonces/", "proposals/", *(("rollout/",) if name in CANARY_ATTACKS else ()))
    assert locks_after == locks
    assert {k: v for k, v in after.items() if not k.startswith(ignored)} == {
        k: v for k, v in before.items() if not k.startswith(ignored)
    }
    assert world.evolver.proposals.get(world.pending.id).status == "pending"
    rules = world.parameters.get_access()
    assert set(rules.principals) == {"ann", "bob", "eve", "agent", "cron"}
    assert len(rules.rules) == len(RULES)
    world.parameters.verify()


def test_honest_pipeline_works(world: World) -> None:
    world.approve(world.pending, "bob")
    assert world.approve(world.pending, "eve").status == "approved"
    world.cli("cron", "proposals", "apply")
    assert world.parameters.get("prompt/system").value == "Be rude."
    last = world.parameters.history("prompt/system", 1)[0]
    assert last.author == "cron"


def test_principals_decide_by_login_and_by_webhook(world: World) -> None:
    decision = {"approve": True, "by": "bob", "reason": "ok", "content_hash": world.pending.content_hash}
    app = server.create_app(world.url, token="dashboard token")
    with TestClient(app, base_url="http://127.0.0.1:8765", follow_redirects=False) as client:
        assert client.get("/", params={"token": world.tokens["bob"]}).status_code == 303
        origin = {"origin": "http://127.0.0.1:8765"}
        path = f"/api/governance/proposals/{world.pending.id}/decision"
        response = client.post(path, json=decision, headers=origin)
        assert (response.status_code, response.json()["approvals"]) == (200, 1)
        assert client.get("/api/governance/proposals").json()["single_user"] is False
    body, signature = _sign(world, "eve", world.tokens["eve"])
    world.post("/api/proposals/decisions", body, "eve", **{"x-atoll-signature": signature})
    assert world.parameters.get("prompt/system").value == "Be rude."
    reviews = world.evolver.proposals.get(world.pending.id).reviews
    assert [review.by for review in reviews] == ["bob", "eve"]


def test_database_role_of_an_agent_cannot_write(postgres_server: Any, postgres_url: str) -> None:
    with governed.StoredParameters(postgres_url) as parameters:
        parameters.set("speed", 1, "initial value", author="ann")
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO guest")
        admin.execute("SET ROLE guest")
        assert admin.execute("SELECT count(*) FROM changes").fetchone() == (1,)
        copy = "INSERT INTO changes SELECT * FROM changes"
        for statement in ("DELETE FROM changes", "UPDATE changes SET author = 'x'", copy):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                admin.execute(statement.encode())
        admin.execute("RESET ROLE")
        admin.execute("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM guest")
