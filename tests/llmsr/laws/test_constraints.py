"""Requirements on laws, and the doubt about them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atoll import cli, errors, llmsr
from atoll.llmsr.laws import constants, constraints, table
from atoll.llmsr.laws.regressor import Extrapolation
from atoll.llmsr.laws.view_law import TreeLaw

X, Z = ("x", 0), ("x", 1)
ROWS = np.random.default_rng(0).uniform(0.5, 3.0, (120, 2))
TABLE = table.Table(["a", "b"], "y", ROWS, ROWS[:, 0] * ROWS[:, 1])


def find_violation(law_tree: Any, **requirements: Any) -> str:
    return constraints.Constraints(constraints.Requirements(**requirements), TABLE).find_violation(TreeLaw(law_tree))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kg*m/s^2", {"kg": 1, "m": 1, "s": -2}),
        ("N", {"kg": 1, "m": 1, "s": -2}),
        ("J/N", {"m": 1}),
        ("m2 s-1", {"m": 2, "s": -1}),
        ("1/s", {"s": -1}),
        ("m**0.5", {"m": 0.5}),
        ("1", {}),
        ("", {}),
        ("rad", {}),
    ],
)
def test_units_are_parsed(text, expected):
    assert constraints.parse_units(text) == expected


def test_wrong_unit_is_rejected():
    with pytest.raises(errors.SetupError, match=r"is not a unit\. Write products"):
        constraints.parse_units("kg + m")


UNITS = {"a": "m", "b": "s", "y": "m/s"}


@pytest.mark.parametrize(
    ("law_tree", "is_consistent"),
    [
        (("/", X, Z), True),
        (("*", X, Z), False),  # not the unit of the target
        (("*", ("c", 2.0), ("*", X, Z)), True),  # a constant has any unit
        (("+", X, Z), False),
        (("+", ("/", X, Z), ("*", ("c", 2.0), Z)), True),
        (("*", ("/", X, Z), ("sin", X)), False),
        (("*", ("/", X, Z), ("sin", ("*", ("c", 2.0), X))), True),
        (("*", ("c", 3.0), ("sin", ("+", ("c", 1.0), X))), False),
        (("sqrt", ("/", ("square", X), ("square", Z))), True),
        (("*", X, ("reciprocal", Z)), True),
        (("*", X, ("**", Z, ("c", -1.0))), True),
        (("*", ("/", X, Z), ("**", Z, X)), False),
        (("abs", ("/", X, Z)), True),
    ],
)
def test_units_of_trees(law_tree, is_consistent):
    assert (find_violation(law_tree, units=UNITS) == "") == is_consistent


@pytest.mark.parametrize(
    ("law_tree", "requirements", "expected"),
    [
        (("*", X, Z), {"monotonic": {"a": "increasing"}}, ""),
        (("sin", ("*", ("c", 2.0), X)), {"monotonic": {"a": "increasing"}}, "it is not increasing in a"),
        (("reciprocal", X), {"monotonic": {"a": "decreasing"}}, ""),
        (("*", X, Z), {"symmetric": [["a", "b"]]}, ""),
        (("-", X, Z), {"symmetric": [["a", "b"]]}, "it is not symmetric in a, b"),
        (("square", X), {"symmetric": [["a"]]}, ""),
        (("*", X, Z), {"symmetric": [["a"]]}, "it is not symmetric in a"),
        (("-", X, Z), {"minimum": 0.0}, "it falls below 0"),
        (("*", X, Z), {"maximum": 5.0}, "it rises above 5"),
        (("*", X, Z), {"minimum": 0.0, "maximum": 20.0}, ""),
        (("/", X, ("-", Z, ("c", 4.0))), {}, ""),
        (("/", X, ("-", Z, ("c", 4.0))), {"poles": False}, "it has a pole"),
        (("/", X, ("+", Z, ("c", 4.0))), {"poles": False}, ""),
        (("log", ("-", X, ("c", 0.3))), {"poles": False}, "it has a pole"),
    ],
)
def test_requirements_are_checked_beyond_data(law_tree, requirements, expected):
    assert find_violation(law_tree, **requirements) == expected


@pytest.mark.parametrize(
    ("requirements", "message"),
    [
        ({"units": {"c": "m"}}, "Column 'c' is required"),
        ({"monotonic": {"a": "up"}}, "Use 'increasing' or 'decreasing'"),
        ({"symmetric": [["a", "z"]]}, "Column 'z' is required"),
    ],
)
def test_wrong_requirements_are_rejected(requirements, message):
    with pytest.raises(errors.SetupError, match=message):
        find_violation(X, **requirements)


def test_search_obeys_requirements():
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 3.0, (150, 2))
    y = x[:, 0] / x[:, 1] + rng.normal(0.0, 0.1, 150)
    fitted = llmsr.regress(
        x, y, steps=3, names=["a", "b"], units=UNITS, monotonic={"b": "decreasing"}, bounds=(0.0, None), poles=False
    )
    limits = constraints.Constraints(
        constraints.Requirements(UNITS, {"b": "decreasing"}, (), 0.0), table.Table(["a", "b"], "y", x, y)
    )
    assert limits.find_violation(fitted.law_) == ""
    assert fitted.error_ < 0.02
    assert fitted.noise_ == pytest.approx(0.1, rel=0.3)


def test_error_bars_cover_true_constants():
    rng = np.random.default_rng(1)
    x = rng.uniform(0.5, 3.0, (400, 1))
    y = 2.5 * np.exp(-0.8 * x[:, 0]) + rng.normal(0.0, 0.02, 400)
    law = TreeLaw(("*", ("c", 2.5), ("exp", ("*", ("c", -0.8), X))))
    data = table.Table(["t"], "y", x, y)
    result = constants.describe_doubt(law, 0.0004 / float(y.var()), [], data)
    scale_error, rate_error = (error for _, error in result.constants)
    assert 0.004 < scale_error < 0.02  # the linearized fit gives 0.008 and 0.003
    assert 0.0015 < rate_error < 0.008
    assert result.noise == pytest.approx(0.02, rel=0.1)


def test_runners_up_say_what_to_measure():
    x = np.linspace(0.0, 1.0, 60)[:, None]
    data = table.Table(["t"], "y", x, np.sin(x[:, 0]))
    sine, cubic = TreeLaw(("sin", X)), TreeLaw(("-", X, ("*", ("c", 1 / 6), ("*", X, ("square", X)))))
    assert constants.find_measurement(sine, cubic, data, 0.003) == "measure t above 1.03 to decide"
    assert "agree within the noise" in constants.find_measurement(sine, cubic, data, 0.1)
    assert "near" in constants.find_measurement(sine, TreeLaw(("cos", X)), data, 0.01)


def test_predict_warns_outside_of_training_range():
    x = np.linspace(1.0, 3.0, 40)[:, None]
    fitted = llmsr.regress(x, x[:, 0] ** 2, steps=2)
    fitted.predict(x)
    with pytest.warns(Extrapolation, match="x0 in 50% of the rows"):
        fitted.predict([[2.0], [4.0]])


def test_task_has_requirements_and_report_has_doubt(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ATOLL_STORE", raising=False)
    rng = np.random.default_rng(3)
    for name, shift in (("train", 0.0), ("test_ood", 2.0)):
        x = rng.uniform(0.5, 3.0, (100, 2)) + shift
        y = x[:, 0] / x[:, 1] + rng.normal(0.0, 0.02, 100)
        np.savetxt(f"{name}.csv", np.column_stack([x, y]), delimiter=",", header="way,time,speed", comments="")
    settings = 'system = "llmsr"\n[task]\ndata = "."\nunits = {way = "m", time = "s", speed = "m/s"}\nminimum = 0.0\n'
    Path("atoll.toml").write_text(settings + "[llmsr]\nnum_islands = 1\n[run]\nworkers = 1\n")
    assert cli.main(["run", ".", "--iterations", "4", "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["law"] == "way/time"
    assert result["noise"]["deviation"] == pytest.approx(0.02, rel=0.3)
    assert "way in" in result["extrapolation"]["test_ood"]
    assert isinstance(result["constants"], list)
    assert all({"law", "nmse", "decide"} <= set(row) for row in result["runners_up"])
    assert cli.main(["run", ".", "-i", "1", "--set", "task.units={way = 'm?'}", "--json"]) == 2
    assert "is not a unit" in capsys.readouterr().err
