"""Run configurations: their sources, layers, defaults and error messages."""

from pathlib import Path

import pytest

from atoll import config, control, errors


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "atoll.toml").write_text('system = "llmsr"\n[llmsr]\nnum_islands = 4\n[run]\nseed = 3\n')
    return tmp_path


def test_missing_keys_get_defaults(folder):
    plan = config.load(folder)
    assert plan.system == "llmsr"
    assert (plan.run.seed, plan.run.workers, plan.run.llm) == (3, 2, "none")
    assert plan.to_data()["llmsr"] == {
        "preset": "default",
        "num_islands": 4,
        "islands_by_budget": False,
        "num_selected_clusters": 2,
        "reset_period": None,
        "reset_evaluations": None,
        "temperature": 0.1,
        "engine_weights": {},
        "law_search": "trees",
        "selector": None,
        "population": None,
        "schedule": None,
        "mutator": None,
        "gate": None,
    }


def test_later_layers_win(folder):
    plan = config.load(folder, [config.parse_set("run.seed=5"), {"run": {"seed": 7, "workers": 1}}])
    assert (plan.run.seed, plan.run.workers) == (7, 1)


def test_config_round_trips_through_data(folder):
    plan = config.load(folder, [{"run": {"budget": "500evals,$1"}}])
    assert config.RunConfig.from_data(plan.to_data()) == plan


def test_task_may_be_the_toml_file(folder):
    assert config.load(folder / "atoll.toml") == config.load(folder)


def test_openevolve_folder_is_recognized_by_its_files(tmp_path):
    (tmp_path / "initial_program.py").write_text("x = 1\n")
    (tmp_path / "evaluator.py").write_text("def evaluate(path): return {}\n")
    (tmp_path / "config.yaml").write_text(
        "max_iterations: 30\nrandom_seed: 9\nunknown: 1\ndatabase: {num_islands: 3}\nevaluator: {timeout: 5}\n"
        "prompt: {system_message: Be quick.}\n"
    )
    plan = config.load(tmp_path, [{"run": {"seed": 1}}])
    assert plan.system == "programs"
    assert (plan.run.iterations, plan.run.seed, plan.sandbox.seconds) == (30, 1, 5.0)
    task = plan.task.model_dump(exclude_unset=True)
    assert task["notes"] == ("config.yaml: unknown is not an OpenEvolve key and has no effect.",)
    assert (task["program"], task["description"]) == ("initial_program.py", "Be quick.")


def test_folder_with_train_csv_is_a_law_search(tmp_path):
    (tmp_path / "train.csv").write_text("x,y\n1,2\n2,4\n")
    plan = config.load(tmp_path)
    assert (plan.system, plan.task.model_dump()["data"], plan.run.workers) == ("llmsr", ".", 1)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('system = "llmrs"', "Unknown system 'llmrs'; the nearest is llmsr"),
        ("[run]\nseed = 3", "names no system"),
        (
            'system = "llmsr"\n[llmsr]\nnum_island = 4',
            "Unknown key llmsr.num_island; the nearest is llmsr.num_islands.",
        ),
        ('system = "llmsr"\n[lmsr]\nx = 4', r"Unknown section \[lmsr\]; the nearest is llmsr."),
        ('system = "llmsr"\nllmsr = 4', r"\[llmsr\] is a section with keys, not 4"),
        ('system = "llmsr"\n[llmsr]\nnum_islands = "ten"', 'llmsr.num_islands is "ten": it should be a valid integer.'),
        (
            'system = "llmsr"\n[llmsr]\nnum_islands = 0',
            "llmsr.num_islands is 0: it should be greater than or equal to 1.",
        ),
        ('system = "llmsr"\n[llmsr]\npreset = "x"', "llmsr.preset is \"x\": it should be 'default', 'funsearch'"),
        ('system = "llmsr"\n[run]\nbudget = "soon"', "The budget 'soon' is not valid"),
        ('system = "llmsr"\n[run]\ndeterministic = 1', "run.deterministic is 1: it should be a valid boolean."),
        ("system = ", "is not valid TOML"),
        ('system = "llmsr"\n[run]\nseed = nan', "run.seed is NaN: it should be"),
    ],
)
def test_invalid_config_is_reported_in_one_line(tmp_path, text, sentence):
    (tmp_path / "atoll.toml").write_text(text)
    with pytest.raises(errors.SetupError, match=sentence) as caught:
        config.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_missing_folder_and_folder_without_task_are_reported(tmp_path):
    with pytest.raises(errors.SetupError, match=r"does not exist\. Name a task folder, or make one: 'atoll init"):
        config.load(tmp_path / "missing")
    with pytest.raises(errors.SetupError, match=r"has no atoll\.toml, no data \(train\.csv\) and no"):
        config.load(tmp_path)


def make_openevolve_folder(folder, config: str):
    (folder / "initial_program.py").write_text("x = 1\n")
    (folder / "evaluator.py").write_text("")
    (folder / "config.yaml").write_text(config)
    return folder


def test_files_and_folders_without_a_task_name_what_is_missing(tmp_path):
    def explain(path):
        with pytest.raises(errors.SetupError) as caught:
            config.load(path)
        return str(caught.value)

    task = tmp_path / "task.py"
    task.write_text("def f(x):\n    return x\ndef inputs():\n    return [1]\ndef evaluate(f, x):\n    return f(x)\n")
    assert "has task.py, but no atoll.toml. Write atoll.toml with system" in explain(tmp_path)
    assert "is a task file, but no atoll.toml is beside it. Write atoll.toml" in explain(task)
    (tmp_path / "atoll.toml").write_text('system = "llmsr"\n')
    assert f"Run the folder: 'atoll run {tmp_path}'." in explain(task)
    (tmp_path / "other").mkdir()
    script = tmp_path / "other" / "initial_program.py"
    script.write_text("import atoll\nprint(atoll.evolve(1, 2))\n")
    assert f"calls atoll.evolve. Run it with Python: 'python {script}'." in explain(script)
    assert "has an initial program, but no evaluator.py." in explain(script.parent)


def test_empty_yaml_changes_nothing(tmp_path):
    assert config.load(make_openevolve_folder(tmp_path, "")).run.iterations is None


@pytest.mark.parametrize("text", ["[1]", "a: [", "\x00", "evaluator: {timeout: soon}", "max_iterations: -1"])
def test_invalid_yaml_is_reported_in_one_line(tmp_path, text):
    with pytest.raises(errors.SetupError, match=r"[.]$") as caught:
        config.load(make_openevolve_folder(tmp_path, text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "section"),
    [
        ("run.seed=7", {"run": {"seed": 7}}),
        ("llmsr.preset=funsearch", {"llmsr": {"preset": "funsearch"}}),
        ('task.comment="a = b"', {"task": {"comment": "a = b"}}),
        ("task.comment=a = b", {"task": {"comment": "a = b"}}),
        ("run.target=-0.5", {"run": {"target": -0.5}}),
        ("run.deterministic=true", {"run": {"deterministic": True}}),
        ("env=grid", {config.NO_SECTION: {"env": "grid"}}),
    ],
)
def test_parse_set_reads_toml_or_text(text, section):
    assert config.parse_set(text) == section


@pytest.mark.parametrize("text", ["run.seed", "=3", ".=", ".seed=3", ""])
def test_parse_set_rejects_missing_parts(text):
    with pytest.raises(errors.SetupError, match=r"Write --set section\.key=value"):
        config.parse_set(text)


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("60s", control.Budget(seconds=60.0)),
        ("2m", control.Budget(seconds=120.0)),
        ("1.5h", control.Budget(seconds=5400.0)),
        ("$1", control.Budget(usd=1.0)),
        ("$ 0.25", control.Budget(usd=0.25)),
        ("500evals", control.Budget(evaluations=500)),
        ("500 evaluations, $2", control.Budget(evaluations=500, usd=2.0)),
        ("10calls,2000tokens", control.Budget(calls=10, tokens=2000)),
        ("7 steps", control.Budget(iterations=7)),
        (None, control.UNLIMITED),
    ],
)
def test_parse_budget_reads_units(text, budget):
    assert config.parse_budget(text) == budget


@pytest.mark.parametrize("text", ["", "5", "1$", "-3s", "1e3s", "$", "evals", "60s 500evals", "5.5evals"])
def test_parse_budget_rejects_invalid_text(text):
    with pytest.raises(errors.SetupError, match=r"Write e\.g\. 60s"):
        config.parse_budget(text)


@pytest.mark.parametrize("name", ["llmsr", "programs", "mind", "survival"])
def test_settings_page_lists_every_key_with_its_default(name):
    page = (Path(__file__).resolve().parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")
    for key, default in config.describe_settings(name):
        text = "none" if default == "null" else f"`{default}`"
        assert f"| `{key}` | {text} |" in page
