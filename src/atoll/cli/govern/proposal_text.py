"""Proposals as text for approvers: changes by words, evidence, approvals, and the confirmation of the hash."""

import json
import sys
from typing import Any

from rich.text import Text

from atoll import errors, governed, store
from atoll.cli.terminal import console as terminal
from atoll.governed import approval

FIELDS = ("id", "status", "type", "risk", "author", "title", "description", "rationale", "outcome")
MAX_SAME = 400  # characters of unchanged text shown in full; longer ones are shortened
MARKS = {"same": ("", ""), "removed": ("[-", "-]"), "added": ("{+", "+}")}
STYLES = {"same": "", "removed": "red", "added": "green"}
CONFIRMATION_LENGTH = 8  # digits of the hash to type


def print_proposal_text(run_store: store.Store, evolver: governed.Evolver, proposal: governed.Proposal) -> None:
    """Prints a proposal completely. Lines of its texts are indented, so that they cannot imitate other lines."""
    console = terminal.get_stdout_console()

    def print_line(line: str) -> None:
        terminal.print_line(console, terminal.show_hidden(line))

    for name in FIELDS:
        if field_text := str(getattr(proposal, name)):
            print_line(f"{name}: {field_text}")
    print_line(f"content hash: {proposal.content_hash}")
    if proposal.editors:
        print_line(f"edited by: {', '.join(proposal.editors)}")
    for change in approval.describe_changes(evolver.store, proposal):
        stale_note = f", now at version {change.current_version}: rebase it" if change.is_stale else ""
        print_line(f"change of {change.key}, based on version {change.base_version}{stale_note}:")
        _print_difference(console, change)
    print_line("content:")
    for line in json.dumps(dict(proposal.content), ensure_ascii=False, indent=2).splitlines():
        print_line(f"  {line}")
    for item in proposal.evidence:
        print_line(f"evidence: {json.dumps(item, ensure_ascii=False)}")
    for review in proposal.reviews:
        verdict = "approved" if review.is_approval else "rejected"
        print_line(f"{review.by} {verdict} at {review.at:%Y-%m-%d %H:%M} UTC: {review.reason}")
    names = approval.list_possible_approvers(governed.StoredParameters(run_store), proposal)
    may_approve = f"; may approve: {', '.join(names)}" if names and proposal.status == "pending" else ""
    print_line(f"approvals: {len(proposal.approvals)} of {evolver.proposals.get_quorum(proposal)}{may_approve}")


def _print_difference(console: Any, change: approval.ChangeDescription) -> None:
    """Prints a change by words. Removed text is [-so-], added text is {+so+}."""
    line = Text("  ")
    for kind, text in change.segments:
        start, end = MARKS[kind]
        for index, part in enumerate(_shorten(_escape_marks(text), kind).split("\n")):
            if index:
                console.print(line, crop=False, soft_wrap=True)
                line = Text("  ")
            if part or kind != "same":
                line.append(f"{start}{terminal.show_hidden(part)}{end}", STYLES[kind])
    console.print(line, crop=False, soft_wrap=True)


def _escape_marks(text: str) -> str:
    """Escapes the marks of a difference in a text, so that a value cannot imitate them."""
    for mark in ("[-", "-]", "{+", "+}"):
        text = text.replace(mark, f"{mark[0]}\\{mark[1]}")
    return text


def _shorten(text: str, kind: str) -> str:
    if kind != "same" or len(text) <= MAX_SAME:
        return text
    num_left = len(text) - MAX_SAME
    return f"{text[: MAX_SAME // 2]} ... {num_left:,} unchanged characters ... {text[-MAX_SAME // 2 :]}"


def confirm(run_store: store.Store, evolver: governed.Evolver, proposal_id: str) -> str:
    """Shows a proposal on a terminal and returns its hash if the user types the beginning of it.

    Raises:
        SetupError: The input is not a terminal, or the user typed something else.
    """
    proposal = evolver.proposals.get(proposal_id)
    if not sys.stdin.isatty():
        raise errors.SetupError(
            f"An approval needs the hash of the content that you read. Run 'atoll proposals show {proposal_id}', then "
            "pass --hash."
        )
    print_proposal_text(run_store, evolver, proposal)
    start = proposal.content_hash[:CONFIRMATION_LENGTH]
    answer = input(f"To approve exactly this content, type {start}: ")
    if answer.strip() != start:
        raise errors.SetupError(f"{proposal_id} was not approved: you typed something else.")
    return proposal.content_hash
