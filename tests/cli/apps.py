"""Commands run as from a shell."""

import json
from typing import Any, NamedTuple

import pytest

from atoll import cli
from tests.runs import samples

VERBS = ("list", "show", "best", "lineage", "diff", "compare", "report", "export", "control", "init", "doctor")

STORELESS = ("init", "check", "help", "completion")


class Output(NamedTuple):
    """Output of a command."""

    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    def json(self) -> Any:
        """Parses the single line of JSON."""
        assert self.out.count("\n") == 1
        return json.loads(self.out)


class Shell:
    """Runs commands on the sample runs or another store."""

    def __init__(self, capsys: pytest.CaptureFixture[str], store: str | None = None) -> None:
        self._capsys, self.store = capsys, store or samples.library()

    def __call__(self, *arguments: str, status: int = 0) -> Output:
        """Runs a command, checks its exit status and returns its output."""
        self._capsys.readouterr()
        options = [] if arguments[0] in STORELESS or "--store" in arguments else ["--store", self.store]
        assert cli.main([*arguments, *options]) == status
        return Output(*self._capsys.readouterr())

    def fail(self, *arguments: str) -> str:
        """Runs a command that must fail. Returns its one-line message."""
        output = self(*arguments, status=2)
        assert not output.out
        assert output.err.startswith("atoll: ")
        assert output.err.count("\n") == 1
        return output.err.removeprefix("atoll: ").strip()
