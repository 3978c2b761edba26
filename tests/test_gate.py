"""Gates: verdicts with reasons, and the significance test."""

import itertools
from collections.abc import Sequence
from random import Random
from statistics import fmean

import pytest
import scipy  # it imports `stats` when a test uses it
from hypothesis import given
from hypothesis import strategies as st

from atoll import evaluation, gate, testing
from atoll.candidate import Candidate
from atoll.evaluation import Evaluation
from atoll.gate import Decision, Proposal


def scored(*scores: float) -> Evaluation:
    return Evaluation(fmean(scores), scores)


def proposal(result: Evaluation | None, *baselines: Evaluation, content: str = "new", id: str = "7.0") -> Proposal:
    known_candidates = (Candidate("1.0", "def f():\n    return 1"), Candidate("2.0", "other"))
    return Proposal(Candidate(id, content), result, baselines, known_candidates)


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


def test_has_score_accepts_scored_candidate() -> None:
    assert gate.has_score(proposal(scored(1.0))) == Decision("accept", "it ran", "ran")


def test_has_score_rejects_failure_with_reason() -> None:
    assert gate.has_score(proposal(evaluation.failed("it timed out"))) == Decision("reject", "it timed out", "ran")


def test_has_score_as_prefilter_accepts() -> None:
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
def test_improved_requires_margin_over_best_parent(score: float, verdict: str, reason: str) -> None:
    decision = gate.require_improvement(0.1)(
        proposal(scored(score), scored(1.0), scored(2.0), evaluation.failed("it crashed"))
    )
    assert (decision.verdict, decision.reason, decision.decided_by) == (verdict, reason, "improved")


def test_improved_rejects_equal_score() -> None:
    decision = gate.require_improvement()(proposal(scored(2.0), scored(2.0)))
    assert decision == Decision("reject", "2 is not above 2 + 0", "improved")
    assert gate.require_improvement()(proposal(scored(2.5), scored(2.0))) == Decision(
        "accept", "2.5 against 2", "improved"
    )
    assert gate.require_improvement()(proposal(scored(2e9), scored(1e9))) == Decision(
        "accept", "2e+09 against 1e+09", "improved"
    )


def test_improved_accepts_if_parents_have_no_score() -> None:
    expected = Decision("accept", "-1e+09 against None", "improved")
    assert gate.require_improvement()(proposal(scored(-1e9), evaluation.failed("it crashed"))) == expected
    assert gate.require_improvement()(proposal(scored(-1e9))) == expected


@pytest.mark.parametrize("result", [None, evaluation.failed("it crashed")])
def test_improved_rejects_missing_score(result: Evaluation | None) -> None:
    assert gate.require_improvement()(proposal(result)) == Decision("reject", "it has no score", "improved")


def p_of(decision: Decision) -> float:
    """Parses the p value in the reason, which has four digits."""
    return float(decision.reason.split()[2])


def by_hand(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Returns the exact one-sided p value of the paired sign-flip test."""
    differences = [mine - other for mine, other in zip(ours, theirs, strict=True)]
    flips = list(itertools.product((1, -1), repeat=len(differences)))
    sums = [sum(sign * item for sign, item in zip(signs, differences, strict=True)) for signs in flips]
    return sum(item >= sum(differences) - 1e-9 for item in sums) / len(flips)


@given(st.lists(st.tuples(st.integers(-20, 20), st.integers(-20, 20)), min_size=1, max_size=8))
def test_significant_matches_exact_permutation_test(pairs: list[tuple[int, int]]) -> None:
    ours, theirs = [float(mine) for mine, _ in pairs], [float(other) for _, other in pairs]
    decision = gate.require_significance()(proposal(scored(*ours), scored(*theirs)))
    exact = by_hand(ours, theirs)
    if sum(ours) > sum(theirs):
        assert p_of(decision) == pytest.approx(exact, abs=6e-5)
    assert decision.verdict == ("accept" if sum(ours) > sum(theirs) and exact <= 0.05 else "reject")


@pytest.mark.parametrize("size", [2, 5, 8])
@pytest.mark.parametrize("seed", range(3))
def test_significant_agrees_with_scipy(size: int, seed: int) -> None:
    rng = Random(f"{size}/{seed}")
    theirs = [rng.gauss() for _ in range(size)]
    ours = [their + rng.gauss(0.8, 0.5) for their in theirs]
    assert sum(ours) > sum(theirs)  # these seeds are a gain, larger or smaller
    exact = scipy.stats.permutation_test(
        (ours, theirs), lambda x, y: fmean(x) - fmean(y), permutation_type="samples", alternative="greater"
    )
    decision = gate.require_significance()(proposal(scored(*ours), scored(*theirs)))
    assert p_of(decision) == pytest.approx(exact.pvalue, abs=6e-5)


def test_significant_samples_many_inputs_reproducibly() -> None:
    rng = Random(1)
    theirs = [rng.gauss() for _ in range(40)]
    ours = [their + rng.gauss(0.3, 1.0) for their in theirs]
    requests = proposal(scored(*ours), scored(*theirs))
    near = scipy.stats.permutation_test(
        (ours, theirs),
        lambda x, y, axis: x.mean(axis) - y.mean(axis),
        permutation_type="samples",
        alternative="greater",
        n_resamples=20_000,
        rng=0,
    )
    decision = gate.require_significance()(requests)
    assert p_of(decision) == pytest.approx(near.pvalue, abs=0.01)
    assert gate.require_significance()(requests) == decision
    assert "40 inputs" in decision.reason


def test_significant_requires_enough_inputs() -> None:
    assert gate.require_significance()(proposal(scored(*[1.0] * 5), scored(*[0.0] * 5))).verdict == "accept"
    assert gate.require_significance()(proposal(scored(*[1.0] * 4), scored(*[0.0] * 4))).verdict == "reject"


def test_significant_compares_with_best_parent() -> None:
    weak, strong = scored(*[0.0] * 6), scored(*[2.0] * 6)
    assert gate.require_significance()(proposal(scored(*[1.0] * 6), weak)).verdict == "accept"
    assert gate.require_significance()(proposal(scored(*[1.0] * 6), weak, strong)).verdict == "reject"


def test_significant_rejects_equal_scores() -> None:
    decision = gate.require_significance()(proposal(scored(1.0, 2.0), scored(1.0, 2.0)))
    assert (decision.verdict, p_of(decision)) == ("reject", 1.0)


def test_significant_accepts_if_no_parent_has_score() -> None:
    for baselines in ((), (evaluation.failed("it crashed"),)):
        decision = gate.require_significance()(proposal(scored(1.0, 2.0), *baselines))
        assert decision == Decision("accept", "no scored parent to compare with", "significant")


def test_significant_rejects_different_inputs() -> None:
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


def test_significant_with_lower_alpha_accepts_less() -> None:
    requests = proposal(scored(*[1.0] * 5), scored(*[0.0] * 5))
    assert gate.require_significance(alpha=0.04)(requests).verdict == "accept"
    assert gate.require_significance(alpha=0.03)(requests).verdict == "reject"


def test_significant_accepts_p_equal_to_alpha_with_reason() -> None:
    requests = proposal(scored(*[1.0] * 5), scored(*[0.0] * 5))
    message = "p = 0.0312 on 5 inputs, alpha = 0.03125"
    assert gate.require_significance(alpha=1 / 32)(requests) == Decision("accept", message, "significant")
    assert gate.require_significance()(requests).reason == "p = 0.0312 on 5 inputs, alpha = 0.05"


@pytest.mark.parametrize(
    ("num_gains", "num_equal", "p"),
    [(12, 0, "0.0002"), (12, 9, "0.0002"), (13, 0, "0.0100"), (13, 4, "0.0100"), (6, 0, "0.0156")],
)
def test_significant_is_exact_up_to_12_inputs_and_sampled_above(num_gains: int, num_equal: int, p: str) -> None:
    ours, theirs = scored(*[1.0] * num_gains, *[3.0] * num_equal), scored(*[0.0] * num_gains, *[3.0] * num_equal)
    decision = gate.require_significance(resamples=99)(proposal(ours, theirs))
    assert decision.reason == f"p = {p} on {num_gains + num_equal} inputs, alpha = 0.05"


def test_significant_samples_depend_on_candidate_id() -> None:
    gains = [0.1 * index for index in range(-9, 12)]
    requests = [proposal(scored(*gains), scored(*[0.0] * 21), id=id) for id in ("7.0", "7.0", "8.0")]
    assert [p_of(gate.require_significance(resamples=199)(item)) for item in requests] == [0.25, 0.25, 0.235]
    by_default = [proposal(scored(*gains), scored(*[0.0] * 21), id=f"{number}.0") for number in range(6)]
    assert [p_of(gate.require_significance()(item)) for item in by_default] == [
        0.2405,
        0.2421,
        0.246,
        0.2461,
        0.2373,
        0.2373,
    ]


def test_parent_with_score_0_can_be_best() -> None:
    result = scored(*[0.5] * 6)
    zero, below = scored(*[0.0] * 6), scored(*[-1.0] * 6)
    above = Evaluation(0.25, (0.5,) * 6)
    assert gate.require_significance()(proposal(result, below, zero)).verdict == "accept"
    assert gate.require_significance()(proposal(result, zero, above)).verdict == "reject"
    assert gate.require_significance()(proposal(result, above, zero)).verdict == "reject"


def test_significant_rejects_lower_score() -> None:
    for lost in ((-1.0,) * 5, (-3.0, 1.0, 1.0, 0.5, 0.25), (-3.0, 1.0, 1.0, 0.5, 0.5)):
        decision = gate.require_significance()(proposal(scored(*lost), scored(*[0.0] * 5)))
        assert decision == Decision("reject", "p = 1.0000 on 5 inputs, alpha = 0.05", "significant")


@pytest.mark.parametrize("content", ["def f():\n    return 1", "def f():  return 1\n\n", "\tdef f(): return 1"])
def test_novel_ignores_white_space(content: str) -> None:
    assert gate.reject_duplicates(proposal(None, content=content)) == Decision("reject", "it repeats 1.0", "novel")


def test_novel_accepts_new_content() -> None:
    assert gate.reject_duplicates(proposal(None, content="def f():\n    return 2")) == Decision(
        "accept", "it is new", "novel"
    )


def says(verdict: gate.Verdict, name: str, events: list[str]) -> gate.Gate:
    def decide(proposal: Proposal) -> Decision:
        events.append(name)
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
def test_all_of_stops_at_rejection_and_keeps_first_hold(
    verdicts: list[gate.Verdict], by: tuple[str, str], num_asked: int
) -> None:
    events: list[str] = []
    gates = [says(verdict, str(position), events) for position, verdict in enumerate(verdicts)]
    decision = gate.require_all(*gates)(proposal(scored(1.0)))
    assert (decision.verdict, decision.decided_by) == by
    assert decision.reason == f"{by[1]} says so"
    assert events == [str(index) for index in range(num_asked)]


def test_all_of_without_gates_accepts() -> None:
    assert gate.require_all()(proposal(None)) == Decision("accept", "no gate", "all_of")


def test_hold_all_holds_and_reject_all_rejects() -> None:
    for value in (None, scored(1e9), evaluation.failed("it crashed")):
        assert gate.hold_all(proposal(value)) == Decision("hold", "waits for approval", "ask")
        assert gate.reject_all(proposal(value)) == Decision("reject", "nothing may change here", "deny")
