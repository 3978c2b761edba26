"""The feedback loop: collect, format, plan, execute, format and reflect; once a turn, until the life is over."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from atoll import playbook
from atoll.candidate import JSON, NOTHING
from atoll.survival import foresight, learning
from atoll.survival.learning import Lesson
from atoll.survival.mind import Mind
from atoll.survival.plan import ActionPlan, Brief, Executed, LoopSnapshot, Reflection
from atoll.survival.reins import Telling
from atoll.survival.roles.engine import ExecutionEngine, unharmed
from atoll.survival.roles.formatters import ResultFormatter, StateFormatter
from atoll.survival.roles.presenter import notices
from atoll.survival.roles.reflector import LessonReflector
from atoll.survival.roles.rewards import RewardSynthesizer
from atoll.survival.roles.sentinel import Sentinel
from atoll.survival.roles.sketch import Sketch
from atoll.survival.thinkers.thinker import Thinker
from atoll.survival.worlds.world import Observation, Spot

type Reflecting = Callable[[playbook.Playbook, Sequence[Lesson]], Sequence[playbook.Delta]]


@dataclass(slots=True)
class Roles:
    """The parts of the loop, each of which can be replaced."""

    thinker: Thinker
    state: StateFormatter = field(default_factory=StateFormatter)
    result: ResultFormatter = field(default_factory=ResultFormatter)
    sentinel: Sentinel = field(default_factory=Sentinel)
    rewards: RewardSynthesizer = field(default_factory=RewardSynthesizer)
    reflector: Reflecting = field(default_factory=lambda: LessonReflector().reflect)
    sketch: Sketch = field(default_factory=Sketch)


class FeedbackLoop:
    """The Executor of ACE: lives turn by turn with a mind and its roles.

    Attributes:
        seen: The last observation.
        turn: How many turns there were.
        encounters, avoided: Turns in which danger was near, and those of them that went by without damage.
        is_told: Whether turns are told in words.
        telling: How much of them, and of what a watcher is notified.
        agent: Who this is, where several live at once.
    """

    def __init__(self, mind: Mind, roles: Roles, start: Observation, episode: int = 0, *, is_told: bool = True) -> None:
        self.mind, self.roles, self.episode, self.is_told = mind, roles, episode, is_told
        self.telling, self.agent = Telling(), 0
        self._engine = ExecutionEngine(roles.sentinel)
        self.seen, self.turn = roles.sentinel.listen(start), 0
        self.encounters = self.avoided = 0
        self._previous: Reflection | None = None
        self._logged = 0
        self.mind.perceive(self.seen)

    def step(self) -> LoopSnapshot:
        """Lives one turn."""
        brief = self._collect()
        plan = self.roles.sentinel.admit(self.mind, self.roles.thinker.plan(self.mind, brief), brief.observation)
        near = self._is_danger_near(brief.observation)
        forecast = self._foresee(brief.observation, plan)
        steps = self._engine.run(self.mind, plan, unharmed(brief.observation))
        lessons = self._take_in(steps)
        self.seen, self.turn = steps[-1].after, self.turn + 1
        return self._look_back(brief, plan, steps, lessons, forecast, near)

    def _collect(self) -> Brief:
        """Steps 1 and 2: what there is, what is remembered of it, in words."""
        mind, seen = self.mind, self.seen
        if not self.is_told:  # nobody reads the words: without a model and without a watcher they are left out
            return Brief(seen, "", mind.world.candidates(seen), "", (), (), self._previous)
        forecast = mind.forecaster.forecast(foresight.features(mind, seen, ()))
        summary = self.roles.state.format(self.roles.state.slots(mind, seen, forecast))
        words = [*dict.fromkeys(seen.looks.values()), *seen.resources]
        excerpts = mind.shelf.excerpts(" ".join(words)) if mind.temper.has_playbook else ()
        schema = self.roles.rewards.table(mind)
        return Brief(
            seen, summary, mind.world.candidates(seen), schema, mind.memory.relevant(words), excerpts, self._previous
        )

    def _foresee(self, seen: Observation, plan: ActionPlan) -> float:
        spot, path = seen.position, list[Spot]()
        for action in plan.actions:
            if action.name in self.mind.world.moves:
                dx, dy = self.mind.world.moves[action.name]
                spot = (spot[0] + dx, spot[1] + dy)
                path.append(spot)
        return self.mind.forecaster.state(seen.tick, foresight.features(self.mind, seen, path))

    def _is_danger_near(self, seen: Observation) -> bool:
        mind, (x, y) = self.mind, seen.position
        beside = [seen.looks.get((x + dx, y + dy), "") for dx, dy in mind.world.moves.values()]
        facts = mind.lore.facts
        return any(look in facts and facts[look].hurt and mind.lore.risk(look, 0.0) > 0.5 for look in beside)

    def _take_in(self, steps: Sequence[Executed]) -> list[Lesson]:
        """Learns from what was done, action by action."""
        lessons: list[Lesson] = []
        for step in steps:
            if step.status == "blocked":
                continue
            self.mind.forecaster.settle(step.after)
            lessons += learning.learn(self.mind, step)
            lessons += learning.renewed(self.mind, self.mind.perceive(step.after))
            for what in (*step.after.gained, *step.after.unlocked):
                self.mind.memory.explored(f"{what} by {step.action} at {step.before.here or 'nothing'}")
        return lessons

    def _deltas(self, lessons: Sequence[Lesson], report: str) -> Sequence[playbook.Delta]:
        """Returns what the turn would change in the playbook: what was lived, and what a thinker says it means."""
        if not self.mind.temper.has_playbook:
            return ()
        deltas = list(self.roles.reflector(self.mind.shelf.playbook, lessons))
        for said in self._previous.lessons if self._previous else ():
            deltas.append(playbook.add("reflections", said, evidence=report[:200], source="reflection"))
        return deltas

    def _look_back(
        self,
        brief: Brief,
        plan: ActionPlan,
        steps: Sequence[Executed],
        lessons: Sequence[Lesson],
        forecast: float,
        near: bool,
    ) -> LoopSnapshot:
        """Step 5: rewards, a report, a reflection, deltas; all of it in a snapshot."""
        mind, roles = self.mind, self.roles
        is_hurt = any(learning.hurt_by_ground(mind, step.after) for step in steps)
        self.encounters += near or is_hurt
        self.avoided += near and not is_hurt
        rewards = roles.rewards.add(mind, steps, is_defended=near and not is_hurt)
        bits = mind.atlas.bits
        report = roles.result.format(steps, rewards["external"], bits, forecast) if self.is_told else ""
        self._previous = roles.thinker.reflect(mind, report, steps)
        for alert in self._previous.alerts:
            mind.memory.alarm(alert, self.seen.tick)
        verdicts = mind.shelf.apply(self._deltas(lessons, report))
        events = tuple(roles.sentinel.events[self._logged :])
        self._logged = len(roles.sentinel.events)
        told = self.is_told
        warnings = tuple(roles.rewards.warnings(mind, forecast)) if told else ()
        return LoopSnapshot(
            self.episode,
            self.turn,
            self.seen,
            brief.summary,
            plan,
            tuple(steps),
            self._previous,
            forecast,
            rewards,
            {**roles.rewards.board(), "curiosity": round(mind.coefficient, 3)} if told else {},
            warnings,
            tuple(verdict.to_data() for verdict in verdicts) if told else (),
            mind.shelf.stats() if told else {},
            events,
            **(self._shown(brief, forecast, events, warnings) if told else {}),
        )

    def _shown(
        self, brief: Brief, forecast: float, events: Sequence[Mapping[str, JSON]], warnings: Sequence[str]
    ) -> dict[str, Any]:
        """Returns what only a watcher wants of a turn."""
        mind, level = self.mind, self.telling.log_detail
        score = self.roles.rewards.totals.get("external", 0.0) if mind.world.is_scored_by_reward else self.seen.tick
        temper, telling = mind.temper, self.telling
        limits = {"danger_threshold": temper.danger_threshold, "exploration_bonus": temper.exploration_bonus}
        in_force = {**limits, "log_detail": telling.log_detail, "notifications": telling.notifications}
        given = {
            "candidates": [str(each) for each in brief.candidates],
            "memory": list(brief.memory),
            "playbook": list(brief.playbook),
            "rewards": brief.reward_schema,
        }
        alarms = notices(telling.notifications, self.seen, forecast, temper.danger_threshold, events, warnings)
        return {
            "view": {**self.roles.sketch.draw(mind, self.seen, score), "in_force": in_force},
            "notices": tuple(alarms),
            "given": given if level == "verbose" else NOTHING,
            "is_quiet": level == "quiet",
            "agent": self.agent,
        }
