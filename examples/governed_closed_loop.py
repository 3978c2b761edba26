"""A bot learns the best length of its answers. Every change needs an approval.

    fast loop   question -> LLMGenerator -> CascadeEvaluator -> best answer -> LogSource, FeedbackChannel
    slow loop   LogReplayer -> Reflector -> ParameterEvolver -> ShadowRunner -> approval -> ParameterStore
    rollout     canary -> guardrail breached -> automatic rollback

A function replaces the LLM and a formula replaces the readers, so no API key is needed.
Run it with `.venv/bin/python examples/governed_closed_loop.py`.
"""

import json
import random
from datetime import UTC, datetime, timedelta
from functools import partial

from atoll import governed, llm
from atoll.candidate import Candidate
from atoll.governed import rollout
from atoll.governed.agent.generators import GenerateOptions, LLMGenerator
from atoll.governed.evidence import feedback, logs, reflectors, replay_report
from atoll.governed.evidence.replayer import LogReplayer
from atoll.governed.rollout import evaluators, parameter_evolver, proposers, shadow_result
from atoll.governed.rollout.shadow_runner import ShadowRunner

KEY, WORDS, GIFT = "answer/words", "words", "answer/gift"
LIKED_WORDS = 60  # the length that readers like best; the bot does not know it
MAX_WORDS = 300
START = datetime(2030, 1, 1, tzinfo=UTC)


def measure_satisfaction(words: float, rng: random.Random) -> float:
    """Returns how satisfied a reader is with an answer of this length."""
    return max(0.0, 1.0 - abs(words - LIKED_WORDS) / 100.0) + rng.gauss(0.0, 0.05)


def make_fake_llm(rng: random.Random) -> llm.LLM:
    """Returns an LLM that answers with lengths close to the requested one."""

    def respond(prompt: str) -> str:
        request = json.loads(next(line for line in prompt.splitlines() if line.startswith("{")))
        return json.dumps([{WORDS: max(1, round(request[WORDS] * rng.uniform(0.7, 1.3)))} for _ in range(3)])

    return llm.FunctionLLM(respond, name="fake")


def count_words(answer: Candidate) -> float:
    return float(json.loads(answer.content)[WORDS])


def make_evaluator(store: governed.ParameterStore) -> evaluators.CascadeEvaluator:
    """Returns a cascade: cheap rules first, then the weighted score of answers that break none."""
    rules = [evaluators.Rule(f"at most {MAX_WORDS} words", lambda answer: count_words(answer) <= MAX_WORDS)]
    # The weight is a parameter too, so it could evolve in the same way.
    weighted = evaluators.WeightedEvaluator(
        {WORDS: lambda answer: -count_words(answer) / 100.0},
        {WORDS: evaluators.ParameterWeight(store, "weights/words")},
    )
    rule_evaluator = evaluators.RuleEvaluator(rules)
    return evaluators.CascadeEvaluator([evaluators.CascadeStage(rule_evaluator), evaluators.CascadeStage(weighted)])


class FastLoop:
    """Answers readers, logs each decision, and records the readers' feedback."""

    def __init__(self, store: governed.ParameterStore, rng: random.Random) -> None:
        self._store, self._rng, self._now = store, rng, START
        self.log, self.channel = logs.MemoryLog(), feedback.MemoryFeedback(clock=lambda: self._now)
        self.generator, self.evaluator = LLMGenerator(make_fake_llm(rng)), make_evaluator(store)

    @property
    def now(self) -> datetime:
        return self._now

    def answer(self, number: int) -> None:
        """Answers one reader with the best of three candidates."""
        options = GenerateOptions(constraints=[f"at most {MAX_WORDS} words"])
        generated = self.generator.generate({WORDS: self._store.get(KEY).value}, 3, options)
        answers = [Candidate(candidate.id, json.dumps(candidate.payload)) for candidate in generated]
        best = max(answers, key=lambda answer: self.evaluator.score(answer).score or float("-inf"))
        reader, words = f"reader {number % 20}", count_words(best)
        self.log.append(logs.LogEntry(self._now, f"d{number}", reader, {WORDS: int(words)}))
        self._now += timedelta(minutes=1)
        satisfaction = measure_satisfaction(words, self._rng)
        self.channel.report(reader, "satisfaction", satisfaction, decision_id=f"d{number}")
        self._now += timedelta(minutes=9)


def replay_liked_lengths(
    log: logs.LogSource, channel: feedback.FeedbackChannel, until: datetime
) -> tuple[replay_report.ReplayReport, list[feedback.Feedback]]:
    """Replays the log and returns the report and the lengths that readers liked."""
    liked: list[feedback.Feedback] = []

    def collect(event: replay_report.ReplayEvent) -> None:
        if event.feedback is not None and event.feedback.value > 0.55:
            words = float(event.log.payload[WORDS])
            liked.append(feedback.Feedback(event.feedback.timestamp, event.log.entity, WORDS, words))

    replayer = LogReplayer(log, channel, window=timedelta(hours=1))
    replayer.register(reflectors.FuncReflector(collect))
    replayer.register(reflectors.AggregatorReflector())
    return replayer.replay(START, until), liked


def make_shadow_runner(store: governed.ParameterStore, rng: random.Random) -> ShadowRunner:
    """Returns a runner that compares two values on the same readers without changing anything."""
    readers = [Candidate(f"0.{index}", str(rng.uniform(0.8, 1.2))) for index in range(400)]
    return ShadowRunner(
        store,
        evaluators.FuncEvaluator(lambda reader: measure_satisfaction(float(reader.content), random.Random(reader.id))),
        shadow_result.FixedSampler(readers),
        lambda reader, words: Candidate(reader.id, str(float(reader.content) * words)),
        min_effect=0.02,
    )


def apply_proposal(
    evolver: parameter_evolver.ParameterEvolver, approval: parameter_evolver.Approval, proposal: governed.Proposal
) -> str:
    return f"{KEY}@{evolver.apply(proposal, approval).version}"


def run_slow_loop(store: governed.ParameterStore, fast: FastLoop, rng: random.Random) -> list[float]:
    """Runs the slow loop three times: evidence, proposal, shadow run, decision, new version."""
    evolver = parameter_evolver.ParameterEvolver(
        store, proposers.EMAProposer(alpha=0.2, metric=WORDS, get_initial_value=lambda key: store.get(key).value)
    )
    proposals = governed.Proposals(store)
    values = [store.get(KEY).value]
    for batch in range(3):
        for number in range(200):
            fast.answer(batch * 200 + number)
        report, liked = replay_liked_lengths(fast.log, fast.channel, fast.now)
        words, confidence = evolver.propose(KEY, liked[-100:])
        shadow = make_shadow_runner(store, rng).run_shadow(KEY, words)
        content = {"key": KEY, "value": round(words), "expected_version": store.get(KEY).version}
        rationale = f"{report.events} events, confidence {confidence:.2f}, shadow run: {shadow.verdict}"
        title = f"Answer in {round(words)} words"
        proposal = proposals.submit("optimize", title, content, evolver.name, rationale=rationale)
        # An approver decides. This one follows the verdict of the shadow run.
        is_better, content_hash = shadow.verdict == "promote", proposal.content_hash
        decided = proposals.decide(
            proposal.id, "ann", approve=is_better, reason=shadow.reason, content_hash=content_hash
        )
        print(f"{values[-1]:>4} -> {round(words):>4} words: {shadow.verdict}, {decided.status}")
        if decided.status == "approved":
            approval = parameter_evolver.Approval.for_proposal(
                decided, is_approved=True, approver="ann", reason=shadow.reason
            )
            proposals.apply(decided.id, partial(apply_proposal, evolver, approval))
        values.append(store.get(KEY).value)
    return values


def roll_out_harmful_value(store: governed.ParameterStore, rng: random.Random) -> str:
    """Rolls out a gift with every answer. It costs margin, so the canary is rolled back automatically."""
    now = [START]
    store.set(GIFT, 0, "no gifts", author="ann")
    store.lock(GIFT, "only a rollout may change it", author="ann")
    proposal = parameter_evolver.ParameterProposal("gift-1", GIFT, 1, "evolver", store.get(GIFT).version)
    approval = parameter_evolver.Approval.for_proposal(
        proposal, is_approved=True, approver="ann", reason="try it on a few readers"
    )
    plan = rollout.RolloutPlan([shadow_result.Guardrail("margin", 0.05)], needs_shadow=False, min_seconds=0.0)
    canary = rollout.Rollout(store, GIFT, clock=lambda: now[0])
    canary.start(proposal, approval, plan)
    for number in range(4000):
        now[0] += timedelta(seconds=30)
        reader = f"reader {number}"
        served = canary.value_for(reader)
        canary.observe(reader, "margin", rng.gauss(1.0 - 0.8 * served.value, 0.3))
        if number % 50 == 49 and canary.update().stage == "rolled_back":
            break
    state = canary.state()
    assert state is not None
    print(f"gift: {state.stage} after {number + 1} readers: {state.why}")
    return state.stage


def main() -> tuple[list[float], str]:
    """Runs both loops and returns the lengths used and the final stage of the harmful rollout."""
    rng, store = random.Random(1), governed.MemoryParameters()
    store.set(KEY, 150, "initial guess", author="ann")
    store.set("weights/words", 0.1, "shorter is slightly better", author="ann")
    values = run_slow_loop(store, FastLoop(store, rng), rng)
    return values, roll_out_harmful_value(store, rng)


if __name__ == "__main__":
    main()
