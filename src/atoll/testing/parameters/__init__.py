"""Test suite for parameter stores."""

from unittest import SkipTest

from atoll.testing.parameters.locking import LockingTests
from atoll.testing.parameters.values import ValueTests
from atoll.testing.parameters.watching import WatchingTests
from atoll.testing.parameters.writing import WritingTests


class ParameterStoreContract(ValueTests, WritingTests, LockingTests, WatchingTests):
    """Tests for a parameter store. Subclass it and implement `make`.

    Implement `reopen` for the tests with another process; without it they do nothing.
    `max_examples` and `steps` are the number and length of random sequences of changes.
    """

    max_examples = 20
    steps = 20

    def test_random_changes_match_expected_state(self) -> None:
        """Random valid and refused changes; needs hypothesis."""
        try:
            from atoll.testing.parameters import machine
        except ImportError as error:
            raise SkipTest("hypothesis is not installed") from error
        machine.run(self.make, max_examples=self.max_examples, steps=self.steps)
