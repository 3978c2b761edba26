"""Settings that are parameters: named in a task, read when a run begins, kept with the run."""

from dataclasses import replace

import pytest

from atoll import config, errors, governed, runs, store
from atoll.runs import paired_runs, session
from atoll.store.versions import ledger

NAMED = '"@param:survival/danger@production"'
TASK = f'system = "survival"\n[survival]\ndanger_threshold = {NAMED}\nmax_turns = 3\n[run]\niterations = 1\n'


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "atoll.toml").write_text(TASK)
    return tmp_path


@pytest.fixture
def kept():
    with store.Store("sqlite://") as made:
        change(made, 0.2)
        change(made, 0.9)
        point(made, 1)
        yield made


def change(kept, value, key="survival/danger"):
    governed.StoredParameters(kept).set(key, value, "tried", author="ann")


def point(kept, version):
    governed.StoredParameters(kept).alias("survival/danger", "production", version, "it held", author="ann")


def lived(kept, folder, *changes):
    with runs.Session(kept, config.load(folder, changes)) as made:
        made.run()
    return kept.run(made.run_id)


def test_a_run_has_the_version_that_its_alias_stood_for_and_says_so(folder, kept):
    found = lived(kept, folder)
    assert found.config["survival"]["danger_threshold"] == 0.2
    assert found.config["parameters"] == {
        "survival.danger_threshold": {"asked": "survival/danger@production", "key": "survival/danger", "version": 1}
    }
    point(kept, 2)
    assert lived(kept, folder).config["survival"]["danger_threshold"] == 0.9


def test_a_run_that_goes_on_keeps_what_it_began_with(folder, kept):
    found = lived(kept, folder)
    point(kept, 2)
    with runs.resume(kept, found.id, [{"run": {"iterations": 1}}]) as again:
        assert again.plan.to_data()["survival"]["danger_threshold"] == 0.2
        assert again.plan.parameters["survival.danger_threshold"]["version"] == 1
        again.run()


def test_what_is_said_later_wins_over_the_name(folder, kept):
    found = lived(kept, folder, {"survival": {"danger_threshold": 0.5}})
    assert found.config["survival"]["danger_threshold"] == 0.5
    assert "parameters" not in found.config


def test_a_plan_with_names_survives_being_written_down(folder):
    plan = config.load(folder)
    assert config.RunConfig.from_data(plan.to_data()) == plan
    assert plan.to_data()["survival"]["danger_threshold"] == "@param:survival/danger@production"


def test_a_value_that_the_setting_refuses_is_told_with_its_version(folder, kept):
    change(kept, 7)
    point(kept, 3)
    with pytest.raises(errors.SetupError, match=r"survival/danger@3 does not do: survival.danger_threshold is 7"):
        lived(kept, folder)


def test_a_parameter_that_is_not_there_is_told_with_how_to_set_it(folder):
    with store.Store("sqlite://") as empty, pytest.raises(errors.SetupError, match="atoll params set survival/danger"):
        lived(empty, folder)


@pytest.mark.parametrize("setting", ["sandbox.network", "run.budget", "task.env", "llm.cli_arguments"])
def test_what_judges_or_bounds_a_run_is_no_parameter(folder, setting):
    with pytest.raises(errors.SetupError, match=f"{setting} cannot be a parameter"):
        config.load(folder, [config.parse_set(f"{setting}=@param:x")])


def test_a_setting_that_is_not_there_is_told_with_the_nearest(folder):
    with pytest.raises(errors.SetupError, match=r"no key survival.danger_treshold; the nearest"):
        config.load(folder, [config.parse_set("survival.danger_treshold=@param:x")])


def test_a_parameter_that_names_another_is_refused(folder, kept):
    change(kept, "@param:x")
    point(kept, 3)
    with pytest.raises(errors.SetupError, match="again: set a value"):
        lived(kept, folder)


def test_each_text_of_a_table_may_be_a_parameter(tmp_path, kept):
    (tmp_path / "initial_program.py").write_text("x = 1\n")
    (tmp_path / "evaluator.py").write_text("def evaluate(path):\n    return 1.0\n")
    said = {"programs": {"templates": {"repair": "@param:prompts/repair", "partner": "as it is"}}}
    change(kept, "Mend it.", "prompts/repair")
    plan = config.load(tmp_path, [said]).bind_parameters(
        session.make_parameter_reader(ledger.VersionLedger(kept.book()))
    )
    assert plan.to_data()["programs"]["templates"] == {"partner": "as it is", "repair": "Mend it."}
    assert plan.parameters["programs.templates.repair"]["version"] == 1


@pytest.mark.parametrize(
    ("system", "settings"),
    {
        "programs": {"programs.engine_weights", "programs.templates", "programs.similarity_threshold"},
        "llmsr": {"llmsr.engine_weights", "llmsr.temperature", "llm.temperature", "task.comment"},
        "mind": {"mind.weights"},
        "survival": {"survival.danger_threshold", "survival.exploration_bonus", "survival.playbook_max_tokens"},
    }.items(),
)
def test_every_system_has_something_to_evolve(system, settings):
    assert settings <= {setting for setting, _ in config.iter_bindable_settings(system)}


class TestTrials:
    def test_pairs_of_runs_differ_in_the_value_alone_and_leave_nothing(self, folder, kept):
        made = paired_runs.PairedRuns(
            config.load(folder), "survival/danger", ledger.VersionLedger(kept.book()), range(2)
        )
        assert made.parameter_name == "survival/danger@production"
        first, second = made.samples()
        again = made.score(made.apply(first, 0.4))
        assert again == made.score(made.apply(first, 0.4))
        assert again[1]["evaluations"] == 2
        assert made.apply(second, 0.4).content == '{"seed": 1, "value": 0.4}'
        assert kept.runs() == []

    def test_a_task_that_does_not_use_the_parameter_is_refused(self, folder, kept):
        plan = replace(config.load(folder), bindings={})
        with pytest.raises(errors.SetupError, match="no setting that is the parameter survival/danger"):
            paired_runs.PairedRuns(plan, "survival/danger", ledger.VersionLedger(kept.book()), range(2))
