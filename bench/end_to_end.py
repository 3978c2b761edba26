"""The same task in Atoll and in OpenEvolve, side by side: what an iteration costs with everything on.

Both are run by their command lines on one unchanged folder, with two workers, and ask one model server on loopback
that answers at once. Atoll runs twice: in its jail, which is how it runs unless told otherwise, and as OpenEvolve does,
with candidates that are trusted and share warm processes. CPU time is that of all processes of a system, the model
server's not counted. An iteration is a reply of that server: the cost of iterations 101 to 200 is what was used between
replies 100 and 200.
"""

import argparse
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from atoll import sandbox
from bench import metering, outcome

PEERS = True
ROOT = Path(__file__).parent.parent
TASK_DIR = Path("bench/tasks/swing")
PEERS_DIR = Path(".venv-peers")
SEED = 42
LIMIT_SECONDS = 1800.0
# A run's number of iterations and how often it is made: single runs of the same thing differ by a fifth. Long ones of
# OpenEvolve take minutes, so there is one: about eight minutes in all on two idle cores.
QUICK: Mapping[int, int] = {200: 3}
FULL: Mapping[int, int] = {200: 3, 1500: 1}
SLICES = [
    (0, 100),
    (100, 200),
    (200, 400),
    (400, 600),
    (600, 800),
    (800, 1000),
    (1000, 1200),
    (1200, 1400),
    (1400, 1500),
]
type Bars = Mapping[tuple[int, int], float]
type Table = tuple[Sequence[str], list[list[object]]]

# How many times less an iteration shall cost than in OpenEvolve, which has no jail.
WANTED_JAILED: Bars = {(100, 200): 1.0, (1400, 1500): 30.0}
WANTED_TRUSTED: Bars = {(100, 200): 2.0}


OPENEVOLVE_SETTINGS = (
    "OpenEvolve with openai {openai} has its own prompts, artifacts, MAP-Elites and five islands on, and keeps the "
    "prompts of its programs, as is its default. It asks for full rewrites, logs warnings only, writes no checkpoints"
    " and has no cascade: all in its favour. It keeps all programs, as Atoll does (population_size 100000), which is "
    "not: with its usual 1000 it drops programs from the 1,001st on and an iteration costs less from there. `lean` is"
    " without prompts and artifacts in what it sends to its workers (log_prompts false, max_snapshot_artifacts 0), so"
    " that its model never sees an artifact; all else is its default. Atoll keeps every prompt, reply, artifact and "
    "evaluation in its store."
)


class Contest(NamedTuple):
    """What came out: tables, and what is to be said of them."""

    tables: Mapping[str, Table]
    notes: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class System:
    """How a system is run.

    Attributes:
        name: With its version and its sandbox.
        command: Its words, given the model's address, the iterations, and a folder for what it writes. They are
            relative to the root of the checkout.
        failures: Counts the iterations that came to nothing, in what it printed.
        shortest: Iterations of the shortest run that is worth while.
        wanted: By slice how many times less than the first peer it shall cost; None: it is a peer.
    """

    name: str
    command: Callable[[str, int, str], Sequence[str]]
    failures: Callable[[str], int]
    shortest: int = 0
    wanted: Bars | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a system; times are those of the replies, on the clock of the meter."""

    iterations: int
    meter: metering.Metered
    replies: Sequence[float]
    prompt_chars: float
    failures: int

    def used_until(self, iteration: int) -> float:
        """Returns CPU seconds; until iteration 0 is until the first reply: the start-up."""
        return self.meter.used_at(self.replies[max(0, iteration - 1)])

    def cpu_ms(self, first: int, last: int) -> float:
        """Returns the CPU milliseconds of an iteration, on average over those after `first`."""
        return (self.used_until(last) - self.used_until(first)) / (last - max(first, 1)) * 1e3

    def rate(self, first: int, last: int) -> float:
        """Returns iterations per second."""
        return (last - max(first, 1)) / (self.replies[last - 1] - self.replies[max(first, 1) - 1])


type Found = Mapping[System, Sequence[Run]]


def atoll_command(url: str, iterations: int, folder: str, terms: Sequence[str] = ()) -> Sequence[str]:
    model, amounts = f"openai:bench@{url}", ["--iterations", str(iterations), "--workers", "2", "--seed", str(SEED)]
    return [
        "./atoll",
        "run",
        str(TASK_DIR),
        "--llm",
        model,
        *amounts,
        *terms,
        "--store",
        f"{folder}/atoll.db",
        "--json",
    ]


def openevolve_command(url: str, iterations: int, folder: str, config: str = "config.yaml") -> Sequence[str]:
    files = [f"{TASK_DIR}/{name}" for name in ("initial_program.py", "evaluator.py")]
    options = ["--config", f"{TASK_DIR}/{config}", "--output", f"{folder}/output", "--iterations", str(iterations)]
    # Both are needed: the address alone does not reach its models.
    model = ["--api-base", url, "--primary-model", "bench"]
    return [f"{PEERS_DIR}/bin/openevolve-run", *files, *options, *model]


def atoll_failures(output: str) -> int:
    return int(json.loads(output[output.index("{") : output.rindex("}") + 1])["failures"])


def openevolve_failures(output: str) -> int:
    """Counts its warnings: besides failed iterations it warns of nothing here."""
    return len(re.findall(r" - (?:WARNING|ERROR) - ", output))


def peer_version(package: str) -> str:
    """Returns the version of a package in the environment of the peers."""
    script = f"from importlib import metadata; print(metadata.version({package!r}))"
    python = ROOT / PEERS_DIR / "bin" / "python"
    return subprocess.run([python, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def contest(*, quick: bool, with_peers: bool) -> Contest:
    """Runs both, or Atoll alone; quick: short runs only."""
    if not Path("/proc/self/stat").exists():
        return Contest({}, ["End to end was not measured: the meter reads /proc, which this system has not."])
    plan = QUICK if quick else FULL
    contestants = [system for system in systems(with_peers) if max(plan) >= system.shortest]
    result = measured(contestants, plan)
    tables = {"End to end": totals(result), "End to end, an iteration by slice": slices(result)}
    return Contest(tables, [*conditions(contestants, max(plan)), *(verdicts(result) if with_peers else [])])


def conditions(contestants: Sequence[System], most: int) -> list[str]:
    """Says what was compared, and how it can be done again."""
    message = [
        f"End to end: CPU of all processes but the model server, 2 workers, seed {SEED}; an iteration is a "
        "reply of the model server, which answers at once; runs of the same length took turns, and the figures are "
        "medians. A slice counts from the reply before it to its last, so neither start nor end is in it; the first "
        "slice starts at the first reply."
    ]
    for system in contestants:
        message.append(f"{system.name}: `{' '.join(system.command('http://127.0.0.1:PORT/v1', most, 'FOLDER'))}`")
    has_peers = any(system.wanted is None for system in contestants)
    return [*message, OPENEVOLVE_SETTINGS.format(openai=peer_version("openai"))] if has_peers else message


def systems(with_peers: bool) -> list[System]:
    """Returns those to measure: the peer first, so that its figures are there to compare with, and Atoll last."""
    name, level = f"Atoll {metadata.version('atoll')}", sandbox.get_level(sandbox.probe())
    trusting = partial(atoll_command, terms=["--set", "sandbox.trusted=true", "--unsafe"])
    ours = [
        System(f"{name}, jail {level}", atoll_command, atoll_failures, wanted=WANTED_JAILED),
        System(f"{name}, trusted (L0)", trusting, atoll_failures, wanted=WANTED_TRUSTED),
    ]
    if not with_peers:
        return ours
    peer = System(f"OpenEvolve {peer_version('openevolve')}", openevolve_command, openevolve_failures)
    others = {"population 1000": "config_usual.yaml", "lean": "config_lean.yaml"}
    # They matter in long runs: up to 1,000 programs the first is the same thing.
    neighbor = [
        System(f"{peer.name}, {name}", partial(openevolve_command, config=config), openevolve_failures, shortest=1001)
        for name, config in others.items()
    ]
    return [peer, *neighbor, *ours]


def run(system: System, iterations: int) -> Run:
    """Runs a system against a model of its own.

    Raises:
        RuntimeError: It failed, or asked more or less often than once an iteration.
    """
    with tempfile.TemporaryDirectory(prefix="atoll-bench-") as folder:
        model = subprocess.Popen(
            [sys.executable, "-m", "bench.model_server", str(SEED)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with model:
            assert model.stdout is not None
            command = system.command(model.stdout.readline().strip(), iterations, folder)
            meter = metering.metered(command, folder=ROOT, environment=environment(folder), limit_seconds=LIMIT_SECONDS)
            replies = json.loads(model.communicate("")[0])
    if meter.status or len(replies) != iterations:
        message = f"ended with {meter.status} after {len(replies)} replies to {iterations} iterations"
        raise RuntimeError(f"{system.name} {message}:\n{meter.output[-2000:]}")
    times, lengths = [time for time, _ in replies], [length for _, length in replies]
    return Run(iterations, meter, times, statistics.fmean(lengths), system.failures(meter.output))


def environment(folder: str) -> Mapping[str, str]:
    """Returns ours without proxies, temporary files in a folder that goes."""
    stored = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return {**stored, "TMPDIR": folder, "NO_PROXY": "127.0.0.1", "OPENAI_API_KEY": "none"}


def measured(contestants: Sequence[System], plan: Mapping[int, int]) -> Found:
    """Runs the systems in turns, so that what else the machine does meets all."""
    result: dict[System, list[Run]] = {}
    for iterations, times in plan.items():
        turn = [system for system in contestants if iterations >= system.shortest]
        for number, system in itertools.product(range(times), turn):
            print(f"{system.name}, {iterations} iterations, run {number + 1} of {times} ...", file=sys.stderr)
            result.setdefault(system, []).append(run(system, iterations))
    return {system: result[system] for system in contestants if system in result}


def median(runs: Sequence[Run], figure: Callable[[Run], float]) -> float:
    return statistics.median(figure(run) for run in runs)


def costs(runs: Sequence[Run], first: int, last: int) -> list[float]:
    """Returns the CPU milliseconds of an iteration in a slice, of each run that went that far."""
    return [run.cpu_ms(first, last) for run in runs if run.iterations >= last]


def rate(runs: Sequence[Run], first: int, last: int) -> float:
    return median([run for run in runs if run.iterations >= last], lambda run: run.rate(first, last))


def furthest(result: Found) -> int:
    """Returns the iteration that all systems reached."""
    return min(max(run.iterations for run in runs) for runs in result.values())


def totals(result: Found) -> Table:
    rows: list[list[object]] = []
    for system, runs in result.items():
        for iterations in sorted({run.iterations for run in runs}):
            same = [run for run in runs if run.iterations == iterations]
            cpu = median(same, lambda run: run.meter.cpu_seconds)
            figures = [
                cpu,
                cpu / iterations * 1e3,
                median(same, lambda run: run.used_until(0)),
                median(same, lambda run: run.replies[0] - run.meter.began),
                median(same, lambda run: run.meter.wall_seconds),
                median(same, lambda run: run.prompt_chars),
            ]
            rows.append([system.name, iterations, len(same), *figures, sum(run.failures for run in same)])
    columns = ["system", "iterations", "runs", "CPU s", "CPU ms an iteration, all counted", "CPU s to the first reply"]
    return [*columns, "wall s to it", "wall s", "characters a prompt", "failed iterations"], rows


def slices(result: Found) -> Table:
    """Compares medians, each peer's with each of ours."""
    pairs = [(peer, ours) for ours in result for peer in result if peer.wanted is None and ours.wanted is not None]
    rows: list[list[object]] = []
    for first, last in SLICES:
        if last <= furthest(result):
            used = {system: statistics.median(costs(runs, first, last)) for system, runs in result.items()}
            ratios = [used[peer] / used[ours] for peer, ours in pairs]
            rates = [rate(runs, first, last) for runs in result.values()]
            rows.append([f"{first + 1:,} to {last:,}", *used.values(), *ratios, *rates])
    compared = [f"{ours.name}: times less than {peer.name}" for peer, ours in pairs]
    columns = ["iterations", *(f"CPU ms, {system.name}" for system in result), *compared]
    return [*columns, *(f"1/s, {system.name}" for system in result)], rows


def verdicts(result: Found) -> list[str]:
    """Says where we are with what we want of the first peer, a line each, and where with other peers."""
    peers = [system for system in result if system.wanted is None]
    lines: list[str] = []
    for ours, runs in result.items():
        for (first, last), requested in (ours.wanted or {}).items():
            for peer in peers if last <= furthest(result) else ():
                ratio, spread = compared(costs(result[peer], first, last), costs(runs, first, last))
                message = f"{ours.name}, at {last:,}: {ratio:.1f} times less"
                if peer is peers[0]:
                    lines.append(f"{message} (wanted >= {requested:g}): {'MET' if ratio >= requested else 'MISSED'}; {spread}")
                elif last > 1000:
                    lines.append(f"{message} than {peer.name}; {spread}")
    return lines


def compared(theirs: Sequence[float], own: Sequence[float]) -> tuple[float, str]:
    """Returns how many times less ours cost, and between what single runs differ."""
    spread = f"{min(theirs) / max(own):.1f} to {max(theirs) / min(own):.1f} between single runs"
    return statistics.median(theirs) / statistics.median(own), spread


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="runs of 200 iterations only; nothing is kept")
    parser.add_argument("--no-peers", action="store_true", help="runs Atoll alone; nothing is kept")
    options = parser.parse_args()
    result = contest(quick=options.quick, with_peers=not options.no_peers)
    say = outcome.show if options.quick or options.no_peers else outcome.keep
    say("end_to_end", result.tables, result.notes)


if __name__ == "__main__":
    main()
