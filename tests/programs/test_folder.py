"""OpenEvolve's folders and their configurations (P20): every key is used or accounted for."""

import itertools
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from atoll import config, errors
from atoll.programs.config import Options, Task
from atoll.programs.openevolve import config_keys, folder

# Nine lists, each of ten times the one before it: a third of a kilobyte that stands for 10^9 items.
BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in itertools.pairwise("abcdefghi")
)
PROGRAM, EVALUATOR = "KNOB = 1\n", "def evaluate(path): return 1.0\n"


@pytest.fixture
def made(tmp_path):
    """Makes a folder with a configuration and returns its plan."""

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
    def test_the_program_is_found_by_its_usual_names(self, made, name):
        assert made(program=name).task.program == name

    def test_a_prompt_may_be_called_after_its_task(self, made):
        plan = made(program="emotion_prompt.txt")
        assert plan.task.program == "emotion_prompt.txt"
        assert not getattr(plan.options, "diff_based_evolution", False), "a text is rewritten as a whole"

    @pytest.mark.parametrize("name", ["config.yaml", "config.yml", "config_phase_1.yaml"])
    def test_the_configuration_is_found_by_its_usual_names(self, made, name):
        assert made("max_iterations: 7", name).run.iterations == 7

    def test_the_first_phase_counts_and_the_others_are_named(self, made, tmp_path):
        (tmp_path / "config_phase_2.yaml").write_text("max_iterations: 9")
        (tmp_path / "config_phase_1_other.yaml").write_text("max_iterations: 8")
        plan = made("max_iterations: 7", "config_phase_1.yaml")
        assert plan.run.iterations == 7
        assert plan.task.notes[0].startswith("config_phase_1.yaml is used; pass -c ")
        assert plan.task.notes[0].endswith("config_phase_2.yaml for another.")

    def test_a_program_and_an_evaluator_need_no_folder(self, tmp_path):
        (tmp_path / "start.py").write_text(PROGRAM)
        (tmp_path / "judges").mkdir()
        (tmp_path / "judges" / "judge.py").write_text(EVALUATOR)
        (tmp_path / "any.yaml").write_text("random_seed: 5")
        plan: Any = config.load(
            tmp_path / "start.py", evaluator=tmp_path / "judges" / "judge.py", settings=tmp_path / "any.yaml"
        )
        assert (plan.folder, plan.task.program, plan.run.seed) == (tmp_path, "start.py", 5)
        assert (plan.folder / plan.task.evaluator).is_file()


class TestKeys:
    def test_all_that_has_a_setting_gives_it(self, made):
        plan = made("""
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
        assert (plan.run.iterations, plan.run.seed, plan.run.workers) == (12, 3, 3)
        assert (plan.run.patience, plan.run.min_gain) == (40, 0.01)
        assert (plan.task.description, plan.task.features) == ("Pack circles.", ("complexity", "spread"))
        options = plan.options
        assert (options.num_islands, options.migration_interval, options.max_code_length) == (3, 7, 900)
        assert (options.cascade, options.cascade_thresholds) == (False, (0.3,))
        said = (options.llm_feedback, options.llm_feedback_weight, options.llm_feedback_prompt)
        assert said == (True, 0.2, "You review.")
        assert (plan.sandbox.seconds, plan.sandbox.memory_mb, plan.sandbox.cpu_seconds) == (9, 512, 4)
        assert (plan.llm.temperature, plan.llm.max_tokens, plan.llm.timeout_seconds) == (0.4, 100, 30)
        assert plan.task.notes == ()

    def test_a_negative_patience_stops_at_a_score(self, made):
        plan = made("early_stopping_patience: -1\nconvergence_threshold: 1.0")
        assert (plan.run.patience, plan.run.target) == (None, 1.0)

    def test_what_has_no_effect_says_why(self, made):
        notes = made("checkpoint_interval: 5\nlog_level: DEBUG\nevaluator: {max_retries: 3}").task.notes
        assert "config.yaml: checkpoint_interval has no effect: every iteration is stored at once" in notes[0]
        assert notes[1].startswith("config.yaml: log_level has no effect: progress is printed")
        assert "evaluator.max_retries has no effect: failures repeat" in notes[2]

    def test_what_another_key_or_flag_does_is_named(self, made):
        said = "\n".join(made("database: {elite_selection_ratio: 0.1}\nevaluator: {distributed: true}").task.notes)
        assert "database.elite_selection_ratio has no effect: prompt.num_top_programs sets the number" in said
        assert "evaluator.distributed has no effect: use --executor ray for a cluster." in said

    def test_unknown_keys_are_named_with_the_nearest(self, made):
        notes = made("parallel_evaluations: 4\nmax_iteration: 4\nalgotune: {a: 1}\ndatabase: {islands: 2}").task.notes
        said = "\n".join(notes)
        assert "parallel_evaluations is not an OpenEvolve key and has no effect; the nearest is evaluator." in said
        assert "max_iteration is not an OpenEvolve key and has no effect; the nearest is max_iterations." in said
        assert "algotune is not an OpenEvolve key and has no effect." in said
        assert "database.islands" in said

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
    def test_odd_values_load(self, made, text):
        assert made(text).system == "programs"

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("max_iterations: many", "run.iterations is"),
            ("[1, 2]", "contains a list; it must be keys with values"),
            ("a: [", "is not valid YAML"),
            ("database: {num_islands: 0}", "programs.num_islands is 0"),
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
    def test_what_cannot_be_meant_is_one_sentence(self, made, text, said):
        with pytest.raises(errors.SetupError, match=said):
            made(text)

    def test_a_few_aliases_are_what_they_stand_for(self, made):
        plan = made("database: &few {num_islands: 3}\nother: {<<: *few}\nmax_iterations: 7")
        assert (plan.options.num_islands, plan.run.iterations) == (3, 7)

    def test_a_message_that_is_a_number_is_a_text(self, made):
        assert made("prompt: {system_message: 42}").task.description == "42"

    def test_a_message_may_be_the_name_of_a_template(self, made, tmp_path):
        (tmp_path / "templates").mkdir()
        (tmp_path / "templates" / "expert.txt").write_text("You know it all.")
        assert made("prompt: {system_message: expert, template_dir: templates}").task.description == "You know it all."
        assert made("prompt: {system_message: system_message}").task.description == ""

    def test_every_key_gives_a_setting_that_is_there_or_has_a_reason(self):
        ours = {f"{section}.{key}" for section, model in config.COMMON_SECTIONS.items() for key in model.model_fields}
        ours |= {f"task.{key}" for key in Task.model_fields} | {f"programs.{key}" for key in Options.model_fields}
        for name, key in config_keys.ALL_KEYS.items():
            assert key.setting in ours if key.setting else key.reason, name


class TestModel:
    def said(self, made, text: str):
        task = made(text).task
        return task.model, " ".join(task.notes)

    def test_it_is_named_and_not_asked(self, made):
        plan = made("llm: {models: [{name: gpt-x, weight: 1.0}]}")
        assert (plan.task.model, plan.run.llm) == ("openai:gpt-x", "none")

    def test_it_is_asked_where_one_says_so(self, made, tmp_path):
        made("llm: {api_base: 'http://127.0.0.1:9/v1/', primary_model: small}")
        plan = config.load(tmp_path, [{"run": {"llm": "config"}}])
        assert plan.run.llm == "openai:small@http://127.0.0.1:9/v1"

    def test_without_one_that_is_refused(self, made, tmp_path):
        made("max_iterations: 1")
        with pytest.raises(errors.SetupError, match="no configuration that names an LLM"):
            config.load(tmp_path, [{"run": {"llm": "config"}}])

    def test_of_two_old_ones_the_heavier_comes_first(self, made):
        model, _ = self.said(made, "llm: {primary_model: a, primary_model_weight: 0.1, secondary_model: b}")
        assert "openai:b" in str(model)

    def test_a_key_is_never_taken_from_the_file(self, made):
        model, notes = self.said(made, "llm: {primary_model: a, api_key: sk-very-secret}")
        assert "sk-very-secret" not in str(model) + notes
        assert "set the environment variable OPENAI_API_KEY" in notes

    def test_a_key_of_another_name_is_told(self, made):
        _, notes = self.said(made, "llm: {primary_model: a, api_key: '${OTHER_KEY}'}")
        assert "export OPENAI_API_KEY=$OTHER_KEY" in notes


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5000) | st.floats(allow_nan=True) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_NAMES = st.sampled_from(sorted(config_keys.TOP_LEVEL_KEYS)) | st.text(max_size=8)
_INNER = st.dictionaries(
    st.sampled_from(sorted({name for keys in config_keys.SECTION_KEYS.values() for name in keys})), _VALUES, max_size=4
)


@given(found=st.dictionaries(_NAMES | st.sampled_from(sorted(config_keys.SECTION_KEYS)), _VALUES | _INNER, max_size=6))
def test_any_yaml_gives_a_plan_or_one_sentence(tmp_path_factory, found):
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_text(yaml.safe_dump(found), encoding="utf-8", errors="replace")
    said = ""
    try:
        config.RunConfig.from_layers(
            file.parent, [{"system": "programs", **folder.make_sections("p.py", "e.py", file)}]
        )
    except errors.SetupError as error:
        said = str(error)
    assert "\n" not in said
