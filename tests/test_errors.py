"""The boundary to foreign code: what it raises becomes data, and what must pass does."""

import asyncio
import threading

import pytest

from atoll import errors


def raising(error: BaseException):
    def call():
        raise error

    return call


def test_what_foreign_code_returns_is_returned() -> None:
    assert errors.capture(lambda: 7) == 7


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no"), "ValueError: no"),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError(), "CancelledError: "),
        (errors.SetupError("say which"), "SetupError: say which"),
        (errors.RunFailed("cut"), "RunFailed: cut"),
    ],
)
def test_what_foreign_code_raises_is_data_with_its_type_and_its_words(error: BaseException, said: str) -> None:
    caught = errors.capture(raising(error))
    assert caught == errors.CaughtException(error)
    assert str(caught) == said


def test_a_journal_that_cannot_be_written_passes_and_so_does_what_is_named() -> None:
    with pytest.raises(errors.JournalFailed, match="full"):
        errors.capture(raising(errors.JournalFailed("full")))
    with pytest.raises(errors.SetupError, match="which"):
        errors.capture(raising(errors.SetupError("say which")), reraise=(errors.SetupError,))
    full = errors.JournalFailed("full")
    assert errors.capture(raising(full), reraise=(errors.SetupError,)) == errors.CaughtException(full)


def test_ctrl_c_passes_in_the_main_thread_and_is_foreign_in_another() -> None:
    with pytest.raises(KeyboardInterrupt):
        errors.capture(raising(KeyboardInterrupt()))
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(errors.capture(raising(KeyboardInterrupt()))))
    thread.start()
    thread.join(60)
    assert [str(each) for each in found] == ["KeyboardInterrupt: "]
