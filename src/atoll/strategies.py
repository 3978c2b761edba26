"""Registry of strategies: parts of a search that a setting chooses by name, or by "file.py:Class" of the task folder.

A file runs in this process with all its rights, like any code of the user. It is not sandboxed.
"""

import inspect
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple, get_args

from atoll import cluster, errors
from atoll.gate import Gate, has_score, require_improvement, require_significance
from atoll.sandbox import module_loader

type Kind = Literal["selector", "population", "schedule", "mutator", "gate"]

KINDS: tuple[Kind, ...] = get_args(Kind.__value__)
# Members that an object of each kind must have; `docs/extending.md` has the signatures of the factories.
_MEMBERS: dict[str, tuple[str, ...]] = {
    "selector": ("set", "select", "clear"),
    "population": ("add_fn", "select", "best_fn", "get", "update_evaluation"),
    "schedule": ("choose_island", "plan_actions", "uses_clock"),
    "mutator": ("propose",),
    "gate": ("__call__",),
}


@dataclass(frozen=True, slots=True)
class Strategy:
    """A named strategy, or one from a file.

    Attributes:
        kind: One of `KINDS`, and the key of the setting that chooses it.
        name: Name in the setting.
        description: What it does, in one line.
        systems: Systems that have it.
        factory: Makes it, or "package.module:name" of that; None: the system makes it from its settings.
        file: File that it comes from.
    """

    kind: Kind
    name: str
    description: str
    systems: tuple[str, ...]
    factory: Callable[..., Any] | str | None = None
    file: Path | None = None

    def make(self, *args: Any, **kwargs: Any) -> Any:
        """Makes the object and checks its members.

        Raises:
            SetupError: The factory fails, or the object lacks a member of its kind.
        """
        factory: Any = pkgutil.resolve_name(self.factory) if isinstance(self.factory, str) else self.factory
        if self.kind == "gate" and inspect.isfunction(factory) and self.file is not None:
            return factory  # a plain function is the gate itself
        strategy = errors.capture(lambda: factory(*args, **kwargs), reraise=(errors.SetupError,))
        if isinstance(strategy, errors.CaughtException):
            raise errors.SetupError(f"The {self.kind} {self.name} cannot be made: {strategy!s:.200}.")
        if missing := [member for member in _MEMBERS[self.kind] if not hasattr(strategy, member)]:
            raise errors.SetupError(f"{self.name} is not a {self.kind}: it has no {missing[0]}. See docs/extending.md.")
        return strategy


_STRATEGIES: dict[tuple[str, str, str], Strategy] = {}


def register(strategy: Strategy) -> None:
    """Adds a strategy; a package with a system of its own calls this when the system is loaded."""
    for system in strategy.systems:
        _STRATEGIES[strategy.kind, strategy.name, system] = strategy


def list_strategies() -> Sequence[Strategy]:
    """Returns all named strategies by kind and name."""
    unique = dict.fromkeys(_STRATEGIES.values())
    return sorted(unique, key=lambda strategy: (KINDS.index(strategy.kind), strategy.name))


def is_file(name: object) -> bool:
    """Says whether the value of a setting names a class of a file."""
    return isinstance(name, str) and ".py:" in name


def find(system: str, kind: Kind, name: str | None, folder: Path | None) -> Strategy | None:
    """Finds the strategy that a setting names; None if it names none.

    Args:
        system: Name of the system.
        kind: Kind, which is also the key of the setting.
        name: Value of the setting: a name, or "file.py:Class".
        folder: Folder that the file is relative to.

    Raises:
        SetupError: The name is unknown, or the file cannot be loaded.
    """
    if name is None:
        return None
    if is_file(name) and folder is not None:
        return _load(system, kind, name, folder)
    if (kind, name, system) not in _STRATEGIES:
        names = sorted(known for known_kind, known, owner in _STRATEGIES if (known_kind, owner) == (kind, system))
        raise errors.SetupError(
            f"{system}.{kind} is {name!r:.60}. Name one of {', '.join(names)}, or your own as file.py:Class."
        )
    return _STRATEGIES[kind, name, system]


def _load(system: str, kind: Kind, name: str, folder: Path) -> Strategy:
    factory, file = load_class(f"{system}.{kind}", name, folder)
    return Strategy(kind, name, "", (system,), factory, file)


def load_class(setting: str, name: str, folder: Path) -> tuple[Any, Path]:
    """Loads a user's own class. Returns it and its file.

    Args:
        setting: Setting that names the class, for messages.
        name: "file.py:Class", relative to the folder.
        folder: Task folder.

    Raises:
        SetupError: The file is not found or cannot be loaded, or has no such class.
    """
    file_name, _, attribute = name.rpartition(":")
    file = folder / file_name
    if not file.is_file():
        raise errors.SetupError(f"{setting} is {name!r:.80}, and {file} does not exist.")
    module = errors.capture(lambda: module_loader.load_module(str(file), f"atoll_own_{file.stem}"), reraise=())
    if isinstance(module, errors.CaughtException):
        raise errors.SetupError(f"{file_name} of {setting} cannot be loaded: {module!s:.200}.")
    own_class = getattr(module, attribute, None)
    if not callable(own_class):
        classes = (value for value in vars(module).values() if inspect.isclass(value))
        names = [value.__name__ for value in classes if value.__module__ == module.__name__]
        raise errors.SetupError(
            f"{setting}: {file_name} has no class {attribute!r:.60}. It has {', '.join(names) or 'no classes'}."
        )
    return own_class, file


class Chosen(NamedTuple):
    """Strategies that the settings of a run name; None: the default of the system."""

    selector: Strategy | None = None
    population: Strategy | None = None
    schedule: Strategy | None = None
    mutator: Strategy | None = None
    gate: Strategy | None = None

    @property
    def files(self) -> list[Path]:
        """Files of the user's own strategies."""
        return [strategy.file for strategy in self if strategy is not None and strategy.file is not None]

    @property
    def report(self) -> dict[str, str]:
        """Line for the report of a run; empty if all strategies are defaults."""
        names = ", ".join(f"{strategy.kind} {strategy.name}" for strategy in self if strategy is not None)
        return {"strategies": names} if names else {}

    def make_population(self, num_parents: int) -> cluster.MakePopulation | None:
        """Returns what makes the populations of islands; None: the system does."""
        population = self.population
        if population is None or population.factory is None:
            return None
        return lambda island, rng, profilers: population.make(rng, num_parents)

    def make_gate(self) -> Gate:
        chosen: Gate = has_score if self.gate is None else self.gate.make()
        return chosen


def choose(system: str, options: Any, folder: Path | None) -> Chosen:
    """Finds the strategies that the options of a system name, and tries to make those that each island makes later.

    Raises:
        SetupError: A name is unknown, a file cannot be loaded, or its class does not fit.
    """
    names = {kind: getattr(options, kind, None) for kind in KINDS}
    chosen = Chosen(**{kind: find(system, kind, name, folder) for kind, name in names.items() if isinstance(name, str)})
    if chosen.mutator is not None and getattr(options, "engine_weights", None):
        raise errors.SetupError(f"{system}.mutator names one mutator. Leave out {system}.engine_weights.")
    if chosen.selector is not None and chosen.selector.factory is not None:
        chosen.selector.make(Random(0), 0.1)
    if chosen.population is not None and chosen.population.factory is not None:
        chosen.population.make(Random(0), 2)
    return chosen


def _make_mutator(name: str, text: str, llm: object) -> Any:
    from atoll import mutation  # here, since it imports numpy

    match name:
        case "syntax":
            return mutation.SyntaxMutator.for_source(text)
        case "refined":
            return mutation.TunedMutator(mutation.SyntaxMutator.for_source(text))
        case "tuner":
            return mutation.Tuner(with_literals=True)
    return mutation.ChoiceMutator()


def _make_round_robin(num_islands: int, *, seed: int, **periods: Any) -> cluster.RoundRobin:
    return cluster.RoundRobin(num_islands, **periods)


_ALL = ("llmsr", "programs", "mind")
_CODE = ("llmsr", "programs")
_RANDOM_SCHEDULE = "atoll.llmsr.presets:RandomIslandSchedule"
for _fields in (
    ("selector", "rank", "draws by rank, for scores of any scale", _ALL, cluster.RankSelector),
    ("selector", "softmax", "draws by a cooling softmax of the scores (FunSearch)", _ALL, cluster.SoftmaxSelector),
    ("selector", "uniform", "draws all with the same probability", _ALL, lambda rng, _: cluster.WeightSelector(rng)),
    ("selector", "tournament", "Boltzmann tournament by fitness (default)", ("mind",), None),
    ("population", "clusters", "keeps all candidates, in clusters by score signature", _CODE, None),
    ("population", "grid", "keeps the best of each cell of the features (MAP-Elites)", ("programs",), None),
    ("population", "front", "keeps the best of each instance or metric (Pareto)", ("programs",), None),
    ("schedule", "round_robin", "islands take turns", _CODE, _make_round_robin),
    ("schedule", "random_island", "random island for each iteration (FunSearch)", ("llmsr",), _RANDOM_SCHEDULE),
    ("mutator", "syntax", "edits the syntax tree", _CODE, partial(_make_mutator, "syntax")),
    ("mutator", "refined", "edits the syntax tree, then tunes numbers", _CODE, partial(_make_mutator, "refined")),
    ("mutator", "tuner", "tunes the numbers of a program", _CODE, partial(_make_mutator, "tuner")),
    ("mutator", "choices", "replaces words by others of declared lists", _CODE, partial(_make_mutator, "choices")),
    ("gate", "has_score", "accepts every candidate with a score (default)", _ALL, lambda: has_score),
    ("gate", "improvement", "accepts a score above that of the best parent", _ALL, require_improvement),
    ("gate", "significance", "accepts a significant gain over the best parent", _ALL, require_significance),
):
    register(Strategy(*_fields))
