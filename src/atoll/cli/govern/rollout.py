"""The verbs `atoll rollout start`, `status`, `tick`, `serve` and `abort`."""

from typing import Annotated, Any

import typer

from atoll.cli.terminal import options, parsing

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Roll a parameter out: shadow, 1, 5, 10, 25 %, all; and back by itself when something guarded gets worse.",
)

KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The parameter.")]


@app.command("start")
def start(
    key: KeyArgument,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The candidate value, as JSON.")],
    guard: Annotated[
        list[str], typer.Option("--guard", metavar="METRIC:MARGIN[:lower]", help="What must not become worse.")
    ],
    reason: options.ReasonOption,
    author: options.AuthorOption = None,
    proposer: Annotated[str, typer.Option(metavar="NAME", help="Whose idea it is; never yours.")] = "evolver",
    shares: Annotated[str, typer.Option(metavar="LIST", help="Of the entities, step by step.")] = "0.01,0.05,0.1,0.25",
    min_samples: Annotated[int, typer.Option(metavar="N", help="Measurements of treated entities per step.")] = 50,
    min_time: Annotated[str, typer.Option(metavar="TIME", help="Of each step: 1h.")] = "1h",
    bake: Annotated[str, typer.Option(metavar="TIME", help="How long it stays guarded when all have it.")] = "1d",
    cooldown: Annotated[str, typer.Option(metavar="TIME", help="No new rollout so soon after a rollback.")] = "1d",
    alpha: Annotated[float, typer.Option(metavar="X", help="A harmless value is rolled back this often.")] = 0.05,
    skip_shadow: Annotated[bool, typer.Option("--skip-shadow", help="Begin with real entities.")] = False,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Begins the rollout of a value. The parameter itself stays as it is until all have it.

    \b
    Examples:
      atoll rollout start risk/penalty 0.4 --guard late:0.02:lower --author ann --reason "EMA of last week"
      atoll shadow risk/penalty 0.4 --with shadow.py --rollout
      atoll rollout tick risk/penalty --feedback feedback
    """  # noqa: D301 - \b keeps the lines of the examples apart
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
    }
    with parameter_stores.open_parameters(store) as param_store:
        state = rollout_actions.start_rollout(
            param_store,
            key,
            parsing.parse_value(value),
            plan_options,
            proposer=proposer,
            approver=approver,
            reason=reason,
        )
    _print_rollout(rollout_status.rollout_to_json(state), as_json)


@app.command("status")
def status(
    key: Annotated[str | None, typer.Argument(metavar="KEY", help="One; without it, all.")] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Shows where rollouts stand, and what is known of what they guard.

    \b
    Examples:
      atoll rollout status
      atoll rollout status risk/penalty --json
    """  # noqa: D301 - \b keeps the lines of the examples apart
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
    for each in rollouts:
        _print_rollout(each, as_json=False)
    if not rollouts:
        console.print_line(
            console.get_stderr_console(),
            f"There is no rollout{f' of {key}' if key else ''} yet: 'atoll rollout start' begins one.",
        )


@app.command("tick")
def update(
    key: KeyArgument,
    feedback: Annotated[
        str | None, typer.Option("--feedback", "-f", metavar="PLACE", help="A folder or a store to read it from.")
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Looks at what was measured since the last tick and moves: back at once, on, or not yet.

    \b
    Examples:
      atoll rollout tick risk/penalty --feedback feedback        from cron, every minute
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli.govern import rollout_actions
    from atoll.config import parameter_stores
    from atoll.governed.rollout import status as rollout_status

    with parameter_stores.open_parameters(store) as param_store:
        state = rollout_actions.update_rollout(param_store, key, feedback)
    _print_rollout(rollout_status.rollout_to_json(state), as_json)


@app.command("serve")
def print_value(
    key: KeyArgument,
    entity: Annotated[str, typer.Argument(metavar="ENTITY", help="Whom the value is for.")],
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Prints the value that an entity gets now.

    \b
    Examples:
      atoll rollout serve risk/penalty carrier-7
    """  # noqa: D301 - \b keeps the lines of the examples apart
    import json

    from atoll.cli.terminal import console
    from atoll.config import parameter_stores
    from atoll.governed import rollout

    with parameter_stores.open_parameters(store) as param_store:
        served_value = rollout.Rollout(param_store, key).value_for(entity)
    if as_json:
        console.print_json(served_value._asdict())
    else:
        console.print_line(console.get_stdout_console(), json.dumps(served_value.value))


@app.command("abort")
def abort(
    key: KeyArgument,
    reason: options.ReasonOption,
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Rolls back by hand, whatever the stage; works on a locked key too.

    \b
    Examples:
      atoll rollout abort risk/penalty --author ann --reason "customers complain"
    """  # noqa: D301 - \b keeps the lines of the examples apart
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
    end_note = ", over" if data["is_settled"] else ""
    console.print_line(
        console.get_stdout_console(), f"{data['key']}: {data['stage']}{share}{end_note} ({data['why']})", "bold"
    )
    for metric, guardrail in data["guarded"].items():
        low, high = ("?" if bound is None else f"{bound:.4g}" for bound in guardrail["interval"])
        counts = f"{guardrail['candidate']:,} treated, {guardrail['baseline']:,} not"
        console.print_line(
            console.get_stdout_console(),
            f"  {metric}: {guardrail['estimate']:+.4g} ({low} to {high}), margin {guardrail['margin']:g}; {counts}",
        )
