"""Gates: each verdict with its reason, and that significance means it."""

import itertools
from collections.abc import Sequence
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from atoll import evaluation, gate, testing
from atoll.candidate import Candidate
from atoll.evaluation import Evaluation
from atoll.gate import Decision, Proposal


def scored(*scores: float) -> Evaluation:
    return Evaluation(fmean(scores), scores)


def proposal(found: Evaluation | None, *rivals: Evaluation, content: str = "new", id: str = "7.0") -> Proposal:
    kin = (Candidate("1.0", "def f():\n    return 1"), Candidate("2.0", "other"))
    return Proposal(Candidate(id, content), found, rivals, kin)


class TestRan(testing.GateSuite):
    def make(self) -> gate.Gate:
        return gate.has_score


class TestImproved(testing.GateSuite):
    def make(self) -> gate.Gate:
        return gate.require_improvement(0.1)


class TestSignificant(testing.GateSuite):
    def make(self) -> gate.Gate:
        return gate.require_significance()


class TestNovel(testing.GateSuite):
    def make(self) -> gate.Gate:
        return gate.reject_duplicates


class TestAsk(testing.GateSuite):
    def make(self) -> gate.Gate:
        return gate.hold_all


class TestDeny(testing.GateSuite):
    def make(self) -> gate.Gate:
        return gate.reject_all


class TestAllOf(testing.GateSuite):
    def make(self) -> gate.Gate:
        return gate.require_all(gate.has_score, gate.reject_duplicates, gate.require_improvement(), gate.hold_all)


def test_what_has_a_score_ran() -> None:
    assert gate.has_score(proposal(scored(1.0))) == Decision("accept", "it ran", "ran")


def test_what_failed_did_not_run_for_that_reason() -> None:
    assert gate.has_score(proposal(evaluation.failed("it timed out"))) == Decision("reject", "it timed out", "ran")


def test_as_a_screen_ran_lets_everything_be_judged() -> None:
    assert gate.has_score(proposal(None)) == Decision("accept", "it ran", "ran")


@pytest.mark.parametrize(
    ("score", "verdict", "reason"),
    [
        (2.2, "accept", "2.2 against 2"),
        (2.1, "reject", "2.1 is not above 2 + 0.1"),
        (2.05, "reject", "2.05 is not above 2 + 0.1"),
        (1.0, "reject", "1 is not above 2 + 0.1"),
    ],
)
def test_improved_asks_for_more_than_the_best_parent_and_a_margin(score: float, verdict: str, reason: str) -> None:
    decision = gate.require_improvement(0.1)(
        proposal(scored(score), scored(1.0), scored(2.0), evaluation.failed("it crashed"))
    )
    assert (decision.verdict, decision.reason, decision.decided_by) == (verdict, reason, "improved")


def test_an_equal_is_no_improvement() -> None:
    decision = gate.require_improvement()(proposal(scored(2.0), scored(2.0)))
    assert decision == Decision("reject", "2 is not above 2 + 0", "improved")
    assert gate.require_improvement()(proposal(scored(2.5), scored(2.0))) == Decision(
        "accept", "2.5 against 2", "improved"
    )
    assert gate.require_improvement()(proposal(scored(2e9), scored(1e9))) == Decision(
        "accept", "2e+09 against 1e+09", "improved"
    )


def test_anything_improves_on_parents_without_a_score() -> None:
    expected = Decision("accept", "-1e+09 against None", "improved")
    assert gate.require_improvement()(proposal(scored(-1e9), evaluation.failed("it crashed"))) == expected
    assert gate.require_improvement()(proposal(scored(-1e9))) == expected


@pytest.mark.parametrize("found", [None, evaluation.failed("it crashed")])
def test_what_has_no_score_is_no_improvement(found: Evaluation | None) -> None:
    assert gate.require_improvement()(proposal(found)) == Decision("reject", "it has no score", "improved")


def p_of(decision: Decision) -> float:
    """Reads the p value out of the reason; the gate shows four digits."""
    return float(decision.reason.split()[2])


def by_hand(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Returns the exact one-sided p of the paired sign-flip test: every flip counts, also of equal pairs."""
    differences = [mine - other for mine, other in zip(ours, theirs, strict=True)]
    flips = list(itertools.product((1, -1), repeat=len(differences)))
    sums = [sum(sign * each for sign, each in zip(signs, differences, strict=True)) for signs in flips]
    return sum(each >= sum(differences) - 1e-9 for each in sums) / len(flips)


@given(st.lists(st.tuples(st.integers(-20, 20), st.integers(-20, 20)), min_size=1, max_size=8))
def test_significance_is_the_exact_permutation_test(pairs: list[tuple[int, int]]) -> None:
    ours, theirs = [float(mine) for mine, _ in pairs], [float(other) for _, other in pairs]
    decision = gate.require_significance()(proposal(scored(*ours), scored(*theirs)))
    exact = by_hand(ours, theirs)
    if sum(ours) > sum(theirs):
        assert p_of(decision) == pytest.approx(exact, abs=6e-5)
    assert decision.verdict == ("accept" if sum(ours) > sum(theirs) and exact <= 0.05 else "reject")


@pytest.mark.parametrize("size", [2, 5, 8])
@pytest.mark.parametrize("seed", range(3))
def test_significance_agrees_with_scipy(size: int, seed: int) -> None:
    rng = Random(f"{size}/{seed}")
    theirs = [rng.gauss() for _ in range(size)]
    ours = [each + rng.gauss(0.8, 0.5) for each in theirs]
    assert sum(ours) > sum(theirs)  # these seeds are a gain, larger or smaller
    exact = stats.permutation_test(
        (ours, theirs), lambda x, y: fmean(x) - fmean(y), permutation_type="samples", alternative="greater"
    )
    decision = gate.require_significance()(proposal(scored(*ours), scored(*theirs)))
    assert p_of(decision) == pytest.approx(exact.pvalue, abs=6e-5)


def test_with_many_inputs_significance_is_sampled_near_the_truth_and_the_same_each_time() -> None:
    rng = Random(1)
    theirs = [rng.gauss() for _ in range(40)]
    ours = [each + rng.gauss(0.3, 1.0) for each in theirs]
    asked = proposal(scored(*ours), scored(*theirs))
    near = stats.permutation_test(
        (ours, theirs),
        lambda x, y, axis: x.mean(axis) - y.mean(axis),
        permutation_type="samples",
        alternative="greater",
        n_resamples=20_000,
        rng=0,
    )
    decision = gate.require_significance()(asked)
    assert p_of(decision) == pytest.approx(near.pvalue, abs=0.01)
    assert gate.require_significance()(asked) == decision
    assert "40 inputs" in decision.reason


def test_a_clear_gain_on_enough_inputs_is_significant_and_on_few_it_is_not() -> None:
    assert gate.require_significance()(proposal(scored(*[1.0] * 5), scored(*[0.0] * 5))).verdict == "accept"
    assert gate.require_significance()(proposal(scored(*[1.0] * 4), scored(*[0.0] * 4))).verdict == "reject"


def test_significance_is_against_the_best_parent() -> None:
    weak, strong = scored(*[0.0] * 6), scored(*[2.0] * 6)
    assert gate.require_significance()(proposal(scored(*[1.0] * 6), weak)).verdict == "accept"
    assert gate.require_significance()(proposal(scored(*[1.0] * 6), weak, strong)).verdict == "reject"


def test_equal_scores_are_not_significant() -> None:
    decision = gate.require_significance()(proposal(scored(1.0, 2.0), scored(1.0, 2.0)))
    assert (decision.verdict, p_of(decision)) == ("reject", 1.0)


def test_without_a_parent_that_ran_there_is_nothing_to_compare_with() -> None:
    for rivals in ((), (evaluation.failed("it crashed"),)):
        decision = gate.require_significance()(proposal(scored(1.0, 2.0), *rivals))
        assert decision == Decision("accept", "no scored parent to compare with", "significant")


def test_what_cannot_be_compared_on_the_same_inputs_is_not_proven_better() -> None:
    for ours, rival in (
        (scored(1.0, 2.0), scored(1.0, 2.0, 3.0)),
        (Evaluation(1.0), Evaluation(0.0)),
        (Evaluation(1.0), scored(1.0)),
        (None, scored(1.0)),
        (None, Evaluation(0.0)),
    ):
        decision = gate.require_significance()(proposal(ours, rival))
        reason = "it cannot be compared with its parent on the same inputs"
        assert decision == Decision("reject", reason, "significant")


def test_a_stricter_alpha_accepts_less() -> None:
    asked = proposal(scored(*[1.0] * 5), scored(*[0.0] * 5))
    assert gate.require_significance(alpha=0.04)(asked).verdict == "accept"
    assert gate.require_significance(alpha=0.03)(asked).verdict == "reject"


def test_a_p_as_small_as_alpha_is_small_enough_and_the_reason_tells_both() -> None:
    asked = proposal(scored(*[1.0] * 5), scored(*[0.0] * 5))
    said = "p = 0.0312 on 5 inputs, alpha = 0.03125"
    assert gate.require_significance(alpha=1 / 32)(asked) == Decision("accept", said, "significant")
    assert gate.require_significance()(asked).reason == "p = 0.0312 on 5 inputs, alpha = 0.05"


@pytest.mark.parametrize(
    ("num_gains", "num_equal", "p"),
    [(12, 0, "0.0002"), (12, 9, "0.0002"), (13, 0, "0.0100"), (13, 4, "0.0100"), (6, 0, "0.0156")],
)
def test_up_to_12_inputs_that_differ_every_flip_counts_and_above_they_are_drawn(
    num_gains: int, num_equal: int, p: str
) -> None:
    ours, theirs = scored(*[1.0] * num_gains, *[3.0] * num_equal), scored(*[0.0] * num_gains, *[3.0] * num_equal)
    decision = gate.require_significance(resamples=99)(proposal(ours, theirs))
    assert decision.reason == f"p = {p} on {num_gains + num_equal} inputs, alpha = 0.05"


def test_what_is_drawn_comes_from_the_id_of_the_candidate() -> None:
    gains = [0.1 * place for place in range(-9, 12)]
    asked = [proposal(scored(*gains), scored(*[0.0] * 21), id=id) for id in ("7.0", "7.0", "8.0")]
    assert [p_of(gate.require_significance(resamples=199)(each)) for each in asked] == [0.25, 0.25, 0.235]
    by_default = [proposal(scored(*gains), scored(*[0.0] * 21), id=f"{number}.0") for number in range(6)]
    assert [p_of(gate.require_significance()(each)) for each in by_default] == [
        0.2405,
        0.2421,
        0.246,
        0.2461,
        0.2373,
        0.2373,
    ]


def test_a_parent_that_scores_0_may_be_the_best() -> None:
    found = scored(*[0.5] * 6)
    zero, below = scored(*[0.0] * 6), scored(*[-1.0] * 6)
    above = Evaluation(0.25, (0.5,) * 6)
    assert gate.require_significance()(proposal(found, below, zero)).verdict == "accept"
    assert gate.require_significance()(proposal(found, zero, above)).verdict == "reject"
    assert gate.require_significance()(proposal(found, above, zero)).verdict == "reject"


def test_a_loss_is_no_gain_whatever_the_flips_say() -> None:
    for lost in ((-1.0,) * 5, (-3.0, 1.0, 1.0, 0.5, 0.25), (-3.0, 1.0, 1.0, 0.5, 0.5)):
        decision = gate.require_significance()(proposal(scored(*lost), scored(*[0.0] * 5)))
        assert decision == Decision("reject", "p = 1.0000 on 5 inputs, alpha = 0.05", "significant")


@pytest.mark.parametrize("content", ["def f():\n    return 1", "def f():  return 1\n\n", "\tdef f(): return 1"])
def test_what_differs_by_white_space_only_is_not_novel(content: str) -> None:
    assert gate.reject_duplicates(proposal(None, content=content)) == Decision("reject", "it repeats 1.0", "novel")


def test_what_is_like_none_of_its_kin_is_novel() -> None:
    assert gate.reject_duplicates(proposal(None, content="def f():\n    return 2")) == Decision(
        "accept", "it is new", "novel"
    )


def says(verdict: gate.Verdict, name: str, heard: list[str]) -> gate.Gate:
    def decide(proposal: Proposal) -> Decision:
        heard.append(name)
        return Decision(verdict, f"{name} says so", name)

    return decide


@pytest.mark.parametrize(
    ("verdicts", "by", "num_asked"),
    [
        (["accept", "accept"], ("accept", "1"), 2),
        (["accept", "reject", "accept"], ("reject", "1"), 2),
        (["reject", "accept"], ("reject", "0"), 1),
        (["hold", "accept"], ("hold", "0"), 2),
        (["accept", "hold", "hold"], ("hold", "1"), 3),
        (["hold", "reject", "accept"], ("reject", "1"), 2),
    ],
)
def test_all_of_asks_in_order_ends_at_a_rejection_and_remembers_the_first_hold(
    verdicts: list[gate.Verdict], by: tuple[str, str], num_asked: int
) -> None:
    heard: list[str] = []
    gates = [says(verdict, str(place), heard) for place, verdict in enumerate(verdicts)]
    decision = gate.require_all(*gates)(proposal(scored(1.0)))
    assert (decision.verdict, decision.decided_by) == by
    assert decision.reason == f"{by[1]} says so"
    assert heard == [str(place) for place in range(num_asked)]


def test_all_of_nothing_accepts() -> None:
    assert gate.require_all()(proposal(None)) == Decision("accept", "no gate", "all_of")


def test_ask_holds_and_deny_rejects_whatever_it_is() -> None:
    for found in (None, scored(1e9), evaluation.failed("it crashed")):
        assert gate.hold_all(proposal(found)) == Decision("hold", "waits for approval", "ask")
        assert gate.reject_all(proposal(found)) == Decision("reject", "nothing may change here", "deny")
