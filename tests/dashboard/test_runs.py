"""Runs, their curves, candidates, islands, models and journals over HTTP."""

from typing import Any

import pytest

from atoll import runs
from atoll.runs import progress


def get(client, path, **params):
    result = client.get(path, params=params)
    assert result.status_code == 200, result.text
    return result.json()


def test_runs_are_listed_newest_first_in_pages(client, run_store):
    ids = [run.id for run in run_store.list_runs()]
    page = get(client, "/api/runs", limit=2)
    assert [row["id"] for row in page["runs"]] == ids[:2]
    assert page["total"] == len(ids)
    rest = get(client, "/api/runs", limit=500, after=page["next"])
    assert [row["id"] for row in rest["runs"]] == ids[2:]
    assert rest["next"] is None


@pytest.mark.parametrize("run", ["walk", "asked", "failing", "elites"])
def test_run_equals_summary(run, client, run_store):
    summary, result = runs.summarize(run_store, run), get(client, f"/api/runs/{run}")
    assert result["best"] == summary.best
    assert result["best_score"] == summary.best_score
    assert result["initial_score"] == summary.initial_score
    assert result["evaluations"] == summary.totals.evaluations
    assert result["used"]["failures"] == summary.totals.failures
    assert result["used"]["calls"] == summary.totals.cost.calls
    assert result["used"]["tokens_out"] == summary.totals.cost.tokens_out
    assert result["status"] == "done"
    assert result["is_counted"] is True
    islands = {item["island"]: item for item in result["islands"]}
    for item in progress.summarize_islands(run_store, run):
        assert islands[item.index]["candidates"] == item.candidates
        assert islands[item.index]["accepted"] == item.accepted


def test_unknown_run_is_not_found(client):
    for path in ("", "/curve", "/improvements", "/lineage", "/candidates", "/islands", "/models", "/control"):
        result = client.get(f"/api/runs/unknown{path}")
        assert result.status_code == 404, path
        assert "unknown" in result.json()["detail"]
    assert client.get("/events", params={"run": "unknown"}).status_code == 404
    assert client.get("/sse/timeline", params={"run": "unknown"}).status_code == 404


def test_improvements_equal_report(client, run_store):
    result = get(client, "/api/runs/walk/improvements")["improvements"]
    assert [(item["id"], item["score"], item["evaluations"]) for item in result] == [
        (item.id, item.score, item.evaluations) for item in progress.find_improvements(run_store, "walk")
    ]


def test_curve_ends_at_best_and_has_line_per_island(client):
    run, curve = get(client, "/api/runs/walk"), get(client, "/api/runs/walk/curve")
    assert curve["whole"]["best"][-1] == run["best_score"]
    assert curve["whole"]["evaluations"][-1] == run["evaluations"]
    assert [line["island"] for line in curve["islands"]] == [0, 1, 2]
    for line in [curve["whole"], *curve["islands"]]:
        assert line["best"] == sorted(line["best"])
        assert len({len(line[name]) for name in ("step", "evaluations", "cost_usd", "tokens", "best", "mean")}) == 1
        assert len(line["step"]) <= 500


@pytest.mark.parametrize("sort", ["newest", "oldest", "best", "worst"])
def test_pages_contain_each_candidate_once(sort, client, run_store):
    result: list[dict[str, Any]] = []
    after: dict[str, Any] = {}
    while True:
        page = get(client, "/api/runs/failing/candidates", sort=sort, limit=7, **after)
        result += page["candidates"]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    rows = list(run_store.candidates("failing"))
    expected_ids = {row.id for row in rows if row.score is not None or sort in ("newest", "oldest")}
    assert len(result) == len(expected_ids)
    assert {item["id"] for item in result} == expected_ids
    keys = [item["score"] if sort in ("best", "worst") else item["step"] for item in result]
    assert keys == sorted(keys, reverse=sort in ("newest", "best"))


def test_candidates_are_filtered(client, run_store):
    rows = list(run_store.candidates("failing"))

    def ids(**params):
        return {item["id"] for item in get(client, "/api/runs/failing/candidates", limit=500, **params)["candidates"]}

    assert ids(failed=True) == {row.id for row in rows if row.score is None}
    assert ids(island=1, failed=False) == {row.id for row in rows if row.island == 1 and row.score is not None}
    assert ids(min_score=-10) == {row.id for row in rows if row.score is not None and row.score >= -10}
    assert ids(verdict="reject") == {row.id for row in rows if row.verdict == "reject"}
    assert ids(id="3.1") == {"3.1"}
    assert ids(id="3") == {"3.0", "3.1"}
    assert ids(id="nothing like it") == set()


def test_candidate_has_all_details(client, run_store):
    row = progress.find_candidate(run_store, "asked", "5.0")
    result = get(client, "/api/runs/asked/candidates/5.0")
    assert result["content"] == {"text": row.content, "size": len(row.content), "truncated": False}
    assert result["parents"] == list(row.parents)
    assert result["scores"] == list(row.scores)
    assert result["feedback"]["text"] == row.feedback
    assert (result["verdict"], result["reason"]["text"], result["by"]) == (row.verdict, row.reason, row.by)
    (diff,) = result["diffs"]
    assert diff["parent"] == row.parents[0]
    assert f"+{row.content}" in diff["diff"]
    (call,) = result["calls"]
    assert call["reply"]["text"] == "2.5"
    assert "What comes next?" in call["prompt"]["text"]


def test_lineage_has_all_candidates_parents_and_best_path(client, run_store):
    rows = {row.id: row for row in run_store.candidates("walk") if not row.is_draft}
    lineage = get(client, "/api/runs/walk/lineage")
    assert dict(zip(lineage["nodes"]["ids"], lineage["nodes"]["parents"], strict=True)) == {
        id: list(dict.fromkeys(row.parents)) for id, row in rows.items()
    }
    best = progress.find_candidate(run_store, "walk", "best")
    assert lineage["path"]["ids"] == [
        link.row.id for link in progress.get_best_lineage(run_store.candidates("walk"), best)
    ]
    ids: list[str] = []
    after: dict[str, Any] = {"first": 0}
    while after:
        page = get(client, "/api/runs/walk/lineage", limit=9, **after)
        ids += page["nodes"]["ids"]
        after = {"after": page["next"]} if page["next"] else {}
    assert set(ids) == set(rows)


def test_islands_have_clusters_cells_front_and_moves(client, run_store):
    result = get(client, "/api/runs/walk/islands")
    for island, metrics in zip(result["islands"], progress.summarize_islands(run_store, "walk"), strict=True):
        assert (island["migrants"], island["resets"]) == (metrics.migrants, metrics.resets)
        assert sum(cluster["size"] for cluster in island["clusters"]) >= min(metrics.accepted, 30) > 0
    kinds = {move["kind"] for move in result["moves"]}
    assert kinds <= {"migrated", "reset"}
    assert all("from" in move for move in result["moves"])
    fill_elites = get(client, "/api/runs/elites/islands")
    assert any(island["cells"] for island in fill_elites["islands"])
    best = max((cell for island in fill_elites["islands"] for cell in island["cells"]), key=lambda cell: cell["score"])
    assert best["id"] == get(client, "/api/runs/elites")["best"]


def test_models_count_calls(client, run_store):
    result = get(client, "/api/runs/asked/models")
    calls = len(list(run_store.journal("asked").read_kinds("replied")))
    assert sum(model["calls"] for model in result["models"]) == calls > 0
    assert result["is_counted"] is True
    assert get(client, "/api/runs/walk/models")["models"] == []


def test_events_are_paged_newest_first(client, run_store):
    records = list(run_store.journal("failing").read())
    seqs: list[int] = []
    after: dict[str, Any] = {}
    while True:
        page = get(client, "/events", run="failing", limit=50, **after)
        seqs += [item["seq"] for item in page["events"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert seqs == list(range(len(records), 0, -1))


def test_events_are_filtered_by_kind_and_text(client, run_store):
    records = list(enumerate(run_store.journal("failing").read(), 1))

    def seqs(**params):
        return [item["seq"] for item in get(client, "/events", run="failing", limit=500, **params)["events"]]

    rare = [seq for seq, record in records if record.kind in ("migrated", "reset")]
    assert seqs(kind="migrated, reset") == rare[::-1]
    broken = [seq for seq, record in records if "below zero" in str(record.data)]
    assert seqs(q="BELOW zero") == broken[::-1]
    assert seqs(q="below zero", kind="applied") == [n for n in broken[::-1] if records[n - 1][1].kind == "applied"]
    assert seqs(q="%") == [seq for seq, record in reversed(records) if "%" in str(record.data)]


def test_event_has_data(client):
    result = get(client, "/events/asked/2")
    assert result["kind"] == "founded"
    assert '"evaluation"' in result["data"]["text"]
    assert client.get("/events/asked/999999").status_code == 404


def test_invalid_cursor_is_rejected(client):
    for after in ("x", "W10", "WzFd!!", "WyJhIl0", "é", "WzFlOTk5XQ", "W251bGxd"):
        for path in ("/api/runs", "/events", "/api/runs/walk/candidates", "/api/runs/walk/lineage", "/snapshots"):
            result = client.get(path, params={"after": after})
            assert result.status_code in (200, 422), (path, after)  # lists without places ignore it


def test_metrics_are_json_or_text_for_prometheus(client):
    metrics = get(client, "/metrics")
    assert metrics["total_runs"] == len(metrics["runs"])
    text = client.get("/metrics", headers={"accept": "text/plain"})
    assert text.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'atoll_run_evaluations{run="walk",system="llmsr"}' in text.text
    assert client.get("/metrics", headers={"accept": "*/*"}).headers["content-type"] == "application/json"


def test_run_without_episodes_has_no_snapshots(client):
    assert get(client, "/snapshots", run="walk")["snapshots"] == []
