"""Commands `run` and `resume`."""

import json
import re
import sqlite3
import time
from dataclasses import replace
from typing import Any

import pytest

from atoll import cli, sandbox, store, testing
from atoll.cli.run import progress
from atoll.sandbox import levels
from tests.cli import tasks, terminals


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("ATOLL_STORE", raising=False)
    tasks.make(tmp_path / "task")
    return tmp_path


@pytest.fixture
def server():
    with testing.ModelServer(tasks.answer) as server:
        yield server


def run(capsys, *arguments: str, status: int = 0) -> tuple[dict[str, Any], str]:
    """Runs a verb with `--json` and returns its last line on stdout and all of its stderr."""
    assert cli.main([*arguments, "--json"]) == status, capsys.readouterr().err
    output = capsys.readouterr()
    return json.loads(output.out.splitlines()[-1]), output.err


class TestRun:
    def test_json_is_one_line_on_stdout(self, capsys):
        result, message = run(capsys, "run", "task", "--iterations", "60", "--seed", "3")
        keys = ("run", "status", "initial_score", "best_score", "evaluations", "failures", "calls", "cost_usd")
        assert {*keys, "seconds", "sandbox"} <= result.keys()
        assert result["status"] == "done"
        assert result["best_score"] > result["initial_score"] == pytest.approx(-16 / 3)
        assert (result["calls"], result["sandbox"], result["cost_usd"]) == (0, sandbox.get_level(sandbox.probe()), 0.0)
        assert result["steps"] == 60
        assert result["evaluations"] > 1  # an iteration that tunes evaluates several
        assert re.search(r"\d s  iteration +\d+  best", message)

    def test_header_fits_terminal(self, capsys, folder, monkeypatch):
        monkeypatch.setenv("COLUMNS", "80")
        tasks.make(folder / "task", tasks.TASK.replace("Find the line", f"Find {'very ' * 30}carefully the line"))
        _, message = run(capsys, "run", "task", "--iterations", "0", "--baselines")
        header = message.split("\n\n")[0].splitlines()[1:]
        assert max(map(len, header)) <= 80
        assert [line for line in header if line.startswith("  comment ") and line.endswith("…")]
        assert "as many evaluations as this run" in " ".join(message.split())  # facts are not cut
        column = [re.match(r"  (\S[\w ]*?)  +(?=\S)", line) for line in header]
        assert len({data.end() for data in column if data}) == 1

    def test_zero_iterations_evaluate_initial_program(self, capsys):
        result, _ = run(capsys, "run", "task", "--iterations", "0")
        assert (result["evaluations"], result["steps"]) == (1, 0)
        assert result["initial_score"] == result["best_score"] == pytest.approx(-16 / 3)

    def test_llm_by_url_is_called_once_per_iteration(self, capsys, server):
        result, _ = run(capsys, "run", "task", "--llm", f"openai:some-model@{server.url}", "--iterations", "20")
        assert result["calls"] == server.num_requests == 20
        assert result["tokens_in"] > 0
        assert "Returns the height at x, whatever y is." in server.prompts[-1]

    def test_settings_are_printed_at_start(self, capsys):
        _, message = run(capsys, "run", "task", "--iterations", "1", "--workers", "1")
        for part in ("def line(x: float, y: float)", "Find the line", "Returns the height", "islands    3"):
            assert part in message
        assert re.search(r"clusters   2\n.*workers    1\n.*reset      the worse half every 150 evaluations", message)

    def test_resolved_configuration_is_stored(self, capsys):
        result, _ = run(capsys, "run", "task", "--iterations", "1", "--set", "llmsr.preset=funsearch")
        with store.Store("atoll.db") as run_store:
            config = run_store.get_run(result["run"]).config
        assert config["llmsr"]["preset"] == "funsearch"
        assert config["llmsr"]["num_islands"] == 3
        assert config["run"]["iterations"] == 1
        assert config["task"]["file"] == "task.py"

    @pytest.mark.parametrize(
        ("budget", "reason"), [("30evals", "30 evaluations"), ("0.5s", "0.5 seconds"), ("25 steps", "25 iterations")]
    )
    def test_budget_ends_run(self, capsys, budget, reason):
        result, _ = run(capsys, "run", "task", "--budget", budget)
        assert result["reason"] == f"budget of {reason} used"

    def test_target_ends_run(self, capsys):
        result, _ = run(capsys, "run", "task", "--target", "-4", "--budget", "2000evals")
        assert result["reason"] == "score -4 reached"
        assert result["best_score"] >= -4

    def test_quiet_prints_only_json(self, capsys):
        _, message = run(capsys, "run", "task", "--iterations", "5", "-q")
        assert message == ""

    @pytest.mark.parametrize(
        ("start", "output"), [("K = 1\n# EVOLVE-BLOCK-END\n", "K = 1"), ("# only this", "# only this"), ("", "")]
    )
    def test_initial_program_is_shown_by_last_code_line(self, start, output):
        assert progress.format_one_line(start, start) == output

    def test_openevolve_folder_uses_its_evaluator(self, capsys, folder):
        (folder / "open").mkdir()
        (folder / "open" / "initial_program.py").write_text(
            "# EVOLVE-BLOCK-START\nKNOB = 0.5\n# EVOLVE-BLOCK-END\n\ndef run():\n    return 1 - abs(KNOB - 0.73)\n"
        )
        (folder / "open" / "evaluator.py").write_text(
            "import runpy\nfrom openevolve.evaluation_result import EvaluationResult\n\n"
            "def evaluate(path):\n    score = runpy.run_path(path)['run']()\n"
            "    return EvaluationResult({'combined_score': score, 'note': 'text'}, {'log': 'all well'})\n"
        )
        (folder / "open" / "config.yaml").write_text("max_iterations: 40\nevaluator: {timeout: 5}\n")
        result, _ = run(capsys, "run", "open")
        assert result["initial_score"] == pytest.approx(0.77)
        assert result["best_score"] > 0.8
        assert result["steps"] == 40
        with store.Store("atoll.db") as run_store:
            best = run_store.candidates(result["run"]).list_best()[0]
        assert "def run():\n    return 1 - abs(KNOB - 0.73)\n" in best.content
        assert "all well" in best.feedback

    def test_llm_rewrites_openevolve_program(self, capsys, folder):
        (folder / "open").mkdir()
        (folder / "open" / "initial_program.py").write_text("KNOB = 0.5\n")
        (folder / "open" / "evaluator.py").write_text(
            "import runpy\ndef evaluate(path):\n    return {'combined_score': runpy.run_path(path)['KNOB']}\n"
        )
        with testing.ModelServer(lambda prompt, number: f"Better:\n```python\nKNOB = 0.{number + 60}\n```") as server:
            options = ("--llm", f"openai:m@{server.url}", "--iterations", "10", "--set", "programs.policy=openevolve")
            result, _ = run(capsys, "run", "open", *options)
        assert result["best_score"] == 0.69
        assert "KNOB = 0.5" in server.prompts[0]


class TestRepetition:
    def export(self, capsys, run_id: str) -> str:
        assert cli.main(["export", run_id, "--format", "jsonl"]) == 0
        return str(capsys.readouterr().out)

    def test_same_seed_and_responses_give_same_bytes(self, capsys, server):
        options = ("run", "task", "--llm", f"openai:m@{server.url}", "--iterations", "50", "--seed", "5")
        one, other = (self.export(capsys, run(capsys, *options)[0]["run"]) for _ in range(2))
        assert one == other
        assert len(one.splitlines()) > 40
        another = run(capsys, *options[:-1], "6")[0]["run"]
        assert self.export(capsys, another) != one

    def test_deterministic_run_is_independent_of_workers(self, capsys, server):
        options = ("run", "task", "--llm", f"openai:m@{server.url}", "--iterations", "20", "--deterministic")
        results = [run(capsys, *options, "--workers", workers)[0]["run"] for workers in ("4", "1", "4")]
        assert len({self.export(capsys, item) for item in results}) == 1

    def test_deterministic_run_without_llm(self, capsys):
        options = ("run", "task", "--iterations", "40", "--deterministic")
        results = [run(capsys, *options, "--workers", workers)[0]["run"] for workers in ("4", "1")]
        assert len({self.export(capsys, item) for item in results}) == 1

    def test_output_and_errors_are_the_same_in_every_worker(self, capsys, folder):
        """No folder of a worker, no address in memory and no warning that is shown only once gets into the bytes."""
        (folder / "open").mkdir()
        (folder / "open" / "initial_program.py").write_text("KNOB = 0.5\nOTHER = 2.0\n")
        (folder / "open" / "evaluator.py").write_text(
            "import runpy, sys, warnings\n"
            "def evaluate(path):\n"
            "    print(path, object(), file=sys.stderr)\n"
            "    warnings.warn('often')\n"
            "    names = runpy.run_path(path)\n"
            "    assert names['KNOB'] < 0.51, object()\n"
            "    return {'combined_score': names['KNOB']}\n"
        )
        exports = set()
        for workers in ("1", "4", "4"):
            options = ("--deterministic", "--iterations", "4", "--seed", "2", "--workers", workers)
            result, _ = run(capsys, "run", "open", *options)
            exports.add(self.export(capsys, result["run"]))
        assert len(exports) == 1
        assert result["failures"] > 0
        assert result["evaluations"] > 30  # the tuner works too

    def test_exported_line_has_fields(self, capsys):
        result, _ = run(capsys, "run", "task", "--iterations", "10")
        lines = [json.loads(line) for line in self.export(capsys, result["run"]).splitlines()]
        expected = {"id", "parents", "island", "step", "content", "score", "metrics", "failure"}
        assert all(expected <= line.keys() for line in lines)
        assert lines[0]["id"] == "0.0"


class TestResume:
    def test_resume_adds_iterations(self, capsys, server):
        first, _ = run(capsys, "run", "task", "--llm", f"openai:m@{server.url}", "--iterations", "20")
        again, _ = run(capsys, "resume", "latest", "--iterations", "15")
        assert again["run"] == first["run"]
        assert (again["steps"], again["calls"], server.num_requests) == (35, 35, 35)
        assert again["initial_score"] == first["initial_score"]

    def test_resume_prints_only_new_best(self, capsys):
        first, _ = run(capsys, "run", "task", "--iterations", "60")
        cli.main(["resume", "latest", "--iterations", "60"])
        output = [float(line.split()[5]) for line in capsys.readouterr().err.splitlines() if " s  iteration " in line]
        assert all(score > first["best_score"] for score in output)

    def test_new_limits_replace_target(self, capsys):
        run(capsys, "run", "task", "--iterations", "5", "--target", "-4")
        assert run(capsys, "resume", "latest", "--iterations", "400", "--target", "-4")[0]["steps"] < 400

    def test_done_run_without_new_limits_stays_done(self, capsys):
        first, _ = run(capsys, "run", "task", "--iterations", "20")
        again, _ = run(capsys, "resume", first["run"])
        assert (again["steps"], again["status"]) == (20, "done")

    def test_seconds_count_from_resume(self, capsys):
        run(capsys, "run", "task", "--iterations", "20")
        again, _ = run(capsys, "resume", "latest", "--budget", "0.5s")
        assert again["reason"] == "budget of 0.5 seconds used"
        assert again["steps"] > 20

    def test_changed_task_cannot_be_resumed(self, capsys, folder):
        run(capsys, "run", "task", "--iterations", "2")
        (folder / "task" / "task.py").write_text(tasks.TASK.replace("abs(", "2 * abs("))
        assert cli.main(["resume", "latest"]) == 2
        assert "have changed since run" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ("llmsr.num_islands=4", "llmsr.num_islands cannot change in a run that has begun"),
            ("run.seed=99", "run.seed cannot change in a run that has begun"),
            ("run.budget=soon", "is not valid"),
        ],
    )
    def test_fixed_settings_cannot_change(self, capsys, change, sentence):
        first, _ = run(capsys, "run", "task", "--iterations", "5")
        assert cli.main(["resume", "latest", "--iterations", "3", "--set", change]) == 2
        assert sentence in capsys.readouterr().err
        again, _ = run(capsys, "resume", "latest")
        assert (again["status"], again["run"]) == ("done", first["run"])

    def test_llm_of_a_resume_stays(self, capsys, server):
        run(capsys, "run", "task", "--iterations", "5")
        run(capsys, "resume", "latest", "--iterations", "5", "--llm", f"openai:m@{server.url}")
        again, _ = run(capsys, "resume", "latest", "--iterations", "5")
        assert (again["calls"], server.num_requests) == (10, 10)


class TestModelFaults:
    def test_refusing_llm_ends_run_after_few_requests(self, capsys):
        with testing.ModelServer(faults=testing.Fault(status=401)) as server:
            options = ("run", "task", "--llm", f"openai:m@{server.url}", "--budget", "100calls")
            result, message = run(capsys, *options, status=1)
        assert result["status"] == "failed"
        assert "OPENAI_API_KEY" in result["reason"]
        assert server.num_requests < 10
        assert "resume" in message

    def test_llm_budget_without_llm_fails(self, capsys):
        assert cli.main(["run", "task", "--budget", "5calls"]) == 2
        assert "never ends a run without an LLM" in capsys.readouterr().err

    def test_smaller_of_two_limits_applies(self, capsys):
        result, _ = run(capsys, "run", "task", "--iterations", "9", "--budget", "4steps")
        assert result["steps"] == 4


BAD_INPUT = {
    "a target that is not a number": (["run", "task", "--target", "nan"], 2, "it should be a finite number"),
    "an unknown key": (["run", "task", "--set", "llmsr.num_island=3"], 2, "the nearest is llmsr.num_islands"),
    "a wrong type": (["run", "task", "--set", "llmsr.num_islands=many"], 2, "it should be a valid integer"),
    "a missing folder": (["run", "tsk"], 2, "does not exist. Name a task folder"),
    "a missing file": (["run", "task", "--set", "task.file=other.py"], 2, "cannot be read"),
    "a missing function": (["run", "task", "--set", "task.function=lin"], 2, "does not define the function lin"),
    "a missing evaluator": (
        ["run", "task", "--set", "task.evaluator=assess"],
        2,
        "does not define assess; define it, or set task.evaluator to another name",
    ),
    "a run that does not exist": (["resume", "nope"], 2, "has no runs"),
    "a run that does not exist, shown": (["show", "nope"], 2, "has no runs"),
    "a model without a scheme": (["run", "task", "--llm", "gpt"], 2, "openai:gpt"),
    "a model without a key": (["run", "task", "--llm", "openai:gpt-5"], 2, "OPENAI_API_KEY"),
    "an invalid budget": (["run", "task", "--budget", "soon"], 2, "Write e.g. 60s"),
    "a deterministic run by the clock": (["run", "task", "--deterministic", "--budget", "5s"], 2, "cannot depend on"),
    "no iterations at all": (["run", "task", "--iterations", "-1"], 2, "--iterations"),
    "an unknown verb": (["rnu", "task"], 2, "Did you mean 'run'"),
}


class TestBadInput:
    def refuse(self, capsys, arguments: list[str], status: int, sentence: str) -> None:
        assert cli.main(arguments) == status
        output = capsys.readouterr()
        assert sentence in output.err
        assert output.err.strip().splitlines()[-1].startswith("atoll: ")
        assert len([line for line in output.err.splitlines() if line.startswith("atoll: ")]) == 1
        assert "Traceback" not in output.err

    @pytest.mark.parametrize("name", BAD_INPUT)
    def test_wrong_input_prints_one_sentence(self, capsys, name, folder):
        with store.Store("atoll.db"):
            pass
        self.refuse(capsys, *BAD_INPUT[name])
        with store.Store("atoll.db") as run_store:
            assert run_store.list_runs() == []

    def test_lambda_task_needs_def(self, capsys, folder):
        _, _, rest = tasks.TASK.partition("    return x\n")
        tasks.make(folder / "task", f"line = lambda x, y: x\n{rest}")
        self.refuse(capsys, ["run", "task"], 2, "is a lambda. Write it with 'def'")

    def test_store_of_newer_version_fails(self, capsys):
        with store.Store("newer.db"):
            pass
        database = sqlite3.connect("newer.db")
        database.execute("update atoll set schema_version = 99")
        database.commit()
        database.close()
        for verb in (["run", "task"], ["list"], ["resume", "latest"], ["export", "latest", "--format", "jsonl"]):
            self.refuse(capsys, [*verb, "--store", "newer.db"], 2, "newer")

    def test_prompt_without_llm(self, capsys, folder):
        (folder / "prompt").mkdir()
        (folder / "prompt" / "initial_prompt.txt").write_text("Be kind.")
        (folder / "prompt" / "evaluator.py").write_text("def evaluate(path):\n    return 1.0\n")
        self.refuse(capsys, ["run", "prompt"], 2, "pass an LLM with --llm")

    def test_evaluator_that_raises_on_every_input(self, capsys, folder):
        tasks.make(folder / "task", tasks.TASK.replace("return -abs", "raise ValueError('broken')\n    return -abs"))
        self.refuse(capsys, ["run", "task", "--iterations", "5"], 1, "ValueError: broken")
        assert cli.main(["run", "task", "--iterations", "5", "--json"]) == 1
        output = capsys.readouterr()
        result = json.loads(output.out.splitlines()[-1])
        assert (result["status"], result["best_score"]) == ("failed", None)

    def test_task_file_that_cannot_be_imported(self, capsys, folder):
        tasks.make(folder / "task", "import nothing_of_that_name\n" + tasks.TASK)
        self.refuse(capsys, ["run", "task"], 2, "nothing_of_that_name")

    def test_task_without_inputs(self, capsys, folder):
        tasks.make(folder / "task", tasks.TASK.replace("return [(1.0, 5.0), (2.0, 7.0), (4.0, 11.0)]", "return []"))
        self.refuse(capsys, ["run", "task"], 2, "add at least one input")

    def test_folder_in_place_of_store(self, capsys, folder):
        self.refuse(capsys, ["run", "task", "--store", str(folder)], 2, "cannot be opened")

    def test_unreachable_llm_prints_reason(self, capsys, folder):
        arguments = ["run", "task", "--llm", "openai:m@http://127.0.0.1:9/v1"]
        self.refuse(capsys, arguments, 2, "LLM m at http://127.0.0.1:9/v1 cannot be reached: Connection refused. Start")


class TestSandbox:
    def test_unavailable_sandbox_level_prints_one_sentence(self, capsys, monkeypatch):
        weak = replace(sandbox.probe(), namespaces="unshare: not permitted", landlock="no such system call")
        monkeypatch.setattr(levels, "probe", lambda: weak)
        assert cli.main(["run", "task", "--require-sandbox", "L2"]) == 2
        message = capsys.readouterr().err
        assert "This machine has sandbox level L1, not L2. No namespaces (unshare: not permitted)" in message

    def test_unknown_sandbox_level_fails(self, capsys):
        assert cli.main(["run", "task", "--require-sandbox", "L9"]) == 2
        assert "sandbox.require" in capsys.readouterr().err

    def test_llm_code_without_sandbox_needs_unsafe(self, capsys, monkeypatch):
        message = "not tried: this is not Linux"
        none = sandbox.Probe(namespaces=message, landlock=message, seccomp=message, forks=message)
        monkeypatch.setattr(levels, "probe", lambda: none)
        model = ["--llm", "openai:m@http://127.0.0.1:9/v1", "--iterations", "0"]
        assert cli.main(["run", "task", *model]) == 2
        assert "Pass --unsafe to allow it, or enable a sandbox." in capsys.readouterr().err
        assert run(capsys, "run", "task", *model, "--unsafe")[0]["sandbox"] == "L0"
        assert run(capsys, "run", "task", "--iterations", "0")[0]["sandbox"] == "L0"

    def test_secret_variable_needs_unsafe_env(self, capsys, folder, monkeypatch):
        monkeypatch.setenv("SOME_API_KEY", "7")
        text = tasks.TASK.replace("    x, height = point", "    import os\n    x, height = point")
        text = text.replace("return -abs(", "return float(os.environ.get('SOME_API_KEY', 0)) - abs(")
        tasks.make(folder / "task", text)
        bare = run(capsys, "run", "task", "--iterations", "0")[0]["best_score"]
        assert cli.main(["run", "task", "--iterations", "0", "--set", 'sandbox.env=["SOME_API_KEY"]']) == 2
        assert "--unsafe-env SOME_API_KEY" in capsys.readouterr().err
        printed = run(capsys, "run", "task", "--iterations", "0", "--unsafe-env", "SOME_API_KEY")[0]["best_score"]
        assert printed == pytest.approx(bare + 7)


class TestStoreFaults:
    def test_deleted_store_is_an_error(self, capsys, folder):
        path = str(folder / "kept.db")
        deed = f"    import os\n    os.path.exists({path!r}) and os.unlink({path!r})\n"
        text = tasks.TASK.replace("    x, height = point", f"{deed}    x, height = point")
        tasks.make(folder / "task", text)
        unguarded = ["--set", "sandbox.trusted=true"]  # a sandbox would not allow it
        assert cli.main(["run", "task", "--iterations", "5", "--store", "kept.db", *unguarded]) == 1
        assert "was deleted, moved or replaced" in capsys.readouterr().err

    def test_damaged_row_prints_one_sentence(self, capsys):
        run(capsys, "run", "task", "--iterations", "5")
        database = sqlite3.connect("atoll.db")
        database.execute("update records set data = '{oops' where kind = 'applied'")
        database.commit()
        database.close()
        for verb in (["list"], ["show", "latest"], ["resume", "latest"]):
            assert cli.main(verb) == 1
            assert "is damaged" in capsys.readouterr().err


class TestTerminal:
    @pytest.mark.parametrize("columns", [80, 200])
    def test_live_table_fits(self, columns):
        status, written = terminals.on_a_terminal("run", "task", "--iterations", "20", columns=columns)
        assert status == 0, written
        table = [line for line in terminals.without_codes(written).splitlines() if re.match(r" +\d+ +\d+ +-\d", line)]
        assert len(table) >= 3
        assert max(len(line.rstrip()) for line in table) <= columns

    def test_ctrl_c_finishes_running_iterations_and_saves(self):
        status, written = terminals.on_a_terminal("run", "task", "--budget", "60s", "--json", columns=80, interrupts=1)
        assert status == 0, written
        assert "Finishing the running iterations" in written
        result = json.loads(terminals.without_codes(written).splitlines()[-1])
        assert result["status"] == "interrupted"
        with store.Store("atoll.db") as run_store:
            last = run_store.journal(result["run"]).read_last()
            assert last is not None
            assert last.kind == "ended"

    def test_second_ctrl_c_stops_at_once_and_run_can_be_resumed(self, folder, capsys):
        slow = tasks.TASK.replace("    x, height = point", "    import time\n    time.sleep(3)\n    x, height = point")
        tasks.make(folder / "task", slow.replace(", (2.0, 7.0), (4.0, 11.0)", ""))
        since = time.monotonic()
        status, written = terminals.on_a_terminal("run", "task", "--iterations", "50", columns=80, interrupts=2)
        assert status == 130, written
        assert time.monotonic() - since < 100  # the running iterations would take 150
        assert "Traceback" not in written
        again, _ = run(capsys, "resume", "latest", "--iterations", "0")
        with store.Store("atoll.db") as run_store:
            failures = [row.failure for row in run_store.candidates(again["run"])]
        assert not [item for item in failures if item and "closed" in item]

    def test_pipe_has_no_color_and_no_cursor(self):
        output = terminals.in_a_pipe("run", "task", "--iterations", "20")
        assert output.returncode == 0
        assert "\x1b" not in output.stdout + output.stderr
        assert "Next:" in output.stdout
