"""A bot that learns how long its answers should be, and never by itself: nine contracts and a person, in one loop.

    fast   ask -> Generator -> Evaluator -> best -> LogSource, FeedbackChannel
    slow   LogReplayer -> Reflector -> ParameterEvolver -> ShadowRunner -> approval -> ParameterStore
    after  canary -> a guardrail breaks -> rolled back by itself

No model and no network: readers are a formula. Run it with `.venv/bin/python examples/governed_closed_loop.py`.
"""

import random
from datetime import UTC, datetime, timedelta
from functools import partial

from atoll import governed
from atoll.candidate import Candidate
from atoll.governed import rollout
from atoll.governed.evidence import feedback, logs, reflectors, replay_report
from atoll.governed.evidence import replayer as evidence_replayer
from atoll.governed.rollout import evaluators, parameter_evolver, proposers, shadow_result
from atoll.governed.rollout import shadow_runner as rollout_shadow_runner

KEY, WORDS, GIFT = "answer/words", "words", "answer/gift"
LIKED_WORDS = 60  # what readers like best; nobody tells the bot
START = datetime(2030, 1, 1, tzinfo=UTC)


def satisfaction(words: float, dice: random.Random) -> float:
    """Returns how content a reader is with an answer of so many words."""
    return max(0.0, 1.0 - abs(words - LIKED_WORDS) / 100.0) + dice.gauss(0.0, 0.05)


def answers(words: float, count: int, dice: random.Random) -> list[Candidate]:
    """The Generator: answers of about the length that the parameter says."""
    lengths = [max(1, round(words * dice.uniform(0.7, 1.3))) for _ in range(count)]
    return [Candidate(f"0.{place}", str(length)) for place, length in enumerate(lengths)]


class FastLoop:
    """Answers readers, logs each decision, and hears later how it was liked."""

    def __init__(self, store: governed.ParameterStore, dice: random.Random) -> None:
        self._store, self._dice, self._now = store, dice, START
        self.log, self.channel = logs.MemoryLog(), feedback.MemoryFeedback(clock=lambda: self._now)
        # The weight is a parameter too: it could be evolved in the same way.
        features = {WORDS: lambda answer: -float(answer.content) / 100.0}
        self.evaluator = evaluators.WeightedEvaluator(
            features, {WORDS: evaluators.ParameterWeight(store, "weights/words")}
        )

    @property
    def now(self) -> datetime:
        return self._now

    def answer(self, number: int) -> None:
        """Answers one reader with the best of three."""
        words = self._store.get(KEY).value
        best = max(answers(words, 3, self._dice), key=lambda each: self.evaluator.score(each).score or 0.0)
        reader = f"reader {number % 20}"
        self.log.append(logs.LogEntry(self._now, f"d{number}", reader, {WORDS: int(best.content)}))
        self._now += timedelta(minutes=1)
        liked = satisfaction(float(best.content), self._dice)
        self.channel.report(reader, "satisfaction", liked, decision_id=f"d{number}")
        self._now += timedelta(minutes=9)


def lengths_that_pleased(
    log: logs.LogSource, channel: feedback.FeedbackChannel, until: datetime
) -> tuple[replay_report.ReplayReport, list[feedback.Feedback]]:
    """The LogReplayer and two Reflectors: what came of each decision, and the lengths that were liked."""
    pleased: list[feedback.Feedback] = []

    def note(event: replay_report.ReplayEvent) -> None:
        if event.feedback is not None and event.feedback.value > 0.55:
            words = float(event.log.payload[WORDS])
            pleased.append(feedback.Feedback(event.feedback.timestamp, event.log.entity, WORDS, words))

    replayer = evidence_replayer.LogReplayer(log, channel, window=timedelta(hours=1))
    replayer.register(reflectors.FuncReflector(note))
    replayer.register(reflectors.AggregatorReflector())
    return replayer.replay(START, until), pleased


def shadow_runner(store: governed.ParameterStore, dice: random.Random) -> rollout_shadow_runner.ShadowRunner:
    """Compares two values on the same readers, without changing anything."""
    readers = [Candidate(f"0.{place}", str(dice.uniform(0.8, 1.2))) for place in range(400)]
    return rollout_shadow_runner.ShadowRunner(
        store,
        evaluators.FuncEvaluator(lambda each: satisfaction(float(each.content), random.Random(each.id))),
        shadow_result.FixedSampler(readers),
        lambda each, words: Candidate(each.id, str(float(each.content) * words)),
        min_effect=0.02,
    )


def set_by(
    slow: parameter_evolver.ParameterEvolver, approval: parameter_evolver.Approval, wish: governed.Proposal
) -> str:
    """Carries an approved wish out and says what it made."""
    return f"{KEY}@{slow.apply(wish, approval).version}"


def propose_until_liked(store: governed.ParameterStore, fast: FastLoop, dice: random.Random) -> list[float]:
    """The slow loop, three times round: evidence, a proposal, its shadow, somebody's decision, a new version."""
    slow = parameter_evolver.ParameterEvolver(
        store, proposers.EMAProposer(alpha=0.2, metric=WORDS, get_initial_value=lambda key: store.get(key).value)
    )
    desk = governed.Proposals(store)
    values = [store.get(KEY).value]
    for turn in range(3):
        for number in range(200):
            fast.answer(turn * 200 + number)
        report, pleased = lengths_that_pleased(fast.log, fast.channel, fast.now)
        words, confidence = slow.propose(KEY, pleased[-100:])
        seen = shadow_runner(store, dice).run_shadow(KEY, words)
        content = {"key": KEY, "value": round(words), "expected_version": store.get(KEY).version}
        why = f"{report.events} events, confidence {confidence:.2f}, shadow run: {seen.verdict}"
        wish = desk.submit("optimize", f"Answer in {round(words)} words", content, slow.name, rationale=why)
        # Here a person decides; this one trusts the shadow run.
        decided = desk.decide(wish.id, "ann", approve=seen.verdict == "promote", reason=seen.reason)
        print(f"{values[-1]:>4} -> {round(words):>4} words: {seen.verdict}, {decided.status}")
        if decided.status == "approved":
            yes = parameter_evolver.Approval.for_proposal(decided, is_approved=True, approver="ann", reason=seen.reason)
            desk.apply(decided.id, partial(set_by, slow, yes))
        values.append(store.get(KEY).value)
    return values


def roll_out_a_bad_idea(store: governed.ParameterStore, dice: random.Random) -> str:
    """A gift with every answer: readers like it and the till does not, so the canary goes back by itself."""
    moment = [START]
    store.set(GIFT, 0, "nothing is given away", author="ann")
    store.lock(GIFT, "only a rollout may change it", author="ann")
    idea = parameter_evolver.ParameterProposal("gift-1", GIFT, 1, "evolver", store.get(GIFT).version)
    yes = parameter_evolver.Approval.for_proposal(idea, is_approved=True, approver="ann", reason="let us see")
    plan = rollout.RolloutPlan([shadow_result.Guardrail("margin", 0.05)], needs_shadow=False, min_seconds=0.0)
    canary = rollout.Rollout(store, GIFT, clock=lambda: moment[0])
    canary.start(idea, yes, plan)
    for number in range(4000):
        moment[0] += timedelta(seconds=30)
        reader = f"reader {number}"
        served = canary.value_for(reader)
        canary.observe(reader, "margin", dice.gauss(1.0 - 0.8 * served.value, 0.3))
        if number % 50 == 49 and canary.update().stage == "rolled_back":
            break
    state = canary.state()
    assert state is not None
    print(f"gift: {state.stage} after {number + 1} readers: {state.why}")
    return state.stage


def main() -> tuple[list[float], str]:
    """Runs both loops and returns the lengths that were tried, and how the bad idea ended."""
    dice, store = random.Random(1), governed.MemoryParameters()
    store.set(KEY, 150, "a first guess", author="ann")
    store.set("weights/words", 0.1, "shorter is a little better", author="ann")
    values = propose_until_liked(store, FastLoop(store, dice), dice)
    return values, roll_out_a_bad_idea(store, dice)


if __name__ == "__main__":
    main()
