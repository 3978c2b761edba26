"""Survival agents on paired seeds that were never used in development: lifetime, and effects of fear and curiosity.

A seed is a run: it draws the family (meaning of the signs) and the worlds of its episodes, equal for every contender. A
run counts with the mean over its episodes, including the first ones, in which the agent knows nothing. Intervals are
95 % paired bootstraps over seeds. The three worlds take turns by seed.
"""

import argparse
import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from atoll.survival import analysis, build, episode_reports, grid
from atoll.survival.episode import EpisodeSummary
from bench import outcome
from bench.baselines import interval

type Table = tuple[Sequence[str], Sequence[Sequence[object]]]

EXTRA = "envs"
SEEDS = range(30_000, 30_200)
WORLDS = tuple(grid.PRESETS)
# Options, episodes per run, and seeds. Contenders that do not learn need fewer episodes for the same mean.
CONTENDERS: Mapping[str, tuple[Mapping[str, Any], int, int]] = {
    "random": ({"thinker": "random"}, 4, 200),
    "wait": ({"thinker": "wait"}, 2, 80),
    "greedy": ({"thinker": "greedy"}, 4, 200),
    "native": ({}, 8, 200),
    "native, playbook off": ({"playbook": False}, 8, 80),
    "native, fear off": ({"fear": False}, 8, 80),
    "native, curiosity off": ({"curiosity": False}, 8, 80),
    "ceiling": ({"thinker": "ceiling"}, 1, 200),
}
PAIRS = (  # pairs to compare, with the metric
    ("native", "random", "ticks"),
    ("native", "greedy", "ticks"),
    ("native", "greedy", "reward"),
    ("native", "greedy", "coverage"),
    *(("native", f"native, {part} off", "ticks") for part in ("playbook", "fear", "curiosity")),
    ("native", "native, fear off", "damage per 100 ticks"),
    ("native", "native, curiosity off", "coverage"),
)
FORECAST_SEEDS, FORECAST_LIVES = range(31_000, 31_006), 28
CRAFTER_LIVES, CRAFTER_SEED, RANDOM_LIVES = 50, 33_000, 12
MINIGRIDS = ("MiniGrid-LavaGapS6-v0", "MiniGrid-Dynamic-Obstacles-6x6-v0")
MINIGRID_SEEDS, MINIGRID_LIVES, FEW = range(33_000, 33_020), 20, 5
PARTY_SEEDS, PARTY_LIVES, PARTY_SIZE = range(34_000, 34_012), 3, 3
PARTIES: Mapping[str, Mapping[str, Any]] = {
    "alone": {},
    "co-operation": {"agents": PARTY_SIZE, "party": "cooperation"},
    "competition": {"agents": PARTY_SIZE, "party": "competition"},
}
MOODS: Mapping[str, Mapping[str, Any]] = {
    "fear and curiosity": {},
    "curiosity alone": {"fear": False},
    "fear alone": {"curiosity": False},
    "neither": {"fear": False, "curiosity": False},
}
RANDOM_SCORE, PPO_SCORE = 1.6, 4.6  # Hafner 2021
PARTS = outcome.RESULTS_DIR / "survival.parts.json"


def run_episodes(options: Mapping[str, Any], seed: int, count: int, **task: Any) -> list[EpisodeSummary]:
    return list(build.simulate_episodes(build.Task(**task), build.Options(**options), seed, count))


def numbers(episodes: Sequence[EpisodeSummary]) -> dict[str, float]:
    """Returns the means over the episodes of one run."""
    return {
        "ticks": fmean(episode.ticks for episode in episodes),
        "reward": fmean(episode.reward for episode in episodes),
        "coverage": fmean(episode.coverage for episode in episodes),
        "damage per 100 ticks": 100
        * sum(episode.damage for episode in episodes)
        / sum(episode.ticks for episode in episodes),
        "bits": fmean(episode.bits for episode in episodes),
        "last": fmean(episode.ticks for episode in episodes[len(episodes) // 2 :]),
    }


def contest(
    num_seeds: int, report: Callable[[str], None], names: Sequence[str] = tuple(CONTENDERS)
) -> dict[str, list[dict[str, float]]]:
    result: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for seed in SEEDS[:num_seeds]:
        for name, (options, count, most) in CONTENDERS.items():
            if name in names and seed < SEEDS[0] + most:
                result[name].append(numbers(run_episodes(options, seed, count, world=WORLDS[seed % len(WORLDS)])))
        report(f"seed {seed}: " + ", ".join(f"{name} {rows[-1]['ticks']:.0f}" for name, rows in result.items()))
    return result


def parties(report: Callable[[str], None]) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Runs one and several agents at once, with and without fear and curiosity, in the same worlds."""
    result: dict[str, dict[str, list[dict[str, float]]]] = {}
    for party, mood in itertools.product(PARTIES, MOODS):
        worlds = {seed: {"world": WORLDS[seed % len(WORLDS)], **PARTIES[party]} for seed in PARTY_SEEDS}
        runs = [numbers(run_episodes(MOODS[mood], seed, PARTY_LIVES, **task)) for seed, task in worlds.items()]
        result.setdefault(party, {})[mood] = runs
        report(f"{party}, {mood}: {fmean(run['ticks'] for run in runs):.1f} ticks")
    return result


def forecasts(report: Callable[[str], None]) -> dict[str, Any]:
    """Runs until fear has learned. Returns the forecasts after the first 20 episodes."""
    text: list[tuple[float, bool]] = []
    for seed in FORECAST_SEEDS:
        episodes = run_episodes({}, seed, FORECAST_LIVES, world=WORLDS[seed % len(WORLDS)])
        text += [
            (forecast.forecast, forecast.happened)
            for episode in episodes[episode_reports.NUM_LEARNING_EPISODES :]
            for forecast in episode.forecasts
        ]
        report(f"forecasts of {seed}: {analysis.compute_calibration(text).brier_skill:.3f}")
    result = analysis.compute_calibration(text)
    return {**result._asdict(), "bins": [item._asdict() for item in result.bins]}


def crafter(report: Callable[[str], None], num_lives: int = CRAFTER_LIVES) -> dict[str, Any]:
    """Runs 50 learning episodes in Crafter, and some with random actions."""
    result: dict[str, Any] = {}
    both: Mapping[str, Mapping[str, Any]] = {"native": {}, "random": {"thinker": "random"}}
    counts = {"native": num_lives, "random": min(num_lives, RANDOM_LIVES)}
    for name, options in both.items():
        episodes = []
        for episode in build.simulate_episodes(
            build.Task(env="crafter"), build.Options(**options), CRAFTER_SEED, counts[name]
        ):
            episodes.append(episode)
            report(f"crafter {name} {episode.episode}: {episode.ticks} ticks, {len(episode.unlocked)} achievements")
        unlocked = [episode.unlocked for episode in episodes]
        rng = np.random.default_rng(0)
        scores = [
            episode_reports.compute_crafter_score([unlocked[n] for n in rng.integers(0, len(episodes), len(episodes))])
            for _ in range(2000)
        ]
        low, high = np.percentile(scores, (2.5, 97.5))
        rates = {
            item: sum(item in names for names in unlocked) / len(episodes)
            for item in sorted(set(itertools.chain(*unlocked)))
        }
        result[name] = {
            "episodes": len(episodes),
            "score": episode_reports.compute_crafter_score(unlocked),
            "low": float(low),
            "high": float(high),
            "ticks": fmean(episode.ticks for episode in episodes),
            "reward": fmean(episode.reward for episode in episodes),
            "rates": rates,
        }
    return result


def minigrids(report: Callable[[str], None]) -> dict[str, Any]:
    """Counts deaths in the first and last episodes of a run."""
    result = {}
    for id in MINIGRIDS:
        before, after = [], []
        for seed in MINIGRID_SEEDS:
            episodes = run_episodes({}, seed, MINIGRID_LIVES, env=f"minigrid:{id}")
            before.append(fmean(bool(episode.cause) for episode in episodes[:FEW]))
            after.append(fmean(bool(episode.cause) for episode in episodes[-FEW:]))
        fewer = interval([one - other for one, other in zip(before, after, strict=True)])
        result[id] = {"before": fmean(before), "after": fmean(after), "fewer": fewer}
        report(f"{id}: {result[id]}")
    return result


def drawn(bins: Sequence[Mapping[str, float]], width: int = 50) -> str:
    """Draws a reliability diagram; fear is calibrated if o is on the line of its forecast."""
    lines = ["forecast  happened  count"]
    for item in bins:
        row = [" "] * (width + 1)
        row[round(item["forecast"] * width)] = "|"
        row[round(item["happened"] * width)] = "o"
        lines.append(f"{item['forecast']:8.2f}  {item['happened']:8.2f}  {item['size']:5.0f}  {''.join(row)}")
    return "```\n" + "\n".join(lines) + "\n```"


def tables(result: Mapping[str, Any]) -> outcome.Tables:
    tables_by_title: dict[str, Table] = {}
    if rows := result.get("contest"):
        tables_by_title |= _of_contest(rows)
    if rows := result.get("parties"):
        metric_names = ("ticks", "damage per 100 ticks", "coverage", "bits")
        tables_by_title[
            f"{PARTY_SIZE} at once in one world, means over {len(PARTY_SEEDS)} seeds of {PARTY_LIVES} episodes"
        ] = (
            ["party", "mood", *(f"{name}, 95 %" for name in metric_names)],
            [
                [party, mood, *(_format_interval(interval([run[name] for run in runs])) for name in metric_names)]
                for party, moods in rows.items()
                for mood, runs in moods.items()
            ],
        )
    if item := result.get("forecasts"):
        keys = ("size", "base_rate", "brier", "brier_skill", "log_loss", "auroc", "precision", "ece")
        tables_by_title["Forecasts of damage after the first 20 episodes"] = (list(keys), [[item[key] for key in keys]])
    if both := result.get("crafter"):
        tables_by_title |= _of_crafter(both)
    if grids := result.get("minigrids"):
        tables_by_title[f"MiniGrid, share of the first and the last {FEW} episodes that ended in death"] = (
            ["environment", "before", "after", "fewer, 95 %"],
            [[id, e["before"], e["after"], _format_interval(e["fewer"])] for id, e in grids.items()],
        )
    return tables_by_title


def _of_contest(rows: Mapping[str, Any]) -> dict[str, Table]:
    names = ("ticks", "reward", "coverage", "damage per 100 ticks", "bits", "last")
    return {
        "Episodes, means over paired seeds": (
            ["contender", "seeds", *(f"{name}, 95 %" for name in names)],
            [
                [who, len(item), *(_format_interval(interval([run[name] for run in item])) for name in names)]
                for who, item in rows.items()
            ],
        ),
        "Differences, paired": (
            ["of", "against", "what", "difference, 95 %", "excludes zero"],
            [_difference(rows, *pair) for pair in PAIRS],
        ),
    }


def _of_crafter(both: Mapping[str, Any]) -> dict[str, Table]:
    ours, chance = both["native"]["rates"], both["random"]["rates"]
    return {
        "Crafter, 50 episodes": (
            ["agent", "episodes", "score, 95 %", "ticks", "reward"],
            [
                [who, e["episodes"], _format_interval((e["score"], e["low"], e["high"])), e["ticks"], e["reward"]]
                for who, e in both.items()
            ],
        ),
        "Crafter, share of episodes with each achievement": (
            ["achievement", "native", "random"],
            [[name, ours.get(name, 0.0), chance.get(name, 0.0)] for name in sorted({*ours, *chance})],
        ),
    }


def _format_interval(results: Sequence[float]) -> str:
    return "{:.2f} [{:.2f}, {:.2f}]".format(*results)


def _difference(rows: Mapping[str, Any], one: str, other: str, what: str) -> list[object]:
    result = interval([mine[what] - theirs[what] for mine, theirs in zip(rows[one], rows[other], strict=False)])
    return [one, other, what, _format_interval(result), "yes" if result[1] > 0 or result[2] < 0 else "NO"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("contest", "parties", "forecasts", "crafter", "minigrids"), action="append")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="seeds of the contest")
    parser.add_argument(
        "--contenders", nargs="*", choices=list(CONTENDERS), help="run only these again, with --only contest"
    )
    parser.add_argument("--crafter-lives", type=int, default=CRAFTER_LIVES)
    chosen = parser.parse_args()
    result: dict[str, Any] = json.loads(PARTS.read_text()) if PARTS.exists() and chosen.only else {}
    work: dict[str, Callable[[Callable[[str], None]], Any]] = {
        "forecasts": forecasts,
        "minigrids": minigrids,
        "contest": lambda report: {
            **(result.get("contest", {}) if chosen.contenders else {}),
            **contest(chosen.seeds, report, chosen.contenders or tuple(CONTENDERS)),
        },
        "parties": parties,
        "crafter": lambda report: crafter(report, chosen.crafter_lives),
    }
    for name in chosen.only or work:
        since = time.process_time()
        result[name] = work[name](lambda line: print(line, flush=True))
        result.setdefault("cpu_seconds", {})[name] = round(time.process_time() - since, 1)
        result.setdefault("commits", {})[name] = outcome.machine()["commit"]
        latest = json.loads(PARTS.read_text()) if PARTS.exists() and chosen.only else {}
        PARTS.write_text(json.dumps({**latest, **result}))
    notes = [
        f"Crafter's published scores: random {RANDOM_SCORE}, PPO {PPO_SCORE}.",
        f"CPU seconds: {result['cpu_seconds']}. Commits: {result['commits']}.",
    ]
    if item := result.get("forecasts"):
        notes.append("Calibration; `|` is the forecast, `o` the observed rate:\n\n" + drawn(item["bins"]))
    outcome.keep("survival", tables(result), notes, calibration=result.get("forecasts", {}).get("bins", []))


if __name__ == "__main__":
    main()
