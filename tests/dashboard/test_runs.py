"""Runs, their curves, candidates, islands, models and journals over HTTP."""

from typing import Any

import pytest

from atoll import runs
from atoll.runs import progress


def get(client, path, **params):
    found = client.get(path, params=params)
    assert found.status_code == 200, found.text
    return found.json()


def test_the_runs_are_listed_newest_first_page_by_page(client, kept):
    ids = [run.id for run in kept.list_runs()]
    page = get(client, "/api/runs", limit=2)
    assert [row["id"] for row in page["runs"]] == ids[:2]
    assert page["total"] == len(ids)
    rest = get(client, "/api/runs", limit=500, after=page["next"])
    assert [row["id"] for row in rest["runs"]] == ids[2:]
    assert rest["next"] is None


@pytest.mark.parametrize("run", ["walk", "asked", "failing", "elites"])
def test_a_run_shows_what_its_summary_says(run, client, kept):
    summary, found = runs.summarize(kept, run), get(client, f"/api/runs/{run}")
    assert found["best"] == summary.best
    assert found["best_score"] == summary.best_score
    assert found["initial_score"] == summary.initial_score
    assert found["evaluations"] == summary.totals.evaluations
    assert found["used"]["failures"] == summary.totals.failures
    assert found["used"]["calls"] == summary.totals.cost.calls
    assert found["used"]["tokens_out"] == summary.totals.cost.tokens_out
    assert found["status"] == "done"
    assert found["is_counted"] is True
    islands = {each["island"]: each for each in found["islands"]}
    for each in progress.summarize_islands(kept, run):
        assert islands[each.index]["candidates"] == each.candidates
        assert islands[each.index]["accepted"] == each.accepted


def test_an_unknown_run_is_not_found(client):
    for path in ("", "/curve", "/improvements", "/lineage", "/candidates", "/islands", "/models", "/control"):
        found = client.get(f"/api/runs/nobody{path}")
        assert found.status_code == 404, path
        assert "nobody" in found.json()["detail"]
    assert client.get("/events", params={"run": "nobody"}).status_code == 404
    assert client.get("/sse/timeline", params={"run": "nobody"}).status_code == 404


def test_improvements_are_those_of_the_report(client, kept):
    found = get(client, "/api/runs/walk/improvements")["improvements"]
    assert [(each["id"], each["score"], each["evaluations"]) for each in found] == [
        (each.id, each.score, each.evaluations) for each in progress.find_improvements(kept, "walk")
    ]


def test_the_curve_ends_at_the_best_and_has_a_line_for_each_island(client):
    run, curve = get(client, "/api/runs/walk"), get(client, "/api/runs/walk/curve")
    assert curve["whole"]["best"][-1] == run["best_score"]
    assert curve["whole"]["evaluations"][-1] == run["evaluations"]
    assert [line["island"] for line in curve["islands"]] == [0, 1, 2]
    for line in [curve["whole"], *curve["islands"]]:
        assert line["best"] == sorted(line["best"])
        assert len({len(line[name]) for name in ("step", "evaluations", "cost_usd", "tokens", "best", "mean")}) == 1
        assert len(line["step"]) <= 500


@pytest.mark.parametrize("sort", ["newest", "oldest", "best", "worst"])
def test_all_candidates_come_once_over_pages(sort, client, kept):
    found: list[dict[str, Any]] = []
    after: dict[str, Any] = {}
    while True:
        page = get(client, "/api/runs/failing/candidates", sort=sort, limit=7, **after)
        found += page["candidates"]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    rows = list(kept.candidates("failing"))
    wanted = {row.id for row in rows if row.score is not None or sort in ("newest", "oldest")}
    assert len(found) == len(wanted)
    assert {each["id"] for each in found} == wanted
    keys = [each["score"] if sort in ("best", "worst") else each["step"] for each in found]
    assert keys == sorted(keys, reverse=sort in ("newest", "best"))


def test_candidates_are_filtered(client, kept):
    rows = list(kept.candidates("failing"))

    def ids(**params):
        return {each["id"] for each in get(client, "/api/runs/failing/candidates", limit=500, **params)["candidates"]}

    assert ids(failed=True) == {row.id for row in rows if row.score is None}
    assert ids(island=1, failed=False) == {row.id for row in rows if row.island == 1 and row.score is not None}
    assert ids(min_score=-10) == {row.id for row in rows if row.score is not None and row.score >= -10}
    assert ids(verdict="reject") == {row.id for row in rows if row.verdict == "reject"}
    assert ids(id="3.1") == {"3.1"}
    assert ids(id="3") == {"3.0", "3.1"}
    assert ids(id="nothing like it") == set()


def test_a_candidate_shows_all_that_is_known(client, kept):
    row = progress.find_candidate(kept, "asked", "5.0")
    found = get(client, "/api/runs/asked/candidates/5.0")
    assert found["content"] == {"text": row.content, "size": len(row.content), "truncated": False}
    assert found["parents"] == list(row.parents)
    assert found["scores"] == list(row.scores)
    assert found["feedback"]["text"] == row.feedback
    assert (found["verdict"], found["reason"]["text"], found["by"]) == (row.verdict, row.reason, row.by)
    (diff,) = found["diffs"]
    assert diff["parent"] == row.parents[0]
    assert f"+{row.content}" in diff["diff"]
    (call,) = found["calls"]
    assert call["reply"]["text"] == "2.5"
    assert "What comes next?" in call["prompt"]["text"]


def test_the_lineage_has_every_candidate_with_its_parents_and_the_line_to_the_best(client, kept):
    rows = {row.id: row for row in kept.candidates("walk") if not row.is_draft}
    whole = get(client, "/api/runs/walk/lineage")
    assert dict(zip(whole["nodes"]["ids"], whole["nodes"]["parents"], strict=True)) == {
        id: list(dict.fromkeys(row.parents)) for id, row in rows.items()
    }
    best = progress.find_candidate(kept, "walk", "best")
    assert whole["path"]["ids"] == [link.row.id for link in progress.get_best_lineage(kept.candidates("walk"), best)]
    seen: list[str] = []
    after: dict[str, Any] = {"first": 0}
    while after:
        page = get(client, "/api/runs/walk/lineage", limit=9, **after)
        seen += page["nodes"]["ids"]
        after = {"after": page["next"]} if page["next"] else {}
    assert set(seen) == set(rows)


def test_islands_tell_clusters_cells_front_and_moves(client, kept):
    found = get(client, "/api/runs/walk/islands")
    for island, told in zip(found["islands"], progress.summarize_islands(kept, "walk"), strict=True):
        assert (island["migrants"], island["resets"]) == (told.migrants, told.resets)
        assert sum(cluster["size"] for cluster in island["clusters"]) >= min(told.accepted, 30) > 0
    kinds = {move["kind"] for move in found["moves"]}
    assert kinds <= {"migrated", "reset"}
    assert all("from" in move for move in found["moves"])
    elites = get(client, "/api/runs/elites/islands")
    assert any(island["cells"] for island in elites["islands"])
    best = max((cell for island in elites["islands"] for cell in island["cells"]), key=lambda cell: cell["score"])
    assert best["id"] == get(client, "/api/runs/elites")["best"]


def test_models_tell_what_was_asked(client, kept):
    found = get(client, "/api/runs/asked/models")
    calls = len(list(kept.journal("asked").read_kinds("replied")))
    assert sum(model["calls"] for model in found["models"]) == calls > 0
    assert found["is_counted"] is True
    assert get(client, "/api/runs/walk/models")["models"] == []


def test_events_are_paged_newest_first_and_none_is_missing(client, kept):
    records = list(kept.journal("failing").read())
    seqs: list[int] = []
    after: dict[str, Any] = {}
    while True:
        page = get(client, "/events", run="failing", limit=50, **after)
        seqs += [each["seq"] for each in page["events"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert seqs == list(range(len(records), 0, -1))


def test_events_are_filtered_by_kind_and_by_words(client, kept):
    records = list(enumerate(kept.journal("failing").read(), 1))

    def seqs(**params):
        return [each["seq"] for each in get(client, "/events", run="failing", limit=500, **params)["events"]]

    rare = [seq for seq, record in records if record.kind in ("migrated", "reset")]
    assert seqs(kind="migrated, reset") == rare[::-1]
    broken = [seq for seq, record in records if "below zero" in str(record.data)]
    assert seqs(q="BELOW zero") == broken[::-1]
    assert seqs(q="below zero", kind="applied") == [n for n in broken[::-1] if records[n - 1][1].kind == "applied"]
    assert seqs(q="%") == [seq for seq, record in reversed(records) if "%" in str(record.data)]


def test_an_event_shows_its_data(client):
    found = get(client, "/events/asked/2")
    assert found["kind"] == "founded"
    assert '"evaluation"' in found["data"]["text"]
    assert client.get("/events/asked/999999").status_code == 404


def test_a_cursor_that_is_none_is_refused(client):
    for after in ("x", "W10", "WzFd!!", "WyJhIl0", "é", "WzFlOTk5XQ", "W251bGxd"):
        for path in ("/api/runs", "/events", "/api/runs/walk/candidates", "/api/runs/walk/lineage", "/snapshots"):
            found = client.get(path, params={"after": after})
            assert found.status_code in (200, 422), (path, after)  # lists without places ignore it


def test_metrics_are_json_or_text_for_prometheus(client):
    told = get(client, "/metrics")
    assert told["total_runs"] == len(told["runs"])
    text = client.get("/metrics", headers={"accept": "text/plain"})
    assert text.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'atoll_run_evaluations{run="walk",system="llmsr"}' in text.text
    assert client.get("/metrics", headers={"accept": "*/*"}).headers["content-type"] == "application/json"


def test_a_run_without_lives_has_no_snapshots(client):
    assert get(client, "/snapshots", run="walk")["snapshots"] == []
