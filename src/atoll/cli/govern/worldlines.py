"""Commands `worldlines list`, `show`, `diff`, `approve`, `reject`, `merge` and `learn`."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from atoll.cli.terminal import options, parsing

if TYPE_CHECKING:
    from atoll import store as stores
    from atoll.runs import worldline_review

app = options.make_group("Review and merge changes to a repository.")

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Worldline id, or the beginning of it.")]
CommitOption = Annotated[
    str | None, typer.Option("--commit", metavar="SHA", help="Fail unless the worldline is at this commit.")
]


@app.command("list")
def list_worldlines(
    run: options.RunArgument, store: options.StoreOption = options.DEFAULT_STORE, as_json: options.JsonOption = False
) -> None:
    """List worldlines to review, with test results and costs.

    \b
    Examples:
      atoll worldlines list latest
    """  # noqa: D301 - \b keeps line breaks
    from atoll import runs  # slow imports: SQLAlchemy, rich
    from atoll.cli.terminal import console
    from atoll.runs import worldline_review

    with options.open_existing_store(store) as run_store:
        target = _find_target(run_store, run)
        results = worldline_review.find_results(run_store, runs.find_run(run_store, run))
    items = [
        worldline_review.to_json(target, item, results) for item in worldline_review.open_reviews(target).list_items()
    ]
    if as_json:
        console.print_json(items)
        return
    items.sort(key=lambda item: sum(item.get("result", {}).get(name, 0) for name in ("open_checks", "broken_tests")))
    if items:
        columns = ("id", "state", "commit", "tests", "open checks", "calls", "changes")
        console.print_result_table(columns, [_make_row(item) for item in items], flexible="changes")
    else:
        console.print_note("The run has no worldlines to review.")


@app.command("show")
def show(
    run: options.RunArgument,
    worldline_id: IdArgument,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Show a worldline and its decisions.

    \b
    Examples:
      atoll worldlines show latest 8dd0
    """  # noqa: D301 - \b keeps line breaks
    from atoll import runs
    from atoll.cli.terminal import console
    from atoll.runs import worldline_review

    with options.open_existing_store(store) as run_store:
        target = _find_target(run_store, run)
        results = worldline_review.find_results(run_store, runs.find_run(run_store, run))
        data = worldline_review.to_json(target, worldline_review.open_reviews(target).get(worldline_id), results)
    if as_json:
        console.print_json(data)
        return
    _print_worldline(data)


@app.command("diff")
def diff(
    run: options.RunArgument, worldline_id: IdArgument, store: options.StoreOption = options.DEFAULT_STORE
) -> None:
    """Print the patch of a worldline.

    \b
    Examples:
      atoll worldlines diff latest 8dd0
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.terminal import console
    from atoll.runs import worldline_review

    with options.open_existing_store(store) as run_store:
        patch = worldline_review.open_reviews(_find_target(run_store, run)).diff(worldline_id)
    console.print_result(patch or "The worldline has no changes.")


@app.command("approve")
def approve(
    run: options.RunArgument,
    worldline_id: IdArgument,
    reason: options.ReasonOption,
    author: options.AuthorOption = None,
    commit: CommitOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Approve a worldline at its current commit.

    A later edit voids the approval. 'worldlines merge' merges it.

    \b
    Examples:
      atoll worldlines diff latest 8dd0
      atoll worldlines approve latest 8dd0 --reason "read it, and all tests pass"
      atoll worldlines merge latest 8dd0
    """  # noqa: D301 - \b keeps line breaks
    _decide(run, worldline_id, "approve", reason, author, commit, store, as_json)


@app.command("reject")
def reject(
    run: options.RunArgument,
    worldline_id: IdArgument,
    reason: options.ReasonOption,
    author: options.AuthorOption = None,
    commit: CommitOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Reject a worldline.

    Voids an earlier approval.

    \b
    Examples:
      atoll worldlines reject latest 8dd0 --reason "it only hides the bug"
    """  # noqa: D301 - \b keeps line breaks
    _decide(run, worldline_id, "reject", reason, author, commit, store, as_json)


@app.command("merge")
def merge(
    run: options.RunArgument,
    worldline_id: IdArgument,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Merge an approved worldline into the current branch.

    \b
    Examples:
      atoll worldlines merge latest 8dd0
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.terminal import console
    from atoll.runs import worldline_review

    with options.open_existing_store(store) as run_store:
        merge_commit = worldline_review.merge(_find_target(run_store, run), worldline_id)
    if as_json:
        console.print_json({"worldline": worldline_id, "merged": merge_commit})
        return
    console.print_result(f"Merged as {merge_commit[:12]}. Undo with 'git revert -m 1 {merge_commit[:12]}'.")


@app.command("learn")
def learn(
    run: options.RunArgument,
    reason: options.ReasonOption,
    author: options.AuthorOption = None,
    rate: Annotated[float, typer.Option("--rate", min=0.001, max=1.0, help="Largest change of a weight.")] = 0.1,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Learn fitness weights from approvals and rejections.

    The weights become a new version of a parameter. Runs use it with --set mind.weights=@param:mind/weights.

    \b
    Examples:
      atoll worldlines learn latest --reason "small diffs were approved"
      atoll params rollback mind/weights 1 -m "learned too fast"
    """  # noqa: D301 - \b keeps line breaks
    from atoll import runs
    from atoll.cli.terminal import console
    from atoll.config import parameter_stores
    from atoll.runs import worldline_review

    name = parsing.resolve_author(author)
    with options.open_existing_store(store) as run_store, parameter_stores.open_parameters(store) as parameters:
        run_id = runs.find_run(run_store, run)
        data = worldline_review.learn_weights(run_store, parameters, run_id, name, reason, rate)
    if as_json:
        console.print_json(data)
        return
    rows = [(term, f"{data['old'][term]:.4f}", f"{weight:.4f}") for term, weight in data["new"].items()]
    console.print_result_table(("term", f"version {data['old_version']}", f"version {data['version']}"), rows)
    console.print_result(f"Use them with --set mind.weights=@param:{data['key']}.")


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
    console.print_result(f"{data['id']} is {data['state']} at {data['commit'][:12]}.")


def _find_target(run_store: "stores.Store", run: str) -> "worldline_review.ReviewTarget":
    from atoll import runs  # slow imports: SQLAlchemy, rich
    from atoll.runs import worldline_review

    return worldline_review.find_review_target(run_store, runs.find_run(run_store, run))


def _make_row(data: dict[str, Any]) -> tuple[str, ...]:
    """Returns a worldline as a row of the table."""
    result = data.get("result", {})
    tests = f"{result['passed']} of {result['tests']}" if "tests" in result else ""
    changes = ", ".join(
        entry["path"] if entry["added"] is None else f"{entry['path']} +{entry['added']} -{entry['deleted']}"
        for entry in data["changes"]
    )
    numbers = [str(result.get(name, "")) for name in ("open_checks", "calls")]
    return (data["id"], data["state"], data["commit"][:12], tests, *numbers, changes)


def _print_worldline(data: dict[str, Any]) -> None:
    from atoll.cli.terminal import console as terminal

    console = terminal.get_stdout_console()
    for name in ("id", "state", "commit", "base", "look"):
        terminal.print_line(console, f"{name}: {data[name]}")
    for name, value in data.get("result", {}).items():
        terminal.print_line(console, f"{name.replace('_', ' ')}: {value}")
    for entry in data["changes"]:
        lines = "a binary file" if entry["added"] is None else f"+{entry['added']} -{entry['deleted']}"
        terminal.print_line(console, f"  {entry['path']} {lines}")
    for entry in data["decisions"]:
        terminal.print_line(console, f"{entry['by']}: {entry['verdict']} at {entry['commit'][:12]}: {entry['reason']}")
