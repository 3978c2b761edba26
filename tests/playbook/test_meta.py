"""A playbook as the memory of a search, in the place of its notes."""

from random import Random

from atoll import function, gate, playbook, store, testing
from atoll.candidate import Candidate
from atoll.evaluation import ZERO_COST


def outcome(step, note, score, parent=1.0, verdict="accept"):
    child = testing.make_evaluated_function(score, id=f"{step}.0")
    born = Candidate(f"{step}.0", "text", meta={"note": note})
    child = child.clone().with_evaluation(born, child.evaluation, score)
    decision = gate.Decision(verdict, "", "test")
    return function.IterationResult(
        step, 0, [testing.make_evaluated_function(parent)], {}, [(child, decision)], None, ZERO_COST
    )


def test_what_helped_and_what_did_not_is_advised_and_kept_once():
    notes = playbook.PlaybookStore(store.MemoryVersions())
    learner = playbook.MetaNotes(notes, "run")
    learner.learn(outcome(1, "Give two examples.", 2.0))
    learner.learn(outcome(2, "Ask for prose.", 0.5))
    learner.learn(outcome(3, "give two examples", 3.0))
    learner.learn(outcome(4, "", 3.0))
    assert learner.advise(Random(0)) == {"worked": ["Give two examples."], "failed": ["Ask for prose."]}
    assert notes.current().bullets["worked-00001"].helpful == 2


def test_a_note_that_worked_and_now_fails_speaks_against_itself():
    notes = playbook.PlaybookStore(store.MemoryVersions())
    learner = playbook.MetaNotes(notes, "run")
    learner.learn(outcome(1, "Give two examples.", 2.0))
    learner.learn(outcome(2, "Give two examples.", 0.0, verdict="reject"))
    (only,) = notes.current().bullets.values()
    assert (only.section, only.helpful, only.harmful) == ("worked", 1, 1)


def test_a_step_that_is_learnt_again_changes_nothing():
    kept = store.MemoryVersions()
    for _ in range(2):
        playbook.MetaNotes(playbook.PlaybookStore(kept), "run").learn(outcome(1, "Give two examples.", 2.0))
    assert playbook.PlaybookStore(kept).current().bullets["worked-00001"].helpful == 1
