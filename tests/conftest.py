"""Fixtures and settings that all tests share."""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tests import compilation, postgres
from tests.repetitions import choose

# Small matrices gain nothing from threads of OpenBLAS, and its idle threads spin: a law search took twice as much CPU
# time. NumPy reads this when it is imported. Processes that tests start inherit it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The size of the terminal that started the tests. GNU Readline sets it for the processes of pytest-xdist.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)

# A shell that starts the tests in the background makes them ignore SIGINT, and their children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

TESTS = Path(__file__).resolve().parent
pytest.register_assert_rewrite("atoll.testing")
# The same examples on every machine; a loaded one may be slow, so there is no limit for making or running an example.
hypothesis.settings.register_profile(
    "atoll",
    derandomize=True,
    deadline=None,
    max_examples=choose(20, 60),
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("atoll")


# Folders and files whose tests `scripts/test --fast` leaves out, by marker. Single tests are marked where they are.
TIERS = {
    "browser": ("dashboard/browser/",),
    "process": (
        *("bench/", "chaos/", "docs/", "executor/", "integration/", "mind/workspace/", "sandbox/", "testing/"),
        # All of "cli/" but the verbs that only read or change a store: those run in the process of the test.
        *(f"cli/test_{name}.py" for name in ("base_install", "baselines", "budget", "check", "compare", "dashboard")),
        *(f"cli/test_{name}.py" for name in ("dashboard_during_run", "demo", "doctor", "export", "extras")),
        *(f"cli/test_{name}.py" for name in ("import_checkpoint", "init", "join", "list_runs", "llm", "llm_failures")),
        *(f"cli/test_{name}.py" for name in ("llm_progress", "mailbox", "main", "openevolve_options", "run", "show")),
        *("cli/test_store.py", "cli/test_worldlines.py"),
        *(f"llm/test_{name}.py" for name in ("billing", "chaos", "command_line", "http_client", "pydantic_ai_chat")),
        *(f"llm/test_{name}.py" for name in ("mailbox", "model_server", "secrets", "services", "transcript")),
        *("llm/test_json_output.py", "llm/test_openai_http.py", "programs/test_folder_text.py"),
        *("llmsr/test_output_task.py", "programs/test_llm_loop.py"),
        *(f"runs/test_{name}.py" for name in ("coordinator", "hostile_replies", "run_llm_recorded")),
        *(f"programs/test_{name}.py" for name in ("edit_proposer", "openevolve_contract")),
        *("config/test_systems.py", "governed/parameters/test_processes.py", "governed/test_examples.py"),
        *("store/test_leases.py", "store/test_run_lock.py", "mind/test_resume.py", "dashboard/test_snapshots.py"),
        *(
            f"dashboard/test_{name}.py"
            for name in ("api", "episodes", "event_stream", "governance", "playbook", "worldlines")
        ),
        *(f"governed/agent/{name}.py" for name in ("skills/test_skills", "tools/test_tools")),
        *(f"programs/test_{name}.py" for name in ("build", "failures", "folder_evaluator", "openevolve_folder")),
        *("evolve/test_evolve.py", "llm/test_hosted.py", "mind/test_build.py"),
        *(f"survival/test_{name}.py" for name in ("build", "episode_reports", "live_controls")),
        "survival/grid/test_survival_grid.py",
        *("test_budgets.py", "test_compatibility.py", "test_examples.py", "test_strategies.py", "test_vocabulary.py"),
    ),
    "statistical": (
        *(f"cluster/test_{name}.py" for name in ("clusters", "evolver_ordered", "random_features", "selectors")),
        *(
            f"mutation/test_{name}.py"
            for name in ("edit_mutator", "syntax_mutator", "syntax_search", "syntax_validity")
        ),
        *("cluster/test_populations.py", "programs/test_population.py", "programs/test_minibatch.py"),
        *("fuzz/", "llmsr/laws/", "llmsr/test_presets.py", "llmsr/test_spawn_evolver.py", "mutation/tuner/"),
    ),
}
# Files and folders whose tests share expensive fixtures or caches: one process runs all of them.
SHARED = (
    *("dashboard/browser/", "executor/test_ray.py", "survival/test_episode_reports.py"),
    *("test_architecture.py", "test_vocabulary.py"),
    *(f"runs/test_{name}.py" for name in ("html_export", "data_export", "data_export_csv", "markdown_report")),
    *("llm/test_chaos.py", "mind/workspace/test_git_backend.py", "programs/test_failures.py"),
    *("llmsr/laws/test_regressor.py", "llm/test_secrets.py", "cli/test_worldlines.py"),
    "governed/evidence/test_off_policy.py",
)
# Folders and files with single long tests. They are distributed one by one, and start early, so that the last processes
# end together.
LONG = ("chaos/", "docs/", "integration/", "test_examples.py", "test_compatibility.py")
POSTGRES_FIXTURES = {"postgres_server", "postgres_url"}


def _shorten(path: Path) -> str:
    """Returns the path below `tests`; with strings, because pathlib takes seconds for thousands of tests."""
    return str(path).removeprefix(f"{TESTS}/")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collects without the garbage collector: what is imported and collected stays."""
    gc.disable()
    try:
        compilation.compile_share(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skips the import of files that the marker expression leaves out."""
    excluded = [marker for marker in TIERS if f"not {marker}" in config.option.markexpr]
    path = _shorten(collection_path)
    return any(f"{path}/".startswith(TIERS[marker]) or path.startswith(TIERS[marker]) for marker in excluded) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _get_turn(_shorten(item.path)))
    for item in items:
        path = _shorten(item.path)
        for marker, prefixes in TIERS.items():
            if path.startswith(prefixes):
                item.add_marker(marker)
        if "postgres" in item.name or POSTGRES_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("process")


def _get_turn(path: str) -> int:
    """Returns when the tests of a file start: those that one process must run first, then the long ones."""
    return 0 if path.startswith(SHARED) else 1 if path.startswith(LONG) else 2


class SharedFileScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Distributes tests by file, those in `LONG` one by one, and those of a file or folder in `SHARED` together.

    One process makes the fixtures of a file, and the scheduler, which scans all of its scopes after each test, has few.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.removeprefix("tests/")
        file = path.partition("::")[0]
        return next((prefix for prefix in SHARED if path.startswith(prefix)), nodeid if path.startswith(LONG) else file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    if config.option.dist != "worksteal":
        return None
    config.option.loadscopereorder = False  # the items are in order
    return SharedFileScheduling(config, log)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Server]:
    with postgres.serving() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: postgres.Server) -> Iterator[str]:
    """URL of an empty PostgreSQL store."""
    with postgres_server.database() as url:
        yield url
