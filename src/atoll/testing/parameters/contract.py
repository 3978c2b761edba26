"""The whole contract of a store of parameters."""

from unittest import SkipTest

from atoll.testing.parameters.locking import LockingTests
from atoll.testing.parameters.values import ValueTests
from atoll.testing.parameters.watching import WatchingTests
from atoll.testing.parameters.writing import WritingTests


class ParameterStoreContract(ValueTests, WritingTests, LockingTests, WatchingTests):
    """Subclass it, say how to make an empty store, and every test runs on yours.

    `reopen` says how another process gets at the same parameters; without it, those tests find nothing to do.
    `max_examples` and `steps` say how many random sequences of changes are tried, and how long they are.
    """

    max_examples = 20
    steps = 20

    def test_random_changes_match_expected_state(self) -> None:
        """Random changes, allowed and refused ones; needs hypothesis."""
        try:
            from atoll.testing.parameters import machine
        except ImportError as error:
            raise SkipTest("hypothesis is not installed") from error
        machine.run(self.make, max_examples=self.max_examples, steps=self.steps)
