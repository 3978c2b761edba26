"""Playbook API: bullets, history, held deltas and rollbacks."""

import pytest

from tests.dashboard import sample_data

KEY = {"key": "playbook/cook"}


def test_playbooks_are_listed_with_runs(authorized_client, sample_store):
    result = authorized_client.get("/api/playbooks").json()["playbooks"]
    assert result == [
        {"key": f"playbook/{sample_store.lives}", "run": sample_store.lives},
        {"key": "playbook/cook", "run": None},
    ]


def test_playbook_has_counters_size_and_limits(authorized_client, sample_store):  # B16
    result = authorized_client.get("/api/playbooks/current", params=KEY).json()
    first, second = result["bullets"]
    assert (first["id"], first["helpful"], first["section"]) == ("recipes-00001", 1, "recipes")
    assert "<script>" in second["content"]
    assert result["stats"]["bullets"] == 2
    assert 0 < result["stats"]["tokens"] <= result["limits"]["tokens"] == 8000
    survival_playbook = authorized_client.get(
        "/api/playbooks/current", params={"key": f"playbook/{sample_store.lives}"}
    ).json()
    assert survival_playbook["stats"]["bullets"] > 5


def test_old_version_is_returned(authorized_client):
    result = authorized_client.get("/api/playbooks/current", params={**KEY, "version": 1}).json()
    assert (result["version"], result["newest"]) == (1, 3)
    assert result["bullets"][0]["helpful"] == 0


def test_history_has_verdicts_with_reasons(authorized_client):  # B13
    result = authorized_client.get("/api/playbooks/history", params=KEY).json()["versions"]
    assert [item["version"] for item in result] == [3, 2, 1]
    assert [item["outcome"] for item in result[1]["verdicts"]] == ["applied", "rejected"]
    assert "not found" in result[1]["verdicts"][1]["reason"]
    assert result[0]["verdicts"][0]["reason"].startswith("it contradicts recipes-00001")
    assert result[1]["reason"] == f"lunch {sample_data.HOSTILE}"


def test_history_is_paged(authorized_client):
    first = authorized_client.get("/api/playbooks/history", params={**KEY, "limit": 2}).json()
    rest = authorized_client.get("/api/playbooks/history", params={**KEY, "limit": 2, "before": first["next"]}).json()
    assert [item["version"] for item in rest["versions"]] == [1]
    assert rest["next"] is None


def test_deltas_of_episode_have_verdicts(authorized_client, sample_store):  # B12, B13
    key = f"playbook/{sample_store.lives}"
    result = authorized_client.get("/api/playbooks/deltas", params={"key": key, "version": 2}).json()
    assert result["life"] == 1
    assert result["total"] == len(result["deltas"]) > 10
    assert {"turn", "delta", "outcome", "reason"} <= result["deltas"][0].keys()
    assert authorized_client.get("/api/playbooks/deltas", params={**KEY, "version": 1}).status_code == 404
    assert authorized_client.get("/api/playbooks/deltas", params={"key": key, "version": 99}).status_code == 404


@pytest.mark.parametrize(("apply", "outcome"), [(True, "applied"), (False, "rejected")])
def test_held_delta_is_decided_with_reason(authorized_client, apply, outcome):
    (held,) = authorized_client.get("/api/playbooks/current", params=KEY).json()["held"]
    body = {**KEY, "id": held["id"], "apply": apply, "by": "ann", "reason": "they were rubber"}
    done = authorized_client.post("/api/playbooks/settle", json=body).json()
    assert (done["outcome"], done["version"]) == (outcome, 4)
    assert "ann: they were rubber" in done["reason"]
    assert authorized_client.get("/api/playbooks/current", params=KEY).json()["held"] == []
    assert authorized_client.post("/api/playbooks/settle", json=body).status_code == 404


def test_rollback_creates_version_with_reason(authorized_client):  # B13
    body = {**KEY, "version": 1, "by": "ann", "reason": "it got worse"}
    assert authorized_client.post("/api/playbooks/rollback", json=body).json() == {**KEY, "version": 4, "restored": 1}
    newest = authorized_client.get("/api/playbooks/history", params=KEY).json()["versions"][0]
    assert (newest["restored"], newest["reason"], newest["author"]) == (1, "it got worse", "ann")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("rollback", {"version": 1, "by": "ann", "reason": " "}),
        ("rollback", {"version": 1, "by": " ", "reason": "so"}),
        ("settle", {"id": "0000", "apply": True, "by": "ann", "reason": ""}),
    ],
)
def test_change_needs_reason_and_name(authorized_client, path, body):
    assert authorized_client.post(f"/api/playbooks/{path}", json={**KEY, **body}).status_code == 422


def test_other_keys_are_not_playbooks(authorized_client):
    for key in ("risk/penalty", "playbook/nothing", "playbook/"):
        assert authorized_client.get("/api/playbooks/current", params={"key": key}).status_code == 404


@pytest.mark.parametrize("path", ["rollback", "settle"])
def test_change_needs_post_token_and_same_origin(authorized_client, path):
    body = {**KEY, "version": 1, "by": "ann", "reason": "so"}
    assert authorized_client.get(f"/api/playbooks/{path}").status_code == 405
    assert authorized_client.post(f"/api/playbooks/{path}", json=body, headers={"x-atoll-token": ""}).status_code == 401
    assert (
        authorized_client.post(
            f"/api/playbooks/{path}", json=body, headers={"origin": "http://evil.example"}
        ).status_code
        == 403
    )
