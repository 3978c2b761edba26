"""Test suite for inboxes."""

from abc import ABC, abstractmethod
from typing import Any

from atoll import control
from atoll.testing import assertions


class InboxSuite[T: control.Inbox](ABC):
    """Tests for an inbox. Subclass it and implement `make` and `post`."""

    @abstractmethod
    def make(self) -> T:
        """Returns a new, empty inbox."""

    @abstractmethod
    def post(self, inbox: T, kind: control.CommandKind, **data: Any) -> None:
        """Posts a command from outside the run."""

    def test_new_inbox_is_empty(self) -> None:
        """A new inbox has no commands."""
        assert list(self.make().read(0)) == []

    def test_commands_are_read_in_order(self) -> None:
        """Numbers are positive and increase; kind and data are as posted."""
        inbox = self.make()
        self.post(inbox, "pause")
        self.post(inbox, "set", stride=0.5, names=["a", "b"], deep={"none": None})
        self.post(inbox, "stop", reason="dinner")
        commands = inbox.read(0)
        assert [command.kind for command in commands] == ["pause", "set", "stop"]
        assert [dict(command.data) for command in commands] == [
            {},
            {"stride": 0.5, "names": ["a", "b"], "deep": {"none": None}},
            {"reason": "dinner"},
        ]
        numbers = [command.number for command in commands]
        assert numbers == sorted(set(numbers))
        assert numbers[0] > 0

    def test_read_skips_earlier_commands(self) -> None:
        """`read(after)` returns only commands with a higher number."""
        inbox = self.make()
        for _ in range(5):
            self.post(inbox, "pause")
        numbers = [command.number for command in inbox.read(0)]
        for index, number in enumerate(numbers):
            assert [command.number for command in inbox.read(number)] == numbers[index + 1 :]
        assert list(inbox.read(numbers[-1] + 100)) == []

    def test_read_removes_nothing(self) -> None:
        """A resumed run reads earlier commands again."""
        inbox = self.make()
        self.post(inbox, "pause")
        assert list(inbox.read(0)) == list(inbox.read(0))
        self.post(inbox, "resume")
        assert [command.kind for command in inbox.read(0)] == ["pause", "resume"]

    def test_concurrent_posts_are_not_lost(self) -> None:
        """Parallel posts get different numbers."""
        inbox = self.make()

        def post(thread: int) -> None:
            for count in range(10):
                self.post(inbox, "set", thread=thread, count=count)

        assertions.run_concurrently(post, 4)
        commands = inbox.read(0)
        assert len({command.number for command in commands}) == 40
        for thread in range(4):
            counts = [command.data["count"] for command in commands if command.data["thread"] == thread]
            assert counts == list(range(10))
