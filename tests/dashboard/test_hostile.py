"""Untrusted text is returned as JSON or plain text with limited length."""

import pytest
from starlette.testclient import TestClient

from atoll import evaluation, store
from atoll.dashboard import server
from atoll.journal import Record
from tests.dashboard.browser import stage
from tests.runs import samples
from tests.store.samples import applied, founded, judged

PATHS = ("", "/curve", "/improvements", "/lineage", "/candidates", "/islands", "/models", "/control")


def test_hostile_run_is_returned_as_json(client):
    paths = [f"/api/runs/{stage.HOSTILE}{path}" for path in PATHS]
    paths += [f"/api/runs/{stage.HOSTILE}/candidates/{step}.0" for step in range(5)]
    paths += [f"/events?run={stage.HOSTILE}", f"/events/{stage.HOSTILE}/4", "/metrics", "/api/runs"]
    for path in paths:
        response = client.get(path)
        assert response.status_code == 200, (path, response.text[:300])
        assert response.headers["content-type"] == "application/json"
        assert len(response.content) < 4_000_000, path


def test_largest_numbers_are_shown_and_paged():
    great = 1.7e308
    with store.Store("sqlite://") as run_store:
        run_store.create_run("great", samples.plan())
        written = [samples.started(), founded(-great, "start\n")]
        for step, score in enumerate((great, great, -great), 1):
            measures = {"complexity": score, "diversity": -score}
            response = evaluation.to_data(evaluation.Evaluation(score, (score, -score), measures))
            data = {**judged(f"{step}.0", score, content="x", parents=["0.0"]).data, "evaluation": response}
            decision = {"id": f"{step}.0", "decision": ["accept", "", "", None]}
            written += [Record("judged", step, 0, data), applied(step, decision)]
        run_store.journal("great").write(*written)
        with TestClient(server.create_app(run_store), base_url="http://127.0.0.1:8765") as client:
            for path in (*PATHS, "/worldlines"):
                assert client.get(f"/api/runs/great{path}").status_code == 200, path
            path = "/api/runs/great/candidates?sort=best&limit=1"
            first = client.get(path).json()
            second = client.get(f"{path}&after={first['next']}").json()
            assert [item["candidates"][0]["score"] for item in (first, second)] == [great, great]
            assert first["candidates"] != second["candidates"]


def test_long_source_is_truncated_and_downloadable(client, run_store):
    content = run_store.candidates(stage.HOSTILE).get("3.0").content
    response = client.get(f"/api/runs/{stage.HOSTILE}/candidates/3.0").json()["content"]
    assert response["truncated"] is True
    assert response["size"] == len(content)
    assert content.startswith(response["text"])
    first = client.get(f"/api/runs/{stage.HOSTILE}/candidates/3.0/source")
    rest = client.get(f"/api/runs/{stage.HOSTILE}/candidates/3.0/source", params={"offset": len(first.text)})
    assert first.text + rest.text == content
    assert int(first.headers["x-size"]) == len(content)


def test_artifact_is_plain_text_download(client):
    listed = client.get(f"/api/runs/{stage.HOSTILE}/candidates/1.0").json()["artifacts"]
    assert listed
    for item in listed:
        response = client.get(item["url"])
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/plain; charset=utf-8"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["content-disposition"].startswith("attachment")
        assert "<script>" in response.text
    assert client.get(f"/api/runs/{stage.HOSTILE}/candidates/1.0/artifacts/none").status_code == 404


def test_prometheus_labels_stay_on_one_line(client):
    lines = client.get("/metrics", headers={"accept": "text/plain"}).text.splitlines()
    assert all(line.startswith(("#", "atoll_")) for line in lines)


@pytest.mark.parametrize("id", ["99999999999999999999.0", "0.d99999999999999999999", f"{'9' * 100}.0"])
def test_oversized_candidate_id_is_not_found(client, id):
    response = client.get(f"/api/runs/{stage.HOSTILE}/candidates/{id}")
    assert response.status_code == 404, response.text[:300]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_non_finite_setting_is_rejected(client, token_headers, number):
    order = f'{{"action": "set", "values": {{"mode": {number}}}}}'
    headers = {**token_headers, "content-type": "application/json"}
    response = client.post(f"/api/runs/{stage.HOSTILE}/control", content=order, headers=headers)
    assert (response.status_code, "give finite numbers" in response.text) == (422, True), response.text[:300]
