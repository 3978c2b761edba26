"""Strategies: named in settings or given as a class of a file, checked before a run starts."""

import json
import shutil
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from atoll import cli, config, errors, executor, gate, runs, sandbox, store, strategies, system, testing
from atoll.cluster import Selector
from examples.own_selector.selector import TournamentSelector

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "own_selector"
FILES = {
    "gates.py": """
from atoll.gate import Decision

def accept(proposal):
    return Decision("accept", "always", "own gate")

class OwnGate:
    def __call__(self, proposal):
        return accept(proposal)
""",
    "mutators.py": """
from atoll import function

class AddOne:
    def __init__(self, text, llm):
        assert "def area" in text
        assert llm is None

    def propose(self, context):
        parent = context.parents[-1]
        text = str(parent.skeleton()).replace("return ", "return 0.1 + ")
        return [parent.clone(function.PyAstSkeleton(text))]
""",
    "schedules.py": """
from atoll import cluster

class FirstIsland(cluster.RoundRobin):
    def __init__(self, num_islands, *, seed, **periods):
        super().__init__(num_islands)

    def choose_island(self, iteration):
        return 0
""",
    "populations.py": """
from atoll import cluster
from random import Random

def make(rng, num_parents):
    selector = cluster.RankSelector(rng)
    return cluster.NichedPopulation(
        cluster.single_niche, lambda key: cluster.DefaultCluster(rng), selector, num_parents=num_parents
    )
""",
}


@pytest.fixture
def folder(tmp_path):
    """A copy of the example, with further strategies."""
    copied = tmp_path / "task"
    shutil.copytree(EXAMPLE, copied)
    for name, text in FILES.items():
        (copied / name).write_text(text)
    return copied


def build(folder: Path, **options: Any) -> system.BuiltSystem:
    run_config = config.load(folder, [{"llmsr": options}])
    executor_config = executor.ExecutorConfig(sandbox.Limits(10.0), 1, is_unsafe=True, is_trusted=True)
    return run_config.build(system.BuildContext(folder, None, executor_config, 1, 0, store.MemoryBlobs()))


def run(run_store: store.Store, folder: Path, **options: str) -> runs.Session:
    changes = {"llmsr": options, "run": {"iterations": 8}, "sandbox": {"trusted": True}}
    with runs.Session(run_store, config.load(folder, [changes])) as session:
        session.run()
    return session


class TestTournamentSelector(testing.SelectorSuite):
    def make(self, rng: Random) -> Selector:
        return TournamentSelector(rng, 0.1)


class TestNames:
    def test_every_named_strategy_is_listed_once(self):
        rows = strategies.list_strategies()
        assert [row.kind for row in rows] == sorted((row.kind for row in rows), key=strategies.KINDS.index)
        assert len({(row.kind, row.name) for row in rows}) == len(rows)

    @pytest.mark.parametrize("row", strategies.list_strategies(), ids=lambda row: f"{row.kind}-{row.name}")
    def test_named_strategy_can_be_made(self, row):
        text = 'WORD = "a"  # one of: "a", "b"\ndef f(x):\n    return 2.0 * x\n'
        arguments = {"selector": (Random(0), 0.1), "schedule": (2,), "mutator": (text, None), "gate": ()}
        if row.factory is not None:
            row.make(*arguments[row.kind], **({"seed": 1, "reset_every": 5} if row.kind == "schedule" else {}))

    @pytest.mark.parametrize("name", ["rank", "softmax", "uniform"])
    def test_run_uses_named_selector(self, folder, name):
        with store.Store("sqlite://") as run_store:
            session = run(run_store, folder, selector=name, schedule="random_island", gate="improvement")
            assert run_store.get_run(session.run_id).config["llmsr"]["selector"] == name

    @pytest.mark.parametrize(("kind", "name"), [("mutator", "tuner"), ("mutator", "refined"), ("gate", "significance")])
    def test_run_uses_named_strategy(self, folder, kind, name):
        with store.Store("sqlite://") as run_store:
            run(run_store, folder, **{kind: name})

    @pytest.mark.parametrize("kind", strategies.KINDS)
    def test_unknown_name_lists_known_ones(self, folder, kind):
        known = next(row.name for row in strategies.list_strategies() if row.kind == kind and "llmsr" in row.systems)
        with pytest.raises(errors.SetupError, match=rf"llmsr\.{kind} is 'none such'\. Name one of .*{known}"):
            build(folder, **{kind: "none such"})

    def test_registered_strategy_is_found(self, monkeypatch):
        monkeypatch.setattr(strategies, "_STRATEGIES", {})
        strategies.register(strategies.Strategy("gate", "mine", "", ("other",), lambda: gate.has_score))
        assert strategies.choose("other", SimpleNamespace(gate="mine"), None).make_gate() is gate.has_score


class TestFiles:
    @pytest.mark.parametrize(
        ("kind", "name"),
        [
            ("selector", "selector.py:TournamentSelector"),
            ("population", "populations.py:make"),
            ("schedule", "schedules.py:FirstIsland"),
            ("mutator", "mutators.py:AddOne"),
            ("gate", "gates.py:accept"),
            ("gate", "gates.py:OwnGate"),
        ],
    )
    def test_run_uses_class_of_file(self, folder, kind, name):
        built = build(folder, **{kind: name})
        built.close()
        assert name in str(built.report["strategies"])
        assert folder / name.partition(":")[0] in built.files
        with store.Store("sqlite://") as run_store:
            run(run_store, folder, **{kind: name})

    @pytest.mark.parametrize(
        ("name", "text", "problem"),
        [
            ("missing.py:A", None, "does not exist"),
            ("wrong.py:A", "class B: pass\nclass C: pass", "wrong.py has no class 'A'. It has B, C."),
            ("wrong.py:A", "import no_such_module", "cannot be loaded: ModuleNotFoundError"),
            ("wrong.py:A", "syntax error", "cannot be loaded: SyntaxError"),
            ("wrong.py:A", "class A: pass", "cannot be made: TypeError"),
            ("wrong.py:A", "class A:\n    def __init__(self, rng, t): pass", "is not a selector: it has no set."),
            ("wrong.py:A", "exit(3)", "cannot be loaded: SystemExit"),
        ],
    )
    def test_wrong_file_is_one_sentence_and_exit_status_2(self, folder, capsys, monkeypatch, name, text, problem):
        monkeypatch.chdir(folder)
        if text is not None:
            (folder / "wrong.py").write_text(text)
        assert cli.main(["run", ".", "--set", f"llmsr.selector={name}", "--store", "sqlite://"]) == 2
        error = capsys.readouterr().err
        assert problem in error
        assert "Traceback" not in error

    def test_changed_file_prevents_resume(self, folder, tmp_path):
        with store.Store(str(tmp_path / "runs.db")) as run_store:
            session = run(run_store, folder)
            with runs.resume(run_store, session.run_id, [{"run": {"iterations": 2}}]) as again:
                again.run()
            with (folder / "selector.py").open("a") as file:
                file.write("# changed\n")
            with pytest.raises(errors.SetupError, match=r"selector\.py|files"):
                runs.resume(run_store, session.run_id, [{"run": {"iterations": 2}}])

    def test_strategies_are_not_for_law_searches(self, tmp_path):
        (tmp_path / "train.csv").write_text("x,y\n1,2\n2,4\n")
        with pytest.raises(errors.SetupError, match=r"llmsr\.selector is for functions, not for laws of data"):
            build(tmp_path, selector="rank")

    def test_mutator_excludes_engine_weights(self, folder):
        with pytest.raises(errors.SetupError, match=r"Leave out llmsr\.engine_weights"):
            build(folder, mutator="tuner", engine_weights={"tuner": 1.0})

    def test_parameter_cannot_name_file(self, folder):
        run_config = config.load(folder, [{"llmsr": {"selector": "@param:x"}}])
        with pytest.raises(errors.SetupError, match="a file with code"):
            run_config.bind_parameters(lambda name: config.BoundParameter("x", 1, "selector.py:TournamentSelector"))


class TestOtherSystems:
    @pytest.mark.parametrize("kind", [{}, {"population": "grid"}, {"population": "front"}])
    def test_programs_use_selector_of_file(self, folder, kind):
        (folder / "atoll.toml").unlink()
        (folder / "initial_program.py").write_text("def f():\n    return 1.5\n")
        (folder / "evaluator.py").write_text("def evaluate(path):\n    return float(open(path).read()[-4:])\n")
        options = {"selector": "selector.py:TournamentSelector", "gate": "gates.py:accept", **kind}
        changes = {"programs": options, "run": {"iterations": 6}, "sandbox": {"trusted": True}}
        with store.Store("sqlite://") as run_store, runs.Session(run_store, config.load(folder, [changes])) as session:
            session.run()
            assert run_store.get_run(session.run_id).config["files"].keys() >= {"selector.py", "gates.py"}

    @pytest.mark.parametrize("selector", ["selector.py:TournamentSelector", "rank", "softmax", "tournament"])
    def test_mind_uses_selector(self, folder, selector):
        (folder / "atoll.toml").write_text('system = "mind"\n[task]\nnumber = 1\nsize = 4\n')
        changes = {"mind": {"selector": selector, "gate": "has_score"}, "run": {"iterations": 10}}
        with store.Store("sqlite://") as run_store, runs.Session(run_store, config.load(folder, [changes])) as session:
            session.run()


class TestRenamedKeys:
    @pytest.mark.parametrize(
        ("old", "new", "value"),
        [
            ("run.least_gain", "run.min_gain", 0.5),
            ("sandbox.reads", "sandbox.read_paths", ["data"]),
            ("programs.pool", "programs.population", "front"),
            ("pool", "programs.population", "front"),
        ],
    )
    def test_former_name_is_accepted_with_hint(self, tmp_path, caplog, old, new, value):
        (tmp_path / "initial_program.py").write_text("x = 1\n")
        (tmp_path / "evaluator.py").write_text("")
        section, _, key = old.rpartition(".")
        data = config.load(tmp_path, [{section: {key: value}}]).to_data()
        new_section, _, new_key = new.partition(".")
        assert data[new_section][new_key] == value
        assert f"is now called {new}." in caplog.text
        caplog.clear()
        stored = config.RunConfig.from_data({**data, new_section: {key: value}}).to_data()
        assert stored[new_section][new_key] == value
        assert not caplog.text

    def test_new_name_in_later_layer_wins(self, tmp_path):
        (tmp_path / "atoll.toml").write_text('system = "llmsr"\n[run]\nleast_gain = 0.5\n')
        assert config.load(tmp_path, [{"run": {"min_gain": 0.25}}]).run.min_gain == 0.25


def test_doctor_lists_strategies(capsys):
    assert cli.main(["doctor", "--strategies", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["strategies"]
    assert {"kind", "name", "description", "systems"} == set(rows[0])
    assert cli.main(["doctor", "--strategies"]) == 0
    output = capsys.readouterr().out
    assert all(row["name"] in output for row in rows)
