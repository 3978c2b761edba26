"""The two that meet the same faults: how each is started, gone on with, and asked what is left on the disk."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Protocol

from atoll import runs, store
from atoll.runs import summary
from bench import end_to_end

NUMBER = re.compile(r"^NUMBER = (\d+)$", re.MULTILINE)
MODEL = "bench"
SHOWN_REASONS, SHOWN_CHARS = 3, 120


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a system left; programs are called by the number of the reply that they came with, the start is 0.

    Attributes:
        iterations: Those that came to an end, with a program or without.
        judged: Programs that were given a score, NaN too.
        kept: Programs on the disk, with a score or without.
        strangers: Programs on the disk that nobody wrote as a program.
        best: The program on the disk that is called the best.
        told: What went wrong, in its own words, the commonest first.
    """

    iterations: int
    judged: frozenset[int]
    kept: frozenset[int]
    strangers: int
    best: int | None
    told: Sequence[str]


class Contender(Protocol):
    """One that evolves a folder; what it writes goes to `folder/out`, and the task is `folder/task`."""

    @property
    def name(self) -> str: ...

    def start(self, folder: Path, url: str, iterations: int, workers: int) -> Sequence[str]:
        """Returns the command."""

    def go_on(self, folder: Path, url: str, iterations: int, workers: int) -> Sequence[str]:
        """Returns the command that goes on after a kill, up to so many iterations in all."""

    def evidence(self, folder: Path, output: str) -> Evidence:
        """Reads what is left, and what was printed."""


class Atoll:
    """By its command line, in the jail."""

    name = f"Atoll {metadata.version('atoll')}"

    def start(self, folder: Path, url: str, iterations: int, workers: int) -> Sequence[str]:
        amounts = ["--iterations", str(iterations), "--workers", str(workers), "--seed", str(end_to_end.SEED)]
        return ["./atoll", "run", f"{folder}/task", "--llm", f"openai:{MODEL}@{url}", *amounts, *_kept_in(folder)]

    def go_on(self, folder: Path, url: str, iterations: int, workers: int) -> Sequence[str]:
        return ["./atoll", "resume", "latest", *_kept_in(folder)]

    def evidence(self, folder: Path, output: str) -> Evidence:
        with store.Store(f"{folder}/out/atoll.db") as kept:
            run = runs.find_run(kept, "latest")
            rows = list(kept.candidates(run))
            best = kept.candidates(run).list_best()
            done = sum(1 for _ in kept.journal(run).read_kinds("applied"))
            reasons = summary.count_failures(kept, run).failures
        judged = [row.content for row in rows if row.score is not None]
        return Evidence(
            done,
            numbers(judged),
            numbers(row.content for row in rows),
            sum(NUMBER.search(row.content) is None for row in rows),
            min(numbers([best[0].content]), default=None) if best else None,
            [f"{reason.count} x {shortened(reason.text)}" for reason in reasons[:SHOWN_REASONS]],
        )


class OpenEvolve:
    """By its command line, in the environment of the peers."""

    _ITERATION = re.compile(r" - (?:Iteration|Error processing result from iteration) (\d+)(?:: Program| error|: )")
    _EVALUATED = re.compile(r"Evaluated program \S+ in \S+s: combined_score=(\S+), number=(\d+)")
    _COMPLAINT = re.compile(r" - (?:WARNING|ERROR) - (.*)")
    _VARIES = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+(?:\.\d+)?")

    def __init__(self) -> None:
        self.name = f"OpenEvolve {end_to_end.peer_version('openevolve')}"

    def start(self, folder: Path, url: str, iterations: int, workers: int) -> Sequence[str]:
        files = [f"{folder}/task/{name}" for name in ("initial_program.py", "evaluator.py")]
        options = ["--config", f"{folder}/task/config.yaml", "--output", f"{folder}/out"]
        model = ["--api-base", url, "--primary-model", MODEL, "--iterations", str(iterations)]
        return [f"{end_to_end.PEERS_DIR}/bin/openevolve-run", *files, *options, *model]

    def go_on(self, folder: Path, url: str, iterations: int, workers: int) -> Sequence[str]:
        """Goes on from the newest checkpoint; where there is none, all that can be done is to start again."""
        newest = checkpoints(folder)[-1:]
        done = sum(int(path.name.rpartition("_")[2]) for path in newest)
        command = self.start(folder, url, iterations - done, workers)
        return [*command, *(word for path in newest for word in ("--checkpoint", str(path)))]

    def evidence(self, folder: Path, output: str) -> Evidence:
        programs = [program for path in checkpoints(folder) for program in sorted(path.glob("programs/*.json"))]
        texts = [str(json.loads(path.read_text(encoding="utf-8"))["code"]) for path in programs]
        called_best = [*sorted(folder.glob("out/best/best_program.py")), *_bests(folder)]
        texts += (bests := [path.read_text(encoding="utf-8") for path in called_best])
        told = Counter(shortened(self._VARIES.sub("N", line)) for line in self._COMPLAINT.findall(output))
        return Evidence(
            len(set(self._ITERATION.findall(output))),
            frozenset(int(number) for _, number in self._EVALUATED.findall(output)),
            numbers(texts),
            len({text for text in texts if NUMBER.search(text) is None}),
            min(numbers(bests[:1]), default=None),
            [f"{count} x {text}" for text, count in told.most_common(SHOWN_REASONS)],
        )


def checkpoints(folder: Path) -> list[Path]:
    """Returns the checkpoints of OpenEvolve, the newest last."""
    found = (folder / "out" / "checkpoints").glob("checkpoint_*")
    return sorted(found, key=lambda path: int(path.name.rpartition("_")[2]))


def _bests(folder: Path) -> list[Path]:
    return [path / "best_program.py" for path in reversed(checkpoints(folder)) if (path / "best_program.py").exists()]


def _kept_in(folder: Path) -> Sequence[str]:
    return ["--store", f"{folder}/out/atoll.db", "--json"]


def numbers(programs: Iterable[str]) -> frozenset[int]:
    return frozenset(int(found[1]) for program in programs if (found := NUMBER.search(program)))


def shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARS else f"{line[:SHOWN_CHARS]} ..."
