"""Environment variables read by an evaluator (P20), and the hint to allow them."""

import pytest

from atoll.programs.openevolve import folder


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import os\nA = os.environ['TASK_NUM']", ["TASK_NUM"]),
        ("import os\ndef f(): return os.environ.get('A', '1'), os.getenv('B')", ["A", "B"]),
        ("from os import environ, getenv\ngetenv('C'), environ['D']", ["C", "D"]),
        ("import os\nos.environ['SET'] = '1'", []),
        ("import os\nos.environ['HOME'], {}['X'], {}.get('Y')", []),
        ("not python", []),
    ],
)
def test_variables_are_read_from_the_source(source, names):
    assert list(folder.find_variables(source)) == names


def test_hint_names_hidden_variables_and_the_setting():
    source = "import os\nos.environ['A'], os.environ['B']"
    assert "--set 'sandbox.env=[\"B\"]'" in folder.make_environment_hint(source, ["A"])
    assert folder.make_environment_hint(source, ["A", "B"]) == ""
