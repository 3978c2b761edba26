"""Tools: validation and execution in the sandbox (G90 to G98)."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from atoll import errors, executor, sandbox
from atoll.governed.agent.tools import InvalidTool, RuntimeTool, ToolBuilder, ToolRunner
from atoll.governed.agent.tools.definition import build_argv, build_environment, from_json
from atoll.governed.parameters import MemoryParameters

TEXT: Mapping[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def make_tool(**changes: Any) -> dict[str, Any]:
    usual = {"name": "say", "description": "Says it.", "input_schema": TEXT, "execution_type": "command"}
    return {**usual, "command": "echo {{.text}}", **changes}


def make_script(script: str, **changes: Any) -> dict[str, Any]:
    return make_tool(execution_type="script", command="", script=script, **changes)


@pytest.fixture
def store() -> MemoryParameters:
    return MemoryParameters()


@pytest.fixture
def builder(store: MemoryParameters) -> ToolBuilder:
    return ToolBuilder(store, builtin_names=["read"])


@pytest.fixture(scope="module")
def runner() -> Iterator[ToolRunner]:
    opened = ToolRunner(executor.ExecutorConfig(sandbox.Limits(seconds=10.0)))
    yield opened
    opened.close()


def run(content: Mapping[str, Any], inputs: Any, runner: ToolRunner, builder: ToolBuilder) -> tuple[str, bool]:
    return RuntimeTool(from_json(content), runner, builder).execute(inputs)


@pytest.mark.parametrize("text", ['"; rm -rf /tmp/x; echo "', "$(id)", "`id`", "a b\nc", "* ~ && true", "-n", "日本 🏝"])
def test_command_input_stays_one_argument(text: str, runner: ToolRunner, builder: ToolBuilder) -> None:
    content = make_tool(command="printf '%s|' -- said:{{ .text }} end")
    output, is_error = run(content, {"text": text}, runner, builder)
    assert (output, is_error) == (f"--|said:{text}|end|", False)


def test_script_gets_inputs_as_variables(runner: ToolRunner, builder: ToolBuilder) -> None:  # G91
    schema = {"type": "object", "properties": {"user-name": {"type": "string"}, "n": {"type": "array"}}}
    content = make_script('echo "$TOOL_INPUT_USER_NAME has $TOOL_INPUT_N"', input_schema=schema)
    assert run(content, {"user-name": "'ann' $HOME", "n": [1, 2]}, runner, builder) == (
        "'ann' $HOME has [1, 2]\n",
        False,
    )


def test_script_does_not_see_callers_environment(
    runner: ToolRunner, builder: ToolBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789abcdef")
    output, _ = run(make_script("export -p; cat /etc/passwd; ls ~"), {"text": ""}, runner, builder)
    assert "planted" not in output
    assert "root:x" not in output


def test_unnamed_program_cannot_be_started(runner: ToolRunner, builder: ToolBuilder) -> None:
    _output, is_error = run(make_script("cat /dev/null"), {"text": ""}, runner, builder)
    assert is_error
    assert run(make_script("cat /dev/null && echo ok", programs=["cat"]), {"text": ""}, runner, builder) == (
        "ok\n",
        False,
    )


def test_tool_errors_become_output(runner: ToolRunner, builder: ToolBuilder) -> None:
    assert run(make_script("echo so; exit 3"), {"text": ""}, runner, builder) == ("so\n", True)
    output, is_error = run(make_tool(), {"text": 5}, runner, builder)
    assert is_error
    assert "5 is not of type 'string'" in output
    output, is_error = run(make_tool(command="no-such-program-at-all"), {"text": ""}, runner, builder)
    assert is_error
    assert "'no-such-program-at-all' not found" in output


def test_long_output_is_cut_in_the_middle(runner: ToolRunner, builder: ToolBuilder) -> None:
    output, _ = run(make_script("for i in {1..20000}; do echo line $i; done"), {"text": ""}, runner, builder)
    assert output.startswith("line 1\n")
    assert output.endswith("line 20000\n")
    assert len(output) < 25_000


def test_composite_passes_on_previous_output(runner: ToolRunner, builder: ToolBuilder) -> None:  # G93
    builder.save(make_script('echo -n "<$TOOL_INPUT_TEXT>"', name="wrap"), "useful", "ann", "t1")
    steps = [{"tool": "wrap", "input": {"text": "{{.text}}!"}}, {"tool": "wrap", "input": {"text": "{{.previous}}"}}]
    content = make_tool(name="twice", execution_type="composite", command="", steps=steps)
    assert run(builder.prepare(content).to_json(), {"text": "a"}, runner, builder) == ("<<a!>>", False)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": ""}, "not a valid tool name"),
        ({"name": "../up"}, "not a valid tool name"),
        ({"name": "UPPER"}, "not a valid tool name"),
        ({"name": "x" * 65}, "not a valid tool name"),
        ({"name": "read"}, "built-in"),
        ({"description": " "}, "no description"),
        ({"input_schema": {"type": "string"}}, "have the type object"),
        ({"input_schema": {"type": "nothing"}}, "have the type object"),
        ({"input_schema": []}, "have the type object"),
        ({"input_schema": {"type": "object", "properties": {"a": {"type": "nothing"}}}}, "is invalid"),
        ({"input_schema": {"type": "object", "properties": {"a": True}}}, "must be an object"),
        ({"input_schema": {"type": "object", "properties": {"a": {"$ref": "http://x/y"}}}}, "replace the reference"),
        (
            {"input_schema": {"type": "object", "properties": {"a": {"$dynamicRef": "https://x/y"}}}},
            "replace the reference",
        ),
        ({"input_schema": {"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}}}, "take forever"),
        ({"input_schema": {"type": "object", "properties": {"a": {"uniqueItems": True}}}}, "take forever"),
        ({"command": "echo \ud800"}, "must be a string"),
        ({"execution_type": "magic"}, "'magic' is unknown"),
        ({"command": ""}, "Give only the field"),
        ({"script": "echo"}, "Give only the field"),
        ({"command": "{{.text}} -rf"}, "begin with the name of a program"),
        ({"command": "echo {{.other}}"}, "is not an input"),
        ({"command": "echo 'open"}, "cannot be parsed"),
        ({"command": 5}, "must be a string"),
        ({"unknown": 1}, "has no field unknown"),
        (
            {"input_schema": {"type": "object", "properties": {"a-b": {}, "a_b": {}}}, "command": "ls"},
            "have the variable",
        ),
    ],
)
def test_invalid_definition_is_rejected(
    builder: ToolBuilder, store: MemoryParameters, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidTool, match=sentence):
        builder.save(make_tool(**changes), "why", "ann", "t1")
    assert list(store.changes()) == []


def test_cycle_of_composites_is_rejected(builder: ToolBuilder, runner: ToolRunner) -> None:
    def make_composite(name: str, other: str) -> dict[str, Any]:
        steps = [{"tool": other, "input": {"text": "{{.text}}"}}]
        return make_tool(name=name, execution_type="composite", command="", steps=steps)

    with pytest.raises(InvalidTool, match="does not exist"):
        builder.save(make_composite("one", "two"), "why", "ann", "t1")
    builder.save(make_tool(name="one"), "why", "ann", "t2")
    builder.save(make_composite("two", "one"), "why", "ann", "t3")
    with pytest.raises(InvalidTool, match="in a cycle: one > two > one"):
        builder.save(make_composite("one", "two"), "why", "ann", "t4")
    _output, is_error = run(make_composite("two", "two"), {"text": "a"}, runner, builder)  # written without validation
    assert is_error


def test_changed_tool_is_new_version_and_old_one_remains(builder: ToolBuilder, store: MemoryParameters) -> None:  # G90
    assert builder.save(make_tool(), "first", "ann", "t1") == "tools/say@1"
    assert builder.save(make_tool(command="printf {{.text}}"), "better", "ann", "t2") == "tools/say@2"
    assert builder.save(make_tool(command="printf {{.text}}"), "better", "ann", "t2") == "tools/say@2"
    assert (builder.find("say").version, builder.find("say").command) == (2, "printf {{.text}}")
    store.rollback("tools/say", 1, "it was worse", author="ann")
    assert builder.find("say").command == "echo {{.text}}"


def test_unreadable_tool_does_not_hide_others(builder: ToolBuilder, store: MemoryParameters) -> None:  # G96, G97
    builder.save(make_tool(), "why", "ann", "t1")
    store.set("tools/odd", {"name": "odd"}, "by hand", author="ann")
    result = builder.load_all()
    assert [item.name for item in result.items] == ["say"]
    assert len(result.errors) == 1
    with pytest.raises(errors.NotFound):
        builder.find("nothing")


def test_nul_in_input_is_rejected() -> None:
    for make in (
        lambda: build_argv("echo {{.text}}", {"text": "a\x00b"}),
        lambda: build_environment({"text": "a\x00b"}),
    ):
        with pytest.raises(InvalidTool, match="NUL"):
            make()
