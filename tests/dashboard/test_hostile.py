"""Foreign text comes out as data or as plain text, and never longer than a page can bear."""

import pytest
from starlette.testclient import TestClient

from atoll import evaluation, store
from atoll.dashboard import server
from atoll.journal import Record
from tests.dashboard.browser import stage
from tests.runs import samples
from tests.store.samples import applied, founded, judged

PATHS = ("", "/curve", "/improvements", "/lineage", "/candidates", "/islands", "/models", "/control")


def test_all_that_is_known_of_a_hostile_run_is_json(client):
    paths = [f"/api/runs/{stage.HOSTILE}{path}" for path in PATHS]
    paths += [f"/api/runs/{stage.HOSTILE}/candidates/{step}.0" for step in range(5)]
    paths += [f"/events?run={stage.HOSTILE}", f"/events/{stage.HOSTILE}/4", "/metrics", "/api/runs"]
    for path in paths:
        found = client.get(path)
        assert found.status_code == 200, (path, found.text[:300])
        assert found.headers["content-type"] == "application/json"
        assert len(found.content) < 4_000_000, path


def test_numbers_as_great_as_there_are_can_be_shown_and_paged_through():
    great = 1.7e308
    with store.Store("sqlite://") as kept:
        kept.create_run("great", samples.plan())
        written = [samples.started(), founded(-great, "start\n")]
        for step, score in enumerate((great, great, -great), 1):
            measures = {"complexity": score, "diversity": -score}
            found = evaluation.to_data(evaluation.Evaluation(score, (score, -score), measures))
            data = {**judged(f"{step}.0", score, content="x", parents=["0.0"]).data, "evaluation": found}
            decision = {"id": f"{step}.0", "decision": ["accept", "", "", None]}
            written += [Record("judged", step, 0, data), applied(step, decision)]
        kept.journal("great").write(*written)
        with TestClient(server.create_app(kept), base_url="http://127.0.0.1:8765") as client:
            for path in (*PATHS, "/worldlines"):
                assert client.get(f"/api/runs/great{path}").status_code == 200, path
            path = "/api/runs/great/candidates?sort=best&limit=1"
            first = client.get(path).json()
            second = client.get(f"{path}&after={first['next']}").json()
            assert [each["candidates"][0]["score"] for each in (first, second)] == [great, great]
            assert first["candidates"] != second["candidates"]


def test_a_source_that_is_very_long_is_cut_and_the_rest_can_be_fetched(client, kept):
    whole = kept.candidates(stage.HOSTILE).get("3.0").content
    found = client.get(f"/api/runs/{stage.HOSTILE}/candidates/3.0").json()["content"]
    assert found["truncated"] is True
    assert found["size"] == len(whole)
    assert whole.startswith(found["text"])
    first = client.get(f"/api/runs/{stage.HOSTILE}/candidates/3.0/source")
    rest = client.get(f"/api/runs/{stage.HOSTILE}/candidates/3.0/source", params={"offset": len(first.text)})
    assert first.text + rest.text == whole
    assert int(first.headers["x-size"]) == len(whole)


def test_an_artifact_is_text_to_be_saved_whatever_it_is(client):
    listed = client.get(f"/api/runs/{stage.HOSTILE}/candidates/1.0").json()["artifacts"]
    assert listed
    for each in listed:
        found = client.get(each["url"])
        assert found.status_code == 200
        assert found.headers["content-type"] == "text/plain; charset=utf-8"
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["content-disposition"].startswith("attachment")
        assert "<script>" in found.text
    assert client.get(f"/api/runs/{stage.HOSTILE}/candidates/1.0/artifacts/none").status_code == 404


def test_prometheus_text_keeps_labels_on_their_line(client):
    lines = client.get("/metrics", headers={"accept": "text/plain"}).text.splitlines()
    assert all(line.startswith(("#", "atoll_")) for line in lines)


@pytest.mark.parametrize("id", ["99999999999999999999.0", "0.d99999999999999999999", f"{'9' * 100}.0"])
def test_a_candidate_that_no_store_could_hold_is_not_found(client, id):
    found = client.get(f"/api/runs/{stage.HOSTILE}/candidates/{id}")
    assert found.status_code == 404, found.text[:300]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_setting_that_is_not_finite_is_refused(client, owner, number):
    order = f'{{"action": "set", "values": {{"mode": {number}}}}}'
    headers = {**owner, "content-type": "application/json"}
    found = client.post(f"/api/runs/{stage.HOSTILE}/control", content=order, headers=headers)
    assert (found.status_code, "give finite numbers" in found.text) == (422, True), found.text[:300]
