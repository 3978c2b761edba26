"""OpenEvolve folders and configurations (P20). Every key is used or explained."""

import itertools
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from atoll import config, errors, llm
from atoll.programs.config import Options, Task
from atoll.programs.openevolve import config_keys, folder

# Nine lists, each ten times the one before: a third of a kilobyte that expands to 10^9 items.
BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in itertools.pairwise("abcdefghi")
)
PROGRAM, EVALUATOR = "KNOB = 1\n", "def evaluate(path): return 1.0\n"


@pytest.fixture
def load_config(tmp_path):
    """Makes a folder with a configuration and loads it."""

    def make(text: str = "", name: str = "config.yaml", program: str = "initial_program.py"):
        (tmp_path / program).write_text(PROGRAM)
        (tmp_path / "evaluator.py").write_text(EVALUATOR)
        (tmp_path / name).write_text(text)
        return config.load(tmp_path)

    return make


class TestFiles:
    @pytest.mark.parametrize(
        "name",
        ["initial_program.py", "initial_program.rs", "initial_program.r", "init_program.py", "initial_prompt.txt"],
    )
    def test_program_is_found_by_its_usual_names(self, load_config, name):
        assert load_config(program=name).task.program == name

    def test_prompt_file_may_be_named_after_its_task(self, load_config):
        run_config = load_config(program="emotion_prompt.txt")
        assert run_config.task.program == "emotion_prompt.txt"
        assert not getattr(run_config.options, "diff_based_evolution", False), "texts are rewritten completely"

    @pytest.mark.parametrize("name", ["config.yaml", "config.yml", "config_phase_1.yaml"])
    def test_configuration_is_found_by_its_usual_names(self, load_config, name):
        assert load_config("max_iterations: 7", name).run.iterations == 7

    def test_budget_of_the_user_replaces_iterations(self, load_config, tmp_path):
        load_config("max_iterations: 7")
        budget = config.load(tmp_path, [{"run": {"budget": "60s"}}]).get_budget()
        assert (budget.seconds, budget.iterations) == (60, None)
        assert config.load(tmp_path, [{"run": {"budget": "60s", "iterations": 9}}]).get_budget().iterations == 9

    def test_first_phase_is_used_and_others_are_named(self, load_config, tmp_path):
        (tmp_path / "config_phase_2.yaml").write_text("max_iterations: 9")
        (tmp_path / "config_phase_1_other.yaml").write_text("max_iterations: 8")
        run_config = load_config("max_iterations: 7", "config_phase_1.yaml")
        assert run_config.run.iterations == 7
        assert run_config.task.notes[0].startswith("config_phase_1.yaml is used; pass -c ")
        assert run_config.task.notes[0].endswith("config_phase_2.yaml for another.")

    def test_program_and_evaluator_need_no_common_folder(self, tmp_path):
        (tmp_path / "program.py").write_text(PROGRAM)
        (tmp_path / "evaluators").mkdir()
        (tmp_path / "evaluators" / "evaluator.py").write_text(EVALUATOR)
        (tmp_path / "any.yaml").write_text("random_seed: 5")
        run_config: Any = config.load(
            tmp_path / "program.py", evaluator=tmp_path / "evaluators" / "evaluator.py", settings=tmp_path / "any.yaml"
        )
        assert (run_config.folder, run_config.task.program, run_config.run.seed) == (tmp_path, "program.py", 5)
        assert (run_config.folder / run_config.task.evaluator).is_file()


class TestKeys:
    def test_keys_become_settings(self, load_config):
        run_config = load_config("""
max_iterations: 12
random_seed: 3
max_code_length: 900
early_stopping_patience: 40
convergence_threshold: 0.01
prompt: {system_message: Pack circles., evaluator_system_message: You review.}
database: {num_islands: 3, migration_interval: 7, feature_dimensions: [complexity, spread]}
evaluator:
  timeout: 9
  cascade_evaluation: false
  cascade_thresholds: [0.3]
  parallel_evaluations: 3
  memory_limit_mb: 512
  cpu_limit: 4
  use_llm_feedback: true
  llm_feedback_weight: 0.2
llm: {temperature: 0.4, max_tokens: 100, timeout: 30}
""")
        assert (run_config.run.iterations, run_config.run.seed, run_config.run.workers) == (12, 3, 3)
        assert (run_config.run.patience, run_config.run.min_gain) == (40, 0.01)
        assert (run_config.task.description, run_config.task.features) == ("Pack circles.", ("complexity", "spread"))
        options = run_config.options
        assert (options.max_islands, options.migration_interval, options.max_code_length) == (3, 7, 900)
        assert (options.cascade, options.cascade_thresholds) == (False, (0.3,))
        message = (options.llm_feedback, options.llm_feedback_weight, options.llm_feedback_prompt)
        assert message == (True, 0.2, "You review.")
        assert (run_config.sandbox.seconds, run_config.sandbox.memory_mb, run_config.sandbox.cpu_seconds) == (9, 512, 4)
        assert (run_config.llm.temperature, run_config.llm.max_tokens, run_config.llm.timeout_seconds) == (0.4, 100, 30)
        assert run_config.task.notes == ()

    def test_negative_patience_sets_target_score(self, load_config):
        run_config = load_config("early_stopping_patience: -1\nconvergence_threshold: 1.0")
        assert (run_config.run.patience, run_config.run.target) == (None, 1.0)

    def test_keys_without_effect_state_the_reason(self, load_config):
        notes = load_config("checkpoint_interval: 5\nlog_level: DEBUG\nevaluator: {max_retries: 3}").task.notes
        assert "config.yaml: checkpoint_interval has no effect: every iteration is stored at once" in notes[0]
        assert notes[1].startswith("config.yaml: log_level has no effect: progress is printed")
        assert "evaluator.max_retries has no effect: failures repeat" in notes[2]

    def test_keys_without_effect_name_the_replacement(self, load_config):
        message = "\n".join(
            load_config("database: {elite_selection_ratio: 0.1}\nevaluator: {distributed: true}").task.notes
        )
        assert "database.elite_selection_ratio has no effect: prompt.num_top_programs sets the number" in message
        assert "evaluator.distributed has no effect: use --executor ray for a cluster." in message

    def test_unknown_keys_name_the_nearest_key(self, load_config):
        notes = load_config(
            "parallel_evaluations: 4\nmax_iteration: 4\nalgotune: {a: 1}\ndatabase: {islands: 2}"
        ).task.notes
        message = "\n".join(notes)
        assert "parallel_evaluations is not an OpenEvolve key and has no effect; the nearest is evaluator." in message
        assert "max_iteration is not an OpenEvolve key and has no effect; the nearest is max_iterations." in message
        assert "algotune is not an OpenEvolve key and has no effect." in message
        assert "database.islands" in message

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "llm:",
            "database: null",
            "llm: {primary_model: null}",
            "prompt: 3",
            "llm: [1, 2]",
            "null: 1",
            "3: {4: 5}",
        ],
    )
    def test_odd_values_load(self, load_config, text):
        assert load_config(text).system == "programs"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("max_iterations: many", "run.iterations is"),
            ("[1, 2]", "contains a list; it must be keys with values"),
            ("a: [", "is not valid YAML"),
            ("database: {num_islands: 0}", "programs.max_islands is 0"),
            ("evaluator: {timeout: -1}", "sandbox.seconds is -1"),
            (f"{BOMB}prompt: {{system_message: *i}}", "its aliases expand to too much"),
            ("a: &a [*a]", "its aliases expand to too much, or to themselves"),
            (f"a: &a {'x' * 99_999}\nb: [{'*a,' * 11}]", "its aliases expand to too much"),
            ("a: " + "[" * 5000, "over 50 levels deep"),
            (f"a: [{'1,' * 20_000}]", "over 20,000 keys and values"),
            (f"a: '{'x' * 1_000_000}'", "over 1,000,000 characters"),
            ('max_iterations: !!int ""', "'' in line 1 is not of type int"),
            ('max_iterations: !!float ""', "'' in line 1 is not of type float"),
            ("max_iterations: !!timestamp zzz", "'zzz' in line 1 is not of type timestamp"),
            (f"max_iterations: {':'.join('1' * 3000)}", "a number of over 300 characters"),
            ("prompt: {system_message: [You, know]}", "task.description is"),
        ],
    )
    def test_invalid_configuration_raises_one_sentence(self, load_config, text, message):
        with pytest.raises(errors.SetupError, match=message):
            load_config(text)

    def test_aliases_are_expanded(self, load_config):
        run_config = load_config("database: &few {num_islands: 3}\nother: {<<: *few}\nmax_iterations: 7")
        assert (run_config.options.max_islands, run_config.run.iterations) == (3, 7)

    def test_numeric_system_message_is_text(self, load_config):
        assert load_config("prompt: {system_message: 42}").task.description == "42"

    def test_system_message_may_name_a_template(self, load_config, tmp_path):
        (tmp_path / "templates").mkdir()
        (tmp_path / "templates" / "expert.txt").write_text("You know it all.")
        assert (
            load_config("prompt: {system_message: expert, template_dir: templates}").task.description
            == "You know it all."
        )
        assert load_config("prompt: {system_message: system_message}").task.description == ""

    def test_every_key_has_a_setting_or_a_reason(self):
        ours = {f"{section}.{key}" for section, model in config.COMMON_SECTIONS.items() for key in model.model_fields}
        ours |= {f"task.{key}" for key in Task.model_fields} | {f"programs.{key}" for key in Options.model_fields}
        for name, key in config_keys.ALL_KEYS.items():
            assert key.setting in ours if key.setting else key.reason, name


class TestModel:
    def message(self, load_config, text: str):
        task = load_config(text).task
        return task.model, " ".join(task.notes)

    def test_llm_is_named_but_not_used(self, load_config):
        run_config = load_config("llm: {models: [{name: gpt-x, weight: 1.0}]}")
        assert (run_config.task.model, run_config.run.llm) == ("openai:gpt-x", "none")

    def test_llm_config_uses_the_named_llm(self, load_config, tmp_path):
        load_config("llm: {api_base: 'http://127.0.0.1:9/v1/', primary_model: small}")
        run_config = config.load(tmp_path, [{"run": {"llm": "config"}}])
        assert run_config.run.llm == "openai:small@http://127.0.0.1:9/v1"

    def test_llm_config_without_a_name_is_rejected(self, load_config, tmp_path):
        load_config("max_iterations: 1")
        with pytest.raises(errors.SetupError, match="no configuration that names an LLM"):
            config.load(tmp_path, [{"run": {"llm": "config"}}])

    def test_model_with_higher_weight_comes_first(self, load_config):
        model, _ = self.message(load_config, "llm: {primary_model: a, primary_model_weight: 0.1, secondary_model: b}")
        assert "openai:b" in str(model)

    def test_models_have_their_own_settings(self, load_config, tmp_path, monkeypatch):
        run_config = load_config("""
llm:
  api_base: http://127.0.0.1:9/v1
  api_key: ${SHARED_KEY}
  temperature: 0.4
  random_seed: 3
  models:
    - {name: a, weight: 0.8, temperature: 0.9, top_p: 0.5, max_tokens: 50, timeout: 7, retries: 1, retry_delay: 2}
    - {name: b, api_base: "http://127.0.0.1:8/v1", api_key: sk-very-secret, random_seed: 5, reasoning_effort: none}
    - {name: a, weight: 0.1, system_message: Be bold.}
  primary_model: c
""")
        local = "openai:{}@http://127.0.0.1:9/v1"
        names = [local.format("a"), "openai:b@http://127.0.0.1:8/v1", f"{local.format('a')}#2", local.format("c")]
        assert run_config.task.model == f"{names[0]}*0.8,{names[1]}*1,{names[2]}*0.1,{names[3]}*1"
        options = [
            {key: value for key, value in run_config.llm.models[name].model_dump().items() if value is not None}
            for name in names
        ]
        sampling = {"temperature": 0.9, "top_p": 0.5, "max_tokens": 50}
        assert options[0] == sampling | {
            "timeout_seconds": 7,
            "retries": 1,
            "backoff_seconds": 2,
            "api_key": "${SHARED_KEY}",
        }
        place = f"@{tmp_path}/config.yaml#llm.models.1.api_key"
        assert options[1] == {"seed": 5, "thinking": "off", "api_key": place}
        assert options[2:] == [{"system_message": "Be bold.", "api_key": "${SHARED_KEY}"}, {"api_key": "${SHARED_KEY}"}]
        assert (run_config.llm.temperature, run_config.llm.seed, run_config.task.notes) == (0.4, 3, ())
        monkeypatch.setenv("SHARED_KEY", "sk-shared")
        keys = [run_config.llm.to_options()["models"][name]["api_key"]() for name in names]
        assert keys == ["sk-shared", "sk-very-secret", "sk-shared", "sk-shared"]
        assert "sk-" not in str(run_config.to_data())
        assert config.RunConfig.from_data(run_config.to_data()) == run_config

    def test_missing_key_variable_is_one_sentence(self, load_config, tmp_path, monkeypatch):
        monkeypatch.delenv("OTHER_KEY", raising=False)
        load_config("llm: {primary_model: a, api_key: '${OTHER_KEY}'}")
        run_config = config.load(tmp_path, [{"run": {"llm": "config"}}])
        with pytest.raises(errors.SetupError, match="is in OTHER_KEY, which is not set"):
            llm.make_llm(run_config.run.llm, **run_config.llm.to_options())
        assert llm.make_llm("openai:b@http://127.0.0.1:9/v1", **run_config.llm.to_options()) is not None

    def test_key_in_our_settings_is_refused_and_not_shown(self, load_config, tmp_path):
        load_config("")
        with pytest.raises(errors.SetupError, match="is a secret") as caught:
            config.load(tmp_path, [{"llm": {"models": {"openai:a": {"api_key": "sk-very-secret"}}}}])
        assert "sk-very-secret" not in str(caught.value)

    def test_model_keys_without_effect_are_named(self, load_config):
        _, notes = self.message(
            load_config,
            "llm: {models: [{name: a, provider: claude_code, max_budget_usd: 1, wait: 3, reasoning_effort: huge}, "
            "{weight: 1}, text]}",
        )
        for note in (
            "llm.models.0.provider 'claude_code' has no effect",
            "llm.models.0.max_budget_usd has no effect: limit the cost of a run with --budget '$1'.",
            "llm.models.0.wait is not an OpenEvolve key",
            "llm.models.0.reasoning_effort 'huge' has no effect",
            "llm.models.1 has no effect: it needs a name and a weight above 0.",
            "llm.models has items without keys",
        ):
            assert note in notes


class TestTemplates:
    def write(self, folder, **texts: str) -> None:
        (folder / "mine").mkdir()
        for name, text in texts.items():
            (folder / "mine" / name.replace("_json", ".json").replace("_txt", ".txt")).write_text(text)

    def test_templates_are_found_by_name(self, load_config, tmp_path):
        self.write(
            tmp_path,
            system_message_txt="You {are} mine.",
            evaluator_system_message_txt="Be strict.",
            full_rewrite_user_txt="{current_program}",
            old_txt="unused",
            fragments_json='{"artifact_title": "Log", "code_too_long": "x", "greeting": "y"}',
        )
        run_config = load_config("prompt: {template_dir: mine, template_variations: {greeting: [Hi., Hello.]}}")
        options = run_config.options
        assert (run_config.task.description, options.llm_feedback_prompt) == ("You {are} mine.", "Be strict.")
        assert (options.template_variations, options.crossover) == ({"greeting": ["Hi.", "Hello."]}, 0.0)
        assert run_config.task.notes == (
            f"old.txt in {tmp_path / 'mine'} has no effect: no prompt uses it.",
            "fragments.json: code_too_long, greeting has no effect: the prompt has no such part.",
        )

    def test_message_of_the_configuration_wins(self, load_config, tmp_path):
        self.write(tmp_path, system_message_txt="From the file.")
        run_config = load_config(
            "llm: {system_message: Of the LLM.}\nprompt: {template_dir: mine, system_message: Of the prompt.}"
        )
        assert run_config.task.description == "Of the prompt."
        assert run_config.options.templates == {"system_message": "{description}"}


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5000) | st.floats(allow_nan=True) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_NAMES = st.sampled_from(sorted(config_keys.TOP_LEVEL_KEYS)) | st.text(max_size=8)
_INNER = st.dictionaries(
    st.sampled_from(sorted({name for keys in config_keys.SECTION_KEYS.values() for name in keys})), _VALUES, max_size=4
)


@given(
    settings=st.dictionaries(_NAMES | st.sampled_from(sorted(config_keys.SECTION_KEYS)), _VALUES | _INNER, max_size=6)
)
def test_any_yaml_gives_a_configuration_or_one_sentence(tmp_path_factory, settings):
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_text(yaml.safe_dump(settings), encoding="utf-8", errors="replace")
    message = ""
    try:
        config.RunConfig.from_layers(
            file.parent, [{"system": "programs", **folder.make_sections("p.py", "e.py", file)}]
        )
    except errors.SetupError as error:
        message = str(error)
    assert "\n" not in message
