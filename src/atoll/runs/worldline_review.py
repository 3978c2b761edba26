"""Worldlines of a run: the tree of islands, generations and turns, and their review: list, approve, reject, merge."""

import dataclasses
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

from atoll import config, errors, store
from atoll.candidate import EMPTY
from atoll.runs.text_format import format_number


@dataclass(slots=True)
class Node:
    """Node of the tree.

    Attributes:
        summary: One line about the nodes below it, or about the turn.
        best: Best score below it.
        data: Of a leaf: id and parents of the candidate, response of the critic, plan.
    """

    title: str
    summary: str = ""
    best: float | None = None
    data: dict[str, Any] = field(default_factory=dict)
    nodes: list["Node"] = field(default_factory=list)

    def to_data(self) -> dict[str, Any]:
        children = [node.to_data() for node in self.nodes]
        return {"title": self.title, "summary": self.summary, "best": self.best, **self.data, "nodes": children}

    def iter_lines(self, depth: int, indent: int = 0) -> Iterator[str]:
        """Yields the tree as indented text, down to a depth."""
        yield f"{'  ' * indent}{self.title}{': ' if self.summary else ''}{self.summary}"
        if depth:
            for node in self.nodes:
                yield from node.iter_lines(depth - 1, indent + 1)


def build_tree(run_store: store.Store, run_id: str, *, island: int | None = None) -> Node:
    """Returns the tree of a run. An iteration is one worldline, its children are the turns of the conversation."""
    steps: dict[tuple[int, int], dict[int, list[store.Row]]] = {}
    for row in run_store.candidates(run_id):
        if row.step and not row.is_draft and island in (None, row.island):
            generation = row.meta.get("generation", 0)
            key = row.island, generation if isinstance(generation, int) else 0
            steps.setdefault(key, {}).setdefault(row.step, []).append(row)
    islands: dict[int, list[Node]] = {}
    for (island_index, generation), rows_by_step in sorted(steps.items()):
        worldlines = [_make_worldline(step, rows) for step, rows in sorted(rows_by_step.items())]
        islands.setdefault(island_index, []).append(
            _make_branch(f"generation {generation + 1}", worldlines, "worldlines")
        )
    nodes = [
        _make_branch(f"island {island_index}", generations, "generations")
        for island_index, generations in sorted(islands.items())
    ]
    return _make_branch(f"run {run_id}", nodes, "islands")


def _make_branch(title: str, nodes: list[Node], plural: str) -> Node:
    scores = [node.best for node in nodes if node.best is not None]
    summary = f"{len(nodes)} {plural if len(nodes) != 1 else plural[:-1]}"
    if scores:
        summary += f", best {format_number(max(scores))}, mean {format_number(fmean(scores))}"
    return Node(title, summary, max(scores, default=None), nodes=nodes)


def _make_worldline(step: int, rows: Sequence[store.Row]) -> Node:
    turns = [_make_turn(position, row) for position, row in enumerate(rows, 1)]
    parents = ", ".join(rows[0].parents) or "no parent"
    node = _make_branch(f"worldline {step}", turns, "turns")
    node.summary = f"from {parents}; {node.summary}"
    node.data = {"parents": list(rows[0].parents)}
    return node


def _make_turn(position: int, row: store.Row) -> Node:
    critic = str(row.meta.get("critic", ""))
    feedback = row.failure or row.feedback.partition("\n")[0]
    summary = f"{row.id}, score {format_number(row.score)}"
    summary += f"; evaluator: {feedback}" if feedback else ""
    summary += f"; critic: {critic.strip().partition('\n')[0]}" if critic.strip() else ""
    details: dict[str, Any] = {
        name: row.meta[name] for name in ("fork", "memory", "tools", "usage") if name in row.meta
    }
    memory, tools = details.get("memory") or (), details.get("tools") or ()
    roles = ", ".join(str(note.get("role")) for note in memory if isinstance(note, dict))
    summary += f"; fork: {details['fork']}" if "fork" in details else ""
    summary += f"; notes: {roles}" if roles else ""
    summary += f"; {len(tools)} tools" if isinstance(tools, list) and tools else ""
    data = {"id": row.id, "critic": critic, "judge": row.failure or row.feedback, "content": row.content, **details}
    return Node(f"turn {position}", summary, row.score, data)


_TEST_METRICS = ("passed", "tests", "open_checks", "broken_tests", "changed_lines")
WORKSPACE = "workspace"  # problem whose worldlines are commits


class ReviewTarget(NamedTuple):
    """Location of the worldlines of a run.

    Attributes:
        folder: The repository.
        name: Name of the run in the repository, which is not its id in the store.
    """

    system: str
    folder: Path
    name: str


def find_review_target(run_store: store.Store, run_id: str) -> ReviewTarget:
    """Finds the repository of a run.

    Raises:
        NotFound: The run does not exist.
        SetupError: The run has no workspaces: its worldlines are texts, or were made in a private copy.
    """
    stored_config = run_store.get_run(run_id).config
    system, task = stored_config.get("system", ""), stored_config.get("task", {})
    module = config.get_review_module(system)
    if module is None or task.get("problem") != WORKSPACE:
        raise errors.SetupError(
            f"Run {run_id} has no workspaces, since its candidates are texts. Print them with 'atoll best {run_id}'."
        )
    folder = module.find_source(Path(stored_config["folder"]), task["repository"])
    if not module.is_repository(folder):
        raise errors.SetupError(
            f"{folder} is not a git repository, so run {run_id} changed a private copy. "
            f"Print the edits with 'atoll best {run_id}'."
        )
    return ReviewTarget(system, folder, _find_run_name(run_store, run_id, module, stored_config))


def _find_run_name(run_store: store.Store, run_id: str, module: Any, stored_config: Any) -> str:
    """Returns the name of the run in the repository: from its result, or from its configuration."""
    for record in run_store.journal(run_id).read_kinds("concluded"):
        if ref := record.data.get("result", {}).get("ref"):
            return str(ref).split("/")[-2]
    repository, seed = stored_config["task"]["repository"], stored_config["run"]["seed"]
    return str(module.make_run_name(Path(stored_config["folder"]), repository, seed))


def open_reviews(target: ReviewTarget) -> Any:
    """Returns a read-only view of the worldlines of a run."""
    return config.get_review_module(target.system).ReviewQueue(target.folder, target.name)


def find_results(run_store: store.Store, run_id: str) -> dict[str, dict[str, Any]]:
    """Returns the test results and LLM costs of a run's worldlines, by id."""
    results = dict[str, dict[str, Any]]()
    for worldline_id, row in _find_rows(run_store, run_id).items():
        usage: Any = row.meta.get("usage") or {}
        numbers = {name: int(row.metrics[name]) for name in _TEST_METRICS if name in row.metrics}
        costs = {name: usage.get(name, 0) for name in ("calls", "tokens", "usd")}
        if numbers or usage:  # candidates of version 0.1 have neither
            results[worldline_id] = {"candidate": row.id, **numbers, **costs}
    return results


def _find_rows(run_store: store.Store, run_id: str) -> dict[str, store.Row]:
    """Returns the first evaluated candidate of each worldline, by the id of the worldline."""
    module = config.get_review_module(run_store.get_run(run_id).config.get("system", ""))
    rows = dict[str, store.Row]()
    for row in run_store.candidates(run_id):
        if row.step and not row.is_draft and row.failure is None:
            rows.setdefault(module.make_worldline_id(row.content.partition("\n")[2]), row)
    return rows


def learn_weights(
    run_store: store.Store, parameters: Any, run_id: str, author: str, reason: str, rate: float
) -> dict[str, Any]:
    """Changes the fitness weights by the decisions about a run. Without rejections, all others count as rejected.

    Raises:
        SetupError: The run has no approved worldline, or no other one.
    """
    target = find_review_target(run_store, run_id)
    module, rows = config.get_review_module(target.system), _find_rows(run_store, run_id)
    states = {item.worldline_id: item.state for item in open_reviews(target).list_items()}
    approved = [row.metrics for name, row in rows.items() if states.get(name) in ("approved", "merged")]
    rejected = [row.metrics for name, row in rows.items() if states.get(name) == "rejected"]
    others = [row.metrics for name, row in rows.items() if states.get(name) not in ("approved", "merged")]
    learned = module.learn_weights(parameters, approved, rejected or others, reason, author, rate)
    return {
        "key": module.WEIGHTS_KEY,
        "old": dataclasses.asdict(learned.old),
        "new": dataclasses.asdict(learned.new),
        "old_version": learned.old_version,
        "version": learned.new_version,
    }


def decide(
    target: ReviewTarget,
    worldline_id: str,
    verdict: Literal["approve", "reject"],
    author: str,
    reason: str,
    commit: str | None,
) -> Any:
    """Records a decision about a worldline.

    Args:
        commit: The commit that was reviewed; None for the current one.

    Raises:
        NotFound: The worldline does not exist.
        SetupError: The reason is missing, the author decides, the commit differs, or the run is still running.
    """
    module, item = config.get_review_module(target.system), open_reviews(target).get(worldline_id)
    reviewed_commit = item.commit if commit is None else commit
    module.decide(target.folder, target.name, item.worldline_id, verdict, author, reason, reviewed_commit)
    return open_reviews(target).get(item.worldline_id)


def merge(target: ReviewTarget, worldline_id: str) -> str:
    """Merges an approved worldline and returns the merge commit.

    Raises:
        NotFound: The worldline does not exist.
        SetupError: It cannot be merged; the message says why.
    """
    item = open_reviews(target).get(worldline_id)
    return str(config.get_review_module(target.system).merge(target.folder, target.name, item.worldline_id))


def to_json(target: ReviewTarget, item: Any, results: Mapping[str, dict[str, Any]] = EMPTY) -> dict[str, Any]:
    """Returns plain data of a worldline, with its test results and costs if given."""
    command = f"git -C {shlex.quote(str(target.folder.resolve()))} diff {item.base[:12]} {item.commit[:12]}"
    data = {"id": item.worldline_id, "commit": item.commit, "base": item.base, "state": item.state}
    decision_keys = ("commit", "verdict", "by", "reason")
    decisions = [{key: getattr(decision, key) for key in decision_keys} for decision in item.decisions]
    changes = [change._asdict() for change in item.changes]
    result = {"result": results[item.worldline_id]} if item.worldline_id in results else {}
    return {**data, "changes": changes, "decisions": decisions, "look": command, **result}
