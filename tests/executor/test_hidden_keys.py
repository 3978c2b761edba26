"""Keys that a candidate prints or returns are not stored."""

from typing import Any

from atoll import executor, sandbox, secret_scanner

KEY = "sk-" + "a1B2c3D4" * 4


def make_job():
    return lambda request: {
        "artifacts": {"env": request["text"]},
        "scores": [1.0, 2.0],
        "metrics": {"a": 1.0, request["text"]: 2.0},
    }


def test_keys_in_results_are_hidden(monkeypatch):
    monkeypatch.setenv("SOME_SERVICE_TOKEN", "correct-horse-battery")
    with sandbox.ProcessSandbox(make_job) as pool:
        value: Any = executor.LocalExecutor(pool, 1).run({"text": f"{KEY} correct-horse-battery {'ab12' * 16}"}).value
    text = value["artifacts"]["env"]
    assert KEY not in text
    assert "correct-horse" not in text
    assert "ab12" * 16 in text  # a long result is not a key
    assert value["scores"] == [1.0, 2.0]
    assert KEY not in str(value)
    assert "correct-horse" not in str(value)  # not even as the name of a metric


def test_known_formats_urls_and_variables_are_hidden():
    texts = (KEY, "postgresql://me:hunter22@db/atoll", "value of the variable: tell-nobody")
    secrets = secret_scanner.find_secret_variables({"DB_PASSWORD": "tell-nobody", "HOME": "postgresql"})
    hidden = [secret_scanner.hide_keys(text, secrets) for text in texts]
    assert hidden[1].startswith("postgresql://")
    assert not any(secret in " ".join(hidden) for secret in (KEY, "hunter22", "tell-nobody"))
    assert secret_scanner.hide_keys("tokens: 5000, 3.5 s", {}) == "tokens: 5000, 3.5 s"
