"""Sample store with small runs of survival and mind, a playbook with a held delta, proposals and a rollout."""

import contextlib
import shutil
from pathlib import Path
from typing import NamedTuple

from atoll import candidate, config, governed, playbook, runs, store, testing
from atoll.cli.govern import rollout_actions
from atoll.governed import rollout
from atoll.governed.rollout import evaluators, shadow_result, shadow_runner, status
from tests.mind.workspace import repositories

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TOKEN = "a-token-for-tests"

# Text that a page must not interpret.
HOSTILE = (
    '<script>window.hacked = 1</script><img src="x" onerror="window.hacked = 2"><svg onload="window.hacked = 3">'
    '<a href="javascript:window.hacked=4">here</a> [md](javascript:alert(1)) \u202etxet idib\u202c {{7*7}} ${7*7}'
)


class SampleStore(NamedTuple):
    """A sample store.

    Attributes:
        path: File of the store.
        lives, texts, workspace: Ids of a survival run, of a mind run with texts, and of a mind run with a repository.
        repository: The repository.
        proposals: Ids of two pending proposals.
    """

    path: Path
    lives: str
    texts: str
    workspace: str
    repository: Path
    proposals: tuple[str, ...]

    def copy_to(self, folder: Path) -> "SampleStore":
        """Copies the store, so that a test can change it."""
        path, repository = folder / "atoll.db", folder / "project"
        shutil.copy(self.path, path)
        shutil.copytree(self.repository, repository, symlinks=True)
        return self._replace(path=path, repository=repository)


def fill(folder: Path) -> SampleStore:
    """Creates the sample store; takes about three seconds."""
    path, repository = folder / "atoll.db", repositories.make_repository(folder / "project")
    with store.Store(path) as run_store, contextlib.chdir(folder):  # relative paths, so that copies work
        lives = _run(run_store, EXAMPLES / "survival", ["run.iterations=3", "run.seed=4"])
        texts = _run(
            run_store,
            EXAMPLES / "mind_natural_plan",
            ["run.iterations=24", "task.most=1", "mind.num_islands=2", "mind.num_convs=2", "mind.num_seq=2"],
        )
        settings = ["task.repository=project", "run.iterations=4", "mind.pattern=critic", "mind.num_seq=2"]
        workspace = _run(run_store, EXAMPLES / "mind_workspace", settings, model=make_llm())
        fill_playbook(run_store)
        proposals = fill_governance(run_store)
    return SampleStore(path, lives, texts, workspace, repository, proposals)


def _run(run_store: store.Store, folder: Path, settings: list[str], model: testing.ScriptedLLM | None = None) -> str:
    plan = config.load(folder, [config.parse_set(item) for item in settings])
    options = {} if model is None else {"llm_factory": lambda run_config: model}
    with runs.Session(run_store, plan, allowed=runs.UnsafeOptions(unsafe=True), **options) as session:  # type: ignore[arg-type]
        session.run()
        session.conclude()
    return session.run_id


def make_llm() -> testing.ScriptedLLM:
    """Returns an LLM with a hostile critic and an author that fixes the repository in the second turn."""

    def reply(step: int, call: str, prompt: str) -> str:
        if call == "1":  # calls: author, critic, author
            return f"The sum is wrong. {HOSTILE}"
        sign = "+" if int(call) >= 2 else "*"
        edit = f"<<<<<<< SEARCH\n    return a - b\n=======\n    return a {sign} b  # {HOSTILE}\n>>>>>>> REPLACE"
        return f"<plan>\nFILE: sums.py\n{edit}\n</plan>"

    return testing.ScriptedLLM(reply)


def fill_playbook(run_store: store.Store, key: str = "playbook/cook") -> None:
    notes = playbook.PlaybookStore(run_store.versions(), key=key)
    notes.apply(
        [
            playbook.add("recipes", "Boil eggs for 7 minutes.", evidence="they were just right"),
            playbook.add("tactics", f"Mind the pot: {HOSTILE}".replace("\u202e", "").replace("\u202c", "")),
        ],
        "breakfast",
        "cook",
    )
    notes.apply([playbook.tag("recipes-00001", "helpful"), playbook.remove("x-00001")], f"lunch {HOSTILE}", "cook")
    notes.apply([playbook.add("recipes", "Never boil eggs for 7 minutes.")], "brunch", "cook")


def fill_governance(run_store: store.Store) -> tuple[str, ...]:
    known = governed.StoredParameters(run_store)
    known.set("risk/penalty", 0.5, "where we began", author="ann")
    known.set("risk/penalty", 0.4, f"lower {HOSTILE}", author="bob")
    known.set("prompt/system", f"Be kind.\n{HOSTILE}\n", "a start", author="ann")
    evolver = governed.Evolver(known, governed.DEFER)
    first = evolver.propose(
        "optimize", f"Go faster {HOSTILE}", {"key": "speed", "value": 3}, "agent", rationale=HOSTILE
    )
    other = evolver.propose("optimize", "Go slower", {"key": "speed", "value": 1}, "agent")
    _roll_out(known)
    return first.id, other.id


def _roll_out(known: governed.Parameters) -> None:
    samples = [candidate.Candidate(f"s{n}", str(n)) for n in range(300)]

    def score(item: candidate.Candidate) -> tuple[float, dict[str, float]]:
        number, value = item.content.split("/")
        gain = (int(number) % 7) / 10 - (float(value) - 0.3) ** 2
        return gain, {"late": 0.1 + float(value) / 10}

    def apply(item: candidate.Candidate, value: float) -> candidate.Candidate:
        return candidate.Candidate(item.id, f"{item.content}/{value}")

    guards = rollout_actions.parse_guardrails(["late:0.05:lower"])
    runner = shadow_runner.ShadowRunner(
        known,
        evaluators.FuncEvaluator(score),
        shadow_result.FixedSampler(samples),
        apply,
        guardrails=guards,
        min_effect=0.0,
    )
    result = runner.run_shadow("risk/penalty", 0.3, 1.0)
    status.save_shadow_result(known, "risk/penalty", 0.3, result, "ann")
    why = {"proposer": "evolver", "approver": "ann", "reason": "the EMA of last week"}
    rollout_actions.start_rollout(known, "risk/penalty", 0.3, {"guardrails": guards}, **why)
    rollout.Rollout(known, "risk/penalty").add_shadow_result(result)
