"""Random changes on a store and on an equivalent model; needs hypothesis."""

from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import Phase, settings, stateful
from hypothesis import strategies as st

from atoll import errors, governed
from atoll.governed import errors as governed_errors

PLAIN_VALUES: tuple[Any, ...] = (None, True, "", "日本\n", [], [1, [None]], {"b": 1, "a": {"x": [0.1]}}, "x" * 9000)
KEYS = st.sampled_from(["a", "a/b", "..", "日本", "a@1"])
VALUES = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(PLAIN_VALUES)
VERSIONS = st.integers(0, 4)
REASONS = st.sampled_from(["because", "", "  ", "原因\n"])
NAMES = st.sampled_from(["production", "canary"])


class ExpectedState:
    """Expected state of a store, as lists and dictionaries."""

    def __init__(self) -> None:
        self.values: dict[str, list[Any]] = {}
        self.locked: set[str] = set()
        self.aliases: dict[str, dict[str, int]] = {}
        self.kinds: list[tuple[str, str]] = []

    def get_expected_error(self, kind: str, key: str, reason: str, version: int | None = None, name: str = "") -> Any:
        """Returns the exception that a change should raise, or None."""
        versions = self.values.get(key, [])
        alias_version = self.aliases.get(key, {}).get(name)
        if not reason.strip():
            return governed_errors.ReasonRequired
        if kind != "set" and not versions:
            return governed_errors.ParameterNotFound
        is_back = kind == "alias" and alias_version is not None and version is not None and version < alias_version
        if key in self.locked and (kind == "set" or (kind == "alias" and not is_back)):
            return governed_errors.ParameterLocked
        if kind == "set":
            return None if version in (None, len(versions)) else governed_errors.VersionConflict
        if kind in ("rollback", "alias") and version is not None and not 1 <= version <= len(versions):
            return governed_errors.VersionNotFound
        return None


class StoreMachine(stateful.RuleBasedStateMachine):
    """Applies the same changes to a store and to the model."""

    make: Callable[[], governed.ParameterStore]

    def __init__(self) -> None:
        super().__init__()
        self.store, self.model = type(self).make(), ExpectedState()

    def apply_change(self, expected_error: Any, change: Callable[[], Any]) -> Any:
        """Makes a change and checks that it raises this error, or none."""
        result, caught = None, None
        try:
            result = change()
        except errors.AtollError as error:
            caught = error
        assert (None if caught is None else type(caught)) is expected_error, (caught, expected_error)
        return result

    @stateful.rule(key=KEYS, value=VALUES, reason=REASONS, expected=st.none() | VERSIONS)
    def set(self, key: str, value: Any, reason: str, expected: int | None) -> None:
        expected_error = self.model.get_expected_error("set", key, reason, version=expected)
        change = partial(self.store.set, key, value, reason, expected_version=expected)
        version = self.apply_change(expected_error, change)
        if expected_error is None:
            self.model.values.setdefault(key, []).append(value)
            self.model.kinds.append(("set", key))
            assert version == len(self.model.values[key])

    @stateful.rule(key=KEYS, version=VERSIONS, reason=REASONS)
    def roll_back(self, key: str, version: int, reason: str) -> None:
        expected_error = self.model.get_expected_error("rollback", key, reason, version=version)
        self.apply_change(expected_error, lambda: self.store.rollback(key, version, reason))
        if expected_error is None:
            self.model.values[key].append(self.model.values[key][version - 1])
            self.model.kinds.append(("rollback", key))

    @stateful.rule(key=KEYS, reason=REASONS)
    def lock(self, key: str, reason: str) -> None:
        expected_error = self.model.get_expected_error("lock", key, reason)
        self.apply_change(expected_error, lambda: self.store.lock(key, reason))
        if expected_error is None:
            self.model.locked.add(key)
            self.model.kinds.append(("lock", key))

    @stateful.rule(key=KEYS, reason=REASONS)
    def unlock(self, key: str, reason: str) -> None:
        expected_error = self.model.get_expected_error("unlock", key, reason)
        self.apply_change(expected_error, lambda: self.store.unlock(key, reason))
        if expected_error is None and key in self.model.locked:
            self.model.locked.discard(key)
            self.model.kinds.append(("unlock", key))

    @stateful.rule(key=KEYS, name=NAMES, version=st.none() | VERSIONS, reason=REASONS)
    def alias(self, key: str, name: str, version: int | None, reason: str) -> None:
        expected_error = self.model.get_expected_error("alias", key, reason, version=version, name=name)
        self.apply_change(expected_error, lambda: self.store.alias(key, name, version, reason))
        aliases = self.model.aliases.setdefault(key, {})
        if expected_error is None and (version is not None or name in aliases):
            aliases.pop(name, None)
            aliases |= {} if version is None else {name: version}
            self.model.kinds.append(("alias", key))

    @stateful.rule(keys=st.lists(KEYS, max_size=3), value=VALUES)
    def transact(self, keys: list[str], value: Any) -> None:
        expected_error = governed_errors.ParameterLocked if self.model.locked & set(keys) else None

        def change() -> None:
            with self.store.transaction("together") as transaction:
                for key in keys:
                    transaction.set(key, value)

        self.apply_change(expected_error, change)
        for key in keys if expected_error is None else ():
            self.model.values.setdefault(key, []).append(value)
            self.model.kinds.append(("set", key))

    @stateful.invariant()
    def check_state(self) -> None:
        assert list(self.store.list()) == sorted(self.model.values)
        for key, values in self.model.values.items():
            assert self.store.get(key) == (values[-1], len(values))
            assert [change.value for change in self.store.history(key)] == values
            assert (self.store.get_lock(key) is not None) == (key in self.model.locked)
            assert dict(self.store.aliases(key)) == self.model.aliases.get(key, {})
        assert [(change.kind, change.key) for change in self.store.changes()] == self.model.kinds

    def teardown(self) -> None:
        assert self.store.verify().seq == len(self.model.kinds)
        close = getattr(self.store, "close", None)
        if close is not None:
            close()


def run(make: Callable[[], governed.ParameterStore], *, max_examples: int, steps: int, shrinks: bool = True) -> None:
    """Runs random sequences of changes on stores from `make`.

    Args:
        make: Returns a new, empty store.
        max_examples: Number of sequences.
        steps: Maximum length of a sequence.
        shrinks: Whether a failing sequence is shortened, which takes a while.

    Raises:
        AssertionError: A store differs from the model.
    """
    phases = tuple(Phase) if shrinks else (Phase.explicit, Phase.generate)
    run_settings = settings(max_examples=max_examples, stateful_step_count=steps, deadline=None, phases=phases)
    machine = type("MachineOfStore", (StoreMachine,), {"make": staticmethod(make)})
    stateful.run_state_machine_as_test(machine, settings=run_settings)
