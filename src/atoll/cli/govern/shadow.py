"""The verb `atoll shadow`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli.terminal import options, parsing

REQUIRED_FUNCTIONS = ("samples", "apply", "score")


def shadow(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The parameter.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The candidate value, as JSON.")],
    file: Annotated[
        Path | None,
        typer.Option("--with", metavar="FILE.py", help="Has samples(), apply(candidate, value), score(candidate)."),
    ] = None,
    task: Annotated[
        Path | None, typer.Option("--task", metavar="TASK", help="Run this task with either value, once for each seed.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=2, metavar="N", help="Pairs of runs of --task at most.")] = 40,
    iterations: Annotated[
        int | None, typer.Option("--iterations", "-i", min=1, metavar="N", help="Steps of a run.")
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the task; repeatable.")
    ] = None,
    traffic: Annotated[float, typer.Option(metavar="SHARE", help="Of the samples, 0 to 1.")] = 1.0,
    min_effect: Annotated[float, typer.Option(metavar="X", help="The least gain that is worth a change.")] = 0.0,
    guard: Annotated[
        list[str] | None, typer.Option("--guard", metavar="METRIC:MARGIN[:lower]", help="What must not become worse.")
    ] = None,
    alpha: Annotated[float, typer.Option(metavar="X", help="The probability of a wrong verdict.")] = 0.05,
    record_in_rollout: Annotated[
        bool, typer.Option("--rollout", help="Let the rollout of the key go on from this.")
    ] = False,
    save: Annotated[bool, typer.Option("--keep", help="Keep the result in the store; --rollout does too.")] = False,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Runs a candidate value beside the present one, on the same samples, and changes nothing.

    Ends as soon as the verdict is clear: promote, reject, or extend when the samples do not tell. The file is yours and
    runs in this process. With a task the samples are whole runs, which leave nothing in the store.

    \b
    Examples:
      atoll shadow risk/penalty 0.4 --with shadow.py
      atoll shadow mind/weights '[0.2, 0, 0.7, 0.1, 0]' --task examples/mind_natural_plan --seeds 60
      atoll shadow risk/penalty 0.4 --with shadow.py --guard cost:0.5:lower --json
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli.govern import rollout_actions  # with SQLAlchemy and numpy: help need not wait for them
    from atoll.cli.terminal import console
    from atoll.config import parameter_stores
    from atoll.governed import rollout
    from atoll.governed.rollout import status

    if (file is None) == (task is None):
        raise errors.SetupError("A shadow run needs one thing to try the values on: --with FILE.py, or --task TASK.")
    runner_options = {
        "min_effect": min_effect,
        "guardrails": rollout_actions.parse_guardrails(guard or []),
        "alpha": alpha,
    }
    candidate = parsing.parse_value(value)
    with parameter_stores.open_parameters(store) as param_store:
        if record_in_rollout:
            rollout_actions.require_rollout(param_store, key, candidate)
        setting, functions = (
            (key, _load_functions(file))
            if file
            else _make_paired_runs(param_store, key, task, seeds, iterations, changes)
        )
        result = _make_runner(param_store, functions, runner_options).run_shadow(setting, candidate, traffic)
        if record_in_rollout or save:
            status.save_shadow_result(param_store, setting, candidate, result, parsing.resolve_author(None))
        state = rollout.Rollout(param_store, key).add_shadow_result(result) if record_in_rollout else None
    if as_json:
        console.print_json({**result.to_data(), "rollout": None if state is None else status.rollout_to_json(state)})
        return
    _print_result(result)
    if state is not None:
        console.print_line(console.get_stdout_console(), f"The rollout of {key} is {state.stage} now: {state.why}.")


def _make_runner(param_store: Any, functions: Any, runner_options: Any) -> Any:
    from atoll.governed.rollout import evaluators as rollout_evaluators
    from atoll.governed.rollout import shadow_result, shadow_runner

    samples, apply, score = functions
    return shadow_runner.ShadowRunner(
        param_store,
        rollout_evaluators.FuncEvaluator(score),
        shadow_result.FixedSampler(list(samples())),
        apply,
        **runner_options,
    )


def _make_paired_runs(
    param_store: Any, key: str, task: Any, seeds: int, iterations: int | None, changes: list[str] | None
) -> Any:
    """Returns what the task calls the parameter, and how its runs are sampled and scored."""
    from atoll import config
    from atoll.runs import paired_runs as runs_paired_runs

    option_layers = [config.parse_set(change) for change in changes or ()]
    run_config = config.load(
        task, [*option_layers, {"run": {"iterations": iterations}}] if iterations else option_layers
    )
    paired_runs = runs_paired_runs.PairedRuns(run_config, key, param_store.ledger, range(seeds))
    return paired_runs.parameter_name, paired_runs.functions


def _load_functions(file: Path) -> Any:
    import runpy

    if not file.is_file():
        raise errors.SetupError(f"There is no file {file}: it should have {', '.join(REQUIRED_FUNCTIONS)}.")
    namespace = runpy.run_path(str(file))
    if missing := [name for name in REQUIRED_FUNCTIONS if not callable(namespace.get(name))]:
        raise errors.SetupError(f"{file} has no function {', '.join(missing)}.")
    return [namespace[name] for name in REQUIRED_FUNCTIONS]


def _print_result(result: Any) -> None:
    from atoll.cli.terminal import console

    rows = [
        (
            name,
            f"{dimension.baseline:.4g}",
            f"{dimension.candidate:.4g}",
            f"{dimension.difference:+.4g}",
            f"{dimension.evidence.interval.low:.4g} to {dimension.evidence.interval.high:.4g}",
            f"{dimension.adjusted_p:.3g}",
        )
        for name, dimension in result.dimensions.items()
    ]
    headings = ("metric", "present", "candidate", "difference", "holds at all looks", "p (Holm)")
    if rows:
        console.print_table(console.get_stdout_console(), headings, rows, right_aligned=headings[1:], flexible="metric")
    console.print_line(console.get_stdout_console(), f"{result.verdict}: {result.reason}.", "bold")
    if rows:
        console.print_line(
            console.get_stderr_console(),
            "The verdict hangs on the intervals of fitness and of what is guarded, which may be looked at any time; p "
            "(Holm) is a second view for reading all metrics side by side, larger the more of them there are.",
            "dim",
        )
    counts = f"{result.sample_size:,} pairs, {result.num_calls:,} scores, {result.num_saved:,} saved"
    console.print_line(
        console.get_stderr_console(),
        f"{counts}; divergence {result.divergence:.3g}, disagreement {result.disagreement:.3g}.",
        "dim",
    )
