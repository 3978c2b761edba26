"""MailboxLLM: prompts and responses as files of a folder."""

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import pytest

from atoll import errors, llm, testing


class Postman:
    """Answers every prompt in a folder by another thread, until he is told to go."""

    def __init__(self, folder: Path, answer: Callable[[str], str]) -> None:
        self._folder, self._answer, self._is_over = folder, answer, Event()
        self._thread = Thread(target=self._work, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._is_over.wait(0.02):
            for prompt_path in self._folder.glob("*.prompt.md"):
                reply = prompt_path.with_name(prompt_path.name.replace(".prompt.", ".reply."))
                if not reply.exists():
                    reply.write_text(self._answer(prompt_path.read_text(encoding="utf-8")), encoding="utf-8")


@pytest.fixture
def postman(tmp_path):
    writer = Postman(tmp_path, lambda prompt: f"{len(prompt)} characters")
    yield writer
    writer.stop()


class TestMailbox(testing.LLMSuite):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path, postman):
        self.path = tmp_path

    def make(self) -> llm.MailboxLLM:
        return llm.MailboxLLM(self.path, timeout_seconds=20)


def test_the_files_of_a_prompt_have_the_name_of_its_place_and_stay(tmp_path, postman):
    model = llm.MailboxLLM(tmp_path / "new" / "box", timeout_seconds=0.1)
    with pytest.raises(llm.LLMError, match=r"[0-9a-f]{12}\.reply\.md did not appear in .* within 0\.1 seconds"):
        model("hi")
    assert [path.read_text() for path in (tmp_path / "new" / "box").iterdir()] == ["hi"]


def test_an_answer_that_came_while_nobody_waited_is_found(tmp_path):
    model = llm.MailboxLLM(tmp_path, timeout_seconds=0.05)
    with pytest.raises(llm.LLMError):
        model("hi")
    (prompt_path,) = tmp_path.glob("*.prompt.md")
    prompt_path.with_name(prompt_path.name.replace("prompt", "reply")).write_text("late")
    time.sleep(0.6)
    assert model("hi").text == "late"


def test_links_in_the_folder_lead_nowhere(tmp_path):
    model, victim = llm.MailboxLLM(tmp_path / "box", timeout_seconds=0.8), tmp_path / "victim"
    victim.write_text("precious")
    with pytest.raises(llm.LLMError):
        model("hi")
    (prompt_path,) = (tmp_path / "box").glob("*.prompt.md")
    reply = prompt_path.with_name(prompt_path.name.replace(".prompt.", ".reply."))
    prompt_path.with_suffix(".part").symlink_to(victim)
    reply.symlink_to(victim)
    with pytest.raises(llm.LLMError, match="did not appear"):  # the reply is not the file that the link names
        model("hi")
    reply.unlink()
    reply.mkdir()
    with pytest.raises(llm.LLMError, match="did not appear"):
        model("hi")
    assert victim.read_text() == "precious"
    assert prompt_path.read_text() == "hi"


def test_a_folder_that_cannot_be_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.SetupError, match="cannot be created"):
        llm.make_llm(f"mailbox:{tmp_path}/file/box")
    with pytest.raises(errors.SetupError, match="does not name a folder"):
        llm.make_llm("mailbox:")


def test_nobody_waits_once_the_run_is_stopped(tmp_path):
    model = llm.MailboxLLM(tmp_path)
    model.is_stopped = lambda: True
    with pytest.raises(llm.LLMError, match=r"stopped before [0-9a-f]{12}\.reply\.md appeared. Add the file and resume"):
        model("hi")
    assert len(list(tmp_path.glob("*.prompt.md"))) == 1
