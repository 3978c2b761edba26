"""Names and events of the seed stay importable and unchanged."""

import inspect
import typing
from collections.abc import Callable
from random import Random
from typing import Any, Literal

import pytest

from atoll import archipelago, cluster, function, profiler, testing

NAMES = {
    archipelago: ["Evolver", "Island", "EvolverEvent", "IslandEvent"],
    cluster: ["Cluster", "ClusterEvent", "DefaultCluster", "Island", "IslandConfig", "Evolver", "EvolverConfig"],
    function: [
        "Function",
        "FunctionEvent",
        "Skeleton",
        "MutationEngine",
        "MutationEngineEvent",
        "Evaluator",
        "Signature",
        "FunctionScore",
        "DefaultFunctionProps",
        "DefaultFunction",
        "PyAstSkeleton",
    ],
    profiler: ["Event", "Pluggable", "ProfilerFn", "Remove", "default_fn"],
}

EVENTS: list[tuple[Any, str, Any]] = [
    (archipelago.OnIslandsRemoved, "on_islands_removed", list[archipelago.Island]),
    (archipelago.OnIslandsRevived, "on_islands_revived", list[archipelago.Island]),
    (archipelago.OnBestIslandImproved, "on_best_island_improved", archipelago.Island),
    (archipelago.OnBestFnImproved, "on_best_fn_improved", function.Function),
    (function.OnMutate, "on_mutate", list[function.Function]),
    (function.OnMutated, "on_mutated", tuple[list[function.Function], function.Function]),
    (function.OnEvaluate, "on_evaluate", list[Any]),
    (function.OnEvaluated, "on_evaluated", tuple[list[Any], function.FunctionScore]),
    (cluster.OnFnAdded, "on_fn_added", function.Function),
    (cluster.OnFnSelected, "on_fn_selected", tuple[list[function.Function], function.Function]),
]

METHODS: list[tuple[Any, str, list[str]]] = [
    (archipelago.Evolver, "start", []),
    (archipelago.Evolver, "stop", []),
    (archipelago.Island, "best_fn", []),
    (archipelago.Island, "request_mutation", []),
    (function.MutationEngine, "mutate", ["fn_list"]),
    (cluster.Cluster, "add_fn", ["fn"]),
    (cluster.Cluster, "select_fn", []),
    (cluster.Cluster, "best_fn", []),
    (function.Function, "signature", []),
    (function.Function, "score", []),
    (function.Function, "skeleton", []),
    (function.Function, "evaluate", []),
    (function.Function, "clone", ["new_skeleton"]),
    *(
        (where, "use_profiler", ["profiler_fn"])
        for where in (
            profiler.Pluggable,
            archipelago.Evolver,
            archipelago.Island,
            function.Function,
            function.MutationEngine,
            cluster.Cluster,
        )
    ),
]


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in NAMES.items() for name in names])
def test_seed_name_exists(module: Any, name: str) -> None:
    assert hasattr(module, name)


@pytest.mark.parametrize(("event", "name", "payload"), EVENTS, ids=[name for _, name, _ in EVENTS])
def test_event_has_seed_fields(event: Any, name: str, payload: Any) -> None:
    assert event._fields == ("type", "payload")
    assert typing.get_type_hints(event) == {"type": Literal[name], "payload": payload}


@pytest.mark.parametrize(("where", "name", "parameters"), METHODS)
def test_method_has_seed_parameters(where: Any, name: str, parameters: list[str]) -> None:
    taken = inspect.signature(getattr(where, name)).parameters
    assert [item for item in taken if item != "self"] == parameters


def test_function_is_built_as_in_seed() -> None:
    def evaluator(skeleton: function.Skeleton[[float], float], value: float) -> float:
        return skeleton(value)

    props = function.DefaultFunctionProps(function.PyAstSkeleton("def f(x): return x"), [1.0, 2.0], evaluator)
    fn = function.DefaultFunction(props)
    fn.use_profiler(profiler.default_fn)
    assert fn.evaluate() == 1.5


def test_evolver_is_built_as_in_seed() -> None:
    class Engine:
        def use_profiler(self, profiler_fn: object) -> Callable[[], None]:
            return lambda: None

        def mutate(self, fn_list: list[function.Function]) -> function.Function:
            return fn_list[0].clone(function.Text(f"{fn_list[0].skeleton()}+"))

    props = function.DefaultFunctionProps(function.Text("text"), [1.0], lambda skeleton, value: len(str(skeleton)))
    islands = cluster.IslandConfig(
        num_islands=2,
        num_selected_clusters=2,
        initial_fn=function.DefaultFunction(props),
        mutation_engine=Engine(),
        island_profiler_fn=profiler.default_fn,
        cluster_profiler_fn=profiler.default_fn,
    )
    evolver = cluster.Evolver(cluster.EvolverConfig(island_config=islands, num_parallel=2, reset_period=30 * 60))
    evolver.use_profiler(profiler.default_fn)
    child = evolver.islands[0].request_mutation()
    assert child.score() == 5.0
    assert function.get_fitness(evolver.islands[0].best_fn()) == 5.0


def test_cluster_is_built_as_in_seed() -> None:
    fn = testing.make_evaluated_function(1.0)
    created = cluster.DefaultCluster(Random(0))
    created.add_fn(fn)
    assert created.select_fn() is created.best_fn() is fn
