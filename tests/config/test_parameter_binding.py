"""Settings bound to parameters: named in a task, read at the start of a run, stored with it."""

from dataclasses import replace

import pytest

from atoll import config, errors, governed, runs, store
from atoll.runs import baselines
from atoll.runs.session import make_parameter_reader
from atoll.store.versions import ledger

BINDING = '"@param:survival/danger@production"'
TASK = f'system = "survival"\n[survival]\ndanger_threshold = {BINDING}\nmax_turns = 3\n[run]\niterations = 1\n'


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "atoll.toml").write_text(TASK)
    return tmp_path


@pytest.fixture
def run_store():
    with store.Store("sqlite://") as new_store:
        set_value(new_store, 0.2)
        set_value(new_store, 0.9)
        set_alias(new_store, 1)
        yield new_store


def set_value(run_store, value, key="survival/danger"):
    governed.StoredParameters(run_store).set(key, value, "test", author="ann")


def set_alias(run_store, version):
    governed.StoredParameters(run_store).alias("survival/danger", "production", version, "test", author="ann")


def run_task(run_store, folder, *changes):
    with runs.Session(run_store, config.load(folder, changes)) as session:
        session.run()
    return run_store.get_run(session.run_id)


def test_run_uses_and_records_the_version_of_the_alias(folder, run_store):
    run = run_task(run_store, folder)
    assert run.config["survival"]["danger_threshold"] == 0.2
    assert run.config["parameters"] == {
        "survival.danger_threshold": {"asked": "survival/danger@production", "key": "survival/danger", "version": 1}
    }
    set_alias(run_store, 2)
    assert run_task(run_store, folder).config["survival"]["danger_threshold"] == 0.9


def test_resumed_run_keeps_its_parameter_version(folder, run_store):
    run = run_task(run_store, folder)
    set_alias(run_store, 2)
    with runs.resume(run_store, run.id, [{"run": {"iterations": 1}}]) as session:
        assert session.run_config.to_data()["survival"]["danger_threshold"] == 0.2
        assert session.run_config.parameters["survival.danger_threshold"]["version"] == 1
        session.run()


def test_later_layer_overrides_a_binding(folder, run_store):
    run = run_task(run_store, folder, {"survival": {"danger_threshold": 0.5}})
    assert run.config["survival"]["danger_threshold"] == 0.5
    assert "parameters" not in run.config


def test_config_with_bindings_round_trips(folder):
    plan = config.load(folder)
    assert config.RunConfig.from_data(plan.to_data()) == plan
    assert plan.to_data()["survival"]["danger_threshold"] == "@param:survival/danger@production"


def test_invalid_parameter_value_is_reported_with_its_version(folder, run_store):
    set_value(run_store, 7)
    set_alias(run_store, 3)
    with pytest.raises(errors.SetupError, match=r"survival/danger@3 has a wrong value for .*_threshold is 7"):
        run_task(run_store, folder)


def test_missing_parameter_is_reported_with_the_command_to_set_it(folder):
    with store.Store("sqlite://") as empty, pytest.raises(errors.SetupError, match="atoll params set survival/danger"):
        run_task(empty, folder)


@pytest.mark.parametrize("setting", ["sandbox.network", "run.budget", "task.env", "llm.cli_arguments"])
def test_evaluation_and_limit_settings_cannot_be_parameters(folder, setting):
    with pytest.raises(errors.SetupError, match=f"{setting} cannot be a parameter"):
        config.load(folder, [config.parse_set(f"{setting}=@param:x")])


def test_unknown_bound_setting_is_reported_with_the_nearest(folder):
    with pytest.raises(errors.SetupError, match=r"Unknown key survival.danger_treshold; the nearest"):
        config.load(folder, [config.parse_set("survival.danger_treshold=@param:x")])


def test_parameter_that_names_a_parameter_is_rejected(folder, run_store):
    set_value(run_store, "@param:x")
    set_alias(run_store, 3)
    with pytest.raises(errors.SetupError, match="Set a value"):
        run_task(run_store, folder)


def test_entries_of_a_table_can_be_parameters(tmp_path, run_store):
    (tmp_path / "initial_program.py").write_text("x = 1\n")
    (tmp_path / "evaluator.py").write_text("def evaluate(path):\n    return 1.0\n")
    sections = {"programs": {"templates": {"repair": "@param:prompts/repair", "partner": "as it is"}}}
    set_value(run_store, "Repair it.", "prompts/repair")
    plan = config.load(tmp_path, [sections]).bind_parameters(
        make_parameter_reader(ledger.VersionLedger(run_store.change_log()))
    )
    assert plan.to_data()["programs"]["templates"] == {"partner": "as it is", "repair": "Repair it."}
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
def test_every_system_has_bindable_settings(system, settings):
    assert settings <= {setting for setting, _ in config.iter_bindable_settings(system)}


class TestPairedRuns:
    def test_paired_runs_differ_only_in_the_value_and_store_nothing(self, folder, run_store):
        pairs = baselines.PairedRuns(
            config.load(folder), "survival/danger", ledger.VersionLedger(run_store.change_log()), range(2)
        )
        assert pairs.parameter_name == "survival/danger@production"
        first, second = pairs.samples()
        score = pairs.score(pairs.apply(first, 0.4))
        assert score == pairs.score(pairs.apply(first, 0.4))
        assert score[1]["evaluations"] == 2
        assert pairs.apply(second, 0.4).content == '{"seed": 1, "value": 0.4}'
        assert run_store.list_runs() == []

    def test_task_without_the_parameter_is_rejected(self, folder, run_store):
        plan = replace(config.load(folder), bindings={})
        with pytest.raises(errors.SetupError, match="no setting that is the parameter survival/danger"):
            baselines.PairedRuns(plan, "survival/danger", ledger.VersionLedger(run_store.change_log()), range(2))
