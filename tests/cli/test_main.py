"""The command line in general: version, help, wrong usage."""

import os
import subprocess
import sys
from importlib import metadata

import pytest

from atoll import cli


def test_version_is_version_of_package(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"atoll {metadata.version('atoll')}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_commands_and_examples(arguments, capsys):
    assert cli.main(arguments) == 0
    text = capsys.readouterr().out
    assert "\n  Examples:\n    atoll demo " in text
    assert "\n  demo  " in text
    assert all(f"\n  {verb} " in text for verb in cli.COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["dmo"], "atoll: No such command 'dmo'. Did you mean 'demo'? Try 'atoll --help'."),
        (["--nope"], "atoll: No such option: --nope. Try 'atoll --help'."),
        (["demo", "--sed", "3"], "atoll: No such option: --sed (Possible options: --seconds, --seed, "),
        (
            ["demo", "--iterations", "0"],
            "atoll: Invalid value for '--iterations' / '-i': Input should be greater than ",
        ),
        (["run", "task", "--budget"], "atoll: Option '--budget' requires an argument. Try 'atoll run --help'."),
        (["demo", "--workers", "two"], "atoll: Invalid value for '--workers': "),
        (["demo", "now"], "atoll: Got unexpected extra argument(s) (now). Try 'atoll demo --help'."),
        (
            ["demo", "--store", "no/such/folder/atoll.db"],
            "atoll: no/such/folder/atoll.db cannot be opened. Use a file in an existing folder",
        ),
        (
            ["demo", "--store", "mysql://host/atoll"],
            "atoll: mysql is not supported; stores are SQLite or PostgreSQL. Use ",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_prints_one_line_and_exits_2(arguments, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) == 2
    output = capsys.readouterr()
    assert output.err.startswith(sentence)
    assert output.err.count("\n") == 1
    assert not output.out
    assert not list(tmp_path.iterdir())


def test_help_imports_nothing_slow():
    program = "import sys; from atoll import cli; cli.main(['demo', '--help']); print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"sqlalchemy", "rich", "atoll.cluster", "atoll.store"} & set(result.stdout.split())


def test_python_m_atoll_works():
    result = subprocess.run([sys.executable, "-m", "atoll", "dmo"], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(("given", "expected"), [(None, "1"), ("4", "4")])
def test_command_uses_one_thread_of_openblas_unless_told_otherwise(given, expected):
    program = (
        "import os, sys\nfrom atoll import __main__\nsys.argv = ['atoll', '--version']\n"
        "try:\n    __main__.start()\nexcept SystemExit:\n    print(os.environ['OPENBLAS_NUM_THREADS'])"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    environment |= {"OPENBLAS_NUM_THREADS": given} if given else {}
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout.split()[-1] == expected
