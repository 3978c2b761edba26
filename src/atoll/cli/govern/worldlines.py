"""The verbs `atoll worldlines list`, `show`, `diff`, `approve`, `reject` and `merge`."""

from typing import Annotated, Any, Literal

import typer

from atoll.cli.terminal import options, parsing

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
    from atoll.cli.terminal import console
    from atoll.runs import worldline_review

    with options.open_existing_store(store) as run_store:
        target = _find_target(run_store, run)
    worldline_items = worldline_review.open_reviews(target).list_items()
    if as_json:
        console.print_json([worldline_review.to_json(target, item) for item in worldline_items])
        return
    rows = [
        (item.worldline_id, item.state, item.commit[:12], ", ".join(change.path for change in item.changes))
        for item in worldline_items
    ]
    if rows:
        console.print_table(
            console.get_stdout_console(), ("id", "state", "commit", "changes"), rows, flexible="changes"
        )
    else:
        console.print_line(console.get_stderr_console(), "There is nothing to review.")


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
    from atoll.cli.terminal import console
    from atoll.runs import worldline_review

    with options.open_existing_store(store) as run_store:
        target = _find_target(run_store, run)
        data = worldline_review.to_json(target, worldline_review.open_reviews(target).get(worldline_id))
    if as_json:
        console.print_json(data)
        return
    _print_worldline(data)


@app.command("diff")
def diff(
    run: options.RunArgument, worldline_id: IdArgument, store: options.StoreOption = options.DEFAULT_STORE
) -> None:
    """Prints how a worldline differs from what it was forked from, as a patch.

    \b
    Examples:
      atoll worldlines diff latest 8dd0
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli.terminal import console
    from atoll.runs import worldline_review

    with options.open_existing_store(store) as run_store:
        patch = worldline_review.open_reviews(_find_target(run_store, run)).diff(worldline_id)
    console.print_line(console.get_stdout_console(), patch or "It changes nothing.")


@app.command("approve")
def approve(
    run: options.RunArgument,
    worldline_id: IdArgument,
    reason: ReasonOption,
    author: options.AuthorOption = None,
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
    _decide(run, worldline_id, "approve", reason, author, commit, store, as_json)


@app.command("reject")
def reject(
    run: options.RunArgument,
    worldline_id: IdArgument,
    reason: ReasonOption,
    author: options.AuthorOption = None,
    commit: CommitOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Rejects a worldline; an approval that it had counts no longer.

    \b
    Examples:
      atoll worldlines reject latest 8dd0 --reason "it only hides the fault"
    """  # noqa: D301 - \b keeps the lines of the examples apart
    _decide(run, worldline_id, "reject", reason, author, commit, store, as_json)


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
    from atoll.cli.terminal import console
    from atoll.runs import worldline_review

    with options.open_existing_store(store) as run_store:
        merge_commit = worldline_review.merge(_find_target(run_store, run), worldline_id)
    if as_json:
        console.print_json({"worldline": worldline_id, "merged": merge_commit})
        return
    console.print_line(
        console.get_stdout_console(),
        f"Merged, as {merge_commit[:12]}: 'git revert -m 1 {merge_commit[:12]}' takes it back.",
    )


def _decide(
    run: str,
    worldline_id: str,
    verdict: Literal["approve", "reject"],
    reason: str,
    author: str | None,
    commit: str | None,
    store: str,
    as_json: bool,
) -> None:
    from atoll.cli.terminal import console
    from atoll.runs import worldline_review

    with options.open_existing_store(store) as run_store:
        target = _find_target(run_store, run)
        item = worldline_review.decide(target, worldline_id, verdict, parsing.resolve_author(author), reason, commit)
        data = worldline_review.to_json(target, item)
    if as_json:
        console.print_json(data)
        return
    console.print_line(console.get_stdout_console(), f"{data['id']} is {data['state']} at {data['commit'][:12]}.")


def _find_target(run_store: Any, run: str) -> Any:
    from atoll import runs  # with SQLAlchemy and rich: help need not wait for them
    from atoll.runs import worldline_review

    return worldline_review.find_review_target(run_store, runs.find_run(run_store, run))


def _print_worldline(data: dict[str, Any]) -> None:
    from atoll.cli.terminal import console as terminal_console

    console = terminal_console.get_stdout_console()
    for name in ("id", "state", "commit", "base", "look"):
        terminal_console.print_line(console, f"{name}: {data[name]}")
    for entry in data["changes"]:
        lines = "a binary file" if entry["added"] is None else f"+{entry['added']} -{entry['deleted']}"
        terminal_console.print_line(console, f"  {entry['path']} {lines}")
    for entry in data["decisions"]:
        terminal_console.print_line(
            console, f"{entry['by']}: {entry['verdict']} at {entry['commit'][:12]}: {entry['reason']}"
        )
