"""Requested change of a versioned value."""

import re
from dataclasses import dataclass

from atoll import errors
from atoll.store.versions import change as entries

_ALIAS_NAME = re.compile(r"[A-Za-z_][\w.-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """Requested change.

    Attributes:
        kind: As in `ChangeEntry`.
        value: JSON text of the new value or of a note.
        name: Name of an alias.
        target: Version to roll back to, or target of an alias; None removes the alias.
        expected: Version that the change is based on; 0: none yet; None: any.
        timestamp: Time of an imported change; never earlier than the previous change.
    """

    kind: str
    key: str
    reason: str
    author: str
    value: str | None = None
    name: str = ""
    target: int | None = None
    expected: int | None = None
    token: str | None = None
    timestamp: str | None = None

    def check(self) -> None:
        """Checks the fields before anything is locked or written.

        Raises:
            ReasonRequired: The reason is empty.
            InvalidKey: The key is invalid.
            SetupError: The author, another text or the alias is invalid.
        """
        entries.check_reason(self.reason)
        entries.check_key(self.key)
        entries.check_author(self.author)
        entries.check_texts(self.reason, self.author, self.token or "")
        if self.kind == entries.ALIAS and not _ALIAS_NAME.fullmatch(self.name):
            raise errors.SetupError(f"{self.name!r} is not an alias. Use a word that begins with a letter.")
