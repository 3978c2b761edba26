"""Worldlines in the browser: their graph, their conversations, and the review of what was written in git."""

import pytest

from tests.dashboard import filled
from tests.mind.workspace import repositories


def of_run(run, *more):
    return "/".join((f"/api/runs/{run}/worldlines", *more))


def test_the_graph_goes_from_generations_to_worldlines_with_parents(decider, place):  # A18
    found = decider.get(of_run(place.texts), params={"island": 1}).json()
    assert found["islands"] == [0, 1]
    first, *later = found["generations"]
    assert [each["parents"] for each in first["worldlines"]] == [[], []]
    assert any(each["parents"] for generation in later for each in generation["worldlines"])
    assert first["best"] >= first["mean"]
    assert sum(found["weights"].values()) == pytest.approx(1.0)
    assert found["strategy"] == "divergence"


def test_a_conversation_has_critic_plan_judge_and_the_terms_of_fitness(decider, place):  # A3, A5
    turns = decider.get(of_run(place.workspace, "turns", "1")).json()["turns"]
    assert [each["id"] for each in turns] == ["1.0", "1.1"]
    assert turns[1]["critic"] == f"The sum is wrong. {filled.HOSTILE}"
    assert turns[1]["plan"].startswith("FILE: sums.py")
    assert "1 of 2 tests pass" in turns[0]["judge"]
    assert set(turns[1]["terms"]) == {
        "temporal_consistency",
        "divergence",
        "task_progress",
        "review_feedback",
        "resource_cost",
    }
    assert decider.get(of_run(place.workspace, "turns", "999")).status_code == 404


def test_texts_leave_nothing_to_review_and_say_why(decider, place):
    found = decider.get(of_run(place.texts, "reviews")).json()
    assert (found["reviews"], "no workspaces" in found["why"]) == ([], True)


def waiting(decider, place):
    (found,) = decider.get(of_run(place.workspace, "reviews")).json()["reviews"]
    return found


def test_what_waits_for_review_is_shown_with_its_diff(decider, place):  # A19
    found = waiting(decider, place)
    assert (found["state"], found["decisions"]) == ("waits", [])
    assert found["changes"] == [{"path": "sums.py", "added": 1, "deleted": 1}]
    patch = decider.get(of_run(place.workspace, "reviews", found["id"], "diff")).json()["patch"]
    assert f"+    return a + b  # {filled.HOSTILE}" in patch


def test_it_is_merged_only_after_its_approval(decider, place):  # A19
    found = waiting(decider, place)
    review = of_run(place.workspace, "reviews", found["id"])
    before = repositories.git(place.repository, "rev-parse", "HEAD")
    refused = decider.post(f"{review}/merge")
    assert (refused.status_code, "is not approved" in refused.json()["detail"]) == (422, True)
    assert repositories.git(place.repository, "rev-parse", "HEAD") == before
    said = {"verdict": "approve", "by": "ann", "reason": "it adds", "commit": found["commit"]}
    done = decider.post(f"{review}/decision", json=said).json()
    assert (done["state"], done["decisions"][0]["reason"]) == ("approved", "it adds")
    merged = decider.post(f"{review}/merge").json()
    assert merged["state"] == "merged"
    assert "return a + b" in (place.repository / "sums.py").read_text()
    assert "Approved-by: ann" in repositories.git(place.repository, "log", "-1", "--format=%B")
    assert not repositories.list_leftovers(place.repository)


def test_a_rejection_ends_an_approval(decider, place):
    found = waiting(decider, place)
    review = of_run(place.workspace, "reviews", found["id"])
    for verdict in ("approve", "reject"):
        said = {"verdict": verdict, "by": "ann", "reason": "on second thoughts", "commit": found["commit"]}
        assert decider.post(f"{review}/decision", json=said).status_code == 200
    assert waiting(decider, place)["state"] == "rejected"
    assert decider.post(f"{review}/merge").status_code == 422


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"reason": "  "}, "needs a reason"),
        ({"by": "ATOLL"}, "wrote this worldline and cannot approve it"),
        ({"commit": "0" * 40}, "the reviewed commit is"),
        ({"by": "  "}, "name"),
    ],
)
def test_what_may_not_be_is_refused_in_a_sentence(decider, place, change, sentence):
    found = waiting(decider, place)
    said = {"verdict": "approve", "by": "ann", "reason": "it adds", "commit": found["commit"], **change}
    answer = decider.post(of_run(place.workspace, "reviews", found["id"], "decision"), json=said)
    assert answer.status_code == 422
    assert sentence in answer.json()["detail"]
    assert waiting(decider, place)["state"] == "waits"


@pytest.mark.parametrize("verb", ["decision", "merge"])
def test_no_change_by_get_without_the_token_or_from_elsewhere(decider, place, verb):
    path = of_run(place.workspace, "reviews", "x", verb)
    said = {"verdict": "approve", "by": "ann", "reason": "so", "commit": "0" * 40}
    assert decider.get(path).status_code == 405
    assert decider.post(path, json=said, headers={"x-atoll-token": ""}).status_code == 401
    assert decider.post(path, json=said, headers={"origin": "http://evil.example"}).status_code == 403
