"""Files of problems: what a search may see of them, and who compares with solutions."""

import json

import pytest

from atoll import cli, errors
from atoll.mind.tasks import grader, load, trip

SECRET = ("golden_plan", "cities", "durations", "pred_5shot_pro")


def test_a_search_sees_no_solution():
    assert not set(SECRET) & set(load.VISIBLE_FIELDS)


def test_parts_are_shuffled_by_the_seed(rows_file):
    orders = {seed: [list(each.moves) for each in load.load_problems(rows_file, seed)] for seed in (0, 0, 1)}
    assert orders[0] != orders[1]
    assert [sorted(map(str, each)) for each in orders[0]] == [sorted(map(str, each)) for each in orders[1]]


def test_the_direction_of_flights_comes_from_the_parse_where_the_data_brings_one(rows_file):
    row = json.loads(rows_file.read_text().splitlines()[0])
    row["parsed_constraints"] = {"direct_flights": [{"from": "A", "to": "B"}]}
    problem = load.parse_row(row)
    assert isinstance(problem, trip.Trip)
    assert problem.flights == {("A", "B")}


@pytest.mark.parametrize(
    ("text", "told"),
    [("{", "Line 1"), ("", "holds no problem"), ('{"id": "x", "task": "chess"}', "there are trip_planning")],
)
def test_a_bad_file_is_told_in_a_sentence(tmp_path, text, told):
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(errors.SetupError, match=told):
        load.load_problems(path)


def test_a_trip_is_solved_by_exactly_the_golden_order(rows_file):
    row = json.loads(rows_file.read_text().splitlines()[0])
    lines = row["golden_plan"].splitlines()
    assert grader.grade(row, row["golden_plan"]) is True
    assert grader.grade(row, "\n".join(lines[:-1])) is False
    assert grader.grade({**row, "golden_plan": None}, row["golden_plan"]) is None


def test_a_trip_whose_constraints_contradict_its_solution_counts_as_unsolved(rows_file):
    row = json.loads(rows_file.read_text().splitlines()[0])
    parse = {"direct_flights": [{"from": "A", "to": "B"}]}
    assert grader.grade({**row, "parsed_constraints": parse}, row["golden_plan"]) is False


def test_a_day_with_one_meeting_too_many_is_not_solved_by_the_number_of_the_others(rows_file):
    row = json.loads(rows_file.read_text().splitlines()[-1])
    golden = "\n".join(row["golden_plan"])
    early = next(line for line in row["golden_plan"] if line.startswith("You meet"))
    assert grader.grade(row, golden) is True
    assert grader.grade(row, f"{golden}\n{early.replace('meet ', 'meet Nobody ')}") is False
    assert grader.grade(row, f"{golden}\nYou wait until 0:00AM.") is False


def test_a_trip_on_other_days_is_not_solved(rows_file):
    row = json.loads(rows_file.read_text().splitlines()[0])
    stays = trip.parse_stays(row["golden_plan"])
    late = trip.format_stays([trip.Stay(each.city, each.first_day + 1, each.last_day + 1) for each in stays])
    assert grader.grade(row, late) is False


def test_another_process_grades(rows_file):
    rows = [json.loads(line) for line in rows_file.read_text().splitlines()]
    plans = {
        row["id"]: "\n".join(row["golden_plan"]) if isinstance(row["golden_plan"], list) else row["golden_plan"]
        for row in rows
    }
    assert grader.grade_in_subprocess(rows_file, plans) == dict.fromkeys(plans, True)
    assert grader.grade_in_subprocess(rows_file, dict.fromkeys(plans, "nothing")) == dict.fromkeys(plans, False)


def test_without_solutions_in_the_file_the_plans_are_the_same(rows_file, tmp_path, monkeypatch, capsys):
    task = tmp_path / "task"
    task.mkdir()
    (task / "atoll.toml").write_text('system = "mind"\n[run]\niterations = 400\n')
    monkeypatch.chdir(tmp_path)
    bare = tmp_path / "bare.jsonl"
    rows = [json.loads(line) for line in rows_file.read_text().splitlines()]
    bare.write_text("".join(json.dumps({k: v for k, v in row.items() if k not in SECRET}) + "\n" for row in rows))
    found = []
    for path in (rows_file, bare):
        assert cli.main(["run", str(task), "--set", f"task.data={path}", "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    plans = [
        [(row["id"], row["candidate"], row["score"], row["evaluations"]) for row in each["instances"]] for each in found
    ]
    assert plans[0] == plans[1]
    assert [each["graded"] for each in found] == ["by the file's solutions", "by the task"]
    assert found[0]["total"] == 4
    assert {"solved", "calls", "evaluations", "tokens"} <= set(found[0])
