"""Curator: decides on deltas by fixed rules. Only the comparison of two rules may ask an LLM judge."""

from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

from atoll.playbook.curation import CurationPass, DeltaSchema
from atoll.playbook.delta import Delta, Verdict
from atoll.playbook.meaning import Meaning
from atoll.playbook.playbook import Config, CountTokens, Playbook, estimate_tokens
from atoll.playbook.refinement import RetiredBullet, refine
from atoll.playbook.retrieval import BulletIndex


class CurationResult(NamedTuple):
    """Result of a turn: the playbook, one verdict per delta in order, and the retired bullets."""

    playbook: Playbook
    verdicts: tuple[Verdict, ...]
    retired: tuple[RetiredBullet, ...]


class Curator:
    """Applies valid deltas to a playbook, holds doubtful deltas and rejects bad ones.

    Without a comparer, the same playbook and deltas always give the same result. Thread-safe.

    Args:
        config: Settings.
        count_tokens: Counts the tokens of a text.
        meaning: Compares rules; None compares their words.
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        count_tokens: CountTokens = estimate_tokens,
        meaning: Meaning | None = None,
    ) -> None:
        self.config, self.meaning = config or Config(), meaning or Meaning()
        self.count_tokens = count_tokens
        self._schema = DeltaSchema(self.config)
        self._index, self._lock = BulletIndex(), Lock()  # a cache; its results depend only on the playbook

    def decide(
        self, playbook: Playbook, deltas: Sequence[Delta], *, turn: int | None = None
    ) -> tuple[Playbook, tuple[Verdict, ...]]:
        """Returns the new playbook and one verdict per delta. Bad deltas never raise.

        Args:
            playbook: The current playbook.
            deltas: Decided in this order.
            turn: Turn number; None means the turn after the playbook's last.
        """
        result = self.curate(playbook, deltas, turn=turn)
        return result.playbook, result.verdicts

    def curate(self, playbook: Playbook, deltas: Sequence[Delta], *, turn: int | None = None) -> CurationResult:
        """Like `decide`, and also returns the retired bullets."""
        previous_turn = playbook.turn
        playbook = playbook.with_turn(previous_turn + 1 if turn is None else turn)
        with self._lock:
            curation_pass = CurationPass(
                playbook, self.config, self.count_tokens, self._schema, self._index, self.meaning
            )
            verdicts = tuple(curation_pass.decide(delta) for delta in deltas)
            playbook, retired = curation_pass.playbook, curation_pass.retired
            if self._is_refine_due(previous_turn, playbook.turn):
                playbook, more_retired = refine(playbook, self.config, self.count_tokens)
                retired = [*retired, *more_retired]
        return CurationResult(playbook, verdicts, tuple(retired))

    def refine(self, playbook: Playbook) -> tuple[Playbook, tuple[RetiredBullet, ...]]:
        """Returns the playbook after grow-and-refine, and the retired bullets."""
        playbook, retired = refine(playbook, self.config, self.count_tokens)
        return playbook, tuple(retired)

    def _is_refine_due(self, previous_turn: int, current_turn: int) -> bool:
        interval = self.config.refine_interval
        return interval > 0 and current_turn // interval > previous_turn // interval
