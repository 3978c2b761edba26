"""Agents on the command line, played by small programs that speak like their documented modes."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from atoll import errors, llm, testing
from atoll.llm import command_line

# Tells what it was started with, in the shape that the agent of its name has.
PROGRAM = """#!{python}
import json, os, pathlib, sys
prompt = sys.stdin.read()
name = pathlib.Path(sys.argv[0]).name
told = json.dumps({{"prompt": prompt, "arguments": sys.argv[1:], "folder": os.getcwd(), "files": os.listdir(),
                   "environment": sorted(os.environ)}})
if name == "claude":
    print(json.dumps({{"type": "result", "is_error": False, "result": told, "total_cost_usd": 0.25,
                      "usage": {{"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 5}}}}))
elif name == "codex":
    print(json.dumps({{"type": "thread.started", "thread_id": "1"}}))
    print(json.dumps({{"type": "item.completed", "item": {{"type": "reasoning", "text": "hm"}}}}))
    print(json.dumps({{"type": "item.completed", "item": {{"type": "agent_message", "text": told}}}}))
    print(json.dumps({{"type": "turn.completed", "usage": {{"input_tokens": 7, "output_tokens": 5}}}}))
elif name == "gemini":
    print("Loaded cached credentials.")
    tokens = {{"prompt": 7, "candidates": 5}}
    print(json.dumps({{"response": told, "stats": {{"models": {{"flash": {{"tokens": tokens}}}}}}}}))
else:
    print(told)
"""


def install(folder: Path, name: str, text: str = PROGRAM) -> Path:
    path = folder / name
    path.write_text(text.format(python=sys.executable))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def bin_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SECRET_OF_OTHERS", "1")
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, f"key of {name}")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "flags", "own_key"),
    [
        (
            "claude",
            ["-p", "--output-format json", "--permission-mode default", "--disallowedTools Bash,Edit,"],
            "ANTHROPIC",
        ),
        ("codex", ["exec --sandbox read-only", "--skip-git-repo-check", "--json -"], "OPENAI"),
        ("gemini", ["--output-format json", "--approval-mode default"], "GEMINI"),
    ],
)
def test_an_agent_gets_the_prompt_an_empty_folder_no_rights_and_no_foreign_keys(bin_dir, name, flags, own_key):
    install(bin_dir, name)
    model = llm.make_llm(f"cli:{name}")
    assert model is not None
    reply = model("Improve this, please.")
    seen_by_agent = json.loads(reply.text)
    assert seen_by_agent["prompt"] == "Improve this, please."
    assert (seen_by_agent["files"], Path(seen_by_agent["folder"]).exists()) == ([], False)
    assert all(flag in " ".join(seen_by_agent["arguments"]) for flag in flags)
    assert not [word for word in seen_by_agent["arguments"] if "danger" in word or "yolo" in word or "bypass" in word]
    keys = [variable for variable in seen_by_agent["environment"] if "KEY" in variable or "SECRET" in variable]
    assert keys == [f"{own_key}_API_KEY"]
    assert (reply.cost.tokens_in, reply.cost.tokens_out, reply.model) == (7, 5, name)
    assert reply.cost.usd == (0.25 if name == "claude" else 0.0)


def test_an_agent_is_told_its_model_and_what_the_user_adds(bin_dir):
    install(bin_dir, "codex")
    model = llm.make_llm("cli:codex/o9", cli_arguments=["--sandbox", "danger-full-access"])
    assert model is not None
    reply = model("hi")
    assert json.loads(reply.text)["arguments"][-5:] == ["--model", "o9", "--sandbox", "danger-full-access", "-"]
    assert reply.model == "o9"


def test_any_program_that_reads_and_writes_is_a_model(bin_dir):
    path = install(bin_dir, "other")
    model = llm.make_llm(f"cli:{path} --loud")
    assert model is not None
    assert json.loads(model("hi").text)["arguments"] == ["--loud"]


def test_a_command_that_is_not_here_is_named(bin_dir):
    with pytest.raises(errors.SetupError, match=r"Command 'nothing-such' not found\. Install it, or write cli:claude"):
        llm.make_llm("cli:nothing-such")
    with pytest.raises(errors.SetupError, match="is not a valid command line: No closing quotation"):
        llm.make_llm("cli:claude 'x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#!/bin/sh\necho my key of ANTHROPIC_API_KEY is bad >&2; exit 3\n", "exit status 3, my *** is bad"),
        ("#!/bin/sh\necho no json\n", "its output is not a response"),
        ("#!/bin/sh\necho '[]'\n", "its output is not a response"),
        ('#!/bin/sh\necho \'{{"is_error": true, "result": "no credit"}}\'\n', "not a response (no credit)"),
        ('#!/bin/sh\necho \'{{"result": " "}}\'\n', "it wrote nothing"),
    ],
)
def test_what_goes_wrong_is_said_without_the_key(bin_dir, text, message):
    install(bin_dir, "claude", text)
    model = llm.make_llm("cli:claude")
    assert model is not None
    with pytest.raises(llm.LLMError) as caught:
        model("hi")
    assert message in str(caught.value)
    assert not caught.value.is_transient


def test_one_that_hangs_is_killed_with_all_that_it_started(bin_dir, tmp_path):
    install(bin_dir, "claude", f"#!/bin/sh\n(sleep 1; touch {tmp_path}/alive) &\nsleep 30\n")
    model, since = command_line.make_command_line_llm("claude", timeout_seconds=0.3), time.monotonic()
    with pytest.raises(llm.LLMError, match=r"no response within 0\.3 seconds") as caught:
        model("hi")
    assert time.monotonic() - since < 25
    assert caught.value.is_transient
    time.sleep(1.2)
    assert not (tmp_path / "alive").exists()


class TestCommandLine(testing.LLMSuite):
    def make(self) -> llm.CommandLineLLM:
        return command_line.make_command_line_llm("cat")

    def expected(self, prompt: str) -> str:
        return prompt


SLEEPER = """#!{python}
import os, subprocess, sys, time
tool = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
with open(os.environ["HOME"] + "/pids", "w") as file:
    file.write(str(os.getpid()) + " " + str(tool.pid))
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of others has no such signal")
def test_an_agent_and_its_tools_end_with_us_even_when_we_are_killed(tmp_path):
    install(tmp_path, "sleeper", SLEEPER)
    script = f"from atoll import llm; llm.make_llm('cli:{tmp_path}/sleeper')('hi')"
    atoll = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "HOME": str(tmp_path)})
    deadline = time.monotonic() + 60
    while not (tmp_path / "pids").exists() or not (tmp_path / "pids").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    atoll.send_signal(signal.SIGKILL)
    atoll.wait()
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    while any(map(is_alive, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
