"""Experiment trackers: MLflow, Weights & Biases, TensorBoard and OpenTelemetry as profilers of a run.

A tracker only observes. If its service fails during a run, that is logged once and the run continues.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from atoll import errors, llm, system
from atoll.runs.session import Session
from atoll.runs.summary import summarize
from atoll.store import Store

log = logging.getLogger(__name__)
NAMES = "mlflow:URI, wandb[:PROJECT], tensorboard:DIR or otel"


class Tracker(Protocol):
    """Destination of the metrics of a run."""

    def log(self, step: int, metrics: Mapping[str, float], seconds: float) -> None:
        """Logs the metrics of an applied iteration that took some seconds."""

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Logs the summary and closes the tracker."""


def make_tracker(name: str, run_id: str, settings: Mapping[str, Any]) -> Tracker:
    """Makes a tracker from a name such as `tensorboard:logs`.

    Raises:
        SetupError: The name is unknown, or its package is not installed.
    """
    kind, _, target = name.partition(":")
    makers: Mapping[str, Callable[[], Tracker]] = {
        "mlflow": lambda: MLflowTracker(target, run_id, settings),
        "wandb": lambda: WandbTracker(target or "atoll", run_id, settings),
        "tensorboard": lambda: TensorBoardTracker(target or "runs", run_id),
        "otel": lambda: OpenTelemetryTracker(run_id, settings),
    }
    if kind not in makers:
        raise errors.SetupError(f"Tracker {name!r:.60} is unknown. Use {NAMES}.")
    try:
        return makers[kind]()
    except ImportError as error:
        raise errors.SetupError(
            f"--track {kind} needs a package that is not installed ({error}). Run pip install 'atoll[{kind}]'."
        ) from error


class MLflowTracker:
    """Run of MLflow: settings as parameters, metrics by iteration."""

    def __init__(self, uri: str, run_id: str, settings: Mapping[str, Any]) -> None:
        import mlflow

        client = mlflow.MlflowClient(tracking_uri=uri or None)
        experiment = client.get_experiment_by_name("atoll")
        experiment_id = experiment.experiment_id if experiment else client.create_experiment("atoll")
        self._client, self._run = client, client.create_run(experiment_id, run_name=run_id).info.run_id
        for key, value in settings.items():
            client.log_param(self._run, key, str(value)[:250])

    def log(self, step: int, metrics: Mapping[str, float], seconds: float) -> None:
        for key, value in metrics.items():
            self._client.log_metric(self._run, key, value, step=step)

    def finish(self, summary: Mapping[str, Any]) -> None:
        self._client.set_tag(self._run, "status", summary["status"])
        self._client.set_terminated(self._run, "FAILED" if summary["status"] == "failed" else "FINISHED")


class WandbTracker:
    """Run of Weights & Biases; `WANDB_MODE=offline` writes files only."""

    def __init__(self, project: str, run_id: str, settings: Mapping[str, Any]) -> None:
        import wandb

        self._run = wandb.init(project=project, name=run_id, config=dict(settings))

    def log(self, step: int, metrics: Mapping[str, float], seconds: float) -> None:
        self._run.log(dict(metrics), step=step)

    def finish(self, summary: Mapping[str, Any]) -> None:
        self._run.summary.update({"status": summary["status"], "best_score": summary["best_score"]})
        self._run.finish()


class TensorBoardTracker:
    """Event file in `DIR/RUN`."""

    def __init__(self, folder: str, run_id: str) -> None:
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(logdir=f"{folder}/{run_id}")

    def log(self, step: int, metrics: Mapping[str, float], seconds: float) -> None:
        for key, value in metrics.items():
            self._writer.add_scalar(f"atoll/{key}", value, step)

    def finish(self, summary: Mapping[str, Any]) -> None:
        self._writer.add_text("atoll/summary", f"{summary['status']}: best score {summary['best_score']}")
        self._writer.close()


class OpenTelemetryTracker:
    """One trace per run, with a span for each iteration and each LLM call.

    Exporters come from the environment (`OTEL_...`). Spans of LLM calls have the attributes of OpenTelemetry's
    conventions for generative AI.
    """

    def __init__(self, run_id: str, settings: Mapping[str, Any]) -> None:
        from opentelemetry import trace

        self._tracer, self._trace = trace.get_tracer("atoll"), trace
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            trace.set_tracer_provider(_make_provider())
            self._tracer = trace.get_tracer("atoll")
        attributes = {"atoll.run": run_id, **{f"atoll.{key}": str(value) for key, value in settings.items()}}
        self._span = self._tracer.start_span("atoll.run", attributes=attributes)

    def log(self, step: int, metrics: Mapping[str, float], seconds: float) -> None:
        attributes = {"atoll.iteration": step, **{f"atoll.{key}": value for key, value in metrics.items()}}
        self._add_span("atoll.iteration", seconds, attributes)

    def log_response(self, response: llm.Response, seconds: float) -> None:
        """Adds the span of an LLM call that took some seconds."""
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.response.model": response.model}
        usage = {"gen_ai.usage.input_tokens": response.cost.tokens_in}
        usage["gen_ai.usage.output_tokens"] = response.cost.tokens_out
        try:
            self._add_span(f"chat {response.model}", seconds, {**attributes, **usage})
        except Exception:  # the response is paid for
            log.exception("The span of an LLM call could not be added.")

    def _add_span(self, name: str, seconds: float, attributes: Mapping[str, Any]) -> None:
        end, context = time.time_ns(), self._trace.set_span_in_context(self._span)
        start = end - int(seconds * 1e9)
        self._tracer.start_span(name, context=context, start_time=start, attributes=attributes).end(end)

    def finish(self, summary: Mapping[str, Any]) -> None:
        self._span.set_attribute("atoll.status", str(summary["status"]))
        self._span.end()
        provider: Any = self._trace.get_tracer_provider()
        if hasattr(provider, "force_flush"):  # it has a buffer
            provider.force_flush()


def _make_provider() -> Any:
    """Returns a provider that exports to `OTEL_EXPORTER_OTLP_ENDPOINT`."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


@contextlib.contextmanager
def track(session: Session, run_store: Store, names: Sequence[str]) -> Iterator[None]:
    """Sends the metrics of a session to trackers while the block runs."""
    config_data = session.run_config.to_data()
    settings = {"system": config_data["system"], "task": config_data["folder"]}
    settings |= {key: value for key, value in config_data["run"].items() if value is not None}
    trackers = [make_tracker(name, session.run_id, settings) for name in names]
    best_score: float | None = None

    def observe(event: Any) -> None:
        nonlocal best_score
        if not isinstance(event, system.OnIterationApplied):
            return
        applied = event.payload
        scores = [fn.evaluation.score for fn, _ in applied.result.children if fn.evaluation]
        known_scores = [score for score in scores if score is not None]
        earlier = [score for score in (best_score, applied.best_score) if score is not None]
        best_score = max([*earlier, *known_scores], default=None)
        cost = applied.usage.cost
        metrics = {"evaluations": float(applied.usage.evaluations), "llm_calls": float(cost.calls)}
        metrics |= {"cost_usd": cost.usd, "tokens": float(cost.tokens_in + cost.tokens_out)}
        metrics |= {"best_score": best_score} if best_score is not None else {}
        metrics |= {"score": max(known_scores)} if known_scores else {}
        for tracker in trackers:
            tracker.log(applied.applied_count, metrics, applied.result.cost.seconds)

    remove = session.evolver.use_profiler(observe)
    for tracker in trackers:
        if isinstance(tracker, OpenTelemetryTracker) and session.call_tracker is not None:
            session.call_tracker.on_response = tracker.log_response
    try:
        yield
    finally:
        remove()
        summary = summarize(run_store, session.run_id).to_data()
        for tracker in trackers:
            try:
                tracker.finish(summary)
            except Exception:
                log.exception("A tracker could not be closed. The run is saved in the store.")
