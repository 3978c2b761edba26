"""Every way to change a versioned value ends in the gate of the ledger."""

import ast
from pathlib import Path
from typing import Any

import pytest

from atoll import governed, store
from atoll.governed import principals
from atoll.governed.errors import AccessDenied
from atoll.store import access

SOURCES = Path(store.__file__).parents[1]
# Functions that write to a change log. Copies and indexes write changes that have passed the gate before.
WRITERS = {
    "store/versions/ledger.py": "the gate checks every request",
    "store/transfer.py": "copies whole stores into empty ones",
    "governed/parameters/files.py": "writes the index in memory of its own log",
    "governed/parameters/file_layout.py": "builds an index in memory to verify a folder",
}


def _has_log_writer(path: Path) -> bool:
    """Finds `LOG.begin_write()` of a change log, or an insert into its table."""
    text = path.read_text(encoding="utf-8")
    if "begin_write" not in text:  # saves the syntax trees of most files
        return False
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    names = [ast.unparse(call.func) for call in calls]
    return any(name.endswith(("change_log.begin_write", "_index.begin_write", "index.begin_write")) for name in names)


def test_only_the_ledger_writes_change_logs():
    found = {str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.py") if _has_log_writer(path)}
    assert found <= WRITERS.keys(), "pass changes to VersionLedger.apply, which has the gate"
    assert "store/versions/ledger.py" in found


@pytest.fixture(params=["memory", "files", "sqlite"])
def parameters(request, tmp_path):
    makers: dict[str, Any] = {
        "memory": governed.MemoryParameters,
        "files": lambda: governed.FileParameters(tmp_path / "params"),
        "sqlite": lambda: governed.StoredParameters(tmp_path / "atoll.db"),
    }
    made = makers[request.param]()
    yield made
    made.close()


ENTRANCES = {
    "set": lambda params: params.set("speed", 2, "test"),
    "rollback": lambda params: params.rollback("speed", 1, "test"),
    "lock": lambda params: params.lock("speed", "test"),
    "unlock": lambda params: params.unlock("speed", "test"),
    "alias": lambda params: params.alias("speed", "production", 1, "test"),
    "note": lambda params: params.note("speed", "approve", None, "test"),
    "ledger": lambda params: store.LedgerVersions(params.ledger.change_log).set("speed", "2", "test", "ann"),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_change_without_token_is_refused(parameters, entrance, monkeypatch):
    monkeypatch.delenv("ATOLL_TOKEN", raising=False)
    parameters.set("speed", 1, "initial value", author="ann")
    principals.add_principal(parameters, "ann", "admin", "first", author="ann")
    end = parameters.verify()
    with pytest.raises(AccessDenied, match="ATOLL_TOKEN"):
        ENTRANCES[entrance](parameters)
    assert parameters.verify() == end


def test_transaction_is_refused_as_a_whole(parameters, monkeypatch):
    monkeypatch.delenv("ATOLL_TOKEN", raising=False)
    token = principals.add_principal(parameters, "ann", "admin", "first", author="ann")
    with access.use_token(token):
        principals.set_policy(parameters, [{"prefix": "b", "needs": ["proposal"]}], "rules", author="ann")
        with pytest.raises(AccessDenied), parameters.transaction("both") as changes:  # noqa: PT012
            changes.set("a", 1)
            changes.set("b", 1)
    assert "a" not in parameters


def test_token_of_the_environment_is_used(parameters, monkeypatch):
    token = principals.add_principal(parameters, "ann", "admin", "first", author="ann")
    monkeypatch.setenv("ATOLL_TOKEN", token)
    parameters.set("speed", 1, "test", author="some program")
    assert parameters.history("speed")[0].author == "ann"


def test_last_admin_stays(parameters):
    token = principals.add_principal(parameters, "ann", "admin", "first", author="ann")
    with access.use_token(token), pytest.raises(Exception, match="last admin"):
        principals.revoke_principal(parameters, "ann", "leave")


def test_policy_applies_in_single_user_mode(parameters):
    rules = [{"prefix": "speed", "schema": {"maximum": 1}}, {"prefix": "prompt/", "quorum": 2, "needs": ["proposal"]}]
    principals.set_policy(parameters, rules, "rules", author="ann")
    with pytest.raises(Exception, match="above 1"):
        parameters.set("speed", 400, "fast", author="ann")
    evolver = governed.Evolver(parameters, governed.DEFER)
    proposal = evolver.propose("optimize", "T", {"key": "prompt/x", "value": "hi"}, "agent")
    assert (
        evolver.proposals.decide(
            proposal.id, "ann", approve=True, reason="ok", content_hash=proposal.content_hash
        ).status
        == "pending"
    )
    assert (
        evolver.proposals.decide(
            proposal.id, "bob", approve=True, reason="ok", content_hash=proposal.content_hash
        ).status
        == "approved"
    )
    assert evolver.apply(proposal.id).outcome == "prompt/x@1"
