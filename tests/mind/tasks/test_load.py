"""Loading of problems without solutions, and the grader."""

import json

import pytest

from atoll import cli, errors
from atoll.mind.tasks import load, trip

SECRET = ("golden_plan", "cities", "durations", "pred_5shot_pro")


def test_visible_fields_exclude_solutions():
    assert not set(SECRET) & set(load.VISIBLE_FIELDS)


def test_load_problems_shuffles_by_seed(rows_file):
    orders = {seed: [list(problem.moves) for problem in load.load_problems(rows_file, seed)] for seed in (0, 0, 1)}
    assert orders[0] != orders[1]
    assert [sorted(map(str, moves)) for moves in orders[0]] == [sorted(map(str, moves)) for moves in orders[1]]


def test_only_the_text_reaches_the_problem(rows_file):
    for line in rows_file.read_text().splitlines():
        row = json.loads(line)
        others = {
            "parsed_constraints": {"direct_flights": [{"from": "A", "to": "B"}]},
            "dist_matrix": {},
            "cities": "A",
        }
        assert load.parse_row({**row, **others}) == load.parse_row({name: row[name] for name in load.VISIBLE_FIELDS})


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "Line 1"), ("", "has no problems"), ('{"id": "x", "task": "chess"}', "Use trip_planning")],
)
def test_load_problems_reports_bad_file(tmp_path, text, message):
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(errors.SetupError, match=message):
        load.load_problems(path)


def test_grader_rejects_incomplete_trip(rows_file):
    row = json.loads(rows_file.read_text().splitlines()[0])
    lines = row["golden_plan"].splitlines()
    assert load.grade(row, row["golden_plan"]) is True
    assert load.grade(row, "\n".join(lines[:-1])) is False
    assert load.grade({**row, "golden_plan": None}, row["golden_plan"]) is None


def test_grader_accepts_every_trip_that_fits_the_text(rows_file):
    row = json.loads(rows_file.read_text().splitlines()[0])
    assert load.grade({**row, "golden_plan": "**Day 1-9:** Visit Atlantis for 9 days."}, row["golden_plan"]) is True


def test_grader_rejects_day_with_invalid_extra_meeting(rows_file):
    row = json.loads(rows_file.read_text().splitlines()[-1])
    golden = "\n".join(row["golden_plan"])
    early = next(line for line in row["golden_plan"] if line.startswith("You meet"))
    assert load.grade(row, golden) is True
    assert load.grade(row, f"{golden}\n{early.replace('meet ', 'meet Zoe ')}") is False
    assert load.grade(row, f"{golden}\nYou wait until 0:00AM.") is False


def test_grader_rejects_trip_on_other_days(rows_file):
    row = json.loads(rows_file.read_text().splitlines()[0])
    stays = trip.parse_stays(row["golden_plan"])
    late = trip.format_stays([trip.Stay(stay.city, stay.first_day + 1, stay.last_day + 1) for stay in stays])
    assert load.grade(row, late) is False


def test_grader_runs_in_subprocess(rows_file):
    rows = [json.loads(line) for line in rows_file.read_text().splitlines()]
    plans = {
        row["id"]: "\n".join(row["golden_plan"]) if isinstance(row["golden_plan"], list) else row["golden_plan"]
        for row in rows
    }
    assert load.grade_in_subprocess(rows_file, plans) == dict.fromkeys(plans, True)
    assert load.grade_in_subprocess(rows_file, dict.fromkeys(plans, "nothing")) == dict.fromkeys(plans, False)


def test_solutions_in_file_do_not_change_plans(rows_file, tmp_path, monkeypatch, capsys):
    task = tmp_path / "task"
    task.mkdir()
    (task / "atoll.toml").write_text('system = "mind"\n[run]\niterations = 400\n')
    monkeypatch.chdir(tmp_path)
    bare = tmp_path / "bare.jsonl"
    rows = [json.loads(line) for line in rows_file.read_text().splitlines()]
    bare.write_text("".join(json.dumps({k: v for k, v in row.items() if k not in SECRET}) + "\n" for row in rows))
    results = []
    for path in (rows_file, bare):
        assert cli.main(["run", str(task), "--set", f"task.data={path}", "--json"]) == 0
        results.append(json.loads(capsys.readouterr().out))
    plans = [
        [(row["id"], row["candidate"], row["score"], row["evaluations"]) for row in result["instances"]]
        for result in results
    ]
    assert plans[0] == plans[1]
    assert [result["graded"] for result in results] == ["by the file's solutions", "by the task"]
    assert results[0]["total"] == 4
    assert {"solved", "calls", "evaluations", "tokens"} <= set(results[0])
