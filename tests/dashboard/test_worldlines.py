"""Worldline API: graph, conversations and reviews."""

import pytest

from tests.dashboard import sample_data
from tests.mind.workspace import repositories


def run_path(run, *more):
    return "/".join((f"/api/runs/{run}/worldlines", *more))


def test_graph_has_generations_and_parents(authorized_client, sample_store):  # A18
    result = authorized_client.get(run_path(sample_store.texts), params={"island": 1}).json()
    assert result["islands"] == [0, 1]
    (problem,) = result["problems"]
    assert problem["islands"] == result["islands"]
    assert problem["candidate"]
    first, *later = result["generations"]
    assert [item["parents"] for item in first["worldlines"]] == [[], []]
    assert any(item["parents"] for generation in later for item in generation["worldlines"])
    assert first["best"] >= first["mean"]
    assert sum(result["weights"].values()) == pytest.approx(1.0)
    assert result["strategy"] == "divergence"


def test_conversation_has_critique_plan_feedback_and_fitness_terms(authorized_client, sample_store):  # A3, A5
    turns = authorized_client.get(run_path(sample_store.workspace, "turns", "1")).json()["turns"]
    assert [item["id"] for item in turns] == ["1.0", "1.1"]
    assert turns[1]["critic"] == f"The sum is wrong. {sample_data.HOSTILE}"
    assert turns[1]["plan"].startswith("FILE: sums.py")
    assert "1 of 2 tests pass" in turns[0]["judge"]
    assert set(turns[1]["terms"]) == {
        "temporal_consistency",
        "divergence",
        "task_progress",
        "review_feedback",
        "resource_cost",
    }
    assert authorized_client.get(run_path(sample_store.workspace, "turns", "999")).status_code == 404


def test_text_run_has_no_reviews_and_explains_why(authorized_client, sample_store):
    result = authorized_client.get(run_path(sample_store.texts, "reviews")).json()
    assert (result["reviews"], "no workspaces" in result["why"]) == ([], True)


def get_review(authorized_client, sample_store):
    (result,) = authorized_client.get(run_path(sample_store.workspace, "reviews")).json()["reviews"]
    return result


def test_review_has_diff_of_pending_worldline(authorized_client, sample_store):  # A19
    result = get_review(authorized_client, sample_store)
    assert (result["state"], result["decisions"]) == ("waits", [])
    assert result["changes"] == [{"path": "sums.py", "added": 1, "deleted": 1}]
    patch = authorized_client.get(run_path(sample_store.workspace, "reviews", result["id"], "diff")).json()["patch"]
    assert f"+    return a + b  # {sample_data.HOSTILE}" in patch


def test_merge_needs_approval(authorized_client, sample_store):  # A19
    result = get_review(authorized_client, sample_store)
    review = run_path(sample_store.workspace, "reviews", result["id"])
    before = repositories.git(sample_store.repository, "rev-parse", "HEAD")
    refused = authorized_client.post(f"{review}/merge")
    assert (refused.status_code, "is not approved" in refused.json()["detail"]) == (422, True)
    assert repositories.git(sample_store.repository, "rev-parse", "HEAD") == before
    body = {"verdict": "approve", "by": "ann", "reason": "it adds", "commit": result["commit"]}
    done = authorized_client.post(f"{review}/decision", json=body).json()
    assert (done["state"], done["decisions"][0]["reason"]) == ("approved", "it adds")
    merged = authorized_client.post(f"{review}/merge").json()
    assert merged["state"] == "merged"
    assert "return a + b" in (sample_store.repository / "sums.py").read_text()
    assert "Approved-by: ann" in repositories.git(sample_store.repository, "log", "-1", "--format=%B")
    assert not repositories.list_leftovers(sample_store.repository)


def test_rejection_revokes_approval(authorized_client, sample_store):
    result = get_review(authorized_client, sample_store)
    review = run_path(sample_store.workspace, "reviews", result["id"])
    for verdict in ("approve", "reject"):
        body = {"verdict": verdict, "by": "ann", "reason": "on second thoughts", "commit": result["commit"]}
        assert authorized_client.post(f"{review}/decision", json=body).status_code == 200
    assert get_review(authorized_client, sample_store)["state"] == "rejected"
    assert authorized_client.post(f"{review}/merge").status_code == 422


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reason": "  "}, "needs a reason"),
        ({"by": "ATOLL"}, "wrote this worldline and cannot approve it"),
        ({"commit": "0" * 40}, "the reviewed commit is"),
        ({"by": "  "}, "name"),
    ],
)
def test_invalid_review_decision_is_rejected(authorized_client, sample_store, change, message):
    result = get_review(authorized_client, sample_store)
    body = {"verdict": "approve", "by": "ann", "reason": "it adds", "commit": result["commit"], **change}
    response = authorized_client.post(run_path(sample_store.workspace, "reviews", result["id"], "decision"), json=body)
    assert response.status_code == 422
    assert message in response.json()["detail"]
    assert get_review(authorized_client, sample_store)["state"] == "waits"


@pytest.mark.parametrize("verb", ["decision", "merge"])
def test_change_needs_post_token_and_same_origin(authorized_client, sample_store, verb):
    path = run_path(sample_store.workspace, "reviews", "x", verb)
    body = {"verdict": "approve", "by": "ann", "reason": "so", "commit": "0" * 40}
    assert authorized_client.get(path).status_code == 405
    assert authorized_client.post(path, json=body, headers={"x-atoll-token": ""}).status_code == 401
    assert authorized_client.post(path, json=body, headers={"origin": "http://evil.example"}).status_code == 403
