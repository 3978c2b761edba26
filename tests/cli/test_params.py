"""Commands of `params` and `audit`."""

import json
import sqlite3
from contextlib import closing

import pytest

from atoll import cli
from atoll.config import parameter_stores
from atoll.governed import principals, reserved_keys

WHY = ("-m", "because", "--author", "ann")


class Shell:
    """Runs verbs on one store and checks their exit status."""

    def __init__(self, capsys: pytest.CaptureFixture[str], store: str) -> None:
        self._capsys, self.store = capsys, store

    def __call__(self, *arguments: str, status: int = 0) -> str:
        self._capsys.readouterr()
        assert cli.main([*arguments, "--store", self.store]) == status
        output = self._capsys.readouterr()
        return output.out if status == 0 else output.err


@pytest.fixture(params=["atoll.db", "folder/"])
def shell(request, capsys, tmp_path):
    new_shell = Shell(capsys, f"{tmp_path}/{request.param}")
    new_shell("params", "set", "ema/alpha", "0.3", *WHY)
    return new_shell


def test_set_and_get(shell):
    assert shell("params", "get", "ema/alpha") == "0.3\n"
    assert shell("params", "set", "ema/alpha", "0.4", *WHY, "--expect", "1") == "Set ema/alpha, version 2.\n"
    assert json.loads(shell("params", "get", "ema/alpha", "--json")) == {
        "key": "ema/alpha", "value": 0.4, "version": 2
    }  # fmt: skip
    assert shell("params", "get", "ema/alpha", "--as-of", "1") == "0.3\n"
    assert shell("params", "get", "missing", "--default", "7") == "7\n"


def test_text_and_file_values(shell, tmp_path):
    shell("params", "set", "prompt", "Be brief.", *WHY)
    assert shell("params", "get", "prompt") == "Be brief.\n"
    (tmp_path / "prompt.txt").write_text("Be\nbriefer.")
    shell("params", "set", "prompt", f"@{tmp_path}/prompt.txt", *WHY)
    assert shell("params", "get", "prompt") == "Be\nbriefer.\n"
    assert "+briefer." in shell("params", "diff", "prompt")


def test_change_without_reason_changes_nothing(capsys, tmp_path):
    shell = Shell(capsys, str(tmp_path / "new.db"))
    assert "Pass -m TEXT" in shell("params", "set", "key", "1", status=2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["new.db", "folder/"])
@pytest.mark.parametrize("key", ["", "  ", "x" * 10_000, "日" * 10_000])
def test_invalid_key_leaves_nothing_on_disk(capsys, tmp_path, key, name):
    shell = Shell(capsys, f"{tmp_path}/{name}")
    message = (
        "A key has 10000 characters; the maximum is " if key.strip() else "The key of a change is empty. Pass a key."
    )
    assert shell("params", "set", key, "1", *WHY, status=2).startswith(f"atoll: {message}")
    assert list(tmp_path.iterdir()) == []


def test_history_rollback_and_lock(shell):
    shell("params", "set", "ema/alpha", "0.4", "-m", "faster", "--author", "bob")
    shell("params", "lock", "ema/alpha", "-m", "release week", "--author", "ann")
    text = shell("params", "set", "ema/alpha", "0.5", *WHY, status=2)
    assert text == "atoll: ema/alpha is locked by ann: release week\n"
    assert "as version 3." in shell("params", "rollback", "ema/alpha", "1", *WHY)
    shell("params", "unlock", "ema/alpha", *WHY)
    result = json.loads(shell("params", "history", "ema/alpha", "--json"))
    assert [(item["version"], item["value"], item["kind"], item["author"]) for item in result] == [
        (1, 0.3, "set", "ann"), (2, 0.4, "set", "bob"), (3, 0.3, "rollback", "ann")
    ]  # fmt: skip
    assert "faster" in shell("params", "history", "ema/alpha", "-n", "2")
    assert json.loads(shell("params", "list", "--json"))[0]["locked"] is None


def test_alias_points_at_version(shell):
    shell("params", "set", "ema/alpha", "0.4", *WHY)
    shell("params", "alias", "ema/alpha", "production", "1", *WHY)
    assert shell("params", "get", "ema/alpha@production") == "0.3\n"
    assert "@production=1" in shell("params", "list")
    assert "ema/alpha@1" in shell("params", "diff", "ema/alpha", "production")
    shell("params", "alias", "ema/alpha", "production", "none", *WHY)
    assert "ema/alpha@production" in shell("params", "get", "ema/alpha@production", status=2)
    assert "is not a version" in shell("params", "alias", "ema/alpha", "production", "two", *WHY, status=2)


@pytest.mark.parametrize("number", ["9223372036854775808", "9" * 5000])
def test_too_large_number_prints_one_sentence(shell, number):
    for arguments, text in (
        (("get", "ema/alpha", "--as-of", number), number[:5]),
        (("export", "--as-of", number), number[:5]),
        (("get", f"ema/alpha@{number}"), "ema/alpha@9"),
        (("diff", "ema/alpha", number), "ema/alpha@9"),
        (("diff", "ema/alpha", "1", number), "ema/alpha@9"),
        (("history", "ema/alpha", "-n", number), "Invalid value for '--limit' / '-n'"),
        (("watch", "--after", number), "Invalid value for '--after'"),
    ):
        output = shell("params", *arguments, status=2)
        assert text in output
        assert output.count("\n") == 1


@pytest.mark.parametrize("text", ["\N{SUPERSCRIPT TWO}", "0001-01-01T00:00+14:00", "soon"])
def test_invalid_time_prints_one_sentence(shell, text):
    message = shell("params", "get", "ema/alpha", "--as-of", text, status=2)
    assert message.startswith("atoll: ")
    assert message.count("\n") == 1


def test_largest_time_and_leading_zeros_work(shell):
    for moment in ("9223372036854775807", "0001"):
        assert shell("params", "get", "ema/alpha", "--as-of", moment) == "0.3\n"
    assert shell("params", "get", "ema/alpha@" + "0" * 30 + "1") == "0.3\n"


@pytest.mark.parametrize("seconds", ["nan", "-1"])
def test_watch_rejects_invalid_timeout(shell, seconds):
    assert "Invalid value for '--timeout'" in shell("params", "watch", "--timeout", seconds, status=2)


def test_watch_prints_changes(shell):
    shell("params", "set", "other", "1", *WHY)
    lines = shell("params", "watch", "ema/", "--after", "0", "--timeout", "0", "--json").splitlines()
    assert [json.loads(line)["key"] for line in lines] == ["ema/alpha"]
    assert "set other@1 1 (ann: because)" in shell("params", "watch", "--after", "1", "--timeout", "0")


def test_export_and_import(shell, capsys, tmp_path):
    shell("params", "set", "words", '["日", {"a": null}]', *WHY)
    shell("params", "export", "-o", str(tmp_path / "values.json"))
    other = Shell(capsys, str(tmp_path / "other.db"))
    assert other("params", "import", str(tmp_path / "values.json"), *WHY) == "Imported 2 parameters.\n"
    assert json.loads(other("params", "import", str(tmp_path / "values.json"), *WHY, "--json")) == {"keys": []}
    assert other("params", "export") == (tmp_path / "values.json").read_text()
    assert "one source" in other("params", "import", *WHY, status=2)


def test_secret_is_rejected_as_value_and_reason(shell):  # G88
    key = "ghp_" + "a1B2" * 9
    assert "looks like a secret" in shell("params", "set", "token", key, *WHY, status=2)
    assert "looks like a secret" in shell("params", "set", "x", "1", "-m", f"for {key}", status=2)
    assert shell("params", "list", "token") == shell("params", "list", "x")


def test_rules_reject_value(shell, tmp_path):
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"ema/": {"type": "number", "exclusiveMinimum": 0, "maximum": 1}}))
    text = shell("params", "set", "ema/alpha", "2", *WHY, "--rules", str(rules), status=2)
    assert text == "atoll: ema/alpha was not set: value is above 1.\n"
    shell("params", "set", "ema/alpha", "0.9", *WHY, "--rules", str(rules))


def test_audit_verify_detects_edit(shell, tmp_path):
    shell("params", "export", "--audit-log", "-o", str(tmp_path / "audit.jsonl"))
    assert shell("audit", "verify").startswith("Verified 1 changes.")
    assert json.loads(shell("audit", "verify", "--json", "--exported", str(tmp_path / "audit.jsonl")))["changes"] == 1
    log = tmp_path / "audit.jsonl"
    log.write_text(log.read_text().replace("0.3", "0.4"))
    assert "Change 1 does not match its hash: it was edited or moved." in shell(
        "audit", "verify", "--exported", str(log), status=1
    )


def test_trigger_in_store_is_reported(capsys, tmp_path):
    shell = Shell(capsys, f"{tmp_path}/atoll.db")
    shell("params", "set", "ema/alpha", "0.3", *WHY)
    with closing(sqlite3.connect(shell.store)) as file:
        file.execute("CREATE TRIGGER t AFTER INSERT ON changes BEGIN UPDATE changes SET reason = 'x'; END")
    assert "has objects that Atoll did not create: the trigger t on changes. " in shell("audit", "verify", status=1)


def test_signed_anchor_detects_shortened_log(shell, tmp_path):
    (tmp_path / "secret").write_text("word")
    shell("params", "set", "ema/alpha", "0.4", *WHY)
    shell("audit", "anchor", "--key-file", str(tmp_path / "secret"), "--append", str(tmp_path / "anchors"))
    options = ("audit", "verify", "--anchors", str(tmp_path / "anchors"), "--key-file", str(tmp_path / "secret"))
    assert "Verified 2 changes and 1 anchors." in shell(*options)
    shell("params", "export", "--audit-log", "-o", str(tmp_path / "log"))
    log = tmp_path / "log"
    log.write_text(log.read_text().splitlines(keepends=True)[0])
    assert "it was truncated." in shell(*options, "--exported", str(log), status=1)
    (tmp_path / "secret").write_text("guess")
    assert "not signed with this key" in shell(*options, status=1)


def test_reserved_keys_are_listed_with_all(shell):
    with parameter_stores.open_parameters(shell.store) as run_store:
        principals.set_policy(run_store, [], "no rules", author="ann")  # access/control, the only key under access/
        for prefix in set(reserved_keys.RESERVED_PREFIXES) - {"access/"}:
            run_store.set(f"{prefix}ema/alpha", 1, "because", author="ann")
    assert list(json.loads(shell("params", "export"))) == ["ema/alpha"]
    assert [item["key"] for item in json.loads(shell("params", "list", "--json"))] == ["ema/alpha"]
    assert len(json.loads(shell("params", "list", "--all", "--json"))) == 1 + len(reserved_keys.RESERVED_PREFIXES)
    assert [item["key"] for item in json.loads(shell("params", "list", "rollout/", "--json"))] == ["rollout/ema/alpha"]
    assert "playbook/" not in shell("params", "list")


def test_unknown_parameter_is_named(shell):
    assert (
        shell("params", "get", "nope", status=2) == "atoll: Parameter nope not found. 'atoll params list' shows all.\n"
    )
    assert shell("params", "get", "ema/alpha@9", status=2) == "atoll: Version ema/alpha@9 not found.\n"


def test_missing_store_prints_one_sentence(capsys, tmp_path):
    shell = Shell(capsys, str(tmp_path / "nothing.db"))
    assert "No parameters found in" in shell("params", "list", status=2)
    assert list(tmp_path.iterdir()) == []


def test_import_of_flyto_folder(capsys, tmp_path):
    folder = tmp_path / "flyto" / "evolve.penalty%2FY-express"
    (folder / "history").mkdir(parents=True)
    for n, value in ((1, 0.5), (2, 0.25)):
        row = {
            "Version": n,
            "Value": value,
            "Reason": f"r{n}",
            "Timestamp": f"2025-01-0{n}T00:00:00.123456789Z",
            "Author": "u",
        }
        (folder / "history" / f"v{n}.json").write_text(json.dumps(row))
        (folder / "current.json").write_text(json.dumps(row))
    (folder / "lock.json").write_text(json.dumps({"Reason": "frozen", "Timestamp": "2025-01-03T00:00:00Z"}))
    shell = Shell(capsys, str(tmp_path / "atoll.db"))
    assert shell("params", "import", "--flyto", str(tmp_path / "flyto")) == "Imported 1 parameters.\n"
    result = json.loads(shell("params", "history", "evolve.penalty/Y-express", "--json"))
    assert [(item["value"], item["reason"], item["author"], item["timestamp"][:10]) for item in result] == [
        (0.5, "r1", "u", "2025-01-01"), (0.25, "r2", "u", "2025-01-02")
    ]  # fmt: skip
    assert "locked by unknown: frozen" in shell("params", "set", "evolve.penalty/Y-express", "1", *WHY, status=2)
    shell("params", "unlock", "evolve.penalty/Y-express", *WHY)
    assert "is at version 2, not 0" in shell("params", "import", "--flyto", str(tmp_path / "flyto"), status=2)
    assert "No parameters found in" in shell("params", "import", "--flyto", str(tmp_path / "nowhere"), status=2)
    assert shell("audit", "verify").startswith("Verified 4 changes")


def test_help_of_every_params_command_has_examples(capsys):
    for verb in (
        "get",
        "set",
        "list",
        "history",
        "rollback",
        "lock",
        "unlock",
        "watch",
        "alias",
        "diff",
        "import",
        "export",
    ):
        assert cli.main(["params", verb, "--help"]) == 0
        assert f"atoll params {verb}" in capsys.readouterr().out


def test_settings_lists_bound_parameters(capsys, tmp_path):
    shell = Shell(capsys, f"{tmp_path}/atoll.db")
    task = tmp_path / "task"
    task.mkdir()
    text = 'system = "survival"\n[survival]\nmax_turns = "@param:turns"\n'
    (task / "atoll.toml").write_text(text)
    known = json.loads(shell("params", "settings", "mind", "--json"))
    assert {"setting": "mind.temperature", "value": 0.03, "parameter": None, "version": None} in known
    row = {"setting": "survival.max_turns", "value": "not set yet", "parameter": "turns", "version": None}
    assert row in json.loads(shell("params", "settings", str(task), "--json"))
    assert not (tmp_path / "atoll.db").exists()
    shell("params", "set", "turns", "9", *WHY)
    assert {**row, "value": 9, "version": 1} in json.loads(shell("params", "settings", str(task), "--json"))
    assert "survival.max_turns" in shell("params", "settings")


def test_shadow_compares_values_by_paired_runs(capsys, tmp_path):
    shell = Shell(capsys, f"{tmp_path}/atoll.db")
    (tmp_path / "atoll.toml").write_text('system = "survival"\n[survival]\nmax_turns = "@param:turns"\n')
    shell("params", "set", "turns", "2", *WHY)
    options = ("rollout", "shadow", "turns", "3", "--task", str(tmp_path), "--seeds", "2", "-i", "1", "--json")
    result = json.loads(shell(*options))
    assert (result["verdict"], result["sample_size"], result["num_calls"]) == ("extend", 2, 4)
    assert "needs one of --with" in shell("rollout", "shadow", "turns", "3", status=2)
    assert "no setting that is the parameter other" in shell("rollout", "shadow", "other", *options[3:], status=2)
