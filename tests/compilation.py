"""Compiles Atoll and the tests once for all processes of pytest-xdist; otherwise each of them compiles all files."""

import compileall
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion import rewrite

ROOT = Path(__file__).resolve().parents[1]
_PRIVATE_NAMES = ("_read_pyc", "_rewrite_test", "_write_pyc")  # of pytest 9.2; without them each process compiles all


def compile_share(config: pytest.Config) -> None:
    """Compiles every n-th file, if this is one of n processes. The others compile the rest at the same time."""
    process: dict[str, Any] = getattr(config, "workerinput", {})
    if not process or sys.dont_write_bytecode or not all(hasattr(rewrite, name) for name in _PRIVATE_NAMES):
        return
    number, count = int(process["workerid"].removeprefix("gw")), process["workercount"]
    for path in sorted(ROOT.joinpath("src").rglob("*.py"))[number::count]:
        compileall.compile_file(path, quiet=2)
    for path in list(_iter_tests(config))[number::count]:
        _rewrite(path, config)


def _iter_tests(config: pytest.Config) -> Iterator[Path]:
    """Yields the files that are collected, in that order."""
    for argument in config.args:
        start = ROOT / argument.partition("::")[0]
        for path in sorted(start.rglob("*.py")) if start.is_dir() else [start]:
            if path.name.startswith(("test_", "conftest")) and not config.hook.pytest_ignore_collect(
                collection_path=path, config=config
            ):
                yield path


def _rewrite(path: Path, config: pytest.Config) -> None:
    """Writes the file that pytest reads instead of the test; an import would also run it."""
    state = config.stash[rewrite.assertstate_key]
    folder = rewrite.get_cache_dir(path)
    target = folder / f"{path.stem}{rewrite.PYC_TAIL}"
    if rewrite.try_makedirs(folder) and rewrite._read_pyc(path, target) is None:
        source_hash, code = rewrite._rewrite_test(path, config)
        rewrite._write_pyc(state, code, source_hash, target)
