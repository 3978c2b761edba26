"""Steering a run from outside, and approvals: polled, obeyed, recorded."""

import time
from collections.abc import Sequence
from typing import Any

from atoll import control, function, gate
from atoll.candidate import content_hash
from atoll.store import memory
from tests import toys


class Slow(toys.Walker):
    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        time.sleep(0.005)
        return super().propose(context)


def test_a_run_pauses_goes_on_and_stops_on_command() -> None:
    records, inbox = memory.MemoryJournal(), memory.MemoryInbox()
    evolver = toys.evolver(Slow(), records=records, iterations=None, inbox=inbox, num_parallel=2)
    evolver.start()
    toys.until(lambda: len(toys.of_kind(records, "applied")) > 3)
    inbox.post("pause")
    toys.until(lambda: bool(toys.of_kind(records, "controlled")))
    time.sleep(0.1)
    standing = len(toys.of_kind(records, "applied"))
    time.sleep(0.3)
    assert len(toys.of_kind(records, "applied")) == standing
    inbox.post("resume")
    toys.until(lambda: len(toys.of_kind(records, "applied")) > standing + 3)
    inbox.post("stop", reason="dinner")
    evolver.join()
    assert evolver.reason == "dinner"
    assert [record.data["kind"] for record in toys.of_kind(records, "controlled")] == ["pause", "resume", "stop"]


def test_a_setting_is_advised_to_every_later_step_and_survives_a_resume() -> None:
    records, inbox = memory.MemoryJournal(), memory.MemoryInbox()
    inbox.post("set", stride=0.25)
    toys.evolver(records=records, iterations=5, inbox=inbox).run()
    toys.evolver(records=records, iterations=10, inbox=inbox).run()
    assert [record.data["advice"]["stride"] for record in toys.of_kind(records, "begun")] == [0.25] * 10


def test_a_budget_is_raised_while_the_run_is_alive() -> None:
    records, inbox = memory.MemoryJournal(), memory.MemoryInbox()
    inbox.post("raise", iterations=20)
    evolver = toys.evolver(records=records, iterations=5, inbox=inbox)
    evolver.run()
    assert evolver.reason == "budget of 20 iterations used"


def test_a_raised_budget_is_never_lowered_by_a_resume() -> None:
    records, inbox = memory.MemoryJournal(), memory.MemoryInbox()
    inbox.post("raise", iterations=20)
    toys.evolver(records=records, iterations=0, inbox=inbox).run()
    again = toys.evolver(records=records, iterations=30, inbox=inbox)
    again.run()
    assert again.reason == "budget of 30 iterations used"


def test_a_paused_ordered_run_goes_on_as_if_it_had_not_been() -> None:
    whole, paused, inbox = memory.MemoryJournal(), memory.MemoryJournal(), memory.MemoryInbox()
    options: dict[str, Any] = {"ordered": True, "window": 6, "iterations": 60, "seed": 3}
    toys.evolver(Slow(), records=whole, **options).run()
    evolver = toys.evolver(Slow(), records=paused, inbox=inbox, num_parallel=4, **options)
    evolver.start()
    toys.until(lambda: len(toys.of_kind(paused, "applied")) > 10)
    inbox.post("pause")
    toys.until(lambda: bool(toys.of_kind(paused, "controlled")))
    time.sleep(0.1)
    inbox.post("resume")
    evolver.join()
    assert toys.results(paused) == toys.results(whole)


def test_a_command_that_makes_no_sense_is_refused_and_recorded() -> None:
    records, inbox = memory.MemoryJournal(), memory.MemoryInbox()
    inbox.post("raise", bananas=20)
    inbox.post("decide", candidate="1.0")
    evolver = toys.evolver(records=records, iterations=5, inbox=inbox)
    evolver.run()
    refusals = [record.data["refused"] for record in toys.of_kind(records, "controlled")]
    assert "bananas" in refusals[0]
    assert "KeyError" in refusals[1]


def approval(records: memory.MemoryJournal, id: str, verdict: str = "accept", **changed: str) -> dict[str, str]:
    content = next(record.data["content"] for record in toys.of_kind(records, "judged") if record.data["id"] == id)
    decision = {
        "candidate": id,
        "content_hash": content_hash(content),
        "verdict": verdict,
        "reason": "good",
        "by": "ann",
    }
    return decision | changed


def test_what_is_held_enters_only_when_somebody_approves_even_after_the_run() -> None:
    records, inbox = memory.MemoryJournal(), memory.MemoryInbox()
    held = {"gate": gate.require_all(gate.has_score, gate.hold_all)}
    first = toys.evolver(records=records, iterations=3, islands=held, inbox=inbox, num_islands=1)
    first.run()
    assert first.best_fn().candidate == first.islands[0].best_fn().candidate
    assert [record.data["id"] for record in toys.of_kind(records, "held")] == ["1.0", "2.0", "3.0"]

    inbox.post("decide", **approval(records, "2.0"))
    inbox.post("decide", **approval(records, "3.0", "reject"))
    second = toys.evolver(records=records, iterations=3, islands=held, inbox=inbox, num_islands=1)
    second.run()
    assert second.islands[0].population.get("2.0").score() is not None
    assert [record.data["decision"][0] for record in toys.of_kind(records, "decided")] == ["accept", "reject"]

    third = toys.evolver(records=records, iterations=3, islands=held, inbox=inbox, num_islands=1)
    third.run()
    assert third.islands[0].population.get("2.0").score() is not None
    assert len(toys.of_kind(records, "decided")) == 2


def test_an_approval_of_another_content_changes_nothing() -> None:
    records, inbox = memory.MemoryJournal(), memory.MemoryInbox()
    held = {"gate": gate.hold_all}
    toys.evolver(records=records, iterations=2, islands=held, inbox=inbox).run()
    inbox.post("decide", **approval(records, "1.0", content_hash="0" * 64))
    inbox.post("decide", **approval(records, "1.0", candidate="9.9"))
    inbox.post("decide", **approval(records, "1.0", verdict="maybe"))
    toys.evolver(records=records, iterations=2, islands=held, inbox=inbox).run()
    assert not toys.of_kind(records, "decided")


def test_without_an_approver_nothing_changes() -> None:
    records = memory.MemoryJournal()
    evolver = toys.evolver(records=records, iterations=30, islands={"gate": gate.hold_all})
    evolver.run()
    assert all(function.get_fitness(island.best_fn()) == -9.0 for island in evolver.islands)
    assert control.Usage().evaluations == 0
