"""Configurations: where they come from, what they mean, and what is wrong with them."""

from pathlib import Path

import pytest

from atoll import config, control, errors


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "atoll.toml").write_text('system = "llmsr"\n[llmsr]\nnum_islands = 4\n[run]\nseed = 3\n')
    return tmp_path


def test_what_is_not_said_has_a_default(folder):
    plan = config.load(folder)
    assert plan.system == "llmsr"
    assert (plan.run.seed, plan.run.workers, plan.run.llm) == (3, 2, "none")
    assert plan.to_data()["llmsr"] == {
        "preset": "default",
        "num_islands": 4,
        "num_selected_clusters": 2,
        "reset_period": None,
        "reset_evaluations": None,
        "temperature": 0.1,
        "engine_weights": {},
    }


def test_later_layers_win(folder):
    plan = config.load(folder, [config.parse_set("run.seed=5"), {"run": {"seed": 7, "workers": 1}}])
    assert (plan.run.seed, plan.run.workers) == (7, 1)


def test_what_was_resolved_can_be_read_back(folder):
    plan = config.load(folder, [{"run": {"budget": "500evals,$1"}}])
    assert config.RunConfig.from_data(plan.to_data()) == plan


def test_the_file_itself_may_be_named(folder):
    assert config.load(folder / "atoll.toml") == config.load(folder)


def test_an_open_folder_of_openevolve_is_recognised_by_its_files(tmp_path):
    (tmp_path / "initial_program.py").write_text("x = 1\n")
    (tmp_path / "evaluator.py").write_text("def evaluate(path): return {}\n")
    (tmp_path / "config.yaml").write_text(
        "max_iterations: 30\nrandom_seed: 9\nunknown: 1\ndatabase: {num_islands: 3}\nevaluator: {timeout: 5}\n"
        "prompt: {system_message: Be quick.}\n"
    )
    plan = config.load(tmp_path, [{"run": {"seed": 1}}])
    assert plan.system == "programs"
    assert (plan.run.iterations, plan.run.seed, plan.sandbox.seconds) == (30, 1, 5.0)
    said = plan.task.model_dump(exclude_unset=True)
    assert said["notes"] == ("config.yaml: unknown is no key of OpenEvolve's and has no effect.",)
    assert (said["program"], said["description"]) == ("initial_program.py", "Be quick.")


def test_a_folder_with_nothing_but_a_table_is_a_search_for_its_law(tmp_path):
    (tmp_path / "train.csv").write_text("x,y\n1,2\n2,4\n")
    plan = config.load(tmp_path)
    assert (plan.system, plan.task.model_dump()["data"], plan.run.workers) == ("llmsr", ".", 1)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('system = "llmrs"', "There is no system 'llmrs'; the nearest is llmsr"),
        ("[run]\nseed = 3", "names no system"),
        (
            'system = "llmsr"\n[llmsr]\nnum_island = 4',
            "There is no key llmsr.num_island; the nearest is llmsr.num_islands.",
        ),
        ('system = "llmsr"\n[lmsr]\nx = 4', r"There is no section \[lmsr\]; the nearest is llmsr."),
        ('system = "llmsr"\nllmsr = 4', r"\[llmsr\] is a section"),
        ('system = "llmsr"\n[llmsr]\nnum_islands = "ten"', 'llmsr.num_islands is "ten": it should be a valid integer.'),
        (
            'system = "llmsr"\n[llmsr]\nnum_islands = 0',
            "llmsr.num_islands is 0: it should be greater than or equal to 1.",
        ),
        ('system = "llmsr"\n[llmsr]\npreset = "x"', "llmsr.preset is \"x\": it should be 'default', 'funsearch'"),
        ('system = "llmsr"\n[run]\nbudget = "soon"', "A budget of 'soon' is not understood"),
        ('system = "llmsr"\n[run]\ndeterministic = 1', "run.deterministic is 1: it should be a valid boolean."),
        ("system = ", "is no TOML"),
        ('system = "llmsr"\n[run]\nseed = nan', "run.seed is NaN: it should be"),
    ],
)
def test_a_wrong_configuration_is_told_in_one_sentence(tmp_path, text, sentence):
    (tmp_path / "atoll.toml").write_text(text)
    with pytest.raises(errors.SetupError, match=sentence) as caught:
        config.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_none_or_holds_no_task_is_named(tmp_path):
    with pytest.raises(errors.SetupError, match="is no folder: give a task folder, or make one with 'atoll init"):
        config.load(tmp_path / "missing")
    with pytest.raises(errors.SetupError, match=r"holds neither atoll\.toml nor data \(train\.csv\) nor"):
        config.load(tmp_path)


def open_folder(folder, config: str):
    (folder / "initial_program.py").write_text("x = 1\n")
    (folder / "evaluator.py").write_text("")
    (folder / "config.yaml").write_text(config)
    return folder


def test_an_empty_yaml_says_nothing(tmp_path):
    assert config.load(open_folder(tmp_path, "")).run.iterations is None


@pytest.mark.parametrize("text", ["[1]", "a: [", "\x00", "evaluator: {timeout: soon}", "max_iterations: -1"])
def test_a_strange_yaml_is_told_in_one_sentence(tmp_path, text):
    with pytest.raises(errors.SetupError, match=r"[.]$") as caught:
        config.load(open_folder(tmp_path, text))
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
def test_a_value_is_set_as_in_toml_or_as_text(text, section):
    assert config.parse_set(text) == section


@pytest.mark.parametrize("text", ["run.seed", "=3", ".=", ".seed=3", ""])
def test_a_set_without_section_key_or_value_is_refused(text):
    with pytest.raises(errors.SetupError, match=r"write --set section\.key=value"):
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
def test_a_budget_is_read_with_its_unit(text, budget):
    assert config.parse_budget(text) == budget


@pytest.mark.parametrize("text", ["", "5", "1$", "-3s", "1e3s", "$", "evals", "60s 500evals", "5.5evals"])
def test_a_budget_that_is_none_is_refused(text):
    with pytest.raises(errors.SetupError, match=r"write e\.g\. 60s"):
        config.parse_budget(text)


@pytest.mark.parametrize("name", config.SYSTEMS)
def test_every_key_and_its_default_is_in_the_reference(name):
    page = (Path(__file__).resolve().parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")
    for key, default in config.describe_settings(name):
        said = "none" if default == "null" else f"`{default}`"
        assert f"| `{key}` | {said} |" in page
