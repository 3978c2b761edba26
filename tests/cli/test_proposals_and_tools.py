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
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("ATOLL_STORE", str(tmp_path / "atoll.db"))
    return tmp_path


@pytest.fixture
def run(directory, capsys):
    def run(*arguments, status=0):
        capsys.readouterr()
        assert cli.main(list(arguments)) == status
        return capsys.readouterr()

    return run


def written(directory, content, name="content.json"):
    path = directory / name
    path.write_text(json.dumps(content))
    return str(path)


def submitted(run, directory, kind="optimize", content=None, author="agent"):
    path = written(directory, content or {"key": "speed", "value": 3})
    return json.loads(run("proposals", "submit", kind, path, "--title", "A title", "--author", author, "--json").out)


def test_approved_proposal_creates_version(run, directory):
    submitted_proposal = submitted(run, directory)
    assert (submitted_proposal["status"], submitted_proposal["author"]) == ("pending", "agent")
    assert submitted_proposal["id"] in run("proposals", "list", "--status", "pending").out
    assert '"value": 3' in run("proposals", "show", submitted_proposal["id"]).out
    assert (
        "is applied: speed@1"
        in run(
            "proposals",
            "approve",
            submitted_proposal["id"],
            "--hash",
            submitted_proposal["content_hash"],
            "--reason",
            "fine",
            "--author",
            "ann",
        ).out
    )
    assert run("proposals", "list", "--status", "pending", "--json").out.strip() == "[]"
    assert "No approved proposals" in run("proposals", "apply").err


def test_proposals_cannot_be_changed_as_parameters(run, directory):
    submitted_proposal = submitted(run, directory)
    run("proposals", "reject", submitted_proposal["id"], "--reason", "no", "--author", "ann")
    key, why = f"proposals/{submitted_proposal['id']}", ("--reason", "oops", "--author", "bob")
    values = written(directory, {key: {"status": "approved"}})
    for change in (["set", key, "{}"], ["rollback", key, "1"], ["alias", key, "now", "1"], ["import", values]):
        assert (
            "Keys under proposals/ are reserved. Use the commands for proposals instead."
            in run("params", *change, *why, status=2).err
        )
    assert json.loads(run("proposals", "show", submitted_proposal["id"], "--json").out)["status"] == "rejected"


@pytest.mark.parametrize("key", ["shadow/ema/alpha", "control/mine", "playbook/x", "rollout/speed"])
def test_reserved_key_cannot_be_proposed(run, directory, key):
    path = written(directory, {"key": key, "value": 1})
    text = run("proposals", "submit", "optimize", path, "--title", "A title", "--author", "mallory", status=2)
    assert f"Keys under {key.partition('/')[0]}/ are reserved." in text.err


def test_author_and_late_reviewer_cannot_approve(run, directory):
    submitted_proposal = submitted(run, directory)
    text = run(
        "proposals",
        "approve",
        submitted_proposal["id"],
        "--hash",
        submitted_proposal["content_hash"],
        "--reason",
        "mine",
        "--author",
        "AGENT",
        status=2,
    )
    assert "AGENT wrote it, and authors cannot approve their own proposals" in text.err
    run("proposals", "reject", submitted_proposal["id"], "--reason", "no", "--author", "ann")
    again = run(
        "proposals",
        "approve",
        submitted_proposal["id"],
        "--hash",
        submitted_proposal["content_hash"],
        "--reason",
        "yes",
        "--author",
        "bob",
        status=2,
    )
    assert "is rejected, not pending" in again.err


def test_edit_voids_approvals(run, directory):
    submitted_proposal = submitted(run, directory)
    edited = written(directory, {"key": "speed", "value": 4})
    run("proposals", "edit", submitted_proposal["id"], edited, "--reason", "better", "--author", "agent")
    text = run(
        "proposals",
        "approve",
        submitted_proposal["id"],
        "--reason",
        "ok",
        "--author",
        "ann",
        "--hash",
        submitted_proposal["content_hash"],
        status=2,
    )
    assert "was edited after you read it. Read it again." in text.err
    run("proposals", "withdraw", submitted_proposal["id"], "--reason", "on second thought", "--author", "agent")


def test_tool_is_proposed_approved_called_and_rolled_back(run, directory):
    for number, command in enumerate(("echo {{.text}}", "printf %s {{.text}}"), start=1):
        path = written(directory, {**SAY, "command": command})
        submitted_proposal = json.loads(run("tools", "propose", path, "--author", "agent", "--json").out)
        run(
            "proposals",
            "approve",
            submitted_proposal["id"],
            "--hash",
            submitted_proposal["content_hash"],
            "--reason",
            "read it",
            "--author",
            "ann",
        )
        assert json.loads(run("tools", "list", "--json").out)[0]["version"] == number
    options = json.dumps({"text": "hi; id"})
    assert run("tools", "call", "say", "--input", options).out == "hi; id\n"
    assert json.loads(run("tools", "call", "say", "--input", "{}", "--json", status=1).out)["is_error"]
    run("tools", "rollback", "say", "1", "--reason", "it was better", "--author", "ann")
    assert json.loads(run("tools", "show", "say", "--json").out)["command"] == "echo {{.text}}"


def test_serve_with_agent_serves_proposal_tools(run, directory, monkeypatch):
    mcp = pytest.importorskip("mcp")
    from atoll.governed.agent.tools import mcp_server

    path = written(directory, SAY)
    proposal = json.loads(run("tools", "propose", path, "--author", "agent", "--json").out)
    run(
        "proposals",
        "approve",
        proposal["id"],
        "--hash",
        proposal["content_hash"],
        "--reason",
        "read it",
        "--author",
        "ann",
    )
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
    run("tools", "serve")
    run("tools", "serve", "--agent", "helper")
    assert served == [["say"], ["say", "CreateTool", "LearnSkill", "Reflect"]]
    pending = json.loads(run("proposals", "list", "--status", "pending", "--json").out)
    assert (pending[0]["author"], pending[0]["type"], pending[0]["title"]) == ("helper", "new_tool", "Shout")
    assert [row["name"] for row in json.loads(run("tools", "list", "--json").out)] == ["say"]  # not approved yet


def test_skill_is_proposed_and_exported(run, directory):
    folder = directory / "greet"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: greet\ndescription: Greets people.\n---\nSay hello.\n")
    submitted_proposal = json.loads(run("skills", "propose", str(folder), "--author", "agent", "--json").out)
    run(
        "proposals",
        "approve",
        submitted_proposal["id"],
        "--hash",
        submitted_proposal["content_hash"],
        "--reason",
        "harmless",
        "--author",
        "ann",
    )
    assert "1 uses, 100%" in run("skills", "record-use", "greet", "--success").out
    assert "Say hello." in run("skills", "show", "greet").out
    assert "greet" in run("skills", "list").out
    run("skills", "export", "greet", str(directory / "out"))
    assert (directory / "out" / "greet" / "SKILL.md").is_file()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["proposals", "show", "p-none"], "p-none"),
        (["proposals", "list", "--status", "odd"], "Status 'odd' is unknown"),
        (["tools", "show", "none"], "none"),
        (["tools", "call", "none", "--input", "{"], "not valid JSON"),
        (["skills", "show", "none"], "none"),
        (["skills", "propose", "nowhere"], "cannot be read"),
    ],
)
def test_unknown_names_print_one_sentence(run, directory, arguments, sentence):
    submitted(run, directory)
    assert sentence in run(*arguments, status=2).err


def test_secret_or_invalid_tool_is_not_stored(run, directory):
    submitted(run, directory)
    secret = written(directory, {**SAY, "command": "curl -H k:" + "AKIA" + "IOSFODNN7EXAMPLE"})
    assert "looks like a secret" in run("tools", "propose", secret, "--author", "agent", status=1).err
    odd = written(directory, {**SAY, "name": "../up"})
    assert "tool" in run("tools", "propose", odd, "--author", "agent", status=2).err
    assert len(json.loads(run("proposals", "list", "--json").out)) == 1
