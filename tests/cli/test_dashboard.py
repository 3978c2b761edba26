"""Command `dashboard`."""

import re
import signal
import socket
import subprocess
import sys

import httpx2
import pytest

from atoll import dashboard, store
from tests.cli import apps


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "atoll.db")
    with store.open(path) as run_store:
        run_store.create_run("run")
    return path


@pytest.fixture
def shell(capsys, path):
    return apps.Shell(capsys, path)


def test_dashboard_prints_address_and_ends_with_ctrl_c(path):
    command = [sys.executable, "-m", "atoll", "dashboard", "--store", path, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        result = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", process.stdout.readline())
        assert result
        with httpx2.Client(timeout=60, follow_redirects=True) as browser:
            assert browser.get(result[0]).status_code == 200
            session = result[0].partition("/?")[0] + "/api/session"
            assert browser.get(session).json()["can_change"] is True
            assert httpx2.get(session, timeout=60).json()["can_change"] is False
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_public_address_needs_token(shell):
    assert "--token" in shell.fail("dashboard", "--host", "0.0.0.0", "--port", "0")


def test_port_in_use_prints_one_sentence(shell, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = shell.fail("dashboard", "--port", str(port))
    assert f"Cannot listen on 127.0.0.1:{port} (Address already in use)." in message
    assert "Pass another --port." in message


def test_missing_extra_prints_install_command(shell, monkeypatch):
    monkeypatch.delattr(dashboard, "server", raising=False)
    monkeypatch.setitem(sys.modules, "atoll.dashboard.server", None)
    assert "pip install 'atoll[dashboard]'" in shell.fail("dashboard")
