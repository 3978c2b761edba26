"""The verbs that look at runs, started as from a shell."""

import json
from typing import Any, NamedTuple

import pytest

from atoll import cli
from tests.runs import samples

VERBS = ("list", "show", "best", "lineage", "diff", "compare", "report", "export", "control", "init", "doctor")


class Output(NamedTuple):
    """What a verb wrote."""

    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    def json(self) -> Any:
        """Returns the one line of JSON that it printed."""
        assert self.out.count("\n") == 1
        return json.loads(self.out)


class Shell:
    """Runs verbs on the sample runs, or on another store."""

    def __init__(self, capsys: pytest.CaptureFixture[str], store: str | None = None) -> None:
        self._capsys, self.store = capsys, store or samples.library()

    def __call__(self, *arguments: str, status: int = 0) -> Output:
        """Runs a verb, checks its exit status and returns what it wrote."""
        self._capsys.readouterr()
        options = [] if arguments[0] == "init" else ["--store", self.store]
        assert cli.main([*arguments, *options]) == status
        return Output(*self._capsys.readouterr())

    def fail(self, *arguments: str) -> str:
        """Runs a verb that must refuse, and returns the one sentence that it said."""
        told = self(*arguments, status=2)
        assert not told.out
        assert told.err.startswith("atoll: ")
        assert told.err.count("\n") == 1
        return told.err.removeprefix("atoll: ").strip()
