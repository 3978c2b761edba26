"""Commands and approvals during a run."""

import time
from collections.abc import Sequence
from typing import Any

from atoll import control, function, gate
from atoll.candidate import content_hash
from atoll.store import memory
from tests import fixtures


class Slow(fixtures.Walker):
    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        time.sleep(0.005)
        return super().propose(context)


def test_commands_pause_resume_and_stop_run() -> None:
    records, inbox = memory.MemoryJournal(), memory.MemoryInbox()
    evolver = fixtures.make_evolver(Slow(), records=records, iterations=None, inbox=inbox, num_parallel=2)
    evolver.start()
    fixtures.wait_until(lambda: len(fixtures.list_records(records, "applied")) > 3)
    inbox.post("pause")
    fixtures.wait_until(lambda: bool(fixtures.list_records(records, "controlled")))
    time.sleep(0.1)
    standing = len(fixtures.list_records(records, "applied"))
    time.sleep(0.3)
    assert len(fixtures.list_records(records, "applied")) == standing
    inbox.post("resume")
    fixtures.wait_until(lambda: len(fixtures.list_records(records, "applied")) > standing + 3)
    inbox.post("stop", reason="dinner")
    evolver.join()
    assert evolver.reason == "dinner"
    assert [record.data["kind"] for record in fixtures.list_records(records, "controlled")] == [
        "pause",
        "resume",
        "stop",
    ]


def test_setting_applies_to_later_iterations_and_survives_resume() -> None:
    records, inbox = memory.MemoryJournal(), memory.MemoryInbox()
    inbox.post("set", stride=0.25)
    fixtures.make_evolver(records=records, iterations=5, inbox=inbox).run()
    fixtures.make_evolver(records=records, iterations=10, inbox=inbox).run()
    assert [record.data["advice"]["stride"] for record in fixtures.list_records(records, "begun")] == [0.25] * 10


def test_budget_can_be_raised_during_run() -> None:
    records, inbox = memory.MemoryJournal(), memory.MemoryInbox()
    inbox.post("raise", iterations=20)
    evolver = fixtures.make_evolver(records=records, iterations=5, inbox=inbox)
    evolver.run()
    assert evolver.reason == "budget of 20 iterations used"


def test_resume_never_lowers_raised_budget() -> None:
    records, inbox = memory.MemoryJournal(), memory.MemoryInbox()
    inbox.post("raise", iterations=20)
    fixtures.make_evolver(records=records, iterations=0, inbox=inbox).run()
    again = fixtures.make_evolver(records=records, iterations=30, inbox=inbox)
    again.run()
    assert again.reason == "budget of 30 iterations used"


def test_pause_does_not_change_ordered_run() -> None:
    full, paused, inbox = memory.MemoryJournal(), memory.MemoryJournal(), memory.MemoryInbox()
    options: dict[str, Any] = {"ordered": True, "window": 6, "iterations": 60, "seed": 3}
    fixtures.make_evolver(Slow(), records=full, **options).run()
    evolver = fixtures.make_evolver(Slow(), records=paused, inbox=inbox, num_parallel=4, **options)
    evolver.start()
    fixtures.wait_until(lambda: len(fixtures.list_records(paused, "applied")) > 10)
    inbox.post("pause")
    fixtures.wait_until(lambda: bool(fixtures.list_records(paused, "controlled")))
    time.sleep(0.1)
    inbox.post("resume")
    evolver.join()
    assert fixtures.list_results(paused) == fixtures.list_results(full)


def test_invalid_command_is_rejected_and_recorded() -> None:
    records, inbox = memory.MemoryJournal(), memory.MemoryInbox()
    inbox.post("raise", bananas=20)
    inbox.post("decide", candidate="1.0")
    evolver = fixtures.make_evolver(records=records, iterations=5, inbox=inbox)
    evolver.run()
    refusals = [record.data["refused"] for record in fixtures.list_records(records, "controlled")]
    assert "bananas" in refusals[0]
    assert "KeyError" in refusals[1]


def approval(records: memory.MemoryJournal, id: str, verdict: str = "accept", **changed: str) -> dict[str, str]:
    content = next(
        record.data["content"] for record in fixtures.list_records(records, "judged") if record.data["id"] == id
    )
    decision = {
        "candidate": id,
        "content_hash": content_hash(content),
        "verdict": verdict,
        "reason": "good",
        "by": "ann",
    }
    return decision | changed


def test_held_candidate_enters_after_approval() -> None:
    records, inbox = memory.MemoryJournal(), memory.MemoryInbox()
    held = {"gate": gate.require_all(gate.has_score, gate.hold_all)}
    first = fixtures.make_evolver(records=records, iterations=3, islands=held, inbox=inbox, num_islands=1)
    first.run()
    assert first.best_fn().candidate == first.islands[0].best_fn().candidate
    assert [record.data["id"] for record in fixtures.list_records(records, "held")] == ["1.0", "2.0", "3.0"]

    inbox.post("decide", **approval(records, "2.0"))
    inbox.post("decide", **approval(records, "3.0", "reject"))
    second = fixtures.make_evolver(records=records, iterations=3, islands=held, inbox=inbox, num_islands=1)
    second.run()
    assert second.islands[0].population.get("2.0").score() is not None
    assert [record.data["decision"][0] for record in fixtures.list_records(records, "decided")] == ["accept", "reject"]

    third = fixtures.make_evolver(records=records, iterations=3, islands=held, inbox=inbox, num_islands=1)
    third.run()
    assert third.islands[0].population.get("2.0").score() is not None
    assert len(fixtures.list_records(records, "decided")) == 2


def test_approval_of_other_content_changes_nothing() -> None:
    records, inbox = memory.MemoryJournal(), memory.MemoryInbox()
    held = {"gate": gate.hold_all}
    fixtures.make_evolver(records=records, iterations=2, islands=held, inbox=inbox).run()
    inbox.post("decide", **approval(records, "1.0", content_hash="0" * 64))
    inbox.post("decide", **approval(records, "1.0", candidate="9.9"))
    inbox.post("decide", **approval(records, "1.0", verdict="maybe"))
    fixtures.make_evolver(records=records, iterations=2, islands=held, inbox=inbox).run()
    assert not fixtures.list_records(records, "decided")


def test_approval_without_author_changes_nothing() -> None:
    records = memory.MemoryJournal()
    evolver = fixtures.make_evolver(records=records, iterations=30, islands={"gate": gate.hold_all})
    evolver.run()
    assert all(function.get_fitness(island.best_fn()) == -9.0 for island in evolver.islands)
    assert control.Usage().evaluations == 0
