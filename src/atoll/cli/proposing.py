"""The verbs `atoll proposals list`, `show`, `submit`, `edit`, `approve`, `reject`, `withdraw` and `apply`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll import errors
from atoll.cli import options, values

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Decide on what agents want to change: tools, skills, parameters, themselves.",
)

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="A proposal's id, as 'atoll proposals list' shows it.")]
ContentArgument = Annotated[Path, typer.Argument(metavar="FILE", help="JSON: all that would be applied.")]


def evolution(kept: Any) -> Any:
    """Returns the proposals of a store that is open; whoever decides does so later."""
    from atoll import governed  # with jsonschema: help need not wait for it

    return governed.Evolution(governed.StoredParameters(kept), governed.LATER)


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
    from atoll.cli import output
    from atoll.governed.proposals.proposal import STATUSES

    if status is not None and status not in STATUSES:
        raise errors.SetupError(f"No proposal is ever {status!r}: give one of {', '.join(STATUSES)}.")
    with options.opened(store) as kept:
        found = [each for each in evolution(kept).history() if status in (None, each.status)]
    if as_json:
        output.print_json([each.to_json() for each in found])
        return
    rows = [(each.id, each.status, each.type, each.risk, each.author, each.title) for each in found]
    headings = ("id", "status", "type", "risk", "author", "title")
    output.table(output.out(), headings, rows, flexible="title", spare=("risk", "author"))


@app.command("show")
def show(
    proposal_id: IdArgument, store: options.StoreOption = options.DEFAULT_STORE, as_json: options.JsonOption = False
) -> None:
    """Shows one proposal: what would change, why, and what was said of it.

    \b
    Examples:
      atoll proposals show p-0123456789ab
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from atoll.cli import output

    with options.opened(store) as kept:
        desk = evolution(kept)
        found = desk.proposals.get(proposal_id)
        before = desk.value_before(found)
    if as_json:
        output.print_json({**found.to_json(), "value_before": before})
        return
    console = output.out()
    for name in ("id", "status", "type", "risk", "author", "title", "description", "rationale", "outcome"):
        if said := str(getattr(found, name)):
            output.say(console, f"{name}: {said}")
    output.say(console, f"content hash: {found.content_hash}")
    if before is not None:
        output.say(console, f"value now: {json.dumps(before, ensure_ascii=False)}")
    output.say(console, json.dumps(dict(found.content), ensure_ascii=False, indent=2))
    for each in found.reviews:
        output.say(console, f"{each.by} {'approved' if each.is_approval else 'rejected'} it: {each.reason}")


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

    with stores.Store(store) as kept:
        proposed: Any = kind
        done = evolution(kept).propose(
            proposed, title, values.mapping(content), values.author(author), rationale=rationale
        )
    tell(done, as_json)


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
    with options.opened(store) as kept:
        done = evolution(kept).proposals.edit(proposal_id, values.mapping(content), values.author(author), reason)
    tell(done, as_json)


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
    with options.opened(store) as kept:
        desk = evolution(kept)
        done = desk.proposals.decide(
            proposal_id, values.author(author), approve=True, reason=reason, content_hash=content_hash
        )
        done = desk.apply(done.id) if done.status == "approved" else done
    tell(done, as_json)
    return 1 if done.status == "failed" else 0


@app.command("reject")
def reject(
    proposal_id: IdArgument,
    reason: options.ReasonOption,
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Rejects a proposal; one rejection is enough."""
    with options.opened(store) as kept:
        done = evolution(kept).proposals.decide(proposal_id, values.author(author), approve=False, reason=reason)
    tell(done, as_json)


@app.command("withdraw")
def withdraw(
    proposal_id: IdArgument,
    reason: options.ReasonOption,
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Takes a proposal off the table."""
    with options.opened(store) as kept:
        done = evolution(kept).proposals.end(proposal_id, "withdrawn", values.author(author), reason)
    tell(done, as_json)


@app.command("apply")
def apply(store: options.StoreOption = options.DEFAULT_STORE, as_json: options.JsonOption = False) -> None:
    """Carries out all that was approved and not carried out yet, as after a crash."""
    from atoll.cli import output

    with options.opened(store) as kept:
        done = evolution(kept).apply_approved()
    if as_json:
        output.print_json([each.to_json() for each in done])
        return
    for each in done:
        tell(each, False)
    if not done:
        output.say(output.err(), "Nothing waits to be carried out.")


def tell(proposal: Any, as_json: bool) -> None:
    """Says how a proposal stands."""
    from atoll.cli import output

    if as_json:
        output.print_json(proposal.to_json())
        return
    said = f": {proposal.outcome}" if proposal.outcome else ""
    output.say(output.out(), f"{proposal.id} is {proposal.status}{said}")
    if proposal.status == "pending":
        output.say(
            output.err(), f"It is {proposal.author}'s, so somebody else decides: atoll proposals approve|reject."
        )
        output.say(output.err(), f"Look at it: atoll proposals show {proposal.id}")
