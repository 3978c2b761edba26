"""Trackers against the real packages, offline; a package that is not installed is skipped."""

from collections import Counter

import pytest

from atoll import config, errors, runs, store, testing
from atoll.cli.run import start
from atoll.runs import trackers

pytestmark = pytest.mark.filterwarnings("ignore")  # of the packages


@pytest.fixture
def run_store(tmp_path):
    with store.Store(str(tmp_path / "a.db")) as run_store:
        yield run_store


def run_tracked(run_store, *names: str, llm: str = "none") -> str:
    folder = start.get_examples_dir() / "templates" / "function"
    run_config = config.load(folder, [{"run": {"iterations": 8, "workers": 1, "budget": None, "llm": llm}}])
    model = testing.ScriptedLLM(lambda step, call, prompt: "```python\nno program\n```")
    session = runs.Session(run_store, run_config, llm_factory=lambda plan: model)
    with session, trackers.track(session, run_store, names):
        session.run()
    return session.run_id


@pytest.mark.process
def test_tensorboard_gets_scores(run_store, tmp_path):
    pytest.importorskip("tensorboardX")
    run_id = run_tracked(run_store, f"tensorboard:{tmp_path / 'logs'}")
    (file,) = (tmp_path / "logs" / run_id).iterdir()
    assert b"atoll/best_score" in file.read_bytes()


@pytest.mark.process
def test_opentelemetry_gets_a_span_per_iteration_and_llm_call(run_store):
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    run_id = run_tracked(run_store, "otel", llm="local")
    spans = exporter.get_finished_spans()
    counts = Counter(span.name for span in spans)
    num_calls = sum(1 for _ in run_store.journal(run_id).read_kinds("replied"))
    assert counts == {"atoll.run": 1, "atoll.iteration": 8, "chat scripted": num_calls}
    (run_span,) = [span for span in spans if span.name == "atoll.run"]
    assert run_span.attributes is not None
    assert run_span.attributes["atoll.run"] == run_id
    call_span = next(span for span in spans if span.name == "chat scripted")
    assert call_span.parent == run_span.context
    assert call_span.attributes is not None
    assert call_span.attributes["gen_ai.operation.name"] == "chat"


@pytest.mark.process
def test_mlflow_gets_metrics_in_a_folder(run_store, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = (tmp_path / "mlruns").as_uri()
    run_id = run_tracked(run_store, f"mlflow:{uri}")
    client = mlflow.MlflowClient(tracking_uri=uri)
    (run,) = client.search_runs([client.get_experiment_by_name("atoll").experiment_id])
    assert run.info.run_name == run_id
    assert "best_score" in run.data.metrics


def test_unknown_tracker_and_missing_package_are_one_sentence():
    with pytest.raises(errors.SetupError, match=r"is unknown\. Use mlflow:URI"):
        trackers.make_tracker("alchemy", "run", {})
    try:
        import wandb  # noqa: F401
    except ImportError:
        with pytest.raises(errors.SetupError, match=r"pip install 'atoll\[wandb\]'"):
            trackers.make_tracker("wandb", "run", {})
