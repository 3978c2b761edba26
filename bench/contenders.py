"""Systems of `bench/faults.py`: commands to start and resume each, and readers of its files on disk."""

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
    """Results that a system left on disk. Programs are named by the number of their LLM response; the initial one is 0.

    Attributes:
        iterations: Number of completed iterations, with or without a program.
        evaluated: Programs with a score, NaN included.
        on_disk: Programs on disk, with or without a score.
        not_programs: Programs on disk that were not written as programs.
        best: Program on disk that is named the best.
        messages: Failure messages of the system, most frequent first.
    """

    iterations: int
    evaluated: frozenset[int]
    on_disk: frozenset[int]
    not_programs: int
    best: int | None
    messages: Sequence[str]


class Contender(Protocol):
    """System that evolves `folder/task` and writes to `folder/out`."""

    @property
    def name(self) -> str: ...

    def start(self, folder: Path, url: str, iterations: int, workers: int) -> Sequence[str]:
        """Returns the start command."""

    def resume(self, folder: Path, url: str, iterations: int, workers: int) -> Sequence[str]:
        """Returns the command that resumes after a kill, up to this total of iterations."""

    def evidence(self, folder: Path, output: str) -> Evidence:
        """Reads the files on disk and the output."""


class Atoll:
    """Runs by its command line, in the sandbox."""

    name = f"Atoll {metadata.version('atoll')}"

    def start(self, folder: Path, url: str, iterations: int, workers: int) -> Sequence[str]:
        amounts = ["--iterations", str(iterations), "--workers", str(workers), "--seed", str(end_to_end.SEED)]
        options = [*amounts, *end_to_end.ONE_EVALUATION, *_store_options(folder)]
        return ["./atoll", "run", f"{folder}/task", "--llm", f"openai:{MODEL}@{url}", *options]

    def resume(self, folder: Path, url: str, iterations: int, workers: int) -> Sequence[str]:
        return ["./atoll", "resume", "latest", *_store_options(folder)]

    def evidence(self, folder: Path, output: str) -> Evidence:
        with store.Store(f"{folder}/out/atoll.db") as opened_store:
            run = runs.find_run(opened_store, "latest")
            rows = list(opened_store.candidates(run))
            best = opened_store.candidates(run).list_best()
            done = sum(1 for _ in opened_store.journal(run).read_kinds("applied"))
            reasons = summary.count_failures(opened_store, run).failures
        evaluated = [row.content for row in rows if row.score is not None]
        return Evidence(
            done,
            numbers(evaluated),
            numbers(row.content for row in rows),
            sum(NUMBER.search(row.content) is None for row in rows),
            min(numbers([best[0].content]), default=None) if best else None,
            [f"{reason.count} x {shortened(reason.text)}" for reason in reasons[:SHOWN_REASONS]],
        )


class OpenEvolve:
    """Runs by its command line, in the environment of the peers."""

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

    def resume(self, folder: Path, url: str, iterations: int, workers: int) -> Sequence[str]:
        """Resumes from the newest checkpoint; starts again if none exists."""
        newest = checkpoints(folder)[-1:]
        done = sum(int(path.name.rpartition("_")[2]) for path in newest)
        command = self.start(folder, url, iterations - done, workers)
        return [*command, *(word for path in newest for word in ("--checkpoint", str(path)))]

    def evidence(self, folder: Path, output: str) -> Evidence:
        programs = [program for path in checkpoints(folder) for program in sorted(path.glob("programs/*.json"))]
        texts = [str(json.loads(path.read_text(encoding="utf-8"))["code"]) for path in programs]
        called_best = [*sorted(folder.glob("out/best/best_program.py")), *_bests(folder)]
        texts += (bests := [path.read_text(encoding="utf-8") for path in called_best])
        messages = Counter(shortened(self._VARIES.sub("N", line)) for line in self._COMPLAINT.findall(output))
        return Evidence(
            len(set(self._ITERATION.findall(output))),
            frozenset(int(number) for _, number in self._EVALUATED.findall(output)),
            numbers(texts),
            len({text for text in texts if NUMBER.search(text) is None}),
            min(numbers(bests[:1]), default=None),
            [f"{count} x {text}" for text, count in messages.most_common(SHOWN_REASONS)],
        )


def checkpoints(folder: Path) -> list[Path]:
    """Returns the checkpoints of OpenEvolve, newest last."""
    paths = (folder / "out" / "checkpoints").glob("checkpoint_*")
    return sorted(paths, key=lambda path: int(path.name.rpartition("_")[2]))


def _bests(folder: Path) -> list[Path]:
    return [path / "best_program.py" for path in reversed(checkpoints(folder)) if (path / "best_program.py").exists()]


def _store_options(folder: Path) -> Sequence[str]:
    return ["--store", f"{folder}/out/atoll.db", "--json"]


def numbers(programs: Iterable[str]) -> frozenset[int]:
    return frozenset(int(match[1]) for program in programs if (match := NUMBER.search(program)))


def shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARS else f"{line[:SHOWN_CHARS]} ..."
