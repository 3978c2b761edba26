"""The verb `atoll shadow`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli import options, values

NEEDED = ("samples", "apply", "score")


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
    to_rollout: Annotated[bool, typer.Option("--rollout", help="Let the rollout of the key go on from this.")] = False,
    is_kept: Annotated[bool, typer.Option("--keep", help="Keep the result in the store; --rollout does too.")] = False,
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
    from atoll.cli import output, rollouts  # with SQLAlchemy and numpy: help need not wait for them
    from atoll.config import parameters
    from atoll.governed import rollout, standings

    if (file is None) == (task is None):
        raise errors.SetupError("A shadow run needs one thing to try the values on: --with FILE.py, or --task TASK.")
    terms = {"min_effect": min_effect, "guardrails": rollouts.guardrails(guard or []), "alpha": alpha}
    candidate = values.value(value)
    with parameters.open(store) as kept:
        if to_rollout:
            rollouts.check_waiting(kept, key, candidate)
        asked, functions = (key, _loaded(file)) if file else _trials(kept, key, task, seeds, iterations, changes)
        result = _runner(kept, functions, terms).run_shadow(asked, candidate, traffic)
        if to_rollout or is_kept:
            standings.keep_shadow(kept, asked, candidate, result, values.author(None))
        state = rollout.Rollout(kept, key).take_shadow(result) if to_rollout else None
    if as_json:
        output.print_json({**result.to_data(), "rollout": None if state is None else standings.told(state)})
        return
    _show(result)
    if state is not None:
        output.say(output.out(), f"The rollout of {key} is {state.stage} now: {state.why}.")


def _runner(kept: Any, functions: Any, terms: Any) -> Any:
    from atoll.governed import evaluators, shadow

    samples, apply, score = functions
    return shadow.ShadowRunner(kept, evaluators.FuncEvaluator(score), shadow.Fixed(list(samples())), apply, **terms)


def _trials(kept: Any, key: str, task: Any, seeds: int, iterations: int | None, changes: list[str] | None) -> Any:
    """Returns what the task calls the parameter, and how its runs are sampled and scored."""
    from atoll import config
    from atoll.runs import trials

    said = [config.parse_set(each) for each in changes or ()]
    plan = config.load(task, [*said, {"run": {"iterations": iterations}}] if iterations else said)
    made = trials.Trials(plan, key, kept.ledger, range(seeds))
    return made.asked, made.functions


def _loaded(file: Path) -> Any:
    import runpy

    if not file.is_file():
        raise errors.SetupError(f"There is no file {file}: it should have {', '.join(NEEDED)}.")
    found = runpy.run_path(str(file))
    if missing := [name for name in NEEDED if not callable(found.get(name))]:
        raise errors.SetupError(f"{file} has no function {', '.join(missing)}.")
    return [found[name] for name in NEEDED]


def _show(result: Any) -> None:
    from atoll.cli import output

    rows = [
        (
            name,
            f"{each.baseline:.4g}",
            f"{each.candidate:.4g}",
            f"{each.difference:+.4g}",
            f"{each.evidence.interval.low:.4g} to {each.evidence.interval.high:.4g}",
            f"{each.adjusted_p:.3g}",
        )
        for name, each in result.dimensions.items()
    ]
    headings = ("metric", "present", "candidate", "difference", "holds at all looks", "p (Holm)")
    if rows:
        output.table(output.out(), headings, rows, right=headings[1:], flexible="metric")
    output.say(output.out(), f"{result.verdict}: {result.reason}.", "bold")
    if rows:
        output.say(
            output.err(),
            "The verdict hangs on the intervals of fitness and of what is guarded, which may be looked at any time; p "
            "(Holm) is a second view for reading all metrics side by side, larger the more of them there are.",
            "dim",
        )
    said = f"{result.sample_size:,} pairs, {result.num_calls:,} scores, {result.num_saved:,} saved"
    output.say(
        output.err(), f"{said}; divergence {result.divergence:.3g}, disagreement {result.disagreement:.3g}.", "dim"
    )
