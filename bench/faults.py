"""The same faults in Atoll and in OpenEvolve: does the run continue, and what is lost?

Both systems run by their command lines on the same folder, Atoll in its sandbox. They call one model server on loopback
that puts a fault into every tenth response unless the case says otherwise. Each program has a number that the evaluator
reports. So the benchmark can count which good programs were evaluated and which are on disk. Verdicts use these counts.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from threading import Lock

import yaml

from atoll import sandbox
from atoll.testing import server
from bench import contenders, end_to_end, outcome, trial
from bench.tasks.guess import evaluator

PEERS = True
TASK_DIR = end_to_end.ROOT / "bench" / "tasks" / "guess"
PROSE = "I am sorry, I would rather talk about the weather today."
BUSY = server.Fault(status=429, headers={"Retry-After": "1"})
BROKEN = server.Fault(status=500)
HANG_SECONDS = 15.0
NOTABLE = 1.25  # repeated runs differ by up to this factor
MEMORY_MB = 512  # as in config.yaml
EVERY_TENTH, ALWAYS = range(10, 100_000, 10), range(1, 100_000)


@dataclass(frozen=True, slots=True)
class Case:
    """Fault, and the run that meets it.

    Attributes:
        at: Numbers of the responses with the fault, from 1.
        planted: Line in the program.
        treated: What the server does instead of responding.
        is_prose: Whether the response is text instead of a program.
        perfect: Score of the best possible program.
        checkpoints: Checkpoint interval of OpenEvolve.
        is_diff: Whether OpenEvolve asks for diffs; Atoll only uses rewrites.
        kill_at: Number of responses after which the run is killed by SIGKILL and resumed.
        limit_seconds: Time limit; the parts before and after a kill have it each.
    """

    name: str
    at: Sequence[int] = EVERY_TENTH
    planted: str = ""
    treated: server.Fault | None = None
    is_prose: bool = False
    iterations: int = 40
    workers: int = 2
    timeout: int = 3
    perfect: float = 1.0
    checkpoints: int = 10
    is_diff: bool = False
    kill_at: int | None = None
    limit_seconds: float = 50.0


LOOP, HOARD = "while True: pass", 'hoard = [b"x" * (64 << 20) for _ in range(16)]'
CASES = [
    Case("infinite loop", planted=LOOP),
    Case("one infinite loop, one worker", at=(3,), planted=LOOP, iterations=14, workers=1, timeout=2),
    Case("os._exit(3)", planted="__import__('os')._exit(3)"),
    Case("segmentation fault", planted="__import__('ctypes').string_at(0)"),
    Case("SystemExit", planted="raise SystemExit(3)"),
    Case("evaluator raises", planted='return "near"'),
    Case("NaN score", planted='return float("nan")'),
    Case("negative scores, infinite loop", planted=LOOP, perfect=-1.0),
    Case("1 GiB where 512 MB are allowed", planted=HOARD),
    Case("prose, rewrites", is_prose=True),
    Case("prose always, diffs", at=ALWAYS, is_prose=True, is_diff=True),
    Case("HTTP 500", treated=BROKEN),
    Case("HTTP 500 always", at=ALWAYS, treated=BROKEN, iterations=2, limit_seconds=100.0),
    Case("HTTP 429, Retry-After 1", treated=BUSY),
    Case("HTTP 429 always, Retry-After 1", at=ALWAYS, treated=BUSY, iterations=2, limit_seconds=100.0),
    Case("kill -9 after 66 of 100, resume", at=(), iterations=100, checkpoints=100, kill_at=66),
    Case("kill -9 after 150 of 200, resume", at=(), iterations=200, checkpoints=100, kill_at=150),
    Case("none: a short run ends", at=(), iterations=50, checkpoints=100),
]
QUICK = ("os._exit(3)", "SystemExit", "prose, rewrites", "none: a short run ends")
QUICK_ITERATIONS, QUICK_LIMIT_SECONDS = 20, 20.0


class Author:
    """Writes a new program for every request, or the fault of the case. Its randomness depends only on the number.

    Attributes:
        good: Scores of the programs without a fault by number; the initial program is 0.
        bad: Numbers of the programs with a fault.
    """

    def __init__(self, case: Case) -> None:
        self._case, self._lock = case, Lock()
        self._text = (TASK_DIR / "initial_program.py").read_text(encoding="utf-8")
        self.good, self.bad = {0: score(0.5, case)}, set[int]()

    def __call__(self, prompt: str, request: int) -> str:
        number, is_bad = request + 1, request + 1 in self._case.at
        rng = Random(f"{end_to_end.SEED} {number}")
        guess = rng.random()
        with self._lock:
            if is_bad:
                self.bad.add(number)
            else:
                self.good[number] = score(guess, self._case)
        if is_bad and self._case.is_prose:
            return PROSE
        text = self._text.replace("NUMBER = 0", f"NUMBER = {number}").replace("GUESS = 0.5", f"GUESS = {guess:.12f}")
        # Different lengths spread the programs over the cells of MAP-Elites.
        text = text.replace("    return GUESS", f"    # {'a guess ' * rng.randrange(30)}\n    return GUESS")
        return f"```python\n{planted(text, self._case.planted) if is_bad else text}```\n"


def planted(program: str, line: str) -> str:
    return program.replace("    return GUESS", f"    {line}\n    return GUESS")


def score(guess: float, case: Case) -> float:
    return case.perfect - abs(guess - evaluator.SOUGHT)


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one system with one fault. Counts the lists of `Evidence`.

    Attributes:
        ended: `completed`, or how else it ended. A system hung if it sent no more requests before its time limit.
        iterations: Number of completed iterations.
        good: Programs of the LLM without a fault.
        not_evaluated: Good programs without a score, including those that were pending at a kill.
        not_on_disk: Good programs that are not on disk.
        passed: Programs with a fault that got a score, and text that is stored as a program.
        best: `right` if no evaluated good program is better; otherwise `wrong` or `none on disk`.
    """

    ended: str
    exit_status: int
    wall_seconds: float
    cpu_seconds: float
    iterations: int
    good: int
    not_evaluated: int
    not_on_disk: int
    passed: int
    best: str
    requests: int
    peak_mb: int
    left_over: int
    messages: Sequence[str]

    def faults(self) -> Mapping[str, float]:
        """Returns the failures of the system; less is better."""
        return {
            "completes": float(self.ended != "completed"),
            "best": float(self.best != "right"),
            "evaluated": self.not_evaluated,
            "on disk": self.not_on_disk,
            "faults recognized": self.passed,
            "memory limit": float(self.peak_mb > MEMORY_MB),
            "processes left": self.left_over,
        }

    def costs(self) -> Mapping[str, float]:
        """Returns the costs; less is better. Compared only between completed runs."""
        return {"requests": self.requests, "wall time": self.wall_seconds, "CPU time": self.cpu_seconds}

    def text(self, case: Case) -> str:
        parts = [
            f"**{self.ended}**, {self.iterations} of {case.iterations} iterations",
            f"{self.wall_seconds:.0f} s (CPU {self.cpu_seconds:.0f} s)",
            f"good programs evaluated {self.good - self.not_evaluated} of {self.good}, "
            f"on disk {self.good - self.not_on_disk}",
            f"best {self.best}",
            f"{self.requests} requests",
        ]
        parts += [f"faults accepted as programs: {self.passed}"] if self.passed else []
        parts += [f"a process of {self.peak_mb} MB"] if self.peak_mb > MEMORY_MB else []
        parts += [f"processes left: {self.left_over}"] if self.left_over else []
        return "; ".join([*parts, f"messages: {', '.join(self.messages) or 'none'}"]).replace("|", "/")


def find(case: Case, contender: contenders.Contender) -> Finding:
    """Runs a system with a fault and counts the results."""
    author = Author(case)
    treated = {number - 1: case.treated for number in case.at} if case.treated else {}
    with (
        tempfile.TemporaryDirectory(prefix="atoll-bench-") as name,
        server.ModelServer(author, faults=treated) as model,
    ):
        folder = Path(name)
        make_task(folder / "task", case)
        endings = attempts(case, contender, folder, model)
        output = "\n".join(ending.output for ending in endings)
        left = contender.evidence(folder, output)
        return Finding(
            ended=ended(endings[-1], left.iterations, case),
            exit_status=endings[-1].status,
            wall_seconds=round(sum(ending.wall_seconds for ending in endings), 1),
            cpu_seconds=round(sum(ending.cpu_seconds for ending in endings), 1),
            iterations=left.iterations,
            good=len(author.good),
            not_evaluated=len(author.good.keys() - left.evaluated),
            not_on_disk=len(author.good.keys() - left.on_disk),
            passed=len(author.bad & left.evaluated) + left.not_programs,
            best=best(author.good, left),
            requests=model.num_requests,
            peak_mb=round(max(ending.peak_mb for ending in endings)),
            left_over=sum(ending.left_over for ending in endings),
            messages=left.messages,
        )


def make_task(folder: Path, case: Case) -> None:
    """Copies the task with the changes of the case."""
    shutil.copytree(TASK_DIR, folder, ignore=shutil.ignore_patterns("__pycache__"))
    evaluator, config = folder / "evaluator.py", folder / "config.yaml"
    evaluator.write_text(evaluator.read_text().replace("PERFECT = 1.0", f"PERFECT = {case.perfect}"))
    keys = yaml.safe_load(config.read_text())
    keys |= {"checkpoint_interval": case.checkpoints, "diff_based_evolution": case.is_diff}
    keys["evaluator"] |= {"timeout": case.timeout, "parallel_evaluations": case.workers}
    config.write_text(yaml.safe_dump(keys))


def attempts(
    case: Case, contender: contenders.Contender, folder: Path, model: server.ModelServer
) -> Sequence[trial.Ending]:
    """Runs a system once, or twice if the case kills it."""
    amounts = (folder, model.url, case.iterations, case.workers)

    def attempt(command: Sequence[str], kill_at: int | None) -> trial.Ending:
        return trial.run(
            command,
            folder=end_to_end.ROOT,
            environment=end_to_end.environment(str(folder)),
            limit_seconds=case.limit_seconds,
            progress=lambda: model.num_requests,
            kill_at=kill_at,
        )

    (folder / "out").mkdir()
    first = attempt(contender.start(*amounts), case.kill_at)
    return [first, attempt(contender.resume(*amounts), None)] if case.kill_at else [first]


def ended(ending: trial.Ending, iterations: int, case: Case) -> str:
    if ending.was_late:
        return "hung, killed" if ending.quiet_seconds > HANG_SECONDS else "too slow, killed"
    if ending.status:
        return f"ended early, exit {ending.status}"
    return "completed" if iterations >= case.iterations else "ended, iterations missing"


def best(good: Mapping[int, float], left: contenders.Evidence) -> str:
    if left.best is None:
        return "none on disk"
    possible = max((good[number] for number in left.evaluated if number in good), default=float("-inf"))
    return "right" if good.get(left.best, float("-inf")) >= possible else "wrong"


def verdict(ours: Finding, theirs: Finding) -> str:
    """Describes in what Atoll is better or worse. Costs count only if both runs completed."""
    own, other = ours.faults(), theirs.faults()
    better, worse = ([name for name in own if a[name] < b[name]] for a, b in ((own, other), (other, own)))
    if not own["completes"] + other["completes"]:
        own, other = ours.costs(), theirs.costs()
        better += [name for name in own if own[name] * NOTABLE < other[name]]
        worse += [name for name in own if other[name] * NOTABLE < own[name]]
    message = [f"better: {', '.join(better)}"] if better else []
    message += [f"WORSE: {', '.join(worse)}"] if worse else []
    return "; ".join(message) or "the same"


def tables(cases: Sequence[Case], result: Mapping[str, Mapping[str, Finding]]) -> outcome.Tables:
    names = list(next(iter(result.values())))
    rows = [
        [
            case.name,
            *(finding.text(case) for finding in result[case.name].values()),
            *([verdict(*result[case.name].values())] if len(names) > 1 else []),
        ]
        for case in cases
    ]
    columns = ["fault", *names, *(["Atoll is"] if len(names) > 1 else [])]
    figures = [
        [case.name, name, *asdict(finding).values()] for case in cases for name, finding in result[case.name].items()
    ]
    keys = [key.replace("_", " ") for key in Finding.__dataclass_fields__]
    return {"Result of each run": (columns, rows), "Figures": (["fault", "system", *keys], figures)}


def notes(
    cases: Sequence[Case], systems: Sequence[contenders.Contender], result: Mapping[str, Mapping[str, Finding]]
) -> list[str]:
    """Describes the comparison and its totals."""
    level = sandbox.get_level(sandbox.probe())
    message = [
        f"Task: bench/tasks/guess, seed {end_to_end.SEED}; every 10th response has the fault, unless the case "
        f"says otherwise; 2 workers, time limit 3 s, memory limit 512 MB in the configuration of both (2 s and one "
        "worker with the one loop). "
        f"Atoll's candidates run in the sandbox, level {level} here. Good programs include the initial program. "
        "After a kill, pending responses count as good programs without an evaluation. OpenEvolve saves every 10 "
        "iterations (default: 100), except in the cases with kills and short runs; 'on disk' counts all its "
        "checkpoints and its best program. Killed without a checkpoint, it can only start again. Costs are compared "
        f"if both runs completed, and named if they differ by {NOTABLE:g} times; the machine had other load."
    ]
    for system in systems:
        command = system.start(Path("FOLDER"), "http://127.0.0.1:PORT/v1", cases[0].iterations, cases[0].workers)
        message.append(f"{system.name}: `{' '.join(command)}`")
    for system in systems:
        mine = [result[case.name][system.name] for case in cases]
        message.append(
            f"{system.name}: {sum(item.ended == 'completed' for item in mine)} of {len(mine)} runs completed, "
            f"{sum(item.best == 'right' for item in mine)} with the right best program, good programs not evaluated "
            f"{sum(item.not_evaluated for item in mine)}, not on disk {sum(item.not_on_disk for item in mine)}."
        )
    return message


def chosen(only: Sequence[str], quick: bool) -> list[Case]:
    """Returns the cases whose names contain one of the words, or all."""
    cases = [case for case in CASES if any(word in case.name for word in only)] if only else CASES
    if not quick:
        return cases
    few = cases if only else [case for case in cases if case.name in QUICK]
    return [replace(case, limit_seconds=QUICK_LIMIT_SECONDS, iterations=shortened(case)) for case in few]


def shortened(case: Case) -> int:
    """Returns the iterations of a quick run; a case with a kill keeps its own."""
    return case.iterations if case.kill_at else min(QUICK_ITERATIONS, case.iterations)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few faults in 20 iterations; nothing is saved")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="part of a fault's name; repeatable"
    )
    parser.add_argument("--no-peers", action="store_true", help="run only Atoll; nothing is saved")
    options = parser.parse_args()
    cases = chosen(options.only, options.quick)
    if not cases:
        parser.error(f"Unknown fault. Known faults: {', '.join(case.name for case in CASES)}")
    systems: list[contenders.Contender] = [contenders.Atoll()]
    systems += [] if options.no_peers else [contenders.OpenEvolve()]
    result: dict[str, dict[str, Finding]] = {}
    for case in cases:
        for system in systems:
            print(f"{case.name}: {system.name} ...", file=sys.stderr)
            result.setdefault(case.name, {})[system.name] = find(case, system)
    is_part = options.quick or options.only or options.no_peers
    (outcome.show if is_part else outcome.keep)("faults", tables(cases, result), notes(cases, systems, result))


if __name__ == "__main__":
    main()
