"""Inboxes."""

import pytest

from atoll import store
from atoll.store.memory import MemoryInbox
from tests.store import workers


@pytest.fixture(params=["stored", "memory"])
def inbox(request, opened):
    return opened.inbox(opened.create_run("run")) if request.param == "stored" else MemoryInbox()


def test_commands_are_numbered_and_ordered(inbox):
    assert [inbox.post("pause"), inbox.post("set", temperature=0.5), inbox.post("resume")] == [1, 2, 3]
    assert [(number, kind, dict(data)) for number, kind, data in inbox.read(1)] == [
        (2, "set", {"temperature": 0.5}),
        (3, "resume", {}),
    ]
    assert inbox.read(3) == []


def test_setting_can_have_any_name(inbox):
    inbox.post("set", kind="kind", self="self")
    assert inbox.read(0)[0].data == {"kind": "kind", "self": "self"}


def test_commands_are_numbered_per_run(opened):
    inboxes = [opened.inbox(opened.create_run(run)) for run in ("a", "b")]
    assert [inbox.post("stop", reason="enough") for inbox in inboxes] == [1, 1]


def test_command_from_another_process(url):
    with store.open(url) as opened, workers.running(workers.post, url, opened.create_run("run")) as (_, pipe):
        assert pipe.recv() == 1
        assert opened.inbox("run").read(0)[0].data == {"reason": "enough"}
