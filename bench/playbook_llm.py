"""A playbook learned offline by a real LLM: formula questions and help-desk tickets, with a validation split.

Each run is one task and one seed: epochs over training questions, a gate on validation questions, and test questions
with and without the learned playbook. Finished runs are lines of `--out`, and the next start continues.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from atoll import llm, playbook, store

NUM_TRAIN, NUM_VALIDATION, NUM_TEST, EPOCHS, BATCH = 32, 40, 100, 2, 16
MAX_RESPONSE_TOKENS = 500
DESKS: Mapping[str, tuple[str, Sequence[str]]] = {
    "QX4": ("printing", ("label printer", "plotter", "copier", "ink cartridge", "paper tray", "fax machine")),
    "ZR9": ("network", ("Wi-Fi", "VPN", "router", "network cable", "firewall", "hotspot")),
    "LM2": ("payroll", ("payslip", "overtime pay", "salary transfer", "bonus", "tax form", "travel refund")),
    "TB7": ("buildings", ("elevator", "heating", "air conditioning", "office lamp", "parking gate", "window blind")),
    "KD5": ("accounts", ("password", "login", "user account", "access badge", "two-factor code", "locked profile")),
    "VN1": ("hardware", ("laptop", "keyboard", "monitor", "docking station", "mouse", "headset")),
    "HW8": ("kitchen", ("coffee machine", "dishwasher", "fridge", "microwave", "water dispenser", "vending machine")),
    "PC3": ("software", ("spreadsheet program", "mail client", "browser", "video call", "text editor", "antivirus")),
}  # fmt: skip
COMPLAINTS = (
    "There is a problem with the {item} since this morning.",
    "Please look at the {item}, it is urgent.",
    "A colleague reports trouble with the {item}.",
    "The {item} caused an error again.",
)


class TaskData(NamedTuple):
    """Questions with their answers."""

    train: Mapping[str, str]
    test: Mapping[str, str]
    is_right: Callable[[str, str], bool]
    section: str


def read_formulas(folder: Path) -> TaskData:
    def read(name: str) -> dict[str, str]:
        rows = map(json.loads, (folder / name).read_text(encoding="utf-8").splitlines())
        return {row["context"]: row["target"] for row in rows}

    return TaskData(read("train.jsonl"), read("test_100.jsonl"), is_same_number, "formulas")


def make_tickets() -> TaskData:
    """Returns 192 tickets. The codes of the desks are house knowledge, which no LLM can know."""
    tickets = [
        (f"Ticket: {complaint.format(item=item)} Which desk handles it? Desks: {', '.join(DESKS)}. "
         "Answer with the code of the desk.", code)
        for code, (_, items) in DESKS.items()
        for item in items
        for complaint in COMPLAINTS
    ]  # fmt: skip
    shuffled = Random("tickets").sample(tickets, len(tickets))
    half = len(shuffled) // 2
    return TaskData(dict(shuffled[:half]), dict(shuffled[half:]), is_same_code, "desks")


def is_same_number(answer: str, target: str) -> bool:
    """Returns whether the last number of an answer is the target, to two decimals."""
    kept = "".join(char if char in "0123456789.-" else " " for char in answer.replace(",", "")).split()
    numbers = [item.strip(".") for item in kept if any(map(str.isdigit, item))]
    try:
        return bool(numbers) and abs(float(numbers[-1]) - float(target.replace(",", ""))) < 0.0051
    except ValueError:
        return False


def is_same_code(answer: str, target: str) -> bool:
    named = [code for code in DESKS if code in answer]
    return named == [target]


class LimitedLLM:
    """Passes requests on, a limited number at once, and counts them."""

    def __init__(self, model: llm.LLM, jobs: int) -> None:
        self._model, self._slots, self._lock = model, threading.Semaphore(jobs), threading.Lock()
        self.num_calls = 0

    def __call__(self, prompt: str) -> llm.Response:
        with self._slots:
            try:
                response = self._model(prompt)
            except llm.LLMError as error:  # an answer that is missing is wrong
                print(f"no response: {error}", flush=True)
                response = llm.Response("", "none")
        with self._lock:
            self.num_calls += 1
        return response


def run_one(name: str, data: TaskData, seed: int, model: llm.LLM, options: Any) -> dict[str, Any]:
    """Returns the row of one task and one seed."""
    counted = LimitedLLM(model, options.jobs)
    questions = Random(f"{name}/{seed}").sample(
        list(data.train), min(len(data.train), options.train + options.validation)
    )
    train, validation = questions[: options.train], questions[options.train :]
    test = list(data.test)[: options.test]
    answers = {**data.train, **data.test}

    def grade(question: str, answer: playbook.Answer) -> playbook.Grade:
        is_right, expected = data.is_right(answer.text, answers[question]), answers[question]
        return playbook.Grade(is_right, "" if is_right else f"The right answer is {expected}.", expected=expected)

    config = playbook.Config(max_tokens=2_000, context_limit=16, context_chars=300, max_chars=300)
    notes = playbook.make_store(store.MemoryVersions(), config=config)
    reflector = playbook.LLMReflector(counted, sections=(data.section, "mistakes"), max_operations=1)
    learner = playbook.OfflineLearner(
        notes,
        playbook.LLMAnswerer(counted),
        grade,
        reflector,
        num_jobs=options.jobs,
        batch_size=options.batch,
        section=data.section,
    )
    began = time.monotonic()
    result = learner.learn(train, validation, epochs=options.epochs, seed=seed)
    without = learner.answer_all(playbook.Playbook(), test)
    with_playbook = learner.answer_all(result.playbook, test) if len(result.playbook) else without
    return {
        "task": name,
        "seed": seed,
        "summary": result.summary,
        "rounds": [
            {**done._asdict(), "verdicts": [f"{item.outcome}: {item.reason}" for item in done.verdicts][:40]}
            for done in result.rounds
        ],
        "without": [int(item) for item in without],
        "with": [int(item) for item in with_playbook],
        "bullets": len(result.playbook),
        "invalid": reflector.num_invalid,
        "calls": counted.num_calls,
        "seconds": round(time.monotonic() - began, 1),
        "playbook": result.playbook.to_text(),
    }


def run_all(options: Any) -> list[dict[str, Any]]:
    """Runs what `--out` lacks, all tasks and seeds at once. Returns all rows."""
    name = f"openai:{options.model}@{options.llm}" if options.llm.startswith("http") else options.llm
    model = llm.make_llm(name, temperature=0.0, max_tokens=MAX_RESPONSE_TOKENS)
    assert model is not None, "name an LLM"
    shared = LimitedLLM(model, options.jobs)
    tasks = {"tickets": make_tickets()} | ({"formulas": read_formulas(options.formulas)} if options.formulas else {})
    rows = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    done = {(row["task"], row["seed"]) for row in rows}
    missing = [(task, seed) for task in tasks for seed in range(options.seeds) if (task, seed) not in done]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(max(1, len(missing))) as pool:
        jobs = [pool.submit(run_one, task, tasks[task], seed, shared, options) for task, seed in missing]
        for job in as_completed(jobs):
            row = job.result()
            rows.append(row)
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            right = f"{sum(row['with'])} with, {sum(row['without'])} without, of {len(row['with'])}"
            print(f"{row['task']} {row['seed']}: {row['summary']}; test {right}; {row['calls']} calls", flush=True)
    return sorted(rows, key=lambda row: (row["task"], row["seed"]))


def summarize(rows: Sequence[Mapping[str, Any]]) -> list[list[object]]:
    """Returns a row per task: shares with and without, the paired difference and its 95 % bootstrap interval."""
    table = []
    for task in dict.fromkeys(row["task"] for row in rows):
        runs = [row for row in rows if row["task"] == task]
        ours, theirs = (np.array([row[key] for row in runs], dtype=float) for key in ("with", "without"))
        difference, rng = ours - theirs, np.random.default_rng(0)
        means = [
            np.mean([rng.choice(run, len(run)).mean() for run in difference[rng.integers(0, len(runs), len(runs))]])
            for _ in range(2000)
        ]
        low, high = 100 * np.quantile(means, (0.025, 0.975))
        shares = [f"{100 * ours.mean():.1f}", f"{100 * theirs.mean():.1f}"]
        change = f"{100 * difference.mean():+.1f} ({low:+.1f} to {high:+.1f})"
        table.append([task, len(runs), ours.size, *shares, change, sum(row["calls"] for row in runs)])
    return table


HEADINGS = ["task", "seeds", "test answers", "with the playbook, %", "without, %", "difference (95 %)", "LLM calls"]


RUN_HEADINGS = ["task", "seed", "gate", "right with the playbook", "right without", "test answers"]


def list_runs(rows: Sequence[Mapping[str, Any]]) -> list[list[object]]:
    ordered = sorted(rows, key=lambda row: (row["task"], row["seed"]))
    return [
        [row["task"], row["seed"], row["summary"], sum(row["with"]), sum(row["without"]), len(row["with"])]
        for row in ordered
    ]


def add_options(parser: Any) -> None:
    parser.add_argument("--llm", help="address of an OpenAI-compatible server, or a name as in atoll run --llm")
    parser.add_argument("--model", default="local", help="model name that the server expects")
    parser.add_argument("--formulas", type=Path, help="folder with train.jsonl and test_100.jsonl")
    parser.add_argument("--jobs", type=int, default=32, help="LLM calls at once")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(__file__).parent.parent / ".bench" / "playbook_llm.jsonl",
        help="finished runs, one per line",
    )
    parser.add_argument("--seeds", type=int, default=3)
    for name, default in (
        ("train", NUM_TRAIN),
        ("validation", NUM_VALIDATION),
        ("test", NUM_TEST),
        ("epochs", EPOCHS),
        ("batch", BATCH),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
