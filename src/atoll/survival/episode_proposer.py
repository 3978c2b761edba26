"""Episodes as kernel iterations: each episode uses the current playbook and proposes its successor.

The result of an episode is the evaluation of the playbook that it used.
"""

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from atoll import evaluation, function, gate, playbook, system
from atoll.candidate import JSON
from atoll.evaluation import BlobRef, Evaluation
from atoll.survival.episode import EpisodeRunner, EpisodeSummary, describe_ending
from atoll.survival.live_controls import SETTINGS, CheckedSettings
from atoll.survival.plan import LoopSnapshot
from atoll.survival.roles.presenter import Presenter

# Runner, playbook, state, seed of the world, episode number.
type RunEpisode = Callable[[EpisodeRunner, playbook.Playbook, Mapping[str, Any], int, int], EpisodeSummary]

SNAPSHOTS = "snapshots.jsonl.z"  # turns of an episode as JSON lines, compressed with zlib
NUM_FIRST_SAVED = 3  # later episodes are saved at powers of two, which keeps long runs small


class EpisodeProposer:
    """Runs one episode per iteration.

    Args:
        run_episode: Runs an episode with one or several agents.
        runner: Settings and roles of episodes.
        blobs: Storage of turns and of the state between episodes.
        presenter: Publishes every turn.
        seed: Seed of the run. It determines the world of each iteration.
    """

    def __init__(
        self, run_episode: RunEpisode, runner: EpisodeRunner, blobs: system.BlobStore, presenter: Presenter, seed: int
    ) -> None:
        self._run_episode, self._runner, self._blobs = run_episode, runner, blobs
        self._presenter, self._seed = presenter, seed
        self._num_shown = 0  # turns published to the live channel

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        (head,) = context.parents
        book = playbook.Playbook.load(str(head.skeleton()))
        turns: list[LoopSnapshot] = []
        is_saved = _is_saved(context.iteration)
        runner = self._configure_runner(context.iteration, context.advice, turns if is_saved else None)
        state, seed = self._load_state(context.advice), derive_world_seed(self._seed, context.iteration)
        result = self._run_episode(runner, book, state, seed, context.iteration)
        summary = result.to_data()
        self._presenter.publish_end(summary)
        artifacts = {SNAPSHOTS: self._blobs.save_blob(_compress_turns(turns))} if turns else {}
        context.update_evaluation(head, to_evaluation(result, artifacts))
        ref = self._blobs.save_blob(json.dumps(result.state, sort_keys=True).encode())
        text = function.Text(serialize_result(result))
        return [function.derive_child(head, text, life=summary, state=[ref.sha256, ref.size, ref.head])]

    def _configure_runner(
        self, iteration: int, advice: Mapping[str, JSON], turns: list[LoopSnapshot] | None
    ) -> EpisodeRunner:
        """Returns the runner for this episode: live settings applied, saved turns with full text."""
        runner, checked = self._runner, CheckedSettings(advice)
        controls = replace(runner.controls, advice={name: advice[name] for name in SETTINGS if name in advice})

        def show(snapshot: LoopSnapshot) -> None:
            if turns is not None:
                turns.append(snapshot)
            self._presenter.publish_turn(snapshot)
            channel = controls.get_channel()
            if channel is not None and (runner.has_text or controls.is_shown(controls.read_settings())):
                self._num_shown += 1  # turn numbers repeat when several agents run
                channel.publish(iteration, self._num_shown, json.dumps(snapshot.to_data(), ensure_ascii=False))

        has_text = runner.has_text or turns is not None or self._presenter.is_watched
        return replace(
            runner,
            agent_settings=checked.apply_to_agent(runner.agent_settings),
            notification_settings=checked.apply_to_notifications(runner.notification_settings),
            show=show,
            controls=controls,
            has_text=has_text,
        )

    def _load_state(self, advice: Mapping[str, Any]) -> Mapping[str, Any]:
        if "state" not in advice:
            return {}
        state: Mapping[str, Any] = json.loads(self._blobs.load_blob(BlobRef(*advice["state"])))
        return state


def serialize_result(result: EpisodeSummary) -> str:
    """Returns the playbook after an episode, with its result, as JSON that `Playbook.load` can read."""
    outcome = {name: getattr(result, name) for name in ("episode", "score", "ticks", "cause")}
    outcome |= {"cut": True} if result.is_cut else {}
    data = {**result.book.to_data(), "counts": dict(result.counts), "lived": outcome}
    return json.dumps(data, separators=(",", ":"), sort_keys=True)


def derive_world_seed(seed: int, iteration: int) -> int:
    """Returns the seed of the world in an iteration. It depends only on the seed of the run."""
    return Random(f"{seed}/world/{iteration}").getrandbits(31)


def to_evaluation(result: EpisodeSummary, artifacts: Mapping[str, BlobRef]) -> Evaluation:
    """Returns an episode as the evaluation of the playbook that it used."""
    metrics = {"ticks": float(result.ticks), "reward": result.reward, "coverage": result.coverage, "bits": result.bits}
    metrics |= {"damage": result.damage, "episode": float(result.episode)}
    feedback = f"{result.ending} after {result.ticks} ticks, reward {result.reward:.2f}, coverage {result.coverage:.0%}"
    if result.rule_plans:
        feedback += f"; rules planned {result.rule_plans} of {result.turns} turns, without a valid plan of the LLM"
    return Evaluation(result.score, metrics=metrics, feedback=feedback, artifacts=artifacts)


def make_evaluator(curator: playbook.Curator) -> function.CandidateEvaluator:
    """Returns an evaluator for playbooks that no episode has used yet.

    It checks format and length. The score is that of the episode that wrote the playbook. The next episode replaces
    this evaluation with its own result.
    """

    def evaluate(skeleton: function.AnySkeleton) -> Evaluation:
        book = playbook.Playbook.load(str(skeleton))
        tokens = book.count_tokens(curator.count_tokens)
        if tokens > curator.config.max_tokens:
            return evaluation.failed(f"{tokens} tokens exceed the limit of {curator.config.max_tokens}")
        outcome = json.loads(str(skeleton)).get("lived") or {"score": 0.0}
        metrics = {"bullets": float(len(book)), "tokens": float(tokens)}
        return Evaluation(float(outcome["score"]), metrics=metrics, feedback="not used in an episode yet")

    return evaluate


def curate(proposal: gate.Proposal) -> gate.Decision:
    """Rejects a playbook without new bullets. The curator has checked every change during the episode."""
    bullets = json.loads(proposal.candidate.content)["bullets"]
    if any(json.loads(candidate.content)["bullets"] == bullets for candidate in proposal.known_candidates):
        return gate.Decision("reject", "nothing new was learned", "curator")
    summary: Any = proposal.candidate.meta.get("life", {})
    changes = summary.get("policy_changes", 0)
    ending = describe_ending(summary.get("cause"), is_cut=summary.get("cut", False))
    return gate.Decision("accept", f"episode {summary.get('episode')} {ending}: {changes} changes", "curator")


class EpisodeLearner:
    """Collects episode summaries and passes the state (notes, forecast weights) to the next episode."""

    def __init__(self) -> None:
        self.episodes: list[Mapping[str, Any]] = []
        self._state: JSON = None

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        return {"state": self._state} if self._state is not None else {}

    def learn(self, result: function.IterationResult) -> None:
        for fn, _ in result.children:
            if fn.candidate is not None and "life" in fn.candidate.meta:
                summary: Any = fn.candidate.meta["life"]
                self.episodes.append(summary)
                self._state = fn.candidate.meta["state"]


def _is_saved(episode: int) -> bool:
    return episode <= NUM_FIRST_SAVED or episode & (episode - 1) == 0


def _compress_turns(turns: Sequence[LoopSnapshot]) -> bytes:
    lines = "\n".join(json.dumps(turn.to_data(), ensure_ascii=False) for turn in turns)
    return zlib.compress(lines.encode(), 6)


def decompress_turns(data: bytes) -> list[dict[str, Any]]:
    """Returns the turns from a `SNAPSHOTS` artifact."""
    return [json.loads(line) for line in zlib.decompress(data).decode().splitlines()]
