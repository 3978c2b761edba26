"""`atoll run` and `atoll resume`: what they print, what they keep, and what they refuse."""

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
    told = capsys.readouterr()
    return json.loads(told.out.splitlines()[-1]), told.err


class TestRun:
    def test_it_ends_with_one_line_of_json_on_stdout(self, capsys):
        result, said = run(capsys, "run", "task", "--iterations", "60", "--seed", "3")
        keys = ("run", "status", "initial_score", "best_score", "evaluations", "failures", "calls", "cost_usd")
        assert {*keys, "seconds", "sandbox"} <= result.keys()
        assert result["status"] == "done"
        assert result["best_score"] > result["initial_score"] == pytest.approx(-16 / 3)
        assert (result["calls"], result["sandbox"], result["cost_usd"]) == (0, sandbox.get_level(sandbox.probe()), 0.0)
        assert result["steps"] == 60
        assert result["evaluations"] > 1  # a step that tunes judges several
        assert re.search(r"\d s  step +\d+  best", said)

    def test_the_header_fits_a_terminal(self, capsys, folder, monkeypatch):
        monkeypatch.setenv("COLUMNS", "80")
        tasks.make(folder / "task", tasks.TASK.replace("Find the line", f"Find {'very ' * 30}carefully the line"))
        _, said = run(capsys, "run", "task", "--iterations", "0", "--baselines")
        header = said.split("\n\n")[0].splitlines()[1:]
        assert max(map(len, header)) <= 80
        assert [line for line in header if line.startswith("  comment ") and line.endswith("…")]
        assert "as many evaluations as this run will have used" in " ".join(said.split())  # facts are not cut
        column = [re.match(r"  (\S[\w ]*?)  +(?=\S)", line) for line in header]
        assert len({found.end() for found in column if found}) == 1

    def test_no_iteration_scores_the_start_only(self, capsys):
        result, _ = run(capsys, "run", "task", "--iterations", "0")
        assert (result["evaluations"], result["steps"]) == (1, 0)
        assert result["initial_score"] == result["best_score"] == pytest.approx(-16 / 3)

    def test_a_model_by_its_address_is_asked_once_per_step(self, capsys, server):
        result, _ = run(capsys, "run", "task", "--llm", f"openai:some-model@{server.url}", "--iterations", "20")
        assert result["calls"] == server.num_requests == 20
        assert result["tokens_in"] > 0
        assert "Returns the height at x, whatever y is." in server.prompts[-1]

    def test_the_set_up_is_told_at_the_start(self, capsys):
        _, said = run(capsys, "run", "task", "--iterations", "1", "--workers", "1")
        for part in ("def line(x: float, y: float)", "Find the line", "Returns the height", "islands    3"):
            assert part in said
        assert re.search(r"clusters   2\n.*workers    1\n.*reset      the worse half every 150 evaluations", said)

    def test_the_resolved_configuration_is_kept_with_the_run(self, capsys):
        result, _ = run(capsys, "run", "task", "--iterations", "1", "--set", "llmsr.preset=funsearch")
        with store.Store("atoll.db") as kept:
            config = kept.get_run(result["run"]).config
        assert config["llmsr"]["preset"] == "funsearch"
        assert config["llmsr"]["num_islands"] == 3
        assert config["run"]["iterations"] == 1
        assert config["task"]["file"] == "task.py"

    @pytest.mark.parametrize(
        ("budget", "reason"), [("30evals", "30 evaluations"), ("0.5s", "0.5 seconds"), ("25 steps", "25 iterations")]
    )
    def test_a_budget_ends_it(self, capsys, budget, reason):
        result, _ = run(capsys, "run", "task", "--budget", budget)
        assert result["reason"] == f"budget of {reason} used"

    def test_a_target_ends_it(self, capsys):
        result, _ = run(capsys, "run", "task", "--target", "-4", "--budget", "2000evals")
        assert result["reason"] == "score -4 reached"
        assert result["best_score"] >= -4

    def test_quiet_says_nothing_but_the_result(self, capsys):
        _, said = run(capsys, "run", "task", "--iterations", "5", "-q")
        assert said == ""

    @pytest.mark.parametrize(
        ("start", "told"), [("K = 1\n# EVOLVE-BLOCK-END\n", "K = 1"), ("# only this", "# only this"), ("", "")]
    )
    def test_a_start_is_told_by_its_last_line_that_does_something(self, start, told):
        assert progress.format_one_line(start, start) == told

    def test_candidates_of_an_openevolve_folder_are_judged_by_its_evaluator(self, capsys, folder):
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
        with store.Store("atoll.db") as kept:
            best = kept.candidates(result["run"]).list_best()[0]
        assert "def run():\n    return 1 - abs(KNOB - 0.73)\n" in best.content
        assert "all well" in best.feedback

    def test_a_model_rewrites_the_program_of_an_openevolve_folder(self, capsys, folder):
        (folder / "open").mkdir()
        (folder / "open" / "initial_program.py").write_text("KNOB = 0.5\n")
        (folder / "open" / "evaluator.py").write_text(
            "import runpy\ndef evaluate(path):\n    return {'combined_score': runpy.run_path(path)['KNOB']}\n"
        )
        with testing.ModelServer(lambda prompt, number: f"Better:\n```python\nKNOB = 0.{number + 60}\n```") as server:
            result, _ = run(capsys, "run", "open", "--llm", f"openai:m@{server.url}", "--iterations", "10")
        assert result["best_score"] == 0.69
        assert "KNOB = 0.5" in server.prompts[0]


class TestRepetition:
    def export(self, capsys, run_id: str) -> str:
        assert cli.main(["export", run_id, "--jsonl"]) == 0
        return str(capsys.readouterr().out)

    def test_two_runs_with_one_seed_and_the_same_replies_are_the_same_bytes(self, capsys, server):
        given = ("run", "task", "--llm", f"openai:m@{server.url}", "--iterations", "50", "--seed", "5")
        one, other = (self.export(capsys, run(capsys, *given)[0]["run"]) for _ in range(2))
        assert one == other
        assert len(one.splitlines()) > 40
        another = run(capsys, *given[:-1], "6")[0]["run"]
        assert self.export(capsys, another) != one

    def test_deterministic_gives_the_same_bytes_with_any_number_of_workers(self, capsys, server):
        given = ("run", "task", "--llm", f"openai:m@{server.url}", "--iterations", "50", "--deterministic")
        results = [run(capsys, *given, "--workers", workers)[0]["run"] for workers in ("4", "1", "4")]
        assert len({self.export(capsys, each) for each in results}) == 1

    def test_without_a_model_too(self, capsys):
        given = ("run", "task", "--iterations", "80", "--deterministic")
        results = [run(capsys, *given, "--workers", workers)[0]["run"] for workers in ("4", "1")]
        assert len({self.export(capsys, each) for each in results}) == 1

    def test_what_programs_print_and_raise_is_the_same_in_every_worker(self, capsys, folder):
        """No folder of a worker, no address in memory and no warning that is shown only once gets into the bytes."""
        (folder / "open").mkdir()
        (folder / "open" / "initial_program.py").write_text("KNOB = 0.5\nOTHER = 2.0\n")
        (folder / "open" / "evaluator.py").write_text(
            "import runpy, sys, warnings\n"
            "def evaluate(path):\n"
            "    print(path, object(), file=sys.stderr)\n"
            "    warnings.warn('often')\n"
            "    names = runpy.run_path(path)\n"
            "    assert names['KNOB'] < 0.7, object()\n"
            "    return {'combined_score': names['KNOB']}\n"
        )
        exports = set()
        for workers in ("1", "2", "4", "4"):
            result, _ = run(capsys, "run", "open", "--deterministic", "--iterations", "30", "--workers", workers)
            exports.add(self.export(capsys, result["run"]))
        assert len(exports) == 1
        assert result["failures"] > 0

    def test_an_exported_line_has_what_programs_look_for(self, capsys):
        result, _ = run(capsys, "run", "task", "--iterations", "10")
        lines = [json.loads(line) for line in self.export(capsys, result["run"]).splitlines()]
        wanted = {"id", "parents", "island", "step", "content", "score", "metrics", "failure"}
        assert all(wanted <= line.keys() for line in lines)
        assert lines[0]["id"] == "0.0"


class TestResume:
    def test_it_goes_on_for_so_many_steps_more(self, capsys, server):
        first, _ = run(capsys, "run", "task", "--llm", f"openai:m@{server.url}", "--iterations", "20")
        again, _ = run(capsys, "resume", "latest", "--iterations", "15")
        assert again["run"] == first["run"]
        assert (again["steps"], again["calls"], server.num_requests) == (35, 35, 35)
        assert again["initial_score"] == first["initial_score"]

    def test_only_what_beats_the_best_that_there_was_is_told_as_best(self, capsys):
        first, _ = run(capsys, "run", "task", "--iterations", "60")
        cli.main(["resume", "latest", "--iterations", "60"])
        told = [float(line.split()[5]) for line in capsys.readouterr().err.splitlines() if " s  step " in line]
        assert all(score > first["best_score"] for score in told)

    def test_new_limits_take_the_place_of_a_target_unless_it_is_given_again(self, capsys):
        run(capsys, "run", "task", "--iterations", "5", "--target", "-4")
        assert run(capsys, "resume", "latest", "--iterations", "400", "--target", "-4")[0]["steps"] < 400

    def test_without_new_limits_a_run_that_is_done_stays_so(self, capsys):
        first, _ = run(capsys, "run", "task", "--iterations", "20")
        again, _ = run(capsys, "resume", first["run"])
        assert (again["steps"], again["status"]) == (20, "done")

    def test_seconds_count_from_now_also_in_an_ordered_run(self, capsys):
        run(capsys, "run", "task", "--iterations", "20")
        again, _ = run(capsys, "resume", "latest", "--budget", "0.5s")
        assert again["reason"] == "budget of 0.5 seconds used"
        assert again["steps"] > 20

    def test_a_task_that_changed_is_refused(self, capsys, folder):
        run(capsys, "run", "task", "--iterations", "2")
        (folder / "task" / "task.py").write_text(tasks.TASK.replace("abs(", "2 * abs("))
        assert cli.main(["resume", "latest"]) == 2
        assert "are not those that run" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ("llmsr.num_islands=4", "llmsr.num_islands is what this run began with and stays"),
            ("run.seed=99", "run.seed is what this run began with"),
            ("run.budget=soon", "not understood"),
        ],
    )
    def test_what_a_run_depends_on_cannot_be_changed(self, capsys, change, sentence):
        first, _ = run(capsys, "run", "task", "--iterations", "5")
        assert cli.main(["resume", "latest", "--iterations", "3", "--set", change]) == 2
        assert sentence in capsys.readouterr().err
        again, _ = run(capsys, "resume", "latest")
        assert (again["status"], again["run"]) == ("done", first["run"])

    def test_a_model_that_was_chosen_for_a_resume_stays(self, capsys, server):
        run(capsys, "run", "task", "--iterations", "5")
        run(capsys, "resume", "latest", "--iterations", "5", "--llm", f"openai:m@{server.url}")
        again, _ = run(capsys, "resume", "latest", "--iterations", "5")
        assert (again["calls"], server.num_requests) == (10, 10)


class TestModelFaults:
    def test_a_model_that_refuses_ends_the_run_after_a_few_requests(self, capsys):
        with testing.ModelServer(faults=testing.Fault(status=401)) as server:
            given = ("run", "task", "--llm", f"openai:m@{server.url}", "--budget", "100calls")
            result, said = run(capsys, *given, status=1)
        assert result["status"] == "failed"
        assert "OPENAI_API_KEY" in result["reason"]
        assert server.num_requests < 10
        assert "resume" in said

    def test_a_budget_that_only_a_model_uses_is_refused_without_one(self, capsys):
        assert cli.main(["run", "task", "--budget", "5calls"]) == 2
        assert "never ends without a model" in capsys.readouterr().err

    def test_the_smaller_of_two_limits_counts(self, capsys):
        result, _ = run(capsys, "run", "task", "--iterations", "9", "--budget", "4steps")
        assert result["steps"] == 4


BAD_INPUT = {
    "a target that is no number": (["run", "task", "--target", "nan"], 2, "it should be a finite number"),
    "an unknown key": (["run", "task", "--set", "llmsr.num_island=3"], 2, "the nearest is llmsr.num_islands"),
    "a wrong type": (["run", "task", "--set", "llmsr.num_islands=many"], 2, "it should be a valid integer"),
    "a missing folder": (["run", "tsk"], 2, "is no folder: give a task folder"),
    "a missing file": (["run", "task", "--set", "task.file=other.py"], 2, "cannot be read"),
    "a missing function": (["run", "task", "--set", "task.function=lin"], 2, "does not define the function lin"),
    "a missing evaluator": (["run", "task", "--set", "task.evaluator=judge"], 2, "has no judge"),
    "a run that does not exist": (["resume", "nope"], 2, "There is no"),
    "a run that does not exist, shown": (["show", "nope"], 2, "There is no"),
    "a model without a scheme": (["run", "task", "--llm", "gpt"], 2, "openai:gpt"),
    "a model without a key": (["run", "task", "--llm", "openai:gpt-5"], 2, "OPENAI_API_KEY"),
    "a budget that is none": (["run", "task", "--budget", "soon"], 2, "write e.g. 60s"),
    "a deterministic run by the clock": (["run", "task", "--deterministic", "--budget", "5s"], 2, "cannot depend on"),
    "no iterations at all": (["run", "task", "--iterations", "-1"], 2, "--iterations"),
    "an unknown verb": (["rnu", "task"], 2, "Did you mean 'run'"),
}


class TestBadInput:
    def refuse(self, capsys, arguments: list[str], status: int, sentence: str) -> None:
        assert cli.main(arguments) == status
        told = capsys.readouterr()
        assert sentence in told.err
        assert told.err.strip().splitlines()[-1].startswith("atoll: ")
        assert len([line for line in told.err.splitlines() if line.startswith("atoll: ")]) == 1
        assert "Traceback" not in told.err

    @pytest.mark.parametrize("name", BAD_INPUT)
    def test_it_is_one_sentence_and_no_traceback(self, capsys, name, folder):
        with store.Store("atoll.db"):
            pass
        self.refuse(capsys, *BAD_INPUT[name])
        with store.Store("atoll.db") as kept:
            assert kept.list_runs() == []

    def test_a_task_that_is_a_lambda_is_told_to_be_a_def(self, capsys, folder):
        _, _, rest = tasks.TASK.partition("    return x\n")
        tasks.make(folder / "task", f"line = lambda x, y: x\n{rest}")
        self.refuse(capsys, ["run", "task"], 2, "is a lambda; write it with 'def'")

    def test_every_verb_refuses_a_store_of_a_newer_atoll(self, capsys):
        with store.Store("newer.db"):
            pass
        database = sqlite3.connect("newer.db")
        database.execute("update atoll set schema_version = 99")
        database.commit()
        database.close()
        for verb in (["run", "task"], ["list"], ["resume", "latest"], ["export", "latest", "--jsonl"]):
            self.refuse(capsys, [*verb, "--store", "newer.db"], 2, "newer")

    def test_a_text_without_a_model(self, capsys, folder):
        (folder / "prompt").mkdir()
        (folder / "prompt" / "initial_prompt.txt").write_text("Be kind.")
        (folder / "prompt" / "evaluator.py").write_text("def evaluate(path):\n    return 1.0\n")
        self.refuse(capsys, ["run", "prompt"], 2, "give a model with --llm")

    def test_an_evaluator_that_raises_on_every_input(self, capsys, folder):
        tasks.make(folder / "task", tasks.TASK.replace("return -abs", "raise ValueError('broken')\n    return -abs"))
        self.refuse(capsys, ["run", "task", "--iterations", "5"], 1, "ValueError: broken")
        assert cli.main(["run", "task", "--iterations", "5", "--json"]) == 1
        told = capsys.readouterr()
        result = json.loads(told.out.splitlines()[-1])
        assert (result["status"], result["best_score"]) == ("failed", None)

    def test_a_task_file_that_cannot_be_imported(self, capsys, folder):
        tasks.make(folder / "task", "import nothing_of_that_name\n" + tasks.TASK)
        self.refuse(capsys, ["run", "task"], 2, "nothing_of_that_name")

    def test_a_task_without_inputs(self, capsys, folder):
        tasks.make(folder / "task", tasks.TASK.replace("return [(1.0, 5.0), (2.0, 7.0), (4.0, 11.0)]", "return []"))
        self.refuse(capsys, ["run", "task"], 2, "give at least one input")

    def test_a_folder_in_place_of_a_store(self, capsys, folder):
        self.refuse(capsys, ["run", "task", "--store", str(folder)], 2, "cannot be opened")

    def test_a_model_that_is_not_there_costs_the_steps_and_says_why(self, capsys):
        result, said = run(capsys, "run", "task", "--llm", "openai:m@http://127.0.0.1:9/v1", "--iterations", "2")
        assert result["failures"] == 2
        assert "More than half of the steps failed" in said
        assert "127.0.0.1:9" in said


class TestSandbox:
    def test_a_level_that_this_machine_lacks_is_one_sentence(self, capsys, monkeypatch):
        weak = replace(sandbox.probe(), namespaces="unshare: not permitted", landlock="no such system call")
        monkeypatch.setattr(levels, "probe", lambda: weak)
        assert cli.main(["run", "task", "--require-sandbox", "L2"]) == 2
        said = capsys.readouterr().err
        assert "This machine has a sandbox of level L1, not L2. No namespaces" in said

    def test_a_level_that_does_not_exist_is_refused(self, capsys):
        assert cli.main(["run", "task", "--require-sandbox", "L9"]) == 2
        assert "sandbox.require" in capsys.readouterr().err

    def test_without_a_jail_a_models_code_needs_leave_and_ours_does_not(self, capsys, monkeypatch):
        said = "was not tried: this is no Linux"
        none = sandbox.Probe(namespaces=said, landlock=said, seccomp=said, forks=said)
        monkeypatch.setattr(levels, "probe", lambda: none)
        model = ["--llm", "openai:m@http://127.0.0.1:9/v1", "--iterations", "0"]
        assert cli.main(["run", "task", *model]) == 2
        assert "allow that with --unsafe" in capsys.readouterr().err
        assert run(capsys, "run", "task", *model, "--unsafe")[0]["sandbox"] == "L0"
        assert run(capsys, "run", "task", "--iterations", "0")[0]["sandbox"] == "L0"

    def test_a_secret_reaches_an_evaluation_only_by_name_and_with_leave(self, capsys, folder, monkeypatch):
        monkeypatch.setenv("SOME_API_KEY", "7")
        text = tasks.TASK.replace("    x, height = point", "    import os\n    x, height = point")
        text = text.replace("return -abs(", "return float(os.environ.get('SOME_API_KEY', 0)) - abs(")
        tasks.make(folder / "task", text)
        bare = run(capsys, "run", "task", "--iterations", "0")[0]["best_score"]
        assert cli.main(["run", "task", "--iterations", "0", "--set", 'sandbox.env=["SOME_API_KEY"]']) == 2
        assert "--unsafe-env SOME_API_KEY" in capsys.readouterr().err
        shown = run(capsys, "run", "task", "--iterations", "0", "--unsafe-env", "SOME_API_KEY")[0]["best_score"]
        assert shown == pytest.approx(bare + 7)


class TestStoreFaults:
    def test_a_store_that_is_deleted_meanwhile_is_told_and_is_no_success(self, capsys, folder):
        place = str(folder / "kept.db")
        deed = f"    import os\n    os.path.exists({place!r}) and os.unlink({place!r})\n"
        text = tasks.TASK.replace("    x, height = point", f"{deed}    x, height = point")
        tasks.make(folder / "task", text)
        unguarded = ["--set", "sandbox.trusted=true"]  # a jail would not let it
        assert cli.main(["run", "task", "--iterations", "5", "--store", "kept.db", *unguarded]) == 1
        assert "was deleted, moved or replaced" in capsys.readouterr().err

    def test_a_damaged_row_is_one_sentence(self, capsys):
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
    def test_the_table_fits(self, columns):
        status, written = terminals.on_a_terminal("run", "task", "--iterations", "60", columns=columns)
        assert status == 0, written
        table = [line for line in terminals.without_codes(written).splitlines() if re.match(r" +\d+ +\d+ +-\d", line)]
        assert len(table) >= 3
        assert max(len(line.rstrip()) for line in table) <= columns

    def test_ctrl_c_once_finishes_the_steps_at_work_and_saves(self):
        status, written = terminals.on_a_terminal("run", "task", "--budget", "60s", "--json", columns=80, interrupts=1)
        assert status == 0, written
        assert "Finishing the steps at work" in written
        result = json.loads(terminals.without_codes(written).splitlines()[-1])
        assert result["status"] == "interrupted"
        with store.Store("atoll.db") as kept:
            last = kept.journal(result["run"]).read_last()
            assert last is not None
            assert last.kind == "ended"

    def test_ctrl_c_twice_stops_at_once_and_what_was_stored_can_be_resumed(self, folder, capsys):
        slow = tasks.TASK.replace("    x, height = point", "    import time\n    time.sleep(3)\n    x, height = point")
        tasks.make(folder / "task", slow.replace(", (2.0, 7.0), (4.0, 11.0)", ""))
        since = time.monotonic()
        status, written = terminals.on_a_terminal("run", "task", "--iterations", "50", columns=80, interrupts=2)
        assert status == 130, written
        assert time.monotonic() - since < 100  # the steps at work would take 150
        assert "Traceback" not in written
        again, _ = run(capsys, "resume", "latest", "--iterations", "0")
        with store.Store("atoll.db") as kept:
            failures = [row.failure for row in kept.candidates(again["run"])]
        assert not [each for each in failures if each and "closed" in each]

    def test_a_pipe_has_no_colours_and_no_cursor(self):
        told = terminals.in_a_pipe("run", "task", "--iterations", "20")
        assert told.returncode == 0
        assert "\x1b" not in told.stdout + told.stderr
        assert "Next:" in told.stdout
