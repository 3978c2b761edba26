"""Who gets the candidate value."""

import hashlib


def compute_bucket(salt: str, key: str, entity: str) -> float:
    """Returns where an entity stands between 0 and 1; it hangs on nothing else, so it stays there forever."""
    return int.from_bytes(hashlib.sha256(f"{salt}|{key}|{entity}".encode()).digest()[:8]) / 2**64


def is_treated(salt: str, key: str, entity: str, share: float) -> bool:
    """Says whether an entity gets the candidate value; with a growing share none ever loses it."""
    return compute_bucket(salt, key, entity) < share
