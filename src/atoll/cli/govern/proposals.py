"""The verbs `atoll proposals list`, `show`, `submit`, `edit`, `approve`, `reject`, `withdraw` and `apply`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli.terminal import options, parsing

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Decide on what agents want to change: tools, skills, parameters, themselves.",
)

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="A proposal's id, as 'atoll proposals list' shows it.")]
ContentArgument = Annotated[Path, typer.Argument(metavar="FILE", help="JSON: all that would be applied.")]


def open_evolver(run_store: Any) -> Any:
    """Returns the proposals of a store that is open; whoever decides does so later."""
    from atoll import governed  # with jsonschema: help need not wait for it

    return governed.Evolver(governed.StoredParameters(run_store), governed.DEFER)


@app.command("list")
def list_proposals(
    status: Annotated[str | None, typer.Option("--status", metavar="S", help="Only those, such as pending.")] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Lists proposals, oldest first.

    \b
    Examples:
      atoll proposals list --status pending
      atoll proposals list --json
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli.terminal import console
    from atoll.governed.approval.proposal import STATUSES

    if status is not None and status not in STATUSES:
        raise errors.SetupError(f"No proposal is ever {status!r}: give one of {', '.join(STATUSES)}.")
    with options.open_existing_store(store) as run_store:
        proposals = [proposal for proposal in open_evolver(run_store).history() if status in (None, proposal.status)]
    if as_json:
        console.print_json([proposal.to_json() for proposal in proposals])
        return
    rows = [
        (proposal.id, proposal.status, proposal.type, proposal.risk, proposal.author, proposal.title)
        for proposal in proposals
    ]
    headings = ("id", "status", "type", "risk", "author", "title")
    console.print_table(console.get_stdout_console(), headings, rows, flexible="title", optional=("risk", "author"))


@app.command("show")
def show(
    proposal_id: IdArgument, store: options.StoreOption = options.DEFAULT_STORE, as_json: options.JsonOption = False
) -> None:
    """Shows one proposal: what would change, why, and what was said of it.

    \b
    Examples:
      atoll proposals show p-0123456789ab
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli.terminal import console as terminal_console

    with options.open_existing_store(store) as run_store:
        evolver = open_evolver(run_store)
        proposal = evolver.proposals.get(proposal_id)
        value_before = evolver.get_current_value(proposal)
    if as_json:
        terminal_console.print_json({**proposal.to_json(), "value_before": value_before})
        return
    console = terminal_console.get_stdout_console()
    for name in ("id", "status", "type", "risk", "author", "title", "description", "rationale", "outcome"):
        if field_text := str(getattr(proposal, name)):
            terminal_console.print_line(console, f"{name}: {field_text}")
    terminal_console.print_line(console, f"content hash: {proposal.content_hash}")
    if value_before is not None:
        terminal_console.print_line(console, f"value now: {json.dumps(value_before, ensure_ascii=False)}")
    terminal_console.print_line(console, json.dumps(dict(proposal.content), ensure_ascii=False, indent=2))
    for review in proposal.reviews:
        terminal_console.print_line(
            console, f"{review.by} {'approved' if review.is_approval else 'rejected'} it: {review.reason}"
        )


@app.command("submit")
def submit(
    kind: Annotated[str, typer.Argument(metavar="TYPE", help="new_tool, new_skill, optimize or self_adjust.")],
    content: ContentArgument,
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="What it is, in a few words.")],
    rationale: Annotated[str, typer.Option("--rationale", metavar="TEXT", help="Why it should be.")] = "",
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Puts a proposal on the table, where it waits for somebody else.

    \b
    Examples:
      echo '{"key": "speed", "value": 3}' > faster.json
      atoll proposals submit optimize faster.json --title "Go faster" --author agent
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll import store as stores

    with stores.Store(store) as run_store:
        proposal_type: Any = kind
        proposal = open_evolver(run_store).propose(
            proposal_type, title, parsing.load_mapping(content), parsing.resolve_author(author), rationale=rationale
        )
    print_proposal(proposal, as_json)


@app.command("edit")
def edit(
    proposal_id: IdArgument,
    content: ContentArgument,
    reason: options.ReasonOption,
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Changes what is proposed; approvals before it count no longer, and it is yours now."""
    with options.open_existing_store(store) as run_store:
        proposal = open_evolver(run_store).proposals.edit(
            proposal_id, parsing.load_mapping(content), parsing.resolve_author(author), reason
        )
    print_proposal(proposal, as_json)


@app.command("approve")
def approve(
    proposal_id: IdArgument,
    reason: options.ReasonOption,
    author: options.AuthorOption = None,
    content_hash: Annotated[
        str | None, typer.Option("--hash", metavar="H", help="Of the content that you looked at, to be sure.")
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> int:
    """Approves a proposal and, when enough have, carries it out. Exits 1 if that fails.

    \b
    Examples:
      atoll proposals approve p-0123456789ab --reason "measured on the shadow run"
    """  # noqa: D301 - \b keeps the lines of the examples apart
    with options.open_existing_store(store) as run_store:
        evolver = open_evolver(run_store)
        proposal = evolver.proposals.decide(
            proposal_id, parsing.resolve_author(author), approve=True, reason=reason, content_hash=content_hash
        )
        proposal = evolver.apply(proposal.id) if proposal.status == "approved" else proposal
    print_proposal(proposal, as_json)
    return 1 if proposal.status == "failed" else 0


@app.command("reject")
def reject(
    proposal_id: IdArgument,
    reason: options.ReasonOption,
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Rejects a proposal; one rejection is enough."""
    with options.open_existing_store(store) as run_store:
        proposal = open_evolver(run_store).proposals.decide(
            proposal_id, parsing.resolve_author(author), approve=False, reason=reason
        )
    print_proposal(proposal, as_json)


@app.command("withdraw")
def withdraw(
    proposal_id: IdArgument,
    reason: options.ReasonOption,
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Takes a proposal off the table."""
    with options.open_existing_store(store) as run_store:
        proposal = open_evolver(run_store).proposals.end(
            proposal_id, "withdrawn", parsing.resolve_author(author), reason
        )
    print_proposal(proposal, as_json)


@app.command("apply")
def apply(store: options.StoreOption = options.DEFAULT_STORE, as_json: options.JsonOption = False) -> None:
    """Carries out all that was approved and not carried out yet, as after a crash."""
    from atoll.cli.terminal import console

    with options.open_existing_store(store) as run_store:
        proposals = open_evolver(run_store).apply_approved()
    if as_json:
        console.print_json([proposal.to_json() for proposal in proposals])
        return
    for each in proposals:
        print_proposal(each, False)
    if not proposals:
        console.print_line(console.get_stderr_console(), "Nothing waits to be carried out.")


def print_proposal(proposal: Any, as_json: bool) -> None:
    """Says how a proposal stands."""
    from atoll.cli.terminal import console

    if as_json:
        console.print_json(proposal.to_json())
        return
    outcome_text = f": {proposal.outcome}" if proposal.outcome else ""
    console.print_line(console.get_stdout_console(), f"{proposal.id} is {proposal.status}{outcome_text}")
    if proposal.status == "pending":
        console.print_line(
            console.get_stderr_console(),
            f"It is {proposal.author}'s, so somebody else decides: atoll proposals approve|reject.",
        )
        console.print_line(console.get_stderr_console(), f"Look at it: atoll proposals show {proposal.id}")
