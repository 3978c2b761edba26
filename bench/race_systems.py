"""Systems of the race: each runs a task with a number of LLM calls and returns its programs."""

import contextlib
import importlib.util
import json
import math
import os
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
PEER_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
METHODS = {"atoll": "evolve", "best-of-n": "best_of_n", "sequential": "sequential"}
JUDGE_SECONDS = 60.0
JUDGE_TIMES = 3
# Prints the score of a program by the hidden test of a task, or by its evaluator if it has none.
_JUDGE = """
import json, os, sys
out = os.dup(1)
os.dup2(2, 1)
sys.path.insert(0, sys.argv[1])
import evaluator
result = getattr(evaluator, "evaluate_test", evaluator.evaluate)(sys.argv[2])
os.write(out, json.dumps(float(getattr(result, "metrics", result)["combined_score"])).encode())
"""
_TUNING_SECONDS = 30
_processes = set[subprocess.Popen[str]]()


class Program(NamedTuple):
    """Program that a system evaluated.

    Attributes:
        id: Its name in the system.
        parent: Name of the first parent; None for the initial program.
        iteration: Number of the iteration, from 1; 0 for the initial program.
        score: Score in the run; None if the evaluation failed.
        text: Source code.
        is_from_llm: Whether an LLM wrote it; Atoll's tuner writes programs without a call.
    """

    id: str
    parent: str | None
    iteration: int
    score: float | None
    text: str
    is_from_llm: bool = True


class Run(NamedTuple):
    """Result of one run of a system: all programs, the best one, and how the run ended."""

    programs: Sequence[Program]
    best: str
    status: str


class Job(NamedTuple):
    """One run to make.

    Attributes:
        system: `atoll`, `best-of-n`, `sequential`, `openevolve` or `shinka`; with `:NAME` for a variant.
        folder: Copy of the task, with `initial_program.py`, `evaluator.py` and `config.yaml`.
        model: Name of the LLM at the endpoint.
        url: Endpoint of this run.
        extra_args: Further options of `atoll run`.
    """

    system: str
    folder: Path
    model: str
    url: str
    seed: int
    calls: int
    workers: int
    limit_seconds: float
    extra_args: Sequence[str] = ()
    openevolve_path: str = ""
    shinka_path: str = ""


def find_obstacle(system: str, openevolve_path: str, shinka_path: str = "") -> str:
    """Returns why a system cannot be run; empty if it can."""
    base = system.partition(":")[0]
    if base in METHODS:
        return ""
    if base == "openevolve":
        if openevolve_path:
            is_found = Path(openevolve_path, "openevolve").is_dir()
            return "" if is_found else f"{openevolve_path} does not have the package openevolve"
        is_installed = PEER_PYTHON.exists() or importlib.util.find_spec("openevolve")
        return "" if is_installed else "OpenEvolve is not installed; pass --openevolve-path"
    if base == "shinka":
        is_found = bool(shinka_path) and Path(shinka_path, "shinka").is_dir()
        return "" if is_found else "pass --shinka-path, a folder made by pip install --target DIR shinka-evolve==0.0.7"
    return f"unknown system; choose from {', '.join([*METHODS, 'openevolve', 'shinka'])}"


def run(job: Job) -> Run:
    """Runs a system.

    Raises:
        RuntimeError: It has no result.
    """
    set_config(job)
    runners = {"openevolve": run_openevolve, "shinka": run_shinka}
    return runners.get(job.system.partition(":")[0], run_atoll)(job)


def set_config(job: Job) -> None:
    """Sets seed, workers and checkpoints in the configuration of a task."""
    path = job.folder / "config.yaml"
    text = path.read_text() if path.exists() else ""
    interval = 10 if job.calls % 10 == 0 else job.calls  # OpenEvolve saves the end only if it is a multiple
    for key, value in {"random_seed": job.seed, "checkpoint_interval": interval, "max_iterations": job.calls}.items():
        text = f"{key}: {value}\n" + re.sub(rf"(?m)^{key}:.*\n", "", text)
    path.write_text(re.sub(r"(?m)^( +parallel_evaluations:) .*$", rf"\1 {job.workers}", text))


def run_atoll(job: Job) -> Run:
    """Runs Atoll or one of its baselines, which are search methods of its command line."""
    database = ["--store", f"sqlite:///{job.folder.parent / 'atoll.db'}"]
    command = [sys.executable, "-P", "-m", "atoll"]
    options = {
        "--llm": f"openai:{job.model}@{job.url}",
        "--budget": f"{job.calls}calls",
        "--iterations": 100 * job.calls,
        "--workers": job.workers,
        "--seed": job.seed,
        "--scoring": "together",  # as in OpenEvolve
        "--set": f"run.method={METHODS[job.system.partition(':')[0]]}",
    }
    words = [str(word) for pair in options.items() for word in pair]
    # Many runs share the cores, so that each evaluation takes longer than with one run.
    words += ["--set", f"programs.tuning_seconds={_TUNING_SECONDS}"] if job.system.startswith("atoll") else []
    status, stdout, stderr = _run([*command, "run", str(job.folder), *words, *database, "--json", *job.extra_args], job)
    lines = stdout.strip().splitlines()
    summary: Mapping[str, Any] = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}
    run_id = summary.get("run", "latest")
    _, exported, error = _run([*command, "export", run_id, "--format", "jsonl", *database], job)
    programs = [_read_atoll(json.loads(line)) for line in exported.splitlines()]
    scored = [program for program in programs if program.score is not None]
    if not scored:
        raise RuntimeError(f"Atoll has no result: {(stderr + error)[-500:]}")
    best = max(scored, key=lambda program: (program.score or 0.0, -program.iteration))
    return Run(programs, best.text, status or summary.get("status", "unknown"))


def _read_atoll(row: Mapping[str, Any]) -> Program:
    score = None if row["failure"] else row["score"]
    is_tuned = "untuned_score" in row["meta"]  # the program of the LLM is a row of its own
    is_from_llm = row["meta"].get("engine") in ("rewrite", "diff", "cross") and not is_tuned
    return Program(row["id"], next(iter(row["parents"]), None), row["step"], score, row["content"], is_from_llm)


def run_openevolve(job: Job) -> Run:
    """Runs OpenEvolve, which makes one LLM call per iteration."""
    output = job.folder.parent / "openevolve"
    python = sys.executable if job.openevolve_path or not PEER_PYTHON.exists() else str(PEER_PYTHON)
    files = [str(job.folder / name) for name in ("initial_program.py", "evaluator.py")]
    options = {
        "--config": job.folder / "config.yaml",
        "--output": output,
        "--iterations": job.calls,
        "--api-base": job.url,
        "--primary-model": job.model,
    }
    words = [str(word) for pair in options.items() for word in pair]
    status, stdout, stderr = _run([python, "-m", "openevolve.cli", *files, *words], job, job.openevolve_path)
    checkpoints = sorted(output.glob("checkpoints/checkpoint_*"), key=lambda path: int(path.name.rpartition("_")[2]))
    best = [*output.glob("best/best_program.py"), *(path / "best_program.py" for path in reversed(checkpoints))]
    if not best:
        raise RuntimeError(f"OpenEvolve has no result: {(stdout + stderr)[-500:]}")
    rows = [json.loads(path.read_text()) for path in checkpoints[-1].glob("programs/*.json")] if checkpoints else []
    programs = [_read_openevolve(row) for row in rows if not row.get("metadata", {}).get("migrant")]
    return Run(sorted(programs, key=lambda program: program.iteration), best[0].read_text(), status or "done")


def _read_openevolve(row: Mapping[str, Any]) -> Program:
    score = row["metrics"].get("combined_score")
    return Program(row["id"], row["parent_id"], row["iteration_found"], score, row["code"])


def run_shinka(job: Job) -> Run:
    """Runs ShinkaEvolve, which makes one LLM call per generation here."""
    numbers = [str(number) for number in (job.calls, job.workers, job.seed)]
    command = [sys.executable, str(ROOT / "bench" / "race_shinka.py"), str(job.folder), job.model, job.url, *numbers]
    status, stdout, stderr = _run(command, job, job.shinka_path)
    lines = stdout.strip().splitlines()
    programs = [Program(**row) for row in json.loads(lines[-1])] if lines and lines[-1].startswith("[{") else []
    scored = [program for program in programs if program.score is not None]
    if not scored:
        raise RuntimeError(f"ShinkaEvolve has no result: {(stdout + stderr)[-500:]}")
    return Run(programs, max(scored, key=lambda program: program.score or 0.0).text, status or "done")


def judge(folder: Path, program: Path) -> float | None:
    """Returns the median of three evaluations by the hidden test of a task; None if none has a finite score."""
    scores = list[float]()
    for _ in range(JUDGE_TIMES):
        command = [sys.executable, "-B", "-c", _JUDGE, str(folder), str(program)]
        with contextlib.suppress(subprocess.TimeoutExpired, ValueError):
            ended = subprocess.run(command, capture_output=True, text=True, timeout=JUDGE_SECONDS, check=False)
            scores.append(float(ended.stdout))
    finite = [score for score in scores if math.isfinite(score)]
    return statistics.median(finite) if finite else None


def find_fail_score(folder: Path) -> float:
    """Returns the score of failed programs, the constant `FAIL` of an evaluator; -inf if it has none."""
    match = re.search(r"^FAIL\b[^=\n]*= (-?[\d.]+)", (folder / "evaluator.py").read_text(), re.MULTILINE)
    return float(match[1]) if match else -math.inf


def copy_task(task: Path, target: Path) -> Path:
    """Copies a task to a folder that the other users of a sandbox can read. Returns the copy."""
    target.chmod(0o755)
    shutil.copytree(task, target / "task", ignore=shutil.ignore_patterns("__pycache__"))
    return target / "task"


def parse_variant(text: str) -> tuple[str, list[str]]:
    """Reads `atoll:NAME=OPTIONS`. Returns the system and the options.

    Raises:
        ValueError: It has another form.
    """
    match = re.fullmatch(rf"((?:{'|'.join(METHODS)}):[\w.-]+)=(.+)", text)
    if match is None:
        raise ValueError(f"{text!r} does not have the form 'atoll:NAME=--set KEY=VALUE ...'.")
    return match[1], shlex.split(match[2])


def end_processes() -> None:
    """Kills all running systems."""
    for process in list(_processes):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _run(command: Sequence[str], job: Job, path: str = "") -> tuple[str, str, str]:
    """Runs a command until the limit. Returns how it ended, "" if well, and its output."""
    inherited = [str(Path(item).resolve()) for item in os.environ.get("PYTHONPATH", "").split(os.pathsep) if item]
    paths = [str(Path(path).resolve())] if path else [str(ROOT / "src")]
    environment = {
        "OPENAI_API_KEY": "none",
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*paths, *inherited]),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    outputs = [job.folder.parent / name for name in ("stdout", "stderr")]
    with outputs[0].open("w") as stdout, outputs[1].open("w") as stderr:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            text=True,
            env=environment,
            cwd=job.folder.parent,
            start_new_session=True,
        )
        _processes.add(process)
        try:
            code = process.wait(job.limit_seconds)
            status = f"exit status {code}" if code else ""
        except subprocess.TimeoutExpired:
            status = f"killed after {job.limit_seconds:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            _processes.discard(process)
    stdout_text, stderr_text = (output.read_text(errors="replace") for output in outputs)
    if status.startswith("exit"):
        status += f": {(stderr_text.strip().splitlines() or [''])[-1][:300]}"
    return status, stdout_text, stderr_text
