"""Playbooks in the browser: bullets, the history of deltas, what waits, and back."""

import pytest

from tests.dashboard import filled

KEY = {"key": "playbook/cook"}


def test_playbooks_are_listed_with_their_runs(decider, place):
    found = decider.get("/api/playbooks").json()["playbooks"]
    assert found == [{"key": f"playbook/{place.lives}", "run": place.lives}, {"key": "playbook/cook", "run": None}]


def test_a_playbook_is_shown_with_counters_size_and_limits(decider, place):  # B16
    found = decider.get("/api/playbooks/current", params=KEY).json()
    first, second = found["bullets"]
    assert (first["id"], first["helpful"], first["section"]) == ("recipes-00001", 1, "recipes")
    assert "<script>" in second["content"]
    assert found["stats"]["bullets"] == 2
    assert 0 < found["stats"]["tokens"] <= found["limits"]["tokens"] == 8000
    lived = decider.get("/api/playbooks/current", params={"key": f"playbook/{place.lives}"}).json()
    assert lived["stats"]["bullets"] > 5


def test_an_old_version_is_shown_as_it_was(decider):
    found = decider.get("/api/playbooks/current", params={**KEY, "version": 1}).json()
    assert (found["version"], found["newest"]) == (1, 3)
    assert found["bullets"][0]["helpful"] == 0


def test_the_history_has_every_verdict_with_its_reason(decider):  # B13
    found = decider.get("/api/playbooks/history", params=KEY).json()["versions"]
    assert [each["version"] for each in found] == [3, 2, 1]
    assert [each["outcome"] for each in found[1]["verdicts"]] == ["applied", "rejected"]
    assert "no bullet" in found[1]["verdicts"][1]["reason"]
    assert found[0]["verdicts"][0]["reason"].startswith("it contradicts recipes-00001")
    assert found[1]["reason"] == f"lunch {filled.HOSTILE}"


def test_the_history_is_paged(decider):
    first = decider.get("/api/playbooks/history", params={**KEY, "limit": 2}).json()
    rest = decider.get("/api/playbooks/history", params={**KEY, "limit": 2, "before": first["next"]}).json()
    assert [each["version"] for each in rest["versions"]] == [1]
    assert rest["next"] is None


def test_what_a_life_proposed_comes_with_its_verdicts(decider, place):  # B12, B13
    key = f"playbook/{place.lives}"
    found = decider.get("/api/playbooks/deltas", params={"key": key, "version": 2}).json()
    assert found["life"] == 1
    assert found["total"] == len(found["deltas"]) > 10
    assert {"turn", "delta", "outcome", "reason"} <= found["deltas"][0].keys()
    assert decider.get("/api/playbooks/deltas", params={**KEY, "version": 1}).status_code == 404
    assert decider.get("/api/playbooks/deltas", params={"key": key, "version": 99}).status_code == 404


@pytest.mark.parametrize(("apply", "outcome"), [(True, "applied"), (False, "rejected")])
def test_what_waits_is_decided_with_a_reason(decider, apply, outcome):
    (held,) = decider.get("/api/playbooks/current", params=KEY).json()["held"]
    said = {**KEY, "id": held["id"], "apply": apply, "by": "ann", "reason": "they were rubber"}
    done = decider.post("/api/playbooks/settle", json=said).json()
    assert (done["outcome"], done["version"]) == (outcome, 4)
    assert "ann: they were rubber" in done["reason"]
    assert decider.get("/api/playbooks/current", params=KEY).json()["held"] == []
    assert decider.post("/api/playbooks/settle", json=said).status_code == 404


def test_a_rollback_is_a_new_version_with_its_reason(decider):  # B13
    said = {**KEY, "version": 1, "by": "ann", "reason": "it got worse"}
    assert decider.post("/api/playbooks/rollback", json=said).json() == {**KEY, "version": 4, "restored": 1}
    newest = decider.get("/api/playbooks/history", params=KEY).json()["versions"][0]
    assert (newest["restored"], newest["reason"], newest["author"]) == (1, "it got worse", "ann")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("rollback", {"version": 1, "by": "ann", "reason": " "}),
        ("rollback", {"version": 1, "by": " ", "reason": "so"}),
        ("settle", {"id": "0000", "apply": True, "by": "ann", "reason": ""}),
    ],
)
def test_nothing_changes_without_a_reason_and_a_name(decider, path, said):
    assert decider.post(f"/api/playbooks/{path}", json={**KEY, **said}).status_code == 422


def test_other_values_of_the_store_are_no_playbooks(decider):
    for key in ("risk/penalty", "playbook/nothing", "playbook/"):
        assert decider.get("/api/playbooks/current", params={"key": key}).status_code == 404


@pytest.mark.parametrize("path", ["rollback", "settle"])
def test_no_change_by_get_without_the_token_or_from_elsewhere(decider, path):
    said = {**KEY, "version": 1, "by": "ann", "reason": "so"}
    assert decider.get(f"/api/playbooks/{path}").status_code == 405
    assert decider.post(f"/api/playbooks/{path}", json=said, headers={"x-atoll-token": ""}).status_code == 401
    assert (
        decider.post(f"/api/playbooks/{path}", json=said, headers={"origin": "http://evil.example"}).status_code == 403
    )
