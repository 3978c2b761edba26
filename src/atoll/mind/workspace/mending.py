"""A repository that is to be mended, as a problem: plans are edits, and its own tests are the judge."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

from atoll.candidate import digest
from atoll.evaluation import Evaluation
from atoll.mind.actions import Action, Edit
from atoll.mind.tasks.problem import Fault, Verdict
from atoll.mind.workspace import patches
from atoll.mind.workspace.kind import WorkspaceKind
from atoll.mind.workspace.names import Refused
from atoll.mind.worldline import BASE, Plan, Worldline

_MOST_EDITS = 6  # that a plan without a model has: faults are few, and every further edit breaks something
_LONGEST_TEXT = 40_000  # characters of files that a model is shown
_NOTE = "Mend what the tests find"
_W0 = Worldline(BASE)


@dataclass(slots=True)
class Mending:
    """Makes a worldline of every plan, tests it, and keeps the best; see `tasks.problem.Problem`.

    Attributes:
        kind: Makes worldlines real.
        text: The task in words.
        moves: Edits that plans without a model are made of.
        passing: Names of tests that pass before anything was done.
        num_tests: How many tests there are.
        keeps: Says where a worldline is kept, for people; empty: nowhere that outlives the run.
    """

    kind: WorkspaceKind
    text: str
    moves: Sequence[Action]
    num_passing: int
    num_tests: int
    keeps: Callable[[str], str]
    id: str = "mend"
    form: str = patches.FORM
    questions: Sequence[str] = (
        "Which line makes each failing test fail, and what does the test expect there?",
        "Which tests pass now, and would still pass after the change?",
        "Is there a smaller change that does the same?",
    )
    uses_all: bool = False
    _lock: Lock = field(default_factory=Lock)
    _turns: dict[str, Lock] = field(default_factory=dict)
    _found: dict[str, Verdict] = field(default_factory=dict)
    _best: tuple[float, str] = (-float("inf"), "")

    def write(self, trace: Sequence[Action]) -> str:
        """Returns the last few edits of a trace that fit together: of two that change the same text the later counts.

        Of all moves at once, where nobody chose yet, it is the last alone.
        """
        chosen, bodies = list[Edit](), dict[str, str]()
        most = _MOST_EDITS if len(trace) <= 2 * _MOST_EDITS else 1
        for each in reversed(trace):
            if isinstance(each, Edit) and len(chosen) < most:
                before = bodies.get(each.path) or self._body(each.path) or ""
                after = patches.applied(before, [each])
                if after is not None:
                    bodies[each.path] = after
                    chosen.append(each)
        return patches.written(chosen[::-1])

    def trace(self, plan: str) -> tuple[Action, ...]:
        """Returns the edits in a plan."""
        return patches.read(plan)

    def parse(self, reply: str) -> str | None:
        """Returns the edits in a reply, fitted to the files, or None if there are none."""
        return patches.written(patches.settled(reply, self._body)) or None

    def judge(self, plan: str) -> Verdict:
        """Makes the plan's worldline and tests it; what was judged before is remembered."""
        name = digest(plan)[:16]
        with self._lock:
            turn = self._turns.setdefault(name, Lock())
        with turn:
            if name not in self._found:
                self._found[name] = self._judged(plan, name)
        return self._found[name]

    def _judged(self, plan: str, name: str) -> Verdict:
        wanted = Plan(self.trace(plan), note=_NOTE)
        line = self.kind.run(self.kind.fork(_W0, wanted, name), wanted)
        found = self.kind.test(line)
        verdict = self._verdict(found, line)
        with self._lock:
            is_best = verdict.score > self._best[0]
            old, self._best = self._best, (verdict.score, name) if is_best else self._best
        self.kind.archive(line) if is_best else self.kind.discard(line)
        if is_best and old[1]:
            self.kind.workspace.discard(old[1])
        return verdict

    def keep(self, plan: str) -> str:
        """Has the worldline of a plan stay, in place of whichever was kept so far, and returns its name."""
        name, wanted = digest(plan)[:16], Plan(self.trace(plan), note=_NOTE)
        if name not in self.kind.workspace.archived():
            self.kind.archive(self.kind.run(self.kind.fork(_W0, wanted, name), wanted))
        with self._lock:
            old, self._best = self._best[1], (self._best[0], name)
        if old not in ("", name):
            self.kind.workspace.discard(old)
        return name

    def _verdict(self, found: Evaluation, line: Worldline) -> Verdict:
        refused = [
            Fault("edit", f"An edit could not be made: {each.output}") for each in line.tool_history if not each.is_ok
        ]
        if found.failure is not None:
            faults = (*refused, Fault("tests", f"{found.failure}\n{found.feedback}".strip()))
            return Verdict(-float(self.num_tests + len(refused)), 0.0, False, faults, 1.0)
        passed, number = found.metrics["passed"], max(found.metrics["tests"], self.num_tests)
        missed = number - passed
        faults = (*refused, *([Fault("tests", found.feedback, weight=missed)] if missed else []))
        contradiction = max(0.0, self.num_passing - passed) / max(1, self.num_passing)
        is_solved = not missed and not refused
        notes = (f"All {number:.0f} tests pass. {self.keeps(line.worldline_id)}".strip(),) if is_solved else ()
        return Verdict(0.0 - missed - len(refused), passed / number, is_solved, faults, contradiction, notes)

    def _body(self, path: str) -> str | None:
        try:
            body = self.kind.read(self.kind.workspace.base, path)
        except Refused:
            return None
        return None if body is None else body.decode(errors="replace")


def told(files: Mapping[str, str], protected: Sequence[str], found: Evaluation) -> str:
    """Returns the task in words: what there is, what fails, and as many files as there is room for."""
    parts = [
        "Mend a repository: change its files so that all of its tests pass.",
        f"Files: {', '.join(files)}",
        f"Nobody may change: {', '.join(protected) or 'nothing is protected'}",
        f"What its tests say now:\n{found.feedback}",
    ]
    left = _LONGEST_TEXT - sum(map(len, parts))
    for path, text in files.items():
        left -= len(text)
        if left < 0:
            parts.append(f"({path} and what comes after it is not shown: there is no room.)")
            break
        parts.append(f"FILE: {path}\n```\n{text}\n```")
    return "\n\n".join(parts)
