"""capture: exceptions of untrusted code become data; some exceptions pass."""

import asyncio
import threading

import pytest

from atoll import errors


def raising(error: BaseException):
    def call():
        raise error

    return call


def test_capture_returns_result() -> None:
    assert errors.capture(lambda: 7) == 7


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("no"), "ValueError: no"),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError(), "CancelledError: "),
        (errors.SetupError("say which"), "SetupError: say which"),
        (errors.RunFailed("cut"), "RunFailed: cut"),
    ],
)
def test_capture_returns_exception_with_type_and_message(error: BaseException, message: str) -> None:
    caught = errors.capture(raising(error))
    assert caught == errors.CaughtException(error)
    assert str(caught) == message


def test_capture_passes_journal_errors_and_named_exceptions() -> None:
    with pytest.raises(errors.JournalFailed, match="full"):
        errors.capture(raising(errors.JournalFailed("full")))
    with pytest.raises(errors.SetupError, match="which"):
        errors.capture(raising(errors.SetupError("say which")), reraise=(errors.SetupError,))
    full = errors.JournalFailed("full")
    assert errors.capture(raising(full), reraise=(errors.SetupError,)) == errors.CaughtException(full)


def test_capture_passes_ctrl_c_only_in_main_thread() -> None:
    with pytest.raises(KeyboardInterrupt):
        errors.capture(raising(KeyboardInterrupt()))
    result: list[object] = []
    thread = threading.Thread(target=lambda: result.append(errors.capture(raising(KeyboardInterrupt()))))
    thread.start()
    thread.join(60)
    assert [str(item) for item in result] == ["KeyboardInterrupt: "]
