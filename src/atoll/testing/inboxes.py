"""What every inbox promises."""

from abc import ABC, abstractmethod
from typing import Any

from atoll import control
from atoll.testing import assertions


class InboxSuite[T: control.Inbox](ABC):
    """Subclass it, say how to make an empty inbox and how to post to it, and every test runs on yours."""

    @abstractmethod
    def make(self) -> T:
        """Returns a new, empty inbox."""

    @abstractmethod
    def post(self, inbox: T, kind: control.CommandKind, **data: Any) -> None:
        """Leaves a command, as somebody outside would."""

    def test_new_inbox_is_empty(self) -> None:
        """There is nothing to obey before something was posted."""
        assert list(self.make().read(0)) == []

    def test_commands_are_read_in_order(self) -> None:
        """Their numbers rise from above 0, and kind and data are as posted."""
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
        """`read(after)` leaves out what has that number or a lower one."""
        inbox = self.make()
        for _ in range(5):
            self.post(inbox, "pause")
        numbers = [command.number for command in inbox.read(0)]
        for index, number in enumerate(numbers):
            assert [command.number for command in inbox.read(number)] == numbers[index + 1 :]
        assert list(inbox.read(numbers[-1] + 100)) == []

    def test_read_removes_nothing(self) -> None:
        """A run that resumes reads again what it obeyed before it was cut."""
        inbox = self.make()
        self.post(inbox, "pause")
        assert list(inbox.read(0)) == list(inbox.read(0))
        self.post(inbox, "resume")
        assert [command.kind for command in inbox.read(0)] == ["pause", "resume"]

    def test_concurrent_posts_are_not_lost(self) -> None:
        """Several may post at the same time; each command has a number of its own."""
        inbox = self.make()

        def post(thread: int) -> None:
            for count in range(10):
                self.post(inbox, "set", thread=thread, count=count)

        assertions.run_concurrently(post, 4)
        commands = inbox.read(0)
        assert len({command.number for command in commands}) == 40
        for thread in range(4):
            assert [command.data["count"] for command in commands if command.data["thread"] == thread] == list(
                range(10)
            )
