"""Samples for shadow runs."""

import hashlib
from collections.abc import Sequence

from atoll.candidate import Candidate


def hash_to_unit(id: str, salt: str = "") -> float:
    """Returns a number from 0 to 1 that hangs on an id alone: a growing share keeps all that it had."""
    return int.from_bytes(hashlib.sha256(f"{salt}|{id}".encode()).digest()[:8]) / 2**64


class FixedSampler:
    """Takes a share of given candidates, by the hash of their ids; a share of 1 takes all."""

    def __init__(self, candidates: Sequence[Candidate], *, salt: str = "") -> None:
        self._candidates, self._salt = tuple(candidates), salt

    def __call__(self, traffic: float) -> Sequence[Candidate]:
        return [candidate for candidate in self._candidates if traffic >= 1 or hash_to_unit(candidate.id, self._salt) < traffic]

    @property
    def num_offered(self) -> int:
        """How many there are to choose from."""
        return len(self._candidates)
