"""The verbs `atoll worldlines list`, `show`, `diff`, `approve`, `reject` and `merge`."""

from typing import Annotated, Any, Literal

import typer

from atoll.cli import options, proposing

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Review what a run wrote into a repository, and merge what somebody approved.",
)

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="A worldline, as 'atoll worldlines list' names it, or its beginning.")
]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it stays with the decision.")]
CommitOption = Annotated[
    str | None, typer.Option("--commit", metavar="SHA", help="What you looked at, to be sure; else as it is now.")
]


@app.command("list")
def list_worldlines(
    run: options.RunArgument, store: options.StoreOption = options.DEFAULT_STORE, as_json: options.JsonOption = False
) -> None:
    """Lists the worldlines that a run left for review, with what was decided about them.

    \b
    Examples:
      atoll worldlines list latest
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli import output
    from atoll.runs import worldlines

    with options.opened(store) as kept:
        place = _place(kept, run)
    found = worldlines.opened(place).all()
    if as_json:
        output.print_json([worldlines.told(place, each) for each in found])
        return
    rows = [
        (each.worldline_id, each.state, each.commit[:12], ", ".join(change.path for change in each.changes))
        for each in found
    ]
    if rows:
        output.table(output.out(), ("id", "state", "commit", "changes"), rows, flexible="changes")
    else:
        output.say(output.err(), "There is nothing to review.")


@app.command("show")
def show(
    run: options.RunArgument,
    worldline_id: IdArgument,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Shows one worldline: where it stands, what it changes, and what was decided.

    \b
    Examples:
      atoll worldlines show latest 8dd0
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli import output
    from atoll.runs import worldlines

    with options.opened(store) as kept:
        place = _place(kept, run)
        told = worldlines.told(place, worldlines.opened(place).get(worldline_id))
    if as_json:
        output.print_json(told)
        return
    _show(told)


@app.command("diff")
def diff(
    run: options.RunArgument, worldline_id: IdArgument, store: options.StoreOption = options.DEFAULT_STORE
) -> None:
    """Prints how a worldline differs from what it was forked from, as a patch.

    \b
    Examples:
      atoll worldlines diff latest 8dd0
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli import output
    from atoll.runs import worldlines

    with options.opened(store) as kept:
        patch = worldlines.opened(_place(kept, run)).diff(worldline_id)
    output.say(output.out(), patch or "It changes nothing.")


@app.command("approve")
def approve(
    run: options.RunArgument,
    worldline_id: IdArgument,
    reason: ReasonOption,
    by: proposing.ByOption = "",
    commit: CommitOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Approves a worldline as it is now; any edit afterwards ends the approval. 'merge' is another verb.

    \b
    Examples:
      atoll worldlines diff latest 8dd0
      atoll worldlines approve latest 8dd0 --reason "read it, and all tests pass"
      atoll worldlines merge latest 8dd0
    """  # noqa: D301 - \b keeps the lines of the examples apart
    _decide(run, worldline_id, "approve", reason, by, commit, store, as_json)


@app.command("reject")
def reject(
    run: options.RunArgument,
    worldline_id: IdArgument,
    reason: ReasonOption,
    by: proposing.ByOption = "",
    commit: CommitOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Rejects a worldline; an approval that it had counts no longer.

    \b
    Examples:
      atoll worldlines reject latest 8dd0 --reason "it only hides the fault"
    """  # noqa: D301 - \b keeps the lines of the examples apart
    _decide(run, worldline_id, "reject", reason, by, commit, store, as_json)


@app.command("merge")
def merge(
    run: options.RunArgument,
    worldline_id: IdArgument,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Merges a worldline that somebody approved as it is now into the branch of the repository's worktree.

    \b
    Examples:
      atoll worldlines merge latest 8dd0
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli import output
    from atoll.runs import worldlines

    with options.opened(store) as kept:
        made = worldlines.merge(_place(kept, run), worldline_id)
    if as_json:
        output.print_json({"worldline": worldline_id, "merged": made})
        return
    output.say(output.out(), f"Merged, as {made[:12]}: 'git revert -m 1 {made[:12]}' takes it back.")


def _decide(
    run: str,
    worldline_id: str,
    verdict: Literal["approve", "reject"],
    reason: str,
    by: str,
    commit: str | None,
    store: str,
    as_json: bool,
) -> None:
    from atoll.cli import output
    from atoll.runs import worldlines

    with options.opened(store) as kept:
        place = _place(kept, run)
        found = worldlines.decide(place, worldline_id, verdict, by or proposing.me(), reason, commit)
        told = worldlines.told(place, found)
    if as_json:
        output.print_json(told)
        return
    output.say(output.out(), f"{told['id']} is {told['state']} at {told['commit'][:12]}.")


def _place(kept: Any, run: str) -> Any:
    from atoll import runs  # with SQLAlchemy and rich: help need not wait for them
    from atoll.runs import worldlines

    return worldlines.desk(kept, runs.find(kept, run))


def _show(told: dict[str, Any]) -> None:
    from atoll.cli import output

    console = output.out()
    for name in ("id", "state", "commit", "base", "look"):
        output.say(console, f"{name}: {told[name]}")
    for each in told["changes"]:
        lines = "a binary file" if each["added"] is None else f"+{each['added']} -{each['deleted']}"
        output.say(console, f"  {each['path']} {lines}")
    for each in told["decisions"]:
        output.say(console, f"{each['by']}: {each['verdict']} at {each['commit'][:12]}: {each['reason']}")
