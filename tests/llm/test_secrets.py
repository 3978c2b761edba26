"""Keys: planted in the environment, and then every byte that a run writes is searched for them."""

import os
import shutil
from pathlib import Path

import pytest

from atoll.llm.endpoint import SERVICES
from atoll.testing.server import Fault, ModelServer
from tests import processes
from tests.cli import tasks

NAMES = [name for service in SERVICES.values() for name in service.key_variables]
# The candidate looks for keys itself, and says what it finds as loudly as it can.
LOOK = """
    import os
    print(dict(os.environ))
    assert "planted" not in str(os.environ)
"""
TASK = tasks.TASK.replace("def evaluate(line, point):\n", f"def evaluate(line, point):{LOOK}")


def key_of(name: str) -> str:
    return f"sk-planted-{name.lower().replace('_', '-')}-7h3k3y"


def atoll(folder: Path, *commands: list[str]) -> str:
    """Runs verbs in one process that has all keys, and returns what they said."""
    environment = {**os.environ, **{name: key_of(name) for name in NAMES}, "XDG_CACHE_HOME": str(folder / "cache")}
    program = f"from atoll import cli\nfor each in {commands!r}: cli.main(each)"
    done = processes.run(["-c", program], cwd=folder, env=environment)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def run_output(tmp_path_factory) -> tuple[Path, str]:
    """Runs a task with a model that repeats the key it was sent, at first with faults; returns folder and output."""
    folder = tmp_path_factory.mktemp("secrets")
    tasks.make(folder / "task", TASK)
    body = f'{{"error": {{"message": "{key_of("OPENAI_API_KEY")} is tired"}}}}'
    faults = {1: Fault(500, body=body), 2: Fault(400, body=body), 3: Fault(body=key_of("OPENAI_API_KEY"))}
    echo = f"I was asked by {key_of('OPENAI_API_KEY')}."
    with ModelServer(lambda *arguments: f"{tasks.answer(*arguments)}\n{echo}\n", faults=faults) as server:
        output = atoll(folder, ["run", "task", "--llm", f"openai:m@{server.url}", "--iterations", "8", "--json"])
        assert all(key_of("OPENAI_API_KEY") in request.headers["authorization"] for request in server.requests)
        assert server.num_requests >= 8
    formats = ("--jsonl", "--csv", "--dataset", "--html", "--replay")
    exports = [["export", "latest", export_format, "-o", f"export{export_format}"] for export_format in formats]
    output += atoll(folder, *exports, ["show", "latest"], ["report", "latest"], ["doctor"], ["best", "latest"])
    return folder, output


def test_no_key_is_in_any_byte_that_was_written_or_told(run_output):
    folder, output = run_output
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {"atoll.db", "export--html", "export--replay"} <= {path.name for path in files}
    shutil.copy(folder / "atoll.db", folder / "copy.db")
    for name in NAMES:
        assert key_of(name) not in output
        for path in files:
            assert key_of(name).encode() not in path.read_bytes(), path.name


def test_the_candidates_saw_no_key(run_output):
    folder, output = run_output
    assert '"status": "done"' in output
    assert "AssertionError" not in output
    assert b"planted" not in (folder / "atoll.db").read_bytes()
