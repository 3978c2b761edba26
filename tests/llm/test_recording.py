"""RecordedLLM returns recorded responses, in any order of calls."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from atoll import errors, journal, llm
from atoll.evaluation import Cost
from atoll.journal import CallCache
from atoll.testing import ScriptedLLM, fakes


@contextmanager
def step(number: int) -> Iterator[None]:
    token = CallCache.current.set(CallCache(number, 0, journal.NullJournal(), {}))
    try:
        yield
    finally:
        CallCache.current.reset(token)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "replies.jsonl"


def counting() -> llm.LLM:
    numbers = count()
    return llm.FunctionLLM(lambda prompt: f"{prompt} {next(numbers)}")


def test_a_reply_comes_back_whole(path: Path) -> None:
    model = ScriptedLLM({(0, 0): "text\n\u2028🏝"}, cost=Cost(0.5, 10, 5, 0.25))
    recorded = llm.RecordingLLM(model, path)("prompt\n")
    assert recorded == llm.Response("text\n\u2028🏝", "scripted", Cost(0.5, 10, 5, 0.25))
    assert llm.RecordedLLM(path)("prompt\n") == recorded


def test_a_prompt_that_was_asked_several_times_gets_its_replies_in_order(path: Path) -> None:
    recorder = llm.RecordingLLM(counting(), path)
    recorded = [recorder(prompt).text for prompt in ("a", "b", "a", "a")]
    replay = llm.RecordedLLM(path)
    assert [replay(prompt).text for prompt in ("a", "a", "b", "a")] == [
        recorded[0],
        recorded[2],
        recorded[1],
        recorded[3],
    ]


def test_a_prompt_that_was_never_asked_is_not_found(path: Path) -> None:
    llm.RecordingLLM(counting(), path)("a")
    with pytest.raises(errors.NotFound, match="has no response to the prompt 'another'"):
        llm.RecordedLLM(path)("another")


def test_a_prompt_that_is_asked_too_often_is_not_found(path: Path) -> None:
    llm.RecordingLLM(counting(), path)("a")
    replay = llm.RecordedLLM(path)
    replay("a")
    with pytest.raises(errors.NotFound, match="has no further response to the prompt 'a'"):
        replay("a")


def test_workers_get_the_replies_of_their_own_steps_in_whatever_order_they_ask(path: Path) -> None:
    recorder, recorded = llm.RecordingLLM(counting(), path), {}
    for number in (3, 1, 7, 5, 2, 8, 6, 4):
        with step(number):
            recorded[number] = recorder("the same prompt")
    replay = llm.RecordedLLM(path)

    def ask(index: int) -> llm.Response:
        with step(index + 1):
            return replay("the same prompt")

    for _ in range(3):  # a step that runs again asks again
        assert fakes.run_concurrently(ask) == [recorded[number] for number in range(1, 9)]


def test_a_step_that_was_recorded_twice_gets_what_it_went_on_with(path: Path) -> None:
    recorder = llm.RecordingLLM(counting(), path)
    for _ in range(2):
        with step(1):
            last = recorder("a")
    with step(1):
        assert llm.RecordedLLM(path)("a") == last


def test_another_step_gets_the_replies_to_the_same_prompt_in_order(path: Path) -> None:
    recorder, recorded = llm.RecordingLLM(counting(), path), []
    for number in (1, 2):
        with step(number):
            recorded.append(recorder("a"))
    replay = llm.RecordedLLM(path)
    for number in (11, 12):
        with step(number):
            assert replay("a") == recorded[number - 11]


def test_another_prompt_at_the_same_place_is_not_mistaken(path: Path) -> None:
    with step(1):
        llm.RecordingLLM(counting(), path)("a")
    with step(1), pytest.raises(errors.NotFound):
        llm.RecordedLLM(path)("b")


def test_the_place_is_noted_around_a_durable_model_too(path: Path) -> None:
    with step(4):
        recorder = llm.RecordingLLM(llm.JournaledLLM(counting()), path)
        recorder("a")
        recorder("b")
    assert [json.loads(line)["place"] for line in path.read_text().splitlines()] == [[4, "0"], [4, "1"]]


def test_a_model_that_raises_is_not_recorded(path: Path) -> None:
    with pytest.raises(OSError, match="fail"):
        llm.RecordingLLM(ScriptedLLM(0, failing=[(0, 0)]), path)("a")
    assert path.read_text() == ""


def test_threads_do_not_mix_their_lines(path: Path) -> None:
    recorder = llm.RecordingLLM(llm.FunctionLLM(lambda prompt: prompt * 10_000), path)
    fakes.run_concurrently(lambda number: [recorder(f"{number}/{turn}") for turn in range(5)])
    replay = llm.RecordedLLM(path)
    assert all(replay(f"{number}/{turn}").text[:3] == f"{number}/{turn}" for number in range(8) for turn in range(5))


def test_a_line_that_was_cut_by_a_kill_is_left_out_and_the_recording_goes_on(path: Path) -> None:
    recorder = llm.RecordingLLM(counting(), path)
    recorded = [recorder("a"), recorder("b")]
    path.write_bytes(path.read_bytes()[:-20])
    assert llm.RecordedLLM(path)("a") == recorded[0]
    with pytest.raises(errors.NotFound):
        llm.RecordedLLM(path)("b")
    again = llm.RecordingLLM(counting(), path)("b")
    assert llm.RecordedLLM(path)("a") == recorded[0]
    assert llm.RecordedLLM(path)("b") == again


def test_a_recording_goes_on_where_it_ended(path: Path) -> None:
    recorded = [llm.RecordingLLM(counting(), path)(prompt) for prompt in ("a", "b")]
    replay = llm.RecordedLLM(path)
    assert [replay("a"), replay("b")] == recorded


def test_a_file_that_cannot_be_written_is_a_set_up_error(tmp_path: Path) -> None:
    with pytest.raises(errors.SetupError, match=r"cannot be recorded in .*: No such file or directory"):
        llm.RecordingLLM(counting(), tmp_path / "nowhere" / "replies.jsonl")


def test_a_file_that_is_not_there_is_a_set_up_error(path: Path) -> None:
    with pytest.raises(errors.SetupError, match=r"Recording .* cannot be read: No such file or directory"):
        llm.RecordedLLM(path)


@pytest.mark.parametrize("text", ["no JSON\n", "[1, 2]\n", '{"place": null}\n', '{"place": 1}\n', "\udcff\n", "\n\n"])
def test_a_file_that_is_no_recording_is_a_set_up_error(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(errors.SetupError, match="is not a recording"):
        llm.RecordedLLM(path)
