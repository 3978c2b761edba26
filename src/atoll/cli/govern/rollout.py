"""Commands `rollout shadow`, `start`, `status`, `update`, `value` and `abort`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli.terminal import options, parsing

app = options.make_group("Test a parameter value and roll it out in stages.")

REQUIRED_FUNCTIONS = ("samples", "apply", "score")
RULES_FUNCTION = "rules"  # optional: a dict from names to functions that check a sample


@app.command("shadow")
def shadow(
    key: options.KeyArgument,
    value: options.ValueArgument,
    file: Annotated[
        Path | None, typer.Option("--with", metavar="FILE.py", help="Python file with samples(), apply() and score().")
    ] = None,
    task: Annotated[
        Path | None, typer.Option("--task", metavar="TASK", help="Compare by paired runs of this task.")
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=2, metavar="N", help="Maximum number of paired runs.")] = 40,
    iterations: Annotated[
        int | None, typer.Option("--iterations", "-i", min=1, metavar="N", help="Iterations of each paired run.")
    ] = None,
    changes: options.SetOption = None,
    traffic: Annotated[float, typer.Option("--traffic", metavar="SHARE", help="Fraction of the samples to use.")] = 1.0,
    min_effect: Annotated[float, typer.Option("--min-effect", metavar="X", help="Smallest gain worth a change.")] = 0.0,
    guard: options.GuardOption = None,
    alpha: options.AlphaOption = 0.05,
    record_in_rollout: Annotated[
        bool, typer.Option("--rollout", help="Record the result in the key's rollout.")
    ] = False,
    save: Annotated[bool, typer.Option("--save", help="Save the result in the store.")] = False,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Compare a value with the current one; change nothing.

    Both values are scored on the same samples until the verdict is clear: promote, reject, or extend if the samples are
    not enough. The Python file runs in this process. With --task each sample is a run, which is not saved.

    \b
    Examples:
      atoll rollout shadow risk/penalty 0.4 --with shadow.py
      atoll rollout shadow mind/weights '[0.2, 0, 0.7, 0.1, 0]' --task examples/mind_natural_plan --seeds 60
      atoll rollout shadow risk/penalty 0.4 --with shadow.py --guard cost:0.5:lower --json
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.govern import rollout_actions  # slow imports: SQLAlchemy, numpy
    from atoll.cli.terminal import console
    from atoll.config import parameter_stores
    from atoll.governed import rollout
    from atoll.governed.rollout import status

    if (file is None) == (task is None):
        raise errors.SetupError("rollout shadow needs one of --with FILE.py and --task TASK.")
    runner_options: dict[str, Any] = {
        "min_effect": min_effect,
        "guardrails": rollout_actions.parse_guardrails(guard or []),
        "alpha": alpha,
    }
    candidate = parsing.parse_value(value)
    with parameter_stores.open_parameters(store) as param_store:
        if record_in_rollout:
            plan = rollout_actions.require_rollout(param_store, key, candidate)
            runner_options["guardrails"] = [*plan.guardrails, *rollout_actions.parse_guardrails(guard or [])]
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
    _print_shadow_result(result)
    if state is not None:
        console.print_result(f"The rollout of {key} is in stage {state.stage}: {state.why}.")


def _make_runner(param_store: Any, functions: Any, runner_options: Any) -> Any:
    from atoll.governed.rollout import evaluators as rollout_evaluators
    from atoll.governed.rollout import shadow_result, shadow_runner

    samples, apply, score, *rules = functions
    evaluator: Any = rollout_evaluators.FuncEvaluator(score)
    if rules:
        named_rules = [rollout_evaluators.Rule(name, holds) for name, holds in rules[0]().items()]
        evaluator = rollout_evaluators.RuleEvaluator(named_rules, evaluator)
    return shadow_runner.ShadowRunner(
        param_store, evaluator, shadow_result.FixedSampler(list(samples())), apply, **runner_options
    )


def _make_paired_runs(
    param_store: Any, key: str, task: Any, seeds: int, iterations: int | None, changes: list[str] | None
) -> Any:
    """Returns the parameter name used by the task, and functions that sample and score its runs."""
    from atoll import config
    from atoll.runs import baselines

    option_layers = [config.parse_set(change) for change in changes or ()]
    run_config = config.load(
        task, [*option_layers, {"run": {"iterations": iterations}}] if iterations else option_layers
    )
    pairs = baselines.PairedRuns(run_config, key, param_store.ledger, range(seeds))
    return pairs.parameter_name, pairs.functions


def _load_functions(file: Path) -> Any:
    import runpy

    if not file.is_file():
        raise errors.SetupError(f"{file} not found. It must define {', '.join(REQUIRED_FUNCTIONS)}.")
    namespace = runpy.run_path(str(file))
    if missing := [name for name in REQUIRED_FUNCTIONS if not callable(namespace.get(name))]:
        raise errors.SetupError(f"{file} does not define {', '.join(missing)}.")
    names = [*REQUIRED_FUNCTIONS, *([RULES_FUNCTION] if callable(namespace.get(RULES_FUNCTION)) else [])]
    return [namespace[name] for name in names]


def _print_shadow_result(result: Any) -> None:
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
    headings = ("metric", "current", "candidate", "difference", "anytime interval", "p (Holm)")
    if rows:
        console.print_result_table(headings, rows, right_aligned=headings[1:], flexible="metric")
    console.print_result(f"{result.verdict}: {result.reason}.", "bold")
    if rows:
        console.print_note(
            "The verdict depends on the intervals of fitness and guardrails, which are valid at any time. p (Holm) is "
            "corrected for the number of metrics.",
            "dim",
        )
    counts = f"{result.sample_size:,} pairs, {result.num_calls:,} scores, {result.num_saved:,} saved by stopping early"
    console.print_note(f"{counts}; divergence {result.divergence:.3g}, disagreement {result.disagreement:.3g}.", "dim")


@app.command("start")
def start(
    key: options.KeyArgument,
    value: options.ValueArgument,
    guard: Annotated[
        list[str], typer.Option("--guard", metavar="METRIC[:MARGIN][:lower]", help="Guardrail metric and allowed loss.")
    ],
    reason: options.ReasonOption,
    author: options.AuthorOption = None,
    proposed_by: Annotated[
        str, typer.Option("--proposed-by", metavar="NAME", help="Author of the proposed value; not you.")
    ] = "evolver",
    shares: Annotated[
        str, typer.Option("--shares", metavar="LIST", help="Traffic share of each stage.")
    ] = "0.01,0.05,0.1,0.25",
    min_samples: Annotated[int, typer.Option("--min-samples", metavar="N", help="Samples needed in each stage.")] = 50,
    min_time: Annotated[str, typer.Option("--min-time", metavar="TIME", help="Minimum duration of a stage.")] = "1h",
    bake: Annotated[str, typer.Option("--bake", metavar="TIME", help="Monitoring time after the last stage.")] = "1d",
    cooldown: Annotated[str, typer.Option("--cooldown", metavar="TIME", help="Wait after a rollback.")] = "1d",
    alpha: options.AlphaOption = 0.05,
    max_time: Annotated[
        str, typer.Option("--max-time", metavar="TIME", help="Roll back if a stage takes longer.")
    ] = "14d",
    proposal: Annotated[
        str | None, typer.Option("--proposal", metavar="ID", help="Approved proposal of the value.")
    ] = None,
    skip_shadow: Annotated[bool, typer.Option("--skip-shadow", help="Start without a shadow run.")] = False,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Start a rollout.

    The parameter itself changes when the last stage is complete.

    \b
    Examples:
      atoll rollout start risk/penalty 0.4 --guard late:0.02:lower --author ann --reason "EMA of last week"
      atoll rollout shadow risk/penalty 0.4 --with shadow.py --rollout
      atoll rollout update risk/penalty --feedback feedback
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.govern import rollout_actions
    from atoll.config import parameter_stores
    from atoll.governed.rollout import status as rollout_status

    approver = parsing.resolve_author(author)
    plan_options = {
        "guardrails": rollout_actions.parse_guardrails(guard),
        "shares": parsing.parse_shares(shares),
        "min_samples": min_samples,
        "min_seconds": parsing.parse_seconds(min_time),
        "bake_seconds": parsing.parse_seconds(bake),
        "cooldown_seconds": parsing.parse_seconds(cooldown),
        "alpha": alpha,
        "needs_shadow": not skip_shadow,
        "max_seconds": parsing.parse_seconds(max_time),
    }
    with parameter_stores.open_parameters(store) as param_store:
        state = rollout_actions.start_rollout(
            param_store,
            key,
            parsing.parse_value(value),
            plan_options,
            proposer=proposed_by,
            approver=approver,
            reason=reason,
            proposal_id=proposal,
        )
    _print_rollout(rollout_status.rollout_to_json(state), as_json)


@app.command("status")
def status(
    key: Annotated[str | None, typer.Argument(metavar="KEY", help="Key of the parameter.")] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Show rollouts and their guardrails.

    \b
    Examples:
      atoll rollout status
      atoll rollout status risk/penalty --json
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.terminal import console
    from atoll.config import parameter_stores
    from atoll.governed.rollout import status as rollout_status

    with parameter_stores.open_parameters(store) as param_store:
        rollouts = [
            rollout_status.rollout_to_json(rollout_data)
            for rollout_data in rollout_status.load_rollouts(param_store)
            if key in (None, rollout_data.key)
        ]
    if as_json:
        console.print_json(rollouts)
        return
    for data in rollouts:
        _print_rollout(data, as_json=False)
    if not rollouts:
        console.print_note(f"No rollout{f' of {key}' if key else ''} found. Start one with 'atoll rollout start'.")


@app.command("update")
def update(
    key: options.KeyArgument,
    feedback: options.FeedbackOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Read new feedback; advance or roll back.

    Also checks that the new feedback is split between the values as planned.

    \b
    Examples:
      atoll rollout update risk/penalty --feedback feedback        every minute, from cron
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.govern import rollout_actions
    from atoll.config import parameter_stores
    from atoll.governed.rollout import status as rollout_status

    with parameter_stores.open_parameters(store) as param_store:
        state, traffic = rollout_actions.update_rollout(param_store, key, feedback)
    _print_rollout({**rollout_status.rollout_to_json(state), "traffic": traffic}, as_json)


@app.command("value")
def print_value(
    key: options.KeyArgument,
    entity: Annotated[str, typer.Argument(metavar="ENTITY", help="Entity such as a user or a device.")],
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Print the value that an entity gets.

    \b
    Examples:
      atoll rollout value risk/penalty carrier-7
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.terminal import console
    from atoll.config import parameter_stores
    from atoll.governed import rollout

    with parameter_stores.open_parameters(store) as param_store:
        served_value = rollout.Rollout(param_store, key).value_for(entity)
    if as_json:
        console.print_json(served_value._asdict())
    else:
        console.print_result(json.dumps(served_value.value))


@app.command("abort")
def abort(
    key: options.KeyArgument,
    reason: options.ReasonOption,
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Roll back now.

    Works in every stage, and for locked keys.

    \b
    Examples:
      atoll rollout abort risk/penalty --author ann --reason "customers complain"
    """  # noqa: D301 - \b keeps line breaks
    from atoll.config import parameter_stores
    from atoll.governed import rollout
    from atoll.governed.rollout import status as rollout_status

    with parameter_stores.open_parameters(store) as param_store:
        state = rollout.Rollout(param_store, key).abort(reason, author=parsing.resolve_author(author))
    _print_rollout(rollout_status.rollout_to_json(state), as_json)


def _print_rollout(data: Any, as_json: bool) -> None:
    from atoll.cli.terminal import console

    if as_json:
        console.print_json(data)
        return
    share = f" {data['share']:.0%}" if data["stage"] == "canary" else ""
    end_note = ", ended" if data["is_settled"] else ""
    console.print_result(f"{data['key']}: {data['stage']}{share}{end_note} ({data['why']})", "bold")
    for metric, guardrail in data["guarded"].items():
        low, high = ("?" if bound is None else f"{bound:.4g}" for bound in guardrail["interval"])
        counts = f"{guardrail['candidate']:,} with the new value, {guardrail['baseline']:,} without"
        console.print_result(
            f"  {metric}: {guardrail['estimate']:+.4g} ({low} to {high}), margin {guardrail['margin']:g}; {counts}"
        )
    for metric, check in data.get("traffic", {}).items():
        total = check["baseline"] + check["candidate"]
        split = f"{check['share']:.1%} of {total:,} new measurements had the new value, planned {check['expected']:.1%}"
        warning = ". The split is wrong: do not trust the comparison." if check["is_off"] else "."
        console.print_result(f"  {metric}: {split}{warning}")
