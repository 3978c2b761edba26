import random
from dataclasses import replace
from typing import Any

import pytest

from atoll.survival import analysis, drives, risk
from atoll.survival.drives import Forecaster
from atoll.survival.grid import SIGNS
from atoll.survival.plan import ActionPlan, ExecutedAction, PlanningContext
from atoll.survival.thinkers.thinker import RandomThinker, RuleThinker
from atoll.survival.worlds.gridworld import GridWorld
from atoll.survival.worlds.world import REACH_FACING, Action
from tests.survival.episodes import build_observation, make_agent, make_loop, run_episodes


def make_features(path: float) -> tuple[float, ...]:
    return (1.0, path, *[0.0] * (len(drives.FEATURES) - 2))


def test_forecaster_learns_from_outcomes():
    rng, forecaster = random.Random(1), Forecaster(horizon=1)
    for tick in range(600):
        path = rng.random()
        forecaster.issue_forecast(tick, make_features(path))
        harm = {"lava": 0.3} if rng.random() < path**2 else {}
        forecaster.resolve(build_observation(tick=tick + 1, harm=harm))
    calibration = analysis.compute_calibration(forecaster.outcomes[300:])
    assert calibration.brier_skill > 0.2
    assert calibration.auroc > 0.75
    assert calibration.ece < 0.1


def test_underestimated_danger_is_corrected():  # B32
    forecaster = Forecaster(horizon=1)
    forecaster.weights[0] = -6.0
    before = forecaster.forecast(make_features(0.0))
    for tick in range(drives.WINDOW + 1):
        forecaster.issue_forecast(tick, make_features(0.0))
        forecaster.resolve(build_observation(tick=tick + 1, harm={"lava": 0.3} if tick % 2 else {}))
    assert forecaster.corrections >= 1
    assert forecaster.forecast(make_features(0.0)) > 5 * before


def test_forecast_resolves_by_damage_or_time():
    forecaster = Forecaster(horizon=5)
    forecaster.issue_forecast(0, make_features(0.1))
    forecaster.issue_forecast(3, make_features(0.2))
    forecaster.resolve(build_observation(tick=5))
    assert [outcome.happened for outcome in forecaster.outcomes] == [False]
    forecaster.resolve(build_observation(tick=6, harm={"gas": 0.1}))
    assert [outcome.happened for outcome in forecaster.outcomes] == [False, True]


def test_weights_are_restored_from_data():
    forecaster = Forecaster(5)
    forecaster.weights[1] = 9.0
    restored = Forecaster.from_data(forecaster.to_data(), 5)
    assert restored.weights == forecaster.weights


def test_forecasts_are_calibrated_after_some_episodes():
    summaries = run_episodes(6, seed=9)
    calibration = analysis.compute_calibration([outcome for summary in summaries[2:] for outcome in summary.forecasts])
    assert calibration.brier_skill > 0.2


class TestForecastMetrics:
    def test_perfect_and_useless_forecasts(self):
        perfect = analysis.compute_calibration([(1.0, True), (0.0, False)] * 10)
        assert (perfect.brier_skill, perfect.auroc, perfect.ece) == (1.0, 1.0, 0.0)
        useless = analysis.compute_calibration([(0.5, True), (0.5, False)] * 10)
        assert (useless.brier_skill, useless.auroc) == (0.0, 0.5)

    def test_empty_forecasts_have_no_skill(self):
        assert analysis.compute_calibration([]).brier_skill == 0.0

    def test_cvar_is_mean_of_worst_returns(self):
        assert analysis.compute_cvar(list(range(100)), 0.1) == pytest.approx(4.5)
        assert analysis.compute_cvar([]) == 0.0


def test_agent_evades_when_forecast_is_above_threshold_and_safer_action_exists():  # B24
    """The rate of the must: at least 80 % of the turns above the threshold that have a safer action."""
    num_choices, num_evaded = 0, 0
    for seed in range(12):
        agent = make_agent(GridWorld("tundra", seed))
        loop = make_loop(agent=agent, seed=seed, thinker=RandomThinker(random.Random(seed)))
        for tile in {f"sign {sign}" for sign in SIGNS}:
            stats = agent.beliefs.get_tile_stats(tile)
            stats.entered, stats.hurt, stats.damage = 9, 9, 3.0
        while not loop.observation.is_over:
            before = loop.observation
            forecasts = {
                action: agent.forecaster.forecast(risk.extract_plan_features(agent, before, ActionPlan("", (action,))))
                for action in agent.world.candidates(before)
                if action.name in ("wait", *agent.world.moves)
            }
            turn = loop.step()
            if turn.forecast > agent.settings.danger_threshold and min(forecasts.values()) < turn.forecast - 0.1:
                num_choices += 1
                num_evaded += any(step.status == "evaded" for step in turn.steps)
                assert turn.to_data()["evasion"]["forecast"] == round(turn.forecast, 4)
    assert num_choices >= 10
    assert num_evaded >= 0.8 * num_choices


def test_stated_risk_and_caution_enter_forecast_and_their_weights_learn():
    agent = make_agent()
    observation = agent.world.reset(3)
    agent.perceive(observation)
    calm = ActionPlan("go", (Action("north"),), stated_risk=0.1)
    tile = observation.tiles[observation.position[0], observation.position[1] - 1]
    worried = ActionPlan("go", (Action("north"),), stated_risk=0.9, cautions=(f"do not touch {tile}",))
    features = [risk.extract_plan_features(agent, observation, plan) for plan in (calm, worried)]
    low, high = map(agent.forecaster.forecast, features)
    assert high > low + 0.1
    before = list(agent.forecaster.weights)
    for tick in range(40):  # the statements are wrong every time
        agent.forecaster.issue_forecast(tick * 10, features[1])
        agent.forecaster.resolve(build_observation(tick=tick * 10 + 9))
    assert agent.forecaster.weights[-2] < before[-2]
    assert agent.forecaster.weights[-1] < before[-1]


def test_weights_of_version_01_are_padded():
    restored = Forecaster.from_data({"weights": [1.0] * 10, "firsts": [3.0, 1.0], "steps": 5}, 5)
    assert restored.weights == [1.0] * 10 + list(drives.INITIAL_WEIGHTS[10:])


def test_trust_in_stated_exploration_learns():
    agent = make_agent()
    step = ExecutedAction(Action("wait"), "done", build_observation(), build_observation(tick=2, harm={"lava": 0.2}))
    agent.follow_exploration(2.0, [step])
    assert agent.curiosity == 1.5
    agent.follow_exploration(2.0, [step])  # more exploration was followed by damage
    assert agent.exploration_trust < 0.5


def make_settled_agent(tiles: dict[tuple[int, int], str], harmful_tile: str = "") -> tuple[Any, Any]:
    """Returns an agent that knows some tiles, and an observation of them."""
    agent = make_agent()
    for tile in set(tiles.values()):
        stats = agent.beliefs.get_tile_stats(tile)
        stats.entered = 20
        if tile == harmful_tile:
            stats.hurt, stats.damage = 20, 7.0
    harm = {harmful_tile: 0.35} if tiles[0, 0] == harmful_tile else {}
    observation = build_observation(tiles=tiles, current_tile=tiles[0, 0], harm=harm, life=0.65)
    agent.perceive(observation)
    return agent, observation


def review(*args: Any) -> str:
    """Returns the reaction to a dangerous plan."""
    _, _, evasion = risk.review_danger(*args)
    assert evasion is not None
    return evasion.outcome


def test_agent_leaves_a_tile_that_hurts_instead_of_resting_or_gathering_there():
    agent, observation = make_settled_agent({(0, 0): "lava", (1, 0): "ground", (0, 1): "lava"}, "lava")
    context = PlanningContext(observation, "", agent.world.candidates(observation), "", (), (), None)
    plan = RuleThinker(random.Random(1)).plan(agent, context)
    assert [str(action) for action in plan.actions] == ["east"]
    stay, leave = (
        risk.extract_plan_features(agent, observation, ActionPlan("", (Action(name),))) for name in ("wait", "east")
    )
    assert agent.forecaster.forecast(stay) > agent.forecaster.forecast(leave)


def test_urgent_need_is_met_although_it_is_dangerous_unless_a_hunter_is_near():
    agent, observation = make_settled_agent({(0, 0): "ground", (1, 0): "thorns"}, "thorns")
    plan = ActionPlan("gather at pool for water", (Action("east"),))
    thirsty = replace(observation, resources={"water": 0.1})
    agent.settings = replace(agent.settings, danger_threshold=0.01)
    assert review(agent, thirsty, plan, [Action("wait")]) == "accepted"
    assert review(agent, observation, plan, [Action("wait")]) == "evaded"
    agent.beliefs.get_tile_stats("beast").hunts = True
    hunted = replace(thirsty, tiles={**thirsty.tiles, (0, 2): "beast"})
    assert review(agent, hunted, plan, [Action("wait")]) == "evaded"


def test_fight_with_an_adjacent_hunter_is_not_evaded_and_turning_to_it_enters_no_cell():
    agent, observation = make_settled_agent({(0, 0): "grass", (1, 0): "zombie", (-1, 0): "grass"})
    agent.world.reach, agent.world.things = REACH_FACING, ("do",)
    agent.beliefs.get_tile_stats("zombie").hunts = True
    agent.settings = replace(agent.settings, danger_threshold=0.01)
    fight, flee = ActionPlan("fight", (Action("east"), Action("do"))), ActionPlan("go", (Action("east"),))
    assert risk.trace_path(agent, observation, fight.actions) == []
    assert risk.trace_path(agent, observation, flee.actions) == [(1, 0)]
    assert risk.review_danger(agent, observation, fight, [Action("west")])[0] is fight
    assert review(agent, observation, flee, [Action("west")]) == "evaded"
    facing = replace(observation, facing=(1, 0))
    assert review(agent, facing, ActionPlan("fight", (Action("do"),)), [Action("west")]) != "evaded"
    twice = ActionPlan("fight", (Action("east"), Action("do"), Action("do")))
    assert review(agent, observation, twice, [Action("west")]) != "evaded"
    careless = ActionPlan("look", (Action("south"), Action("do")))  # no obstacle is there, so the agent moves
    assert risk.trace_path(agent, observation, careless.actions) == [(0, 1)]
    assert review(agent, observation, ActionPlan("nothing", ()), []) == "no safer action"
