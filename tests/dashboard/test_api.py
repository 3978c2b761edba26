"""Fuzzes the API with its own schema."""

import hypothesis
import pytest
from hypothesis import HealthCheck
from starlette.testclient import TestClient

from atoll.dashboard import server
from tests.dashboard.conftest import TOKEN

WAITING_PATHS = ("/sse/timeline", "/api/agent/changes")  # tests of their own read them
HEADERS = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def api_client(run_store):
    """Client with the token."""
    app = server.create_app(run_store, token=TOKEN)
    with TestClient(app, base_url="http://127.0.0.1", headers=HEADERS, raise_server_exceptions=False) as client:
        yield client


def operations(client):
    import schemathesis  # takes a second to load

    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    return [result.ok() for result in schema.get_all_operations()]  # type: ignore[union-attr] # the schema is valid


@pytest.mark.parametrize(
    "num_examples", [4, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])], ids=["few", "many"]
)
def test_api_never_returns_server_error(num_examples, api_client, run_store):
    runs = [run.id for run in run_store.list_runs()]
    for operation in operations(api_client):
        if operation.path in WAITING_PATHS:
            continue

        @hypothesis.settings(
            max_examples=num_examples,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
            phases=[hypothesis.Phase.generate],
        )
        @hypothesis.given(case=operation.as_strategy(), position=hypothesis.strategies.integers(0, 2 * len(runs)))
        def send(case, position):
            if "run" in (case.path_parameters or {}) and position < len(runs):  # random names rarely match a run
                case.path_parameters["run"] = runs[position]
            kwargs = case.as_transport_kwargs(base_url="http://127.0.0.1")
            query = {name: kwargs[name] for name in ("method", "url", "params", "json", "data") if name in kwargs}
            result = api_client.request(**query)
            assert result.status_code < 500, (query, result.text[:500])
            if result.status_code == 200:
                case.operation.validate_response(result)  # the body has the described form

        send()


def test_api_describes_every_operation(api_client):
    for operation in operations(api_client):
        definition = operation.definition.raw
        assert definition.get("description"), operation.label
        assert definition.get("tags"), operation.label
        content = definition["responses"]["200"]["content"]
        assert content, operation.label
