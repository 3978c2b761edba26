"""Progress and control of `atoll.evolve`: events, lines on stderr, Ctrl-C, results, coroutines and kinds of LLMs."""

import asyncio
import os
import signal
import sys
import threading
import time
import types
from typing import Any

import pytest

import atoll
from atoll import errors
from atoll.evolve import events, progress


def evaluate(text: str) -> tuple[float, str]:
    return float(len(text)), "longer"


def make_model() -> Any:
    """Returns a model that writes a longer text each time."""
    prompts = list[str]()

    def model(prompt: str) -> str:
        prompts.append(prompt)
        return f"IDEA: longer.\n```text\n{'word' * len(prompts)}\n```"

    return model


class TestEvents:
    def test_events_describe_run(self):
        received = list[events.Event]()
        result = atoll.evolve("go", evaluate, llm=make_model(), budget="6evals", on_event=received.append, workers=1)
        assert isinstance(received[0], events.Started)
        assert received[0].kind == "text"
        improved = [event for event in received if isinstance(event, events.Improved)]
        assert improved[-1].score == result.score
        assert improved[-1].content == result.best
        assert improved[-1].idea == "longer."
        last = [event for event in received if isinstance(event, events.Progress)][-1]
        assert (last.score, last.initial_score, last.evaluator_calls) == (result.score, 2.0, 6)
        assert last.tokens > 0
        assert last.llm_calls == 5
        assert received[-1] == events.Ended("done", result.reason, result.score)

    def test_failing_callback_does_not_end_run(self, caplog):
        def fail(event: events.Event) -> None:
            raise ValueError("no")

        result = atoll.evolve("a b c", lambda text: -len(text), budget="10evals", on_event=fail)
        assert result.status == "done"
        assert [record.message for record in caplog.records].count(
            "on_event raised ValueError: no; it is not called any more"
        ) == 1


class TestDisplay:
    def test_plain_lines_are_on_stderr(self, capsys):
        atoll.evolve("go", evaluate, llm=make_model(), budget="4evals")
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "evaluator calls, 3 LLM calls" in captured.err
        assert captured.err.rstrip().endswith("ended: budget of 4 evaluations used")

    def test_verbose_false_prints_nothing(self, capsys):
        atoll.evolve("go", evaluate, budget="4evals", verbose=False)
        assert capsys.readouterr().err == ""

    def test_terminal_gets_live_line(self, monkeypatch, capsys):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        display = progress.make_display(verbose=True)
        assert isinstance(display, progress.TerminalDisplay)
        display.show(events.Progress(1, 2.0, 1.0, 3, 4, 5, 0.0, 6.0))
        display.show(events.Ended("done", "budget used", 2.0))
        display.close()
        assert "score 2 (initial 1), 3 evaluator calls, 4 LLM calls" in capsys.readouterr().err

    def test_notebook_gets_html(self, monkeypatch):
        shown = list[str]()

        class ZMQInteractiveShell: ...

        class Handle:
            def update(self, content: str) -> None:
                shown.append(content)

        display_module: Any = types.SimpleNamespace(
            HTML=lambda text: text, display=lambda content, display_id: Handle()
        )
        shell: Any = types.ModuleType("IPython")
        shell.get_ipython, shell.display = ZMQInteractiveShell, display_module
        monkeypatch.setitem(sys.modules, "IPython", shell)
        display = progress.make_display(verbose=True)
        display.show(events.Progress(1, 2.0, 1.0, 3, 0, 0, 0.0, 6.0))
        display.show(events.Ended("done", "<budget>", 2.0))
        display.close()
        assert shown[0] == "<div>score 2 (initial 1), 3 evaluator calls, 6 s</div>"
        assert "ended: &lt;budget&gt;" in shown[-1]


class TestInterrupt:
    def test_ctrl_c_returns_best_so_far(self):
        def slow(text: str) -> float:
            time.sleep(0.01)
            return -float(len(text))

        interrupts: list[events.Event] = []

        def interrupt(event: events.Event) -> None:
            # Once: a second Ctrl-C while the first one ends the run is raised, and would end the tests.
            if isinstance(event, events.Progress) and event.iteration >= 3 and not interrupts:
                interrupts.append(event)
                os.kill(os.getpid(), signal.SIGINT)

        assert threading.current_thread() is threading.main_thread()
        result = atoll.evolve("a b c d e f", slow, budget="10000evals", on_event=interrupt, verbose=False)
        assert result.status == "interrupted"
        assert result.score >= result.initial_score
        assert result.cost.evaluator_calls < 10000

    def test_ctrl_c_before_first_score_is_raised(self):
        calls: list[str] = []

        def hang(text: str) -> float:
            calls.append(text)
            if len(calls) == 1:
                os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
            raise ValueError("interrupted")

        with pytest.raises(KeyboardInterrupt):
            atoll.evolve("a b c", hang, budget="10evals", verbose=False)


class TestCoroutines:
    def test_async_evaluator_shares_one_loop_and_runs_in_parallel(self):
        loops, active, most = set[int](), 0, 0

        async def evaluate_later(text: str, instance: int) -> float:
            nonlocal active, most
            loops.add(id(asyncio.get_running_loop()))
            active += 1
            most = max(most, active)
            await asyncio.sleep(0.01)
            active -= 1
            return 0.5

        result = atoll.evolve("a b c", evaluate_later, data=range(8), budget="16evals", workers=4, verbose=False)
        assert result.score == 0.5
        assert len(loops) == 1
        assert most == 4

    def test_async_llm(self):
        async def model(prompt: str) -> str:
            await asyncio.sleep(0)
            return "IDEA: longer.\n```text\na longer text\n```"

        result = atoll.evolve("go", evaluate, llm=model, budget="3evals", verbose=False)
        assert result.best == "a longer text"

    def test_pydantic_ai_model(self):
        from pydantic_ai import messages
        from pydantic_ai.models import function as function_models

        def respond(conversation: list[messages.ModelMessage], info: Any) -> messages.ModelResponse:
            return messages.ModelResponse([messages.TextPart("IDEA: longer.\n```text\na longer text\n```")])

        model = function_models.FunctionModel(respond)
        result = atoll.evolve("go", evaluate, llm=model, budget="3evals", verbose=False)  # type: ignore[arg-type]
        assert result.best == "a longer text"
        assert result.cost.tokens > 0


class TestResult:
    def test_history_and_repr(self):
        result = atoll.evolve("go", evaluate, llm=make_model(), budget="6evals", workers=1, verbose=False)
        history = result.history
        assert next(iter(history["score"])) == 2.0
        assert list(history["best_score"])[-1] == result.score
        assert list(history["idea"])[-1] == "longer."
        assert repr(result).startswith(
            "Result(score=20, initial_score=2, evaluator_calls=6, llm_calls=5, status='done'"
        )

    def test_history_without_pandas_is_list(self, monkeypatch):
        result = atoll.evolve("go", evaluate, budget="3evals", verbose=False)
        monkeypatch.setitem(sys.modules, "pandas", None)
        assert result.history[0]["id"] == "0.0"

    def test_plot_draws_best_score(self):
        matplotlib = pytest.importorskip("matplotlib")
        matplotlib.use("Agg")
        axes = atoll.evolve("go", evaluate, llm=make_model(), budget="6evals", verbose=False).plot()
        assert axes.get_ylabel() == "score"

    def test_plot_without_matplotlib_says_what_to_install(self, monkeypatch):
        result = atoll.evolve("go", evaluate, budget="3evals", verbose=False)
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(errors.SetupError, match="pip install matplotlib"):
            result.plot()


@pytest.mark.parametrize(("initial", "message"), [(len, "len is built into Python"), (lambda x: x, "A lambda cannot")])
def test_callable_without_source_is_one_sentence(initial, message):
    with pytest.raises(errors.SetupError, match=message):
        atoll.evolve(initial, lambda fn: 1.0)
