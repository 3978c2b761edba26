"""Where worldlines are tested and their commands run: in the jail, on copies of their files."""

import base64
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from atoll import errors, executor, sandbox
from atoll.evaluation import Cost, Evaluation, failed
from atoll.mind.workspace.moves import Spectrum
from atoll.mind.workspace.names import Refused
from atoll.mind.workspace.repository import MODULE
from atoll.mind.workspace.trial import File, Runner, Trial
from atoll.mind.workspace.workspace import Workspace

_PYTHON = ("python", "python3")
_LEAST_SECONDS, _PACE = 0.1, 5.0
_MOST_FILES = 15_000  # a jail's folder holds 20,000, and tests write some too


@dataclass(frozen=True, slots=True)
class Terms:
    """How worldlines are tested.

    Attributes:
        runner: What finds and runs the tests.
        tests: Folder in which tests are looked for.
        commands: Names of programs that actions may run; `python` is ours.
        views: Whether tests may be run in a worktree that is read-only to them, where that finds the same.
    """

    runner: Runner = "unittest"
    tests: str = "."
    commands: tuple[str, ...] = ("python",)
    views: bool = True


_USUAL = Terms()


class Checks:
    """Tests commits and runs commands on them, from any thread.

    The jail gets the files out of git and nothing of the disk: what a test or a command writes is gone with it, and
    a repository's hooks, filters and links are only bytes in there. Tests that write nothing beside their code are
    run in the worldline's worktree instead, which the jail shows them read-only: to copy 1,000 files takes longer than
    all else. Which tests are of that kind is tried once, on the first worldline: both ways must find the same.

    Args:
        workspace: Where the worldlines are.
        place: What judging one may use, and how strong the jail must be.
        terms: How to test.

    Raises:
        Refused: The files are too many or too large for a jail, or a program is not there.
    """

    def __init__(self, workspace: Workspace, place: executor.Place, terms: Terms = _USUAL) -> None:
        self._repository, self._objects, self._base = workspace.repository, workspace.objects, workspace.base
        self._workspace, self._place, self._terms = workspace, place, terms
        self._programs = {name: _program(name) for name in terms.commands}
        self._files = self._all_files()
        self._tester = _Late(lambda: self._place.open(self._trial(self._files, {})))
        self._runner = _Late(self._open_runner)
        self._seconds = 0.0
        self._lock = Lock()
        self._viewers: dict[Path, _Late] = {}
        is_shown = (
            terms.views and workspace.has_desks and place.cluster is None
        )  # other machines see no worktree of ours
        self._can_view: bool | None = None if is_shown else False

    @property
    def level(self) -> str:
        """How strong the jail is."""
        return self._tester().level

    def test(self, commit: str, worldline_id: str = "") -> Evaluation:
        """Returns the share of tests that pass at a commit, and in words how the others failed.

        Args:
            commit: What is tested.
            worldline_id: The open worldline that stands there, if one does: then its worktree may be used.
        """
        if not worldline_id or self._can_view is False:
            return self._asked(self._tester(), self._request(commit, {}))
        if self._can_view:
            return self._viewed(commit, worldline_id)
        copied, viewed = self.test(commit), self._viewed(commit, worldline_id)
        self._can_view = copied.failure is None and (copied.scores, copied.failure) == (viewed.scores, viewed.failure)
        return copied

    def _viewed(self, commit: str, worldline_id: str) -> Evaluation:
        with self._workspace.seated(worldline_id, commit) as folder:
            with self._lock:
                viewer = self._viewers.setdefault(folder, _Late(lambda: self._open_viewer(folder)))
            try:
                place = viewer()
            except errors.SetupError as error:  # a jail that cannot be shown the folder: copies will do
                return failed(str(error))
            return self._asked(place, {"files": {}, "command": None, "folder": str(folder), **self._pace()})

    def _asked(self, place: sandbox.Sandbox, request: Mapping[str, Any]) -> Evaluation:
        answer = sandbox.ask(place, request)
        cost = Cost(seconds=answer.seconds)
        if answer.failure is not None:
            return failed(f"the tests could not be run: {answer.failure}", feedback=answer.output[-2000:], cost=cost)
        return replace(_read(answer.value), cost=cost)

    def test_base(self) -> Evaluation:
        """Tests the base, and from now on gives each test a few times as long as all of them took there.

        A change in a loop often makes one that never ends: to wait for the jail's limit each time would be most of the
        time of a search. It is processor time that counts, and only tests by unittest are ended one by one.
        """
        found = self.test(self._base)
        if found.failure is None:
            self._seconds = max(_LEAST_SECONDS, _PACE * found.metrics["test_seconds"])
        return found

    def spectrum(self) -> Spectrum:
        """Returns how many failing and passing tests run through each line of the base; nothing where nobody can tell.

        It comes out of the jail, so it may be wrong: it says where to look, and no more.
        """
        answer = sandbox.ask(self._tester(), {**self._request(self._base, {}), "trace": True})
        found: Any = answer.value["lines"] if isinstance(answer.value, Mapping) else {}
        return {
            str(path): {int(line): (int(failing), int(passing)) for line, (failing, passing) in lines.items()}
            for path, lines in found.items()
        }

    def run(self, command: Sequence[str], commit: str, changed: Mapping[str, bytes]) -> tuple[bool, str]:
        """Runs a command on a commit with some more changes; says whether it ended well, and what it printed.

        Raises:
            Refused: No such command is allowed.
        """
        if not command or command[0] not in self._programs:
            allowed = ", ".join(self._programs) or "none"
            raise Refused(f"{' '.join(command)[:60]!r} may not be run: the task allows {allowed} (task.commands).")
        answer = sandbox.ask(self._runner(), {**self._request(commit, changed), "command": list(command)})
        if answer.failure is not None:
            return False, f"{answer.failure}\n{answer.output}".strip()
        value: Any = answer.value
        return value["code"] == 0, f"{value['output'].rstrip()}\n(exit {value['code']})".strip()

    def close(self) -> None:
        """Ends the jails; a second call does nothing."""
        for each in (self._tester, self._runner, *self._viewers.values()):
            each.close()

    def _open_runner(self) -> executor.Local:
        own = self._place.profile
        others = tuple(path for name, path in self._programs.items() if name not in _PYTHON)
        profile = replace(own, may_fork=True, programs=(*own.programs, *others))
        return replace(self._place, profile=profile).open(self._trial(self._files, self._programs))

    def _open_viewer(self, folder: Path) -> executor.Local:
        """Opens a jail that is shown one worktree, read-only, whatever that shows later."""
        profile = replace(self._place.profile, reads=(*self._place.profile.reads, str(folder)))
        return replace(self._place, profile=profile, num_slots=1).open(self._trial({}, {}))

    def _trial(self, files: Mapping[str, File], programs: Mapping[str, str]) -> sandbox.MakeJob:
        return partial(Trial, files, self._terms.runner, self._terms.tests, programs)

    def _all_files(self) -> Mapping[str, File]:
        entries = self._repository.files(self._base)
        size, room = sum(each.size for each in entries), self._place.limits.disk_mb * 2**20 // 2
        if size > room or len(entries) > _MOST_FILES:
            raise Refused(
                f"{len(entries)} files of {size / 2**20:.0f} MiB are too much for a jail of {room // 2**20} MiB and "
                f"{_MOST_FILES} files: raise sandbox.disk_mb, or give a smaller repository."
            )
        return {
            each.path: (each.mode, b"" if each.mode == MODULE else self._objects.body(each.sha)) for each in entries
        }

    def _pace(self) -> dict[str, Any]:
        return {"trace": False, "seconds": self._seconds}

    def _request(self, commit: str, changed: Mapping[str, bytes]) -> dict[str, Any]:
        """Returns what a commit has that the base has not; worldlines change and add files, and remove none."""
        files: dict[str, File] = {}
        for path in self._repository.paths(self._base, commit) if commit != self._base else ():
            if node := self._objects.at(commit, path):
                files[path] = (node.mode, self._objects.body(node.sha))
        for path, body in changed.items():
            files[path] = (self._files.get(path, ("100644", b""))[0], body)
        return {
            "files": {path: [mode, _text(body)] for path, (mode, body) in files.items()},
            "command": None,
            "folder": "",
            **self._pace(),
        }


class _Late:
    """Opens a jail when it is first needed."""

    def __init__(self, make: Callable[[], executor.Local]) -> None:
        self._make, self._lock = make, Lock()
        self._made: executor.Local | None = None

    def __call__(self) -> executor.Local:
        with self._lock:
            self._made = self._made or self._make()
            return self._made

    def close(self) -> None:
        with self._lock:
            if self._made:
                self._made.close()


def _text(body: bytes) -> str:
    return base64.b64encode(body).decode()


def _program(name: str) -> str:
    path = sys.executable if name in _PYTHON else shutil.which(name) if "/" not in name else None
    if path is None:
        raise Refused(f"task.commands names {name!r}, and there is no such program on this machine: leave it out.")
    return path


def _read(value: Any) -> Evaluation:
    """Makes an evaluation of what came out of the jail, where the worldline's own code could have written it."""
    match value:
        case {"passed": list(passed), "failed": list(missed), "texts": list(texts), "seconds": float(seconds)}:
            names = {str(each) for each in passed} | {str(each) for each in missed}
        case _:
            return failed("the tests answered with something else than their results")
    if not names:
        return failed("no test was found: name the folder that has them (task.tests)")
    good = {str(each) for each in passed} - {str(each) for each in missed}
    told = [f"{len(good)} of {len(names)} tests pass."] + [f"{name} fails:\n{text}" for name, text in texts]
    metrics = {
        "passed": float(len(good)),
        "tests": float(len(names)),
        "test_seconds": seconds,
        "lay_out_seconds": float(value.get("lay_out_seconds", 0.0)),
    }
    scores = tuple(float(name in good) for name in sorted(names))
    return Evaluation(len(good) / len(names), scores, metrics, "\n".join(told))
