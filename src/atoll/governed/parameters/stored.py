"""Parameters in a store's database, beside the runs."""

import os
from collections.abc import Callable, Sequence
from datetime import datetime

from atoll import store
from atoll.governed.parameters.parameters import Check, Parameters
from atoll.store import audit, ledger
from atoll.store.refusals import ChainBroken


class StoredParameters(Parameters):
    """Parameters that all processes share which open the file; `Store.versions` are the same keys, as texts.

    Args:
        kept: A store that is open, or the path or URL of one, which is then closed by `close`.
        check: As for `Parameters`.
        clock: Says when a change was made.
    """

    def __init__(
        self,
        store_or_url: store.Store | str | os.PathLike[str],
        *,
        check: Check | None = None,
        clock: Callable[[], datetime] = ledger.now,
    ) -> None:
        self._owns_store = not isinstance(store_or_url, store.Store)
        self.store = store_or_url if isinstance(store_or_url, store.Store) else store.open(store_or_url)
        super().__init__(self.store.change_log(), check=check, clock=clock)

    def verify(self, anchors: Sequence[audit.Anchor] = ()) -> audit.AuditReport:
        if unexpected := self.store.find_unexpected_objects():
            raise ChainBroken(
                f"{self.store.database.name} holds what no Atoll put there: {', '.join(unexpected)}. What it shows may be "
                "false, so nothing else was checked: take it out, or go back to a copy.",
                0,
            )
        return super().verify(anchors)

    def close(self) -> None:
        if self._owns_store:
            self.store.close()
