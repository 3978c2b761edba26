"""The API against its own description: whatever is asked, nothing breaks."""

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck
from starlette.testclient import TestClient

from atoll.dashboard import server
from tests.dashboard.conftest import TOKEN

ENDLESS = "/sse/timeline"  # tests/dashboard/test_stream.py reads that
HEADERS = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def owned(kept):
    """Somebody who may do everything."""
    app = server.create_app(kept, token=TOKEN)
    with TestClient(app, base_url="http://127.0.0.1", headers=HEADERS, raise_server_exceptions=False) as client:
        yield client


def operations(client):
    described = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    return [found.ok() for found in described.get_all_operations()]  # type: ignore[union-attr] # ours is sound


@pytest.mark.parametrize(
    "num_examples", [4, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])], ids=["few", "many"]
)
def test_no_question_breaks_the_server(num_examples, owned, kept):
    runs = [run.id for run in kept.list_runs()]
    for operation in operations(owned):
        if operation.path == ENDLESS:
            continue

        @hypothesis.settings(
            max_examples=num_examples,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
            phases=[hypothesis.Phase.generate],
        )
        @hypothesis.given(case=operation.as_strategy(), place=hypothesis.strategies.integers(0, 2 * len(runs)))
        def ask(case, place):
            if "run" in (case.path_parameters or {}) and place < len(runs):  # else it would hardly meet one
                case.path_parameters["run"] = runs[place]
            made = case.as_transport_kwargs(base_url="http://127.0.0.1")
            asked = {name: made[name] for name in ("method", "url", "params", "json", "data") if name in made}
            found = owned.request(**asked)
            assert found.status_code < 500, (asked, found.text[:500])

        ask()


def test_every_operation_is_described(owned):
    for operation in operations(owned):
        told = operation.definition.raw
        assert told.get("description"), operation.label
        assert told.get("tags"), operation.label
        answer = told["responses"]["200"]["content"]
        assert answer, operation.label
