"""The curator: decides on deltas, without a model and without dice."""

from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

from atoll.playbook.config import Config
from atoll.playbook.delta import Delta, Verdict
from atoll.playbook.index import Index
from atoll.playbook.playbook import CountTokens, Playbook, estimate_tokens
from atoll.playbook.refinement import Retired, refine
from atoll.playbook.ruling import Ruling
from atoll.playbook.schema import Schema


class Curated(NamedTuple):
    """What came of a turn: the playbook, a verdict per delta in their order, and the bullets that went."""

    playbook: Playbook
    verdicts: tuple[Verdict, ...]
    retired: tuple[Retired, ...]


class Curator:
    """Merges deltas into a playbook: what is sound is applied, what is doubtful held, what is bad rejected.

    The same playbook and deltas always give the same result. Threads may share it.
    """

    def __init__(self, config: Config | None = None, *, count_tokens: CountTokens = estimate_tokens) -> None:
        self.config = config or Config()
        self.count_tokens = count_tokens
        self._schema = Schema(self.config)
        self._index, self._lock = Index(), Lock()  # a cache: what it finds depends on the playbook alone

    def decide(
        self, playbook: Playbook, deltas: Sequence[Delta], *, turn: int | None = None
    ) -> tuple[Playbook, tuple[Verdict, ...]]:
        """Returns the playbook after the deltas, and a verdict on each; never raises for a bad delta.

        Args:
            playbook: As it is.
            deltas: Decided on in their order.
            turn: When; None: the turn after the playbook's last.
        """
        curated = self.curate(playbook, deltas, turn=turn)
        return curated.playbook, curated.verdicts

    def curate(self, playbook: Playbook, deltas: Sequence[Delta], *, turn: int | None = None) -> Curated:
        """Decides, and also tells what went to the archive."""
        before = playbook.turn
        playbook = playbook.at(before + 1 if turn is None else turn)
        with self._lock:
            ruling = Ruling(playbook, self.config, self.count_tokens, self._schema, self._index)
            verdicts = tuple(ruling.decide(delta) for delta in deltas)
            playbook, retired = ruling.playbook, ruling.retired
            if self._is_due(before, playbook.turn):
                playbook, more = refine(playbook, self.config, self.count_tokens)
                retired = [*retired, *more]
        return Curated(playbook, verdicts, tuple(retired))

    def refine(self, playbook: Playbook) -> tuple[Playbook, tuple[Retired, ...]]:
        """Returns the playbook after grow-and-refine, and what went."""
        playbook, retired = refine(playbook, self.config, self.count_tokens)
        return playbook, tuple(retired)

    def _is_due(self, before: int, now: int) -> bool:
        interval = self.config.refine_interval
        return interval > 0 and now // interval > before // interval
