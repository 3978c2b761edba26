"""Tools: validation and execution in the sandbox (G90 to G98)."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from atoll import errors, executor, sandbox
from atoll.governed.agent.tools import InvalidTool, RuntimeTool, ToolBuilder, ToolRunner
from atoll.governed.agent.tools.definition import build_argv, build_environment, from_json
from atoll.governed.parameters import MemoryParameters

TEXT: Mapping[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def defined(**changes: Any) -> dict[str, Any]:
    usual = {"name": "say", "description": "Says it.", "input_schema": TEXT, "execution_type": "command"}
    return {**usual, "command": "echo {{.text}}", **changes}


def scripted(script: str, **changes: Any) -> dict[str, Any]:
    return defined(execution_type="script", command="", script=script, **changes)


@pytest.fixture
def store() -> MemoryParameters:
    return MemoryParameters()


@pytest.fixture
def box(store: MemoryParameters) -> ToolBuilder:
    return ToolBuilder(store, builtin_names=["read"])


@pytest.fixture(scope="module")
def workshop() -> Iterator[ToolRunner]:
    opened = ToolRunner(executor.ExecutorConfig(sandbox.Limits(seconds=10.0)))
    yield opened
    opened.close()


def run(content: Mapping[str, Any], inputs: Any, workshop: ToolRunner, box: ToolBuilder) -> tuple[str, bool]:
    return RuntimeTool(from_json(content), workshop, box).execute(inputs)


@pytest.mark.parametrize("text", ['"; rm -rf /tmp/x; echo "', "$(id)", "`id`", "a b\nc", "* ~ && true", "-n", "日本 🏝"])
def test_command_input_stays_one_argument(text: str, workshop: ToolRunner, box: ToolBuilder) -> None:
    content = defined(command="printf '%s|' -- said:{{ .text }} end")
    output, is_error = run(content, {"text": text}, workshop, box)
    assert (output, is_error) == (f"--|said:{text}|end|", False)


def test_script_gets_inputs_as_variables(workshop: ToolRunner, box: ToolBuilder) -> None:  # G91
    schema = {"type": "object", "properties": {"user-name": {"type": "string"}, "n": {"type": "array"}}}
    content = scripted('echo "$TOOL_INPUT_USER_NAME has $TOOL_INPUT_N"', input_schema=schema)
    assert run(content, {"user-name": "'ann' $HOME", "n": [1, 2]}, workshop, box) == ("'ann' $HOME has [1, 2]\n", False)


def test_script_does_not_see_callers_environment(
    workshop: ToolRunner, box: ToolBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789abcdef")
    output, _ = run(scripted("export -p; cat /etc/passwd; ls ~"), {"text": ""}, workshop, box)
    assert "planted" not in output
    assert "root:x" not in output


def test_unnamed_program_cannot_be_started(workshop: ToolRunner, box: ToolBuilder) -> None:
    _output, is_error = run(scripted("cat /dev/null"), {"text": ""}, workshop, box)
    assert is_error
    assert run(scripted("cat /dev/null && echo ok", programs=["cat"]), {"text": ""}, workshop, box) == ("ok\n", False)


def test_tool_errors_become_output(workshop: ToolRunner, box: ToolBuilder) -> None:
    assert run(scripted("echo so; exit 3"), {"text": ""}, workshop, box) == ("so\n", True)
    output, is_error = run(defined(), {"text": 5}, workshop, box)
    assert is_error
    assert "5 is not of type 'string'" in output
    output, is_error = run(defined(command="no-such-program-at-all"), {"text": ""}, workshop, box)
    assert is_error
    assert "no program 'no-such-program-at-all'" in output


def test_long_output_is_cut_in_the_middle(workshop: ToolRunner, box: ToolBuilder) -> None:
    output, _ = run(scripted("for i in {1..20000}; do echo line $i; done"), {"text": ""}, workshop, box)
    assert output.startswith("line 1\n")
    assert output.endswith("line 20000\n")
    assert len(output) < 25_000


def test_composite_passes_on_previous_output(workshop: ToolRunner, box: ToolBuilder) -> None:  # G93
    box.save(scripted('echo -n "<$TOOL_INPUT_TEXT>"', name="wrap"), "useful", "ann", "t1")
    steps = [{"tool": "wrap", "input": {"text": "{{.text}}!"}}, {"tool": "wrap", "input": {"text": "{{.previous}}"}}]
    content = defined(name="twice", execution_type="composite", command="", steps=steps)
    assert run(box.prepare(content).to_json(), {"text": "a"}, workshop, box) == ("<<a!>>", False)


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
    box: ToolBuilder, store: MemoryParameters, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidTool, match=sentence):
        box.save(defined(**changes), "why", "ann", "t1")
    assert list(store.changes()) == []


def test_cycle_of_composites_is_rejected(box: ToolBuilder, workshop: ToolRunner) -> None:
    def calling(name: str, other: str) -> dict[str, Any]:
        steps = [{"tool": other, "input": {"text": "{{.text}}"}}]
        return defined(name=name, execution_type="composite", command="", steps=steps)

    with pytest.raises(InvalidTool, match="does not exist"):
        box.save(calling("one", "two"), "why", "ann", "t1")
    box.save(defined(name="one"), "why", "ann", "t2")
    box.save(calling("two", "one"), "why", "ann", "t3")
    with pytest.raises(InvalidTool, match="in a circle: one > two > one"):
        box.save(calling("one", "two"), "why", "ann", "t4")
    _output, is_error = run(calling("two", "two"), {"text": "a"}, workshop, box)  # written without validation
    assert is_error


def test_changed_tool_is_new_version_and_old_one_remains(box: ToolBuilder, store: MemoryParameters) -> None:  # G90
    assert box.save(defined(), "first", "ann", "t1") == "tools/say@1"
    assert box.save(defined(command="printf {{.text}}"), "better", "ann", "t2") == "tools/say@2"
    assert box.save(defined(command="printf {{.text}}"), "better", "ann", "t2") == "tools/say@2"
    assert (box.find("say").version, box.find("say").command) == (2, "printf {{.text}}")
    store.rollback("tools/say", 1, "it was worse", author="ann")
    assert box.find("say").command == "echo {{.text}}"


def test_unreadable_tool_does_not_hide_others(box: ToolBuilder, store: MemoryParameters) -> None:  # G96, G97
    box.save(defined(), "why", "ann", "t1")
    store.set("tools/odd", {"name": "odd"}, "by hand", author="ann")
    result = box.load_all()
    assert [item.name for item in result.items] == ["say"]
    assert len(result.errors) == 1
    with pytest.raises(errors.NotFound):
        box.find("nothing")


def test_nul_in_input_is_rejected() -> None:
    for make in (
        lambda: build_argv("echo {{.text}}", {"text": "a\x00b"}),
        lambda: build_environment({"text": "a\x00b"}),
    ):
        with pytest.raises(InvalidTool, match="NUL"):
            make()
