"""What people decide in the browser: proposals, parameters, rollouts, and whether the log is whole."""

import pytest

from atoll import governed, store
from tests import fixtures
from tests.dashboard import filled

GOVERNANCE = "/api/governance"


def decision(decider, place, number=0, **change):
    id = place.proposals[number]
    seen = decider.get(f"{GOVERNANCE}/proposals/{id}").json()
    said = {"by": "carol", "reason": "measured twice", "approve": True, "content_hash": seen["content_hash"], **change}
    return decider.post(f"{GOVERNANCE}/proposals/{id}/decision", json=said)


def value_of(place, key):
    with store.Store(place.path) as kept:
        return governed.StoredParameters(kept).get(key)


class TestProposals:  # G82, G83, 4.5.16
    def test_those_that_wait_are_listed_with_what_a_decision_takes(self, decider, place):
        found = decider.get(f"{GOVERNANCE}/proposals").json()
        assert found["waiting"] == 2
        assert {each["id"] for each in found["proposals"]} == set(place.proposals)
        first = decider.get(f"{GOVERNANCE}/proposals/{place.proposals[0]}").json()
        assert (first["needed"], first["approvals"], first["author"]) == (1, 0, "agent")
        assert first["content"] == {"key": "speed", "value": 3}
        assert len(first["content_hash"]) == 64
        assert first["expires_at"] > first["created_at"]
        assert first["rationale"] == filled.HOSTILE

    def test_an_approval_is_carried_out_and_kept_with_its_reason(self, decider, place):
        done = decision(decider, place).json()
        assert (done["status"], done["outcome"]) == ("applied", "speed@1")
        assert value_of(place, "speed").value == 3
        reviews = decider.get(f"{GOVERNANCE}/proposals/{place.proposals[0]}").json()["reviews"]
        assert [(each["by"], each["reason"]) for each in reviews] == [("carol", "measured twice")]

    def test_a_rejection_changes_nothing(self, decider, place):
        assert decision(decider, place, approve=False).json()["status"] == "rejected"
        assert decider.get(f"{GOVERNANCE}/proposals", params={"status": "rejected"}).json()["total"] == 1

    @pytest.mark.parametrize(
        ("change", "status", "sentence"),
        [
            ({"reason": "  "}, 422, "needs a reason and a name"),
            ({"by": " "}, 422, "needs a reason and a name"),
            ({"by": "Agent "}, 409, "authors cannot approve their own proposals"),
            ({"content_hash": "0" * 64}, 409, "was edited after you read it"),
        ],
    )
    def test_what_may_not_be_is_refused_in_a_sentence(self, decider, place, change, status, sentence):
        answer = decision(decider, place, **change)
        assert answer.status_code == status
        assert sentence in answer.json()["detail"]
        assert decider.get(f"{GOVERNANCE}/proposals").json()["waiting"] == 2

    def test_a_reason_is_compulsory(self, decider, place):
        assert decision(decider, place, reason="").status_code == 422

    def test_a_second_decision_is_a_conflict(self, decider, place):
        decision(decider, place)
        answer = decision(decider, place, by="dora")
        assert answer.status_code == 409
        assert "is applied, not pending" in answer.json()["detail"]

    def test_an_unknown_one_is_not_found(self, decider):
        assert decider.get(f"{GOVERNANCE}/proposals/p-nothing").status_code == 404


class TestParameters:  # G16 to G26
    def test_they_are_listed_without_what_has_a_place_of_its_own(self, decider):
        found = decider.get(f"{GOVERNANCE}/parameters").json()
        assert [each["key"] for each in found["parameters"]] == ["prompt/system", "risk/penalty"]
        everything = decider.get(f"{GOVERNANCE}/parameters", params={"everything": True}).json()
        assert everything["total"] > found["total"]

    def test_pages_follow_each_other(self, decider):
        first = decider.get(f"{GOVERNANCE}/parameters", params={"limit": 1}).json()
        rest = decider.get(f"{GOVERNANCE}/parameters", params={"limit": 1, "after": first["next"]}).json()
        assert [first["parameters"][0]["key"], rest["parameters"][0]["key"]] == ["prompt/system", "risk/penalty"]
        assert rest["next"] is None

    def test_history_and_difference(self, decider):
        found = decider.get(f"{GOVERNANCE}/parameters/history", params={"key": "risk/penalty"}).json()
        assert [(each["version"], each["value"], each["author"]) for each in found["changes"]] == [
            (2, "0.4", "bob"),
            (1, "0.5", "ann"),
        ]
        asked = {"key": "risk/penalty", "old": 1, "new": 2}
        assert "-0.5\n+0.4" in decider.get(f"{GOVERNANCE}/parameters/difference", params=asked).json()["patch"]

    def test_a_lock_holds_and_a_rollback_passes_it(self, decider, place):  # G20, G21
        said = {"key": "risk/penalty", "by": "ann", "reason": "release week"}
        assert decider.post(f"{GOVERNANCE}/parameters/lock", json=said).json()["lock"]["reason"] == "release week"
        back = decider.post(f"{GOVERNANCE}/parameters/rollback", json={**said, "version": 1}).json()
        assert (back["version"], back["value"], back["lock"]["by"]) == (3, "0.5", "ann")
        assert decider.post(f"{GOVERNANCE}/parameters/unlock", json=said).json()["lock"] is None
        assert value_of(place, "risk/penalty") == (0.5, 3)

    @pytest.mark.parametrize("verb", ["lock", "unlock", "rollback"])
    def test_no_change_without_a_reason(self, decider, verb):
        said = {"key": "risk/penalty", "by": "ann", "reason": "   ", **({"version": 1} if verb == "rollback" else {})}
        answer = decider.post(f"{GOVERNANCE}/parameters/{verb}", json=said)
        assert answer.status_code == 422
        assert "reason" in answer.json()["detail"]

    def test_a_proposal_is_no_parameter_and_does_not_come_back_by_a_rollback(self, decider):
        said = {"key": "proposals/p-1", "by": "mallory", "reason": "oops", "version": 1}
        answer = decider.post(f"{GOVERNANCE}/parameters/rollback", json=said)
        assert answer.status_code == 422
        assert "are reserved" in answer.json()["detail"]

    def test_an_unknown_key_or_version_is_not_found(self, decider):
        said = {"key": "nothing", "by": "ann", "reason": "why not"}
        assert decider.post(f"{GOVERNANCE}/parameters/lock", json=said).status_code == 404
        back = {**said, "key": "risk/penalty", "version": 99}
        assert decider.post(f"{GOVERNANCE}/parameters/rollback", json=back).status_code == 404


def test_rollouts_and_shadows_come_with_their_intervals(decider):  # 4.2, 4.3
    found = decider.get(f"{GOVERNANCE}/rollouts").json()
    (rollout,), (shadow,) = found["rollouts"], found["shadows"]
    assert (rollout["key"], rollout["stage"], rollout["share"]) == ("risk/penalty", "canary", 0.01)
    assert rollout["guarded"]["late"]["interval"] == [None, None]  # nothing was measured yet
    assert (shadow["verdict"], shadow["value"]) == ("promote", 0.3)
    low, high = shadow["dimensions"]["fitness"]["evidence"]["interval"]
    assert low < shadow["dimensions"]["fitness"]["difference"] < high


def test_a_rollout_is_aborted_with_a_reason(decider):
    said = {"key": "risk/penalty", "by": "ann", "reason": "customers complain"}
    assert decider.post(f"{GOVERNANCE}/rollouts/abort", json=said).json()["stage"] == "rolled_back"
    assert decider.post(f"{GOVERNANCE}/rollouts/abort", json={**said, "reason": ""}).status_code == 422


def test_a_log_that_somebody_edited_is_told_from_one_that_is_whole(decider, place):
    found = decider.get(f"{GOVERNANCE}/audit").json()
    assert found["is_whole"]
    assert found["changes"] == found["newest"][0]["seq"]
    with store.Store(place.path) as kept, kept.database.begin_write() as connection:
        connection.exec_driver_sql("update changes set reason = 'another' where seq = 3")
    fixtures.wait_until(lambda: not decider.get(f"{GOVERNANCE}/audit").json()["is_whole"])  # what took long holds for a while
    assert "Change 3" in decider.get(f"{GOVERNANCE}/audit").json()["problem"]


CHANGES = [
    ("/proposals/p/decision", {}),
    ("/parameters/lock", {"key": "risk/penalty"}),
    ("/parameters/unlock", {"key": "risk/penalty"}),
    ("/parameters/rollback", {"key": "risk/penalty", "version": 1}),
    ("/rollouts/abort", {"key": "risk/penalty"}),
]


@pytest.mark.parametrize(("path", "said"), CHANGES)
def test_no_change_by_get_without_the_token_or_from_elsewhere(decider, path, said):
    body = {"by": "ann", "reason": "why not", **said}
    assert decider.get(GOVERNANCE + path).status_code in (404, 405)
    assert decider.post(GOVERNANCE + path, json=body, headers={"x-atoll-token": ""}).status_code == 401
    elsewhere = {"origin": "http://evil.example"}
    assert decider.post(GOVERNANCE + path, json=body, headers=elsewhere).status_code == 403
