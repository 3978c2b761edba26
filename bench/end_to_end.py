"""The same task in Atoll and in OpenEvolve: cost per iteration with all features on.

Both run by their command lines on one unchanged folder with two workers, and call one model server on loopback that
responds at once. Atoll runs twice: in its sandbox, the default, and like OpenEvolve, with trusted candidates in shared
warm processes. CPU time is that of all processes of a system without the model server. An iteration is a response of
that server: the cost of iterations 101 to 200 is the time used between responses 100 and 200.
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
# Iterations of a run and number of runs. Repeated runs differ by a fifth. Long runs of OpenEvolve take minutes, so
# they run once: about eight minutes in total on two idle cores.
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

# How many times less an iteration should cost than in OpenEvolve, which has no sandbox.
GOALS_SANDBOXED: Bars = {(100, 200): 1.0, (1400, 1500): 30.0}
GOALS_TRUSTED: Bars = {(100, 200): 2.0}


OPENEVOLVE_SETTINGS = (
    "OpenEvolve with openai {openai} uses its own prompts, artifacts, MAP-Elites and five islands, and stores the "
    "prompts of its programs, as by default. It asks for full rewrites, logs only warnings, writes no checkpoints "
    "and has no cascade, which reduces its cost. It keeps all programs, as Atoll does (population_size 100000), which "
    "increases it: with the default of 1000 it drops programs from the 1,001st on, and iterations cost less from "
    "there. `lean` sends no prompts and artifacts to its workers (log_prompts false, max_snapshot_artifacts 0), so "
    "its LLM never sees an artifact; the rest is default. Atoll stores every prompt, response, artifact and "
    "evaluation."
)


class Contest(NamedTuple):
    """Result: tables and notes."""

    tables: Mapping[str, Table]
    notes: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class System:
    """System and its command line.

    Attributes:
        name: Name with version and sandbox.
        command: Returns the command for a model URL, a number of iterations and an output folder. Paths are relative
            to the root of the checkout.
        failures: Counts the failed iterations in its output.
        shortest: Iterations of the shortest useful run.
        goals: Goal by slice: how many times less than the first peer it should cost; None for a peer.
    """

    name: str
    command: Callable[[str, int, str], Sequence[str]]
    failures: Callable[[str], int]
    shortest: int = 0
    goals: Bars | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a system. Times are those of the responses, on the clock of the meter."""

    iterations: int
    meter: metering.Metered
    replies: Sequence[float]
    prompt_chars: float
    failures: int

    def used_until(self, iteration: int) -> float:
        """Returns the CPU seconds until an iteration; iteration 0 means the first response, which is the startup."""
        return self.meter.used_at(self.replies[max(0, iteration - 1)])

    def cpu_ms(self, first: int, last: int) -> float:
        """Returns the mean CPU milliseconds per iteration after `first`."""
        return (self.used_until(last) - self.used_until(first)) / (last - max(first, 1)) * 1e3

    def rate(self, first: int, last: int) -> float:
        """Returns iterations per second."""
        return (last - max(first, 1)) / (self.replies[last - 1] - self.replies[max(first, 1) - 1])


type Results = Mapping[System, Sequence[Run]]


# One evaluation per response, as in the peer; the model server cannot write notes.
ONE_EVALUATION = ("--set", "programs.engine_weights={tuner = 0.0}", "--set", "programs.run_notes=built")


def atoll_command(url: str, iterations: int, folder: str, options: Sequence[str] = ()) -> Sequence[str]:
    model, amounts = f"openai:bench@{url}", ["--iterations", str(iterations), "--workers", "2", "--seed", str(SEED)]
    amounts += ONE_EVALUATION
    return [
        "./atoll",
        "run",
        str(TASK_DIR),
        "--llm",
        model,
        *amounts,
        *options,
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
    """Counts its warnings. It warns only of failed iterations here."""
    return len(re.findall(r" - (?:WARNING|ERROR) - ", output))


def peer_version(package: str) -> str:
    """Returns the version of a package in the environment of the peers."""
    script = f"from importlib import metadata; print(metadata.version({package!r}))"
    python = ROOT / PEERS_DIR / "bin" / "python"
    return subprocess.run([python, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def contest(*, quick: bool, with_peers: bool) -> Contest:
    """Runs both systems, or only Atoll. `quick` runs only short runs."""
    if not Path("/proc/self/stat").exists():
        return Contest({}, ["End to end was not measured: the meter needs /proc."])
    plan = QUICK if quick else FULL
    contestants = [system for system in systems(with_peers) if max(plan) >= system.shortest]
    result = measured(contestants, plan)
    tables = {"End to end": totals(result), "End to end, cost per iteration by slice": slices(result)}
    return Contest(tables, [*conditions(contestants, max(plan)), *(verdicts(result) if with_peers else [])])


def conditions(contestants: Sequence[System], most: int) -> list[str]:
    """Describes the comparison and its commands."""
    notes = [
        f"End to end: CPU of all processes but the model server, 2 workers, seed {SEED}; an iteration is a "
        "response of the model server, which responds at once; runs of the same length took turns, and the figures "
        "are medians. A slice counts from the response before it to its last one, without startup and shutdown; the "
        "first slice starts at the first response."
    ]
    for system in contestants:
        notes.append(f"{system.name}: `{' '.join(system.command('http://127.0.0.1:PORT/v1', most, 'FOLDER'))}`")
    has_peers = any(system.goals is None for system in contestants)
    return [*notes, OPENEVOLVE_SETTINGS.format(openai=peer_version("openai"))] if has_peers else notes


def systems(with_peers: bool) -> list[System]:
    """Returns the systems: the peers first, because Atoll is compared with the first one."""
    name, level = f"Atoll {metadata.version('atoll')}", sandbox.get_level(sandbox.probe())
    trusting = partial(atoll_command, options=["--set", "sandbox.trusted=true", "--unsafe"])
    ours = [
        System(f"{name}, sandbox {level}", atoll_command, atoll_failures, goals=GOALS_SANDBOXED),
        System(f"{name}, trusted (L0)", trusting, atoll_failures, goals=GOALS_TRUSTED),
    ]
    if not with_peers:
        return ours
    peer = System(f"OpenEvolve {peer_version('openevolve')}", openevolve_command, openevolve_failures)
    others = {"population 1000": "config_usual.yaml", "lean": "config_lean.yaml"}
    # They matter only in long runs: up to 1,000 programs the first is equal to the peer.
    variants = [
        System(f"{peer.name}, {name}", partial(openevolve_command, config=config), openevolve_failures, shortest=1001)
        for name, config in others.items()
    ]
    return [peer, *variants, *ours]


def run(system: System, iterations: int) -> Run:
    """Runs a system with its own model server.

    Raises:
        RuntimeError: The run failed, or made more or less than one LLM call per iteration.
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
        message = f"ended with {meter.status} after {len(replies)} responses in {iterations} iterations"
        raise RuntimeError(f"{system.name} {message}:\n{meter.output[-2000:]}")
    times, lengths = [time for time, _ in replies], [length for _, length in replies]
    return Run(iterations, meter, times, statistics.fmean(lengths), system.failures(meter.output))


def environment(folder: str) -> Mapping[str, str]:
    """Returns the environment without proxies, and with temporary files in `folder`."""
    variables = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return {**variables, "TMPDIR": folder, "NO_PROXY": "127.0.0.1", "OPENAI_API_KEY": "none"}


def measured(contestants: Sequence[System], plan: Mapping[int, int]) -> Results:
    """Runs the systems in turns, so that other load affects all of them."""
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
    """Returns the CPU milliseconds per iteration in a slice, for each run that reached it."""
    return [run.cpu_ms(first, last) for run in runs if run.iterations >= last]


def rate(runs: Sequence[Run], first: int, last: int) -> float:
    return median([run for run in runs if run.iterations >= last], lambda run: run.rate(first, last))


def furthest(result: Results) -> int:
    """Returns the iteration that all systems reached."""
    return min(max(run.iterations for run in runs) for runs in result.values())


def totals(result: Results) -> Table:
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
    columns = ["system", "iterations", "runs", "CPU s", "CPU ms per iteration, total", "CPU s to first response"]
    return [*columns, "wall s to first response", "wall s", "characters per prompt", "failed iterations"], rows


def slices(result: Results) -> Table:
    """Compares the medians of each peer and each Atoll system."""
    pairs = [(peer, ours) for ours in result for peer in result if peer.goals is None and ours.goals is not None]
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


def verdicts(result: Results) -> list[str]:
    """Describes whether Atoll meets its goals against the first peer, and the ratios to other peers."""
    peers = [system for system in result if system.goals is None]
    lines: list[str] = []
    for ours, runs in result.items():
        for (first, last), goal in (ours.goals or {}).items():
            for peer in peers if last <= furthest(result) else ():
                ratio, spread = compared(costs(result[peer], first, last), costs(runs, first, last))
                message = f"{ours.name}, at {last:,}: {ratio:.1f} times less"
                if peer is peers[0]:
                    lines.append(f"{message} (goal >= {goal:g}): {'MET' if ratio >= goal else 'MISSED'}; {spread}")
                elif last > 1000:
                    lines.append(f"{message} than {peer.name}; {spread}")
    return lines


def compared(theirs: Sequence[float], own: Sequence[float]) -> tuple[float, str]:
    """Returns how many times less Atoll costs, and the range between single runs."""
    spread = f"{min(theirs) / max(own):.1f} to {max(theirs) / min(own):.1f} between single runs"
    return statistics.median(theirs) / statistics.median(own), spread


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="runs of 200 iterations only; nothing is saved")
    parser.add_argument("--no-peers", action="store_true", help="run only Atoll; nothing is saved")
    args = parser.parse_args()
    result = contest(quick=args.quick, with_peers=not args.no_peers)
    say = outcome.show if args.quick or args.no_peers else outcome.keep
    say("end_to_end", result.tables, result.notes)


if __name__ == "__main__":
    main()
