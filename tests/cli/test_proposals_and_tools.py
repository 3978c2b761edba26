"""Commands of `proposals`, `tools` and `skills`."""

import asyncio
import json

import pytest

from atoll import cli

SAY = {
    "name": "say",
    "description": "Says it.",
    "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "execution_type": "command",
    "command": "echo {{.text}}",
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("ATOLL_STORE", str(tmp_path / "atoll.db"))
    return tmp_path


@pytest.fixture
def told(place, capsys):
    def tell(*arguments, status=0):
        capsys.readouterr()
        assert cli.main(list(arguments)) == status
        return capsys.readouterr()

    return tell


def written(place, content, name="content.json"):
    path = place / name
    path.write_text(json.dumps(content))
    return str(path)


def submitted(told, place, kind="optimize", content=None, author="agent"):
    path = written(place, content or {"key": "speed", "value": 3})
    return json.loads(told("proposals", "submit", kind, path, "--title", "A title", "--author", author, "--json").out)


def test_approved_proposal_creates_version(told, place):
    made = submitted(told, place)
    assert (made["status"], made["author"]) == ("pending", "agent")
    assert made["id"] in told("proposals", "list", "--status", "pending").out
    assert '"value": 3' in told("proposals", "show", made["id"]).out
    assert "is applied: speed@1" in told("proposals", "approve", made["id"], "--reason", "fine", "--author", "ann").out
    assert told("proposals", "list", "--status", "pending", "--json").out.strip() == "[]"
    assert "No approved proposals" in told("proposals", "apply").err


def test_proposals_cannot_be_changed_as_parameters(told, place):
    made = submitted(told, place)
    told("proposals", "reject", made["id"], "--reason", "no", "--author", "ann")
    key, why = f"proposals/{made['id']}", ("--reason", "oops", "--author", "bob")
    values = written(place, {key: {"status": "approved"}})
    for change in (["set", key, "{}"], ["rollback", key, "1"], ["alias", key, "now", "1"], ["import", values]):
        assert "has a way of its own" in told("params", *change, *why, status=2).err
    assert json.loads(told("proposals", "show", made["id"], "--json").out)["status"] == "rejected"


@pytest.mark.parametrize("key", ["shadow/ema/alpha", "control/mine", "playbook/x", "rollout/speed"])
def test_reserved_key_cannot_be_proposed(told, place, key):
    path = written(place, {"key": key, "value": 1})
    said = told("proposals", "submit", "optimize", path, "--title", "A title", "--author", "mallory", status=2)
    assert "has a way of its own" in said.err


def test_author_cannot_approve_and_nobody_approves_twice(told, place):
    made = submitted(told, place)
    said = told("proposals", "approve", made["id"], "--reason", "mine", "--author", "AGENT", status=2)
    assert "a change of their own" in said.err
    told("proposals", "reject", made["id"], "--reason", "no", "--author", "ann")
    again = told("proposals", "approve", made["id"], "--reason", "yes", "--author", "bob", status=2)
    assert "is rejected, not pending" in again.err


def test_edit_voids_approvals(told, place):
    made = submitted(told, place)
    edited = written(place, {"key": "speed", "value": 4})
    told("proposals", "edit", made["id"], edited, "--reason", "better", "--author", "agent")
    said = told(
        "proposals",
        "approve",
        made["id"],
        "--reason",
        "ok",
        "--author",
        "ann",
        "--hash",
        made["content_hash"],
        status=2,
    )
    assert "look again" in said.err
    told("proposals", "withdraw", made["id"], "--reason", "on second thought", "--author", "agent")


def test_tool_is_proposed_approved_called_and_rolled_back(told, place):
    for number, command in enumerate(("echo {{.text}}", "printf %s {{.text}}"), start=1):
        path = written(place, {**SAY, "command": command})
        made = json.loads(told("tools", "propose", path, "--author", "agent", "--json").out)
        told("proposals", "approve", made["id"], "--reason", "read it", "--author", "ann")
        assert json.loads(told("tools", "list", "--json").out)[0]["version"] == number
    asked = json.dumps({"text": "hi; id"})
    assert told("tools", "call", "say", "--input", asked).out == "hi; id\n"
    assert json.loads(told("tools", "call", "say", "--input", "{}", "--json", status=1).out)["is_error"]
    told("tools", "rollback", "say", "1", "--reason", "it was better", "--author", "ann")
    assert json.loads(told("tools", "show", "say", "--json").out)["command"] == "echo {{.text}}"


def test_serve_with_agent_serves_proposal_tools(told, place, monkeypatch):
    mcp = pytest.importorskip("mcp")
    from atoll.governed.agent.tools import mcp_server

    path = written(place, SAY)
    proposal = json.loads(told("tools", "propose", path, "--author", "agent", "--json").out)
    told("proposals", "approve", proposal["id"], "--reason", "read it", "--author", "ann")
    served = []

    def serve(builder, runner, port, extra_tools=()):
        async def call_tools():
            async with mcp.Client(mcp_server.make_server(builder, runner, extra_tools)) as client:
                served.append([tool.name for tool in (await client.list_tools()).tools])
                if extra_tools:
                    definition = {**SAY, "name": "shout"}
                    result = await client.call_tool("CreateTool", {"title": "Shout", "definition": definition})
                    assert not result.is_error
                    skill = {"name": "greet", "description": "Greets.", "content": "Say hello."}
                    await client.call_tool("LearnSkill", {"definition": skill})
                    reflection = await client.call_tool("Reflect", {"summary": "Greetings work."})
                    assert not reflection.is_error
                    assert (await client.call_tool("CreateTool", {"title": "nothing"})).is_error

        asyncio.run(call_tools())

    monkeypatch.setattr(mcp_server, "serve", serve)
    told("tools", "serve")
    told("tools", "serve", "--agent", "helper")
    assert served == [["say"], ["say", "CreateTool", "LearnSkill", "Reflect"]]
    pending = json.loads(told("proposals", "list", "--status", "pending", "--json").out)
    assert [(row["author"], row["type"], row["title"]) for row in pending][0] == ("helper", "new_tool", "Shout")
    assert [row["name"] for row in json.loads(told("tools", "list", "--json").out)] == ["say"]  # not approved yet


def test_skill_is_proposed_and_exported(told, place):
    folder = place / "greet"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: greet\ndescription: Greets people.\n---\nSay hello.\n")
    made = json.loads(told("skills", "propose", str(folder), "--author", "agent", "--json").out)
    told("proposals", "approve", made["id"], "--reason", "harmless", "--author", "ann")
    assert "1 uses, 100%" in told("skills", "record-use", "greet", "--success").out
    assert "Say hello." in told("skills", "show", "greet").out
    assert "greet" in told("skills", "list").out
    told("skills", "export", "greet", str(place / "out"))
    assert (place / "out" / "greet" / "SKILL.md").is_file()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["proposals", "show", "p-none"], "p-none"),
        (["proposals", "list", "--status", "odd"], "No proposal is ever 'odd'"),
        (["tools", "show", "none"], "none"),
        (["tools", "call", "none", "--input", "{"], "no JSON"),
        (["skills", "show", "none"], "none"),
        (["skills", "propose", "nowhere"], "cannot be read"),
    ],
)
def test_unknown_names_print_one_sentence(told, place, arguments, sentence):
    submitted(told, place)
    assert sentence in told(*arguments, status=2).err


def test_secret_or_invalid_tool_is_not_stored(told, place):
    submitted(told, place)
    secret = written(place, {**SAY, "command": "curl -H k:" + "AKIA" + "IOSFODNN7EXAMPLE"})
    assert "looks like a secret" in told("tools", "propose", secret, "--author", "agent", status=1).err
    odd = written(place, {**SAY, "name": "../up"})
    assert "tool" in told("tools", "propose", odd, "--author", "agent", status=2).err
    assert len(json.loads(told("proposals", "list", "--json").out)) == 1
