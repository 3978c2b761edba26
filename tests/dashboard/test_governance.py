"""Governance API: proposals, parameters, rollouts and audit log."""

import json
from datetime import UTC, datetime

import pytest

from atoll import governed, store
from atoll.governed import approval
from tests import fixtures
from tests.dashboard import sample_data

GOVERNANCE = "/api/governance"


def decision(authorized_client, sample_store, number=0, **change):
    id = sample_store.proposals[number]
    proposal = authorized_client.get(f"{GOVERNANCE}/proposals/{id}").json()
    body = {
        "by": "carol",
        "reason": "measured twice",
        "approve": True,
        "content_hash": proposal["content_hash"],
        **change,
    }
    return authorized_client.post(f"{GOVERNANCE}/proposals/{id}/decision", json=body)


def read_value(sample_store, key):
    with store.Store(sample_store.path) as run_store:
        return governed.StoredParameters(run_store).get(key)


class TestProposals:  # G82, G83, 4.5.16
    def test_pending_proposals_are_listed_with_quorum(self, authorized_client, sample_store):
        result = authorized_client.get(f"{GOVERNANCE}/proposals").json()
        assert result["waiting"] == 2
        assert {item["id"] for item in result["proposals"]} == set(sample_store.proposals)
        first = authorized_client.get(f"{GOVERNANCE}/proposals/{sample_store.proposals[0]}").json()
        assert (first["needed"], first["approvals"], first["author"]) == (1, 0, "agent")
        assert first["content"] == {"key": "speed", "value": 3}
        assert len(first["content_hash"]) == 64
        assert first["expires_at"] > first["created_at"]
        assert first["rationale"] == sample_data.HOSTILE

    def test_approval_is_applied_and_recorded_with_reason(self, authorized_client, sample_store):
        done = decision(authorized_client, sample_store).json()
        assert (done["status"], done["outcome"]) == ("applied", "speed@1")
        assert read_value(sample_store, "speed").value == 3
        reviews = authorized_client.get(f"{GOVERNANCE}/proposals/{sample_store.proposals[0]}").json()["reviews"]
        assert [(item["by"], item["reason"]) for item in reviews] == [("carol", "measured twice")]

    def test_rejection_changes_nothing(self, authorized_client, sample_store):
        assert decision(authorized_client, sample_store, approve=False).json()["status"] == "rejected"
        assert authorized_client.get(f"{GOVERNANCE}/proposals", params={"status": "rejected"}).json()["total"] == 1

    @pytest.mark.parametrize(
        ("change", "status", "message"),
        [
            ({"reason": "  "}, 422, "needs a reason and a name"),
            ({"by": " "}, 422, "needs a reason and a name"),
            ({"by": "Agent "}, 409, "authors cannot approve their own proposals"),
            ({"content_hash": "0" * 64}, 409, "was edited after you read it"),
        ],
    )
    def test_invalid_decision_is_rejected(self, authorized_client, sample_store, change, status, message):
        response = decision(authorized_client, sample_store, **change)
        assert response.status_code == status
        assert message in response.json()["detail"]
        assert authorized_client.get(f"{GOVERNANCE}/proposals").json()["waiting"] == 2

    def test_decision_needs_reason(self, authorized_client, sample_store):
        assert decision(authorized_client, sample_store, reason="").status_code == 422

    def test_second_decision_is_conflict(self, authorized_client, sample_store):
        decision(authorized_client, sample_store)
        response = decision(authorized_client, sample_store, by="dora")
        assert response.status_code == 409
        assert "is applied, not pending" in response.json()["detail"]

    def test_unknown_proposal_is_not_found(self, authorized_client):
        assert authorized_client.get(f"{GOVERNANCE}/proposals/p-nothing").status_code == 404


class TestSignedDecisions:
    PATH = "/api/proposals/decisions"
    KEY = "a-key-for-signed-messages"

    def message(self, client, sample_store, **changes):
        proposal = client.get(f"{GOVERNANCE}/proposals/{sample_store.proposals[0]}").json()
        fields = {"proposal": proposal["id"], "content_hash": proposal["content_hash"], "by": "carol", "approve": True}
        fields |= {"reason": "measured twice", "nonce": "n1", "at": datetime.now(UTC).isoformat()}
        return json.dumps(fields | changes).encode()

    def send(self, client, body, key=KEY, **headers):
        signature = f"sha256={approval.sign(body, key.encode())}"
        return client.post(self.PATH, content=body, headers={"x-atoll-signature": signature, **headers})

    @pytest.fixture(autouse=True)
    def key(self, monkeypatch):
        monkeypatch.setenv("ATOLL_WEBHOOK_KEY", self.KEY)

    def test_signed_approval_is_applied_once(self, authorized_client, sample_store):
        body = self.message(authorized_client, sample_store)
        result = self.send(authorized_client, body)
        assert (result.status_code, result.json()["status"]) == (200, "applied")
        assert read_value(sample_store, "speed").value == 3
        again = self.send(authorized_client, body)
        assert (again.status_code, "was already used" in again.json()["detail"]) == (401, True)

    def test_wrong_signature_author_or_missing_token_changes_nothing(self, authorized_client, sample_store):
        body = self.message(authorized_client, sample_store)
        assert self.send(authorized_client, body, key="another-key-of-16-bytes").status_code == 401
        assert self.send(authorized_client, body, **{"x-atoll-token": ""}).status_code == 401
        own = self.message(authorized_client, sample_store, by="agent", nonce="n2")
        assert self.send(authorized_client, own).status_code == 409
        assert authorized_client.get(f"{GOVERNANCE}/proposals").json()["waiting"] == 2

    def test_signed_decisions_need_key(self, authorized_client, sample_store, monkeypatch):
        monkeypatch.delenv("ATOLL_WEBHOOK_KEY")
        result = self.send(authorized_client, self.message(authorized_client, sample_store))
        assert (result.status_code, "ATOLL_WEBHOOK_KEY" in result.json()["detail"]) == (422, True)


class TestParameters:  # G16 to G26
    def test_list_omits_reserved_keys(self, authorized_client):
        result = authorized_client.get(f"{GOVERNANCE}/parameters").json()
        assert [item["key"] for item in result["parameters"]] == ["prompt/system", "risk/penalty"]
        everything = authorized_client.get(f"{GOVERNANCE}/parameters", params={"everything": True}).json()
        assert everything["total"] > result["total"]

    def test_list_is_paged(self, authorized_client):
        first = authorized_client.get(f"{GOVERNANCE}/parameters", params={"limit": 1}).json()
        rest = authorized_client.get(f"{GOVERNANCE}/parameters", params={"limit": 1, "after": first["next"]}).json()
        assert [first["parameters"][0]["key"], rest["parameters"][0]["key"]] == ["prompt/system", "risk/penalty"]
        assert rest["next"] is None

    def test_history_and_diff(self, authorized_client):
        result = authorized_client.get(f"{GOVERNANCE}/parameters/history", params={"key": "risk/penalty"}).json()
        assert [(item["version"], item["value"], item["author"]) for item in result["changes"]] == [
            (2, "0.4", "bob"),
            (1, "0.5", "ann"),
        ]
        query = {"key": "risk/penalty", "old": 1, "new": 2}
        assert (
            "-0.5\n+0.4" in authorized_client.get(f"{GOVERNANCE}/parameters/difference", params=query).json()["patch"]
        )

    def test_rollback_works_on_locked_parameter(self, authorized_client, sample_store):  # G20, G21
        body = {"key": "risk/penalty", "by": "ann", "reason": "release week"}
        assert (
            authorized_client.post(f"{GOVERNANCE}/parameters/lock", json=body).json()["lock"]["reason"]
            == "release week"
        )
        back = authorized_client.post(f"{GOVERNANCE}/parameters/rollback", json={**body, "version": 1}).json()
        assert (back["version"], back["value"], back["lock"]["by"]) == (3, "0.5", "ann")
        assert authorized_client.post(f"{GOVERNANCE}/parameters/unlock", json=body).json()["lock"] is None
        assert read_value(sample_store, "risk/penalty") == (0.5, 3)

    @pytest.mark.parametrize("verb", ["lock", "unlock", "rollback"])
    def test_change_needs_reason(self, authorized_client, verb):
        body = {"key": "risk/penalty", "by": "ann", "reason": "   ", **({"version": 1} if verb == "rollback" else {})}
        response = authorized_client.post(f"{GOVERNANCE}/parameters/{verb}", json=body)
        assert response.status_code == 422
        assert "reason" in response.json()["detail"]

    def test_rollback_of_reserved_key_is_rejected(self, authorized_client):
        body = {"key": "proposals/p-1", "by": "mallory", "reason": "oops", "version": 1}
        response = authorized_client.post(f"{GOVERNANCE}/parameters/rollback", json=body)
        assert response.status_code == 422
        assert "are reserved" in response.json()["detail"]

    def test_unknown_key_or_version_is_not_found(self, authorized_client):
        body = {"key": "nothing", "by": "ann", "reason": "why not"}
        assert authorized_client.post(f"{GOVERNANCE}/parameters/lock", json=body).status_code == 404
        back = {**body, "key": "risk/penalty", "version": 99}
        assert authorized_client.post(f"{GOVERNANCE}/parameters/rollback", json=back).status_code == 404


def test_rollouts_and_shadows_have_intervals(authorized_client):  # 4.2, 4.3
    result = authorized_client.get(f"{GOVERNANCE}/rollouts").json()
    (rollout,), (shadow,) = result["rollouts"], result["shadows"]
    assert (rollout["key"], rollout["stage"], rollout["share"]) == ("risk/penalty", "canary", 0.01)
    assert rollout["guarded"]["late"]["interval"] == [None, None]  # nothing was measured yet
    assert (shadow["verdict"], shadow["value"]) == ("promote", 0.3)
    low, high = shadow["dimensions"]["fitness"]["evidence"]["interval"]
    assert low < shadow["dimensions"]["fitness"]["difference"] < high


def test_rollout_abort_needs_reason(authorized_client):
    body = {"key": "risk/penalty", "by": "ann", "reason": "customers complain"}
    assert authorized_client.post(f"{GOVERNANCE}/rollouts/abort", json=body).json()["stage"] == "rolled_back"
    assert authorized_client.post(f"{GOVERNANCE}/rollouts/abort", json={**body, "reason": ""}).status_code == 422


def test_audit_detects_edited_log(authorized_client, sample_store):
    result = authorized_client.get(f"{GOVERNANCE}/audit").json()
    assert result["is_whole"]
    assert result["changes"] == result["newest"][0]["seq"]
    with store.Store(sample_store.path) as run_store, run_store.database.begin_write() as connection:
        connection.exec_driver_sql("update changes set reason = 'another' where seq = 3")
    fixtures.wait_until(
        lambda: not authorized_client.get(f"{GOVERNANCE}/audit").json()["is_whole"]
    )  # the result is cached for a while
    assert "Change 3" in authorized_client.get(f"{GOVERNANCE}/audit").json()["problem"]


CHANGES = [
    ("/proposals/p/decision", {}),
    ("/parameters/lock", {"key": "risk/penalty"}),
    ("/parameters/unlock", {"key": "risk/penalty"}),
    ("/parameters/rollback", {"key": "risk/penalty", "version": 1}),
    ("/rollouts/abort", {"key": "risk/penalty"}),
]


@pytest.mark.parametrize(("path", "fields"), CHANGES)
def test_change_needs_post_token_and_same_origin(authorized_client, path, fields):
    body = {"by": "ann", "reason": "why not", **fields}
    assert authorized_client.get(GOVERNANCE + path).status_code in (404, 405)
    assert authorized_client.post(GOVERNANCE + path, json=body, headers={"x-atoll-token": ""}).status_code == 401
    elsewhere = {"origin": "http://evil.example"}
    assert authorized_client.post(GOVERNANCE + path, json=body, headers=elsewhere).status_code == 403
