"""Commands of `proposals`; `from-logs` has its own file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atoll import errors
from atoll.cli.terminal import options, parsing

if TYPE_CHECKING:
    from collections.abc import Callable

    from atoll import governed
    from atoll import store as stores
    from atoll.governed.approval import Proposals

app = options.make_group("Review proposed changes: tools, skills, parameters.")

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Proposal id.")]
ContentArgument = Annotated[Path, typer.Argument(metavar="FILE", help="JSON file with the content to apply.")]


def open_evolver(run_store: "stores.Store") -> "governed.Evolver":
    """Returns an evolver that leaves every decision to the approvers."""
    from atoll import governed  # slow import: jsonschema
    from atoll.config import parameter_stores
    from atoll.governed import notifications

    params = governed.StoredParameters(run_store, check=parameter_stores.load_rules())
    return governed.Evolver(params, governed.DEFER, observer=notifications.make_observer(params))


@app.command("list")
def list_proposals(
    status: Annotated[
        str | None, typer.Option("--status", metavar="S", help="Only proposals with this status.")
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """List proposals, oldest first.

    \b
    Examples:
      atoll proposals list --status pending
      atoll proposals list --json
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.terminal import console
    from atoll.governed.approval.proposal import STATUSES

    if status is not None and status not in STATUSES:
        raise errors.SetupError(f"Status {status!r:.40} is unknown. Use one of {', '.join(STATUSES)}.")
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
    console.print_result_table(headings, rows, flexible="title", optional=("risk", "author"))


@app.command("show")
def show(
    proposal_id: IdArgument, store: options.StoreOption = options.DEFAULT_STORE, as_json: options.JsonOption = False
) -> None:
    """Show a proposal and its reviews.

    \b
    Examples:
      atoll proposals show p-0123456789ab
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.govern import proposal_text
    from atoll.cli.terminal import console as terminal

    with options.open_existing_store(store) as run_store:
        evolver = open_evolver(run_store)
        proposal = evolver.proposals.get(proposal_id)
        value_before = evolver.get_current_value(proposal)
        print_access_mode(run_store)
        if not as_json:
            proposal_text.print_proposal_text(run_store, evolver, proposal)
            return
    terminal.print_json({**proposal.to_json(), "value_before": value_before})


@app.command("submit")
def submit(
    kind: Annotated[str, typer.Argument(metavar="TYPE", help="new_tool, new_skill, optimize or self_adjust.")],
    content: ContentArgument,
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="Short title.")],
    rationale: Annotated[str, typer.Option("--rationale", metavar="TEXT", help="Why the change is needed.")] = "",
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Submit a proposal for approval.

    Authors cannot approve their own proposals.

    \b
    Examples:
      echo '{"key": "speed", "value": 3}' > faster.json
      atoll proposals submit optimize faster.json --title "Go faster" --author agent
    """  # noqa: D301 - \b keeps line breaks
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
    """Replace the content; earlier approvals become void.

    If you edit a proposal, you cannot approve it.
    """
    new_content, name = parsing.load_mapping(content), parsing.resolve_author(author)
    _change(store, as_json, lambda proposals: proposals.edit(proposal_id, new_content, name, reason))


@app.command("rebase")
def rebase(
    proposal_id: IdArgument,
    reason: options.ReasonOption,
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Base a proposal on the current versions; approvals become void."""
    name = parsing.resolve_author(author)
    _change(store, as_json, lambda proposals: proposals.rebase(proposal_id, name, reason))


@app.command("approve")
def approve(
    proposal_id: IdArgument,
    reason: options.ReasonOption,
    author: options.AuthorOption = None,
    content_hash: Annotated[
        str | None, typer.Option("--hash", metavar="H", help="Content hash that 'proposals show' printed.")
    ] = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> int:
    """Approve; apply when enough approvals are in.

    An approval is for the content that you read, so it needs the hash. Without --hash, a terminal shows the
    proposal and asks. Exits with status 1 if the application fails.

    \b
    Examples:
      atoll proposals approve p-0123456789ab --hash 5f2a... --reason "measured on the shadow run"
    """  # noqa: D301 - \b keeps line breaks
    from atoll.cli.govern import proposal_text

    with options.open_existing_store(store) as run_store:
        evolver = open_evolver(run_store)
        read_hash = content_hash or proposal_text.confirm(run_store, evolver, proposal_id)
        proposal = evolver.proposals.decide(
            proposal_id, parsing.resolve_author(author), approve=True, reason=reason, content_hash=read_hash
        )
        proposal = evolver.apply(proposal.id) if proposal.status == "approved" else proposal
        print_access_mode(run_store)
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
    """Reject a proposal."""
    name = parsing.resolve_author(author)
    _change(store, as_json, lambda proposals: proposals.decide(proposal_id, name, approve=False, reason=reason))


@app.command("withdraw")
def withdraw(
    proposal_id: IdArgument,
    reason: options.ReasonOption,
    author: options.AuthorOption = None,
    store: options.StoreOption = options.DEFAULT_STORE,
    as_json: options.JsonOption = False,
) -> None:
    """Withdraw your own proposal."""
    name = parsing.resolve_author(author)
    _change(store, as_json, lambda proposals: proposals.close(proposal_id, "withdrawn", name, reason))


@app.command("apply")
def apply(store: options.StoreOption = options.DEFAULT_STORE, as_json: options.JsonOption = False) -> None:
    """Apply approved proposals that are not applied yet."""
    from atoll.cli.terminal import console

    with options.open_existing_store(store) as run_store:
        proposals = open_evolver(run_store).apply_approved()
    if as_json:
        console.print_json([proposal.to_json() for proposal in proposals])
        return
    for proposal in proposals:
        print_proposal(proposal, False)
    if not proposals:
        console.print_note("No approved proposals to apply.")


def _change(store: str, as_json: bool, change: "Callable[[Proposals], governed.Proposal]") -> None:
    """Changes a proposal and prints it. Approvers are notified if it needs an approval again."""
    with options.open_existing_store(store) as run_store:
        evolver = open_evolver(run_store)
        proposal = change(evolver.proposals)
        evolver.notify(proposal)
    print_proposal(proposal, as_json)


def print_access_mode(run_store: "stores.Store") -> None:
    """Says on stderr that a store without principals does not check names."""
    from atoll import governed
    from atoll.cli.govern import audit

    audit.print_mode(governed.StoredParameters(run_store).get_access())


def print_proposal(proposal: Any, as_json: bool) -> None:
    from atoll.cli.terminal import console

    if as_json:
        console.print_json(proposal.to_json())
        return
    outcome_text = f": {proposal.outcome}" if proposal.outcome else ""
    console.print_result(f"{proposal.id} is {proposal.status}{outcome_text}")
    if proposal.status == "approved":
        console.print_note(
            "Its policy needs a canary. If 'atoll rollout status' shows none, start it: "
            f"atoll rollout start KEY VALUE --proposal {proposal.id}"
        )
    if proposal.status == "pending":
        console.print_note(
            f"A reviewer other than {proposal.author} decides: atoll proposals approve|reject {proposal.id}"
        )
        console.print_note(f"Show it: atoll proposals show {proposal.id}")
