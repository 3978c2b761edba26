"""Cost of an evaluation in the sandbox, compared with a bare fork and a new Python process in the same run.

Each variant runs the same candidate: compile it, execute it, sort a small numpy array. The bare fork is a fork server
with the same imports and no sandbox: a pipe, `os.fork`, the candidate, `os.waitpid`. The variants take turns, one of
each per round, so that other load affects all of them. The table shows the median and the fastest tenth. A sandbox
forks its next process in idle time; the last rows show its cost without idle time.
"""

import argparse
import contextlib
import functools
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from atoll import executor, sandbox
from atoll.programs.evaluation import cascade, evaluator_job, scoring
from atoll.sandbox.process import scratch_dir
from bench import folders, outcome
from tests.sandbox import forgeries

PROGRAM = "import numpy as np\nanswer = float(np.sort(np.arange(100.0)[::-1])[3])"
FRESH = "import numpy as np\nprint(float(np.sort(np.arange(100.0)[::-1])[3]))"
FAULTS = (
    "import os; os._exit(3)",
    "import ctypes; ctypes.string_at(0)",
    "raise SystemExit",
    "open('left', 'w').write('x' * 1000)\n1 / 0",
    "import os; os.fork()",
    "x = bytearray(2**40)",
    "import os; os.write(3, b'noise')",
    "print('x' * 10**6)\nanswer = 3.0",
    "import os\nfor depth in range(300): os.mkdir('d'); os.chdir('d')",
    "import threading, time\n[threading.Thread(target=time.sleep, args=(9,)).start() for _ in range(9)]",
)
LIMITS = sandbox.Limits(seconds=5.0, memory_mb=1024)
GOAL_MS, GOAL_RATIO, GOAL_SPEEDUP, GOAL_BATCH_MS = 5.0, 1.6, 50.0, 0.2


def programs() -> Callable[[str], Any]:
    """Makes the job; the fork server imports numpy once."""
    import numpy  # noqa: F401

    def run(program: str) -> Any:
        names: dict[str, Any] = {}
        exec(compile(program, "<candidate>", "exec"), names)
        return names.get("answer")

    return run


def batch(size: int) -> Callable[[str], Any]:
    """Makes a job that calls the candidate on many inputs in one fork."""
    import numpy as np

    inputs = [np.arange(100.0)[::-1] + index for index in range(size)]

    def run(program: str) -> Any:
        names: dict[str, Any] = {"np": np}
        exec(program, names)
        return [names["f"](item) for item in inputs]

    return run


class BareFork:
    """Fork server without a sandbox, in a separate process with the same imports as the sandboxed one."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", "from bench import sandbox; sandbox.serve_bare()"]
        self._popen = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_one_thread())

    def __call__(self) -> None:
        assert self._popen.stdin
        assert self._popen.stdout
        self._popen.stdin.write(json.dumps(PROGRAM).encode() + b"\n")
        self._popen.stdin.flush()
        assert json.loads(self._popen.stdout.readline()) == 3.0

    def close(self) -> None:
        self._popen.communicate()


def serve_bare() -> None:
    """Forks for every line of the input."""
    job = programs()
    gc.freeze()
    for line in sys.stdin:
        result, value = os.pipe()
        pid = os.fork()
        if not pid:
            os.write(value, json.dumps(job(json.loads(line))).encode())
            os._exit(0)
        os.close(value)
        answer = os.read(result, 1000)
        os.close(result)
        os.waitpid(pid, 0)
        sys.stdout.write(answer.decode() + "\n")
        sys.stdout.flush()


def _one_thread() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}


def fresh() -> None:
    subprocess.run([sys.executable, "-c", FRESH], check=True, capture_output=True, env=_one_thread())


def run_program(box: sandbox.Sandbox) -> None:
    answer = box.run(PROGRAM)
    assert answer.value == 3.0, answer


def seconds(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def latencies(rounds: int) -> dict[str, list[float]]:
    """Measures all variants in turns; a new Python process only every tenth round."""
    level = sandbox.get_level(sandbox.probe())
    sandboxes = {name: sandbox.IsolatedSandbox(programs, LIMITS, level=name) for name in ("L3", "L2") if name <= level}
    workers, bare = sandbox.ProcessSandbox(programs, LIMITS), BareFork()
    ways: dict[str, Callable[[], None]] = {
        f"sandbox {name}": functools.partial(run_program, sandboxes[name]) for name in sandboxes
    }
    ways |= {"bare fork": bare, "worker, no sandbox (L0)": functools.partial(run_program, workers)}
    result: dict[str, list[float]] = {name: [] for name in (*ways, "new python with numpy")}
    for number in range(-5, rounds):
        for name, way in ways.items():
            took = seconds(way)
            if number >= 0:
                result[name].append(took)
        if number % 10 == 0:
            result["new python with numpy"].append(seconds(fresh))
    for close in (*(box.close for box in sandboxes.values()), workers.close, bare.close):
        close()
    return result


def streamed(rounds: int) -> dict[str, list[float]]:
    """Measures evaluations without idle time between them, so that nothing is prepared."""
    bare = BareFork()
    result: dict[str, list[float]] = {"sandbox L3, without idle time": [], "bare fork, without idle time": []}
    with sandbox.IsolatedSandbox(programs, LIMITS) as box:
        for _ in range(rounds // 25):
            ways: list[Callable[[], None]] = [functools.partial(run_program, box), bare]
            for name, way in zip(result, ways, strict=True):
                way()
                result[name] += [seconds(way) for _ in range(25)]
    bare.close()
    return result


def batched(rounds: int, size: int) -> list[float]:
    """Measures many inputs per fork. Returns seconds per input."""
    with sandbox.IsolatedSandbox(functools.partial(batch, size), LIMITS) as box:
        box.warm()
        taken = []
        for _ in range(rounds):
            answer = box.run("def f(x): return float(np.sort(x)[3])")
            assert answer.failure is None, answer
            taken.append(answer.seconds / size)
    return taken


APART_EVALUATOR = """
import importlib.util
import numpy
def evaluate(path):
    spec = importlib.util.spec_from_file_location("program", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for number in range({calls}):
        module.f(number, 2.5)
    return {{"combined_score": module.f(1, 2)}}
"""
APART_PROGRAM = "import numpy as np\ndef f(x, y): return x + y\n"
GOAL_APART_MS, GOAL_CALL_MS = 2.0, 0.1
NOISE = 1.25  # some scores depend on the time
SLOW_SECONDS, NUM_SLOW_ATTACKS = 5.0, 5
MORE_FOLDERS = ("alphaevolve_math_problems/circle_packing_rect", "alphaevolve_math_problems/minimizing_max_min_dist/2")


def scoring_costs(rounds: int) -> list[list[object]]:
    """Measures CPU and wall-clock time of evaluations together and apart, without and with many calls, in turns."""
    request: Any = {"program": APART_PROGRAM, "call": "evaluate"}
    names = [(way, calls) for calls in (0, 1000) for way in ("together", "apart")]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        os.chmod(folder, 0o755)
        boxes, pids = {}, {}
        for way, calls in names:
            path = os.path.join(folder, f"evaluator{calls}.py")
            Path(path).write_text(APART_EVALUATOR.format(calls=calls))
            box, known = stack.enter_context(_open_scoring(path, way)), set(family())
            for _ in range(5):
                assert box.run(request).failure is None
            boxes[way, calls], pids[way, calls] = box, set(family()) - known
        cpu = {name: -sum_cpu(pids[name]) for name in names}
        wall, count = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0)
        for number in range(rounds):
            for name in names if number % 10 == 0 else names[:2]:
                own, start = time.process_time(), time.perf_counter()
                assert boxes[name].run(request).failure is None
                wall[name] += time.perf_counter() - start
                cpu[name] += time.process_time() - own
                count[name] += 1
        cpu = {name: cpu[name] + sum_cpu(pids[name]) for name in names}
    return [
        [f"{way}, {calls} calls", num, 1000 * cpu[way, calls] / num, 1000 * wall[way, calls] / num]
        for (way, calls), num in count.items()
    ]


def _open_scoring(path: str, way: str) -> sandbox.ProcessPool:
    if way == "together":
        return sandbox.IsolatedSandbox(functools.partial(evaluator_job.FunctionJob, path, ".py"), LIMITS)
    return sandbox.ApartSandbox(
        functools.partial(evaluator_job.ApartFunctionJob, path, ".py"),
        functools.partial(sandbox.ProgramJob, ["numpy"]),
        LIMITS,
        permissions=sandbox.Permissions(),
        program_permissions=sandbox.Permissions(),
    )


def scoring_notes(rows: Sequence[Sequence[Any]]) -> list[str]:
    cpu = {row[0]: float(row[2]) for row in rows}
    candidate = cpu["apart, 0 calls"] - cpu["together, 0 calls"]
    call = (cpu["apart, 1000 calls"] - cpu["apart, 0 calls"]) / 1000
    return [
        f"Apart costs {candidate:.2f} ms more CPU per candidate; goal: at most {GOAL_APART_MS:g} ms: "
        f"{'yes' if candidate <= GOAL_APART_MS else 'NO'}.",
        f"A forwarded call costs {call:.3f} ms of CPU; goal: at most {GOAL_CALL_MS:g} ms: "
        f"{'yes' if call <= GOAL_CALL_MS else 'NO'}.",
    ]


def sum_cpu(pids: Iterable[int]) -> float:
    """Returns the CPU seconds of processes and their dead children."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def forge(examples: Path) -> tuple[list[list[object]], list[str]]:
    """Scores the initial programs of OpenEvolve's example folders apart and together, then forges scores apart."""
    rows: list[list[object]] = []
    for name in (*folders.FOLDERS, *MORE_FOLDERS):
        folder = examples / name
        program = next(iter(sorted(folder.glob("init*_pro*.py"))), None)
        if program is None:
            continue  # some versions of OpenEvolve lack some of them
        rows.append([name, *_forge_folder(str(folder / "evaluator.py"), program.read_text())])
        sys.stderr.write(f"{rows[-1]}\n")
    same = sum(row[3] == "apart" for row in rows)
    forged = sum(int(str(row[-1])) for row in rows)
    return rows, [
        f"Apart with the same start score: {same} of {len(rows)}; goal: at least 70 %: "
        f"{'yes' if same >= 0.7 * len(rows) else 'NO'}.",
        f"Forged scores: {forged} of {sum(int(str(row[-2])) for row in rows)} attempts, "
        f"{len(forgeries.FORGERIES)} attacks on each folder, {NUM_SLOW_ATTACKS} where an evaluation takes long.",
        "A score counts as forged if it is the one that the attack wants, or higher than those of the initial program, "
        "of one that only fails, and of one that returns large numbers: signal_processing has no combined_score, and "
        "rates both higher than its own.",
    ]


def _forge_folder(path: str, program: str) -> list[object]:
    source = Path(path).read_text()
    stages = cascade.find_stages(source)
    files = scoring.EvaluatorFiles(path, source, ".py", program, stages, (-1e9,) * len(stages), cascade.ScoreFunction())
    config = executor.ExecutorConfig(replace(LIMITS, seconds=90.0, call_seconds=60.0, memory_mb=4096))
    with scoring.open_evaluator(files, replace(config, scoring="together")).executor as shared:
        together = [scoring.score_initial(shared, files) for _ in range(2)]
    opened = scoring.open_evaluator(files, config)
    forged, tried = 0, 0
    with opened.executor as box:
        is_apart = opened.scoring == scoring.APART_NOTE
        begin = time.monotonic()
        start = scoring.score_initial(box, files)
        seconds = time.monotonic() - begin
        honest = [replace(files, program=f"{program}\n{code}") for code in forgeries.HONEST]
        known = (*together, start, 0.0, *(scoring.score_initial(box, item) for item in honest))
        highest = max(score for score in known if score is not None)
        attacks = list(forgeries.FORGERIES.items())
        for name, attack in attacks[: len(attacks) if seconds < SLOW_SECONDS else NUM_SLOW_ATTACKS] if is_apart else ():
            score = scoring.score_initial(box, replace(files, program=f"{program}\n{attack}"))
            tried += 1
            if score is not None and (score > NOISE * highest + 1e-6 or score == forgeries.FORGED):
                forged += 1
                sys.stderr.write(f"{path}: {name}: {score}\n")
    return [together[0], start, "apart" if is_apart else opened.scoring, tried, forged]


def table(result: dict[str, list[float]]) -> list[list[object]]:
    rows: list[list[object]] = []
    for name, taken in result.items():
        tenth = statistics.quantiles(taken, n=10)
        rows.append([name, len(taken), *(1000 * item for item in (tenth[0], statistics.median(taken), tenth[-1]))])
    return rows


def stress(count: int) -> list[list[object]]:
    """Runs many evaluations, every fifth with a fault. Returns the remaining processes and files."""
    with tempfile.TemporaryDirectory() as folder, sandbox.IsolatedSandbox(programs, LIMITS, num_workers=2) as box:
        tempfile.tempdir = folder
        run_program(box)
        before, answered, right, memory = traces(), 0, 0, []
        for number in range(count):
            is_fault = number % 5 == 4
            answer = box.run(FAULTS[number // 5 % len(FAULTS)] if is_fault else PROGRAM)
            answered += 1
            right += is_fault or answer.value == 3.0
            if number % (count // 10) == 0:
                memory.append(family_mb())
        after = traces()
        tempfile.tempdir = None
    stored = [["evaluations answered", answered], ["correct results and faults", right]]
    stored += [[f"{name} before, after", f"{before[name]}, {after[name]}"] for name in before]
    return [*stored, ["MiB of parent and fork servers by tenth", " ".join(f"{item:.0f}" for item in memory)]]


def traces() -> dict[str, int]:
    return {"descriptors": len(os.listdir("/proc/self/fd")), "processes": len(family())}


def family() -> list[int]:
    """Returns all descendants of this process."""
    return scratch_dir.list_descendants(os.getpid())[1:]


def family_mb() -> float:
    pages = 0
    for pid in (os.getpid(), *family()):
        with contextlib.suppress(OSError):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def verdicts(rows: Sequence[Sequence[Any]], per_input_ms: float) -> list[str]:
    medians = {row[0]: float(row[3]) for row in rows}
    sandboxed, bare, new = medians["sandbox L3"], medians["bare fork"], medians["new python with numpy"]
    goals = [
        (f"Median at L3: {sandboxed:.2f} ms; goal: at most {GOAL_MS:g} ms", sandboxed <= GOAL_MS),
        (f"L3: {sandboxed / bare:.2f} times a bare fork; goal: {GOAL_RATIO:g}", sandboxed / bare <= GOAL_RATIO),
        (
            f"L3: {new / sandboxed:.0f} times as fast as a new Python; goal {GOAL_SPEEDUP:g}",
            new / sandboxed >= GOAL_SPEEDUP,
        ),
        (f"One input of a batch: {per_input_ms:.3f} ms; goal {GOAL_BATCH_MS:g} ms", per_input_ms <= GOAL_BATCH_MS),
    ]
    streak = medians["sandbox L3, without idle time"] / medians["bare fork, without idle time"]
    notes = [f"{text}: {'yes' if is_good else 'NO'}." for text, is_good in goals]
    return [*notes, f"Without idle time L3 is {streak:.2f} times a bare fork."]


def priority() -> str:
    """Describes the priority of the run, which the load does not show."""
    is_real_time = os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR)
    return f"Run at {'real-time' if is_real_time else 'the usual'} priority."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="50 rounds, nothing is saved")
    parser.add_argument(
        "--stress", type=int, default=0, metavar="N", help="run N evaluations instead, every fifth with a fault"
    )
    parser.add_argument(
        "--folders", type=Path, metavar="DIR", help="forge scores of OpenEvolve's examples in DIR instead"
    )
    options = parser.parse_args()
    if options.stress:
        outcome.show("sandbox", {"after many evaluations": (["what", "found"], stress(options.stress))})
        return
    if options.folders:
        rows, notes = forge(options.folders)
        columns = ["folder", "start score together", "start score", "scoring", "attacks", "forged"]
        outcome.keep("sandbox_folders", {"forged scores": (columns, rows)}, notes, bench="sandbox")
        return
    rounds = 50 if options.quick else 400
    rows = table({**latencies(rounds), **streamed(rounds)})
    per_input = batched(20, 200)
    columns = ["way", "times", "p10 ms", "median ms", "p90 ms"]
    costs = scoring_costs(rounds)
    notes = [*verdicts(rows, 1000 * statistics.median(per_input)), *scoring_notes(costs), priority()]
    tables = {"one evaluation": (columns, rows), "apart and together": (["way", "times", "CPU ms", "wall ms"], costs)}
    (outcome.show if options.quick else outcome.keep)("sandbox", tables, notes)


if __name__ == "__main__":
    main()
