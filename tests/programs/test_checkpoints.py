"""Reading OpenEvolve checkpoints (P21). A damaged checkpoint raises one sentence."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll import errors, function, store
from atoll.evaluation import Evaluation
from atoll.programs.evaluation.cascade import ScoreFunction
from atoll.programs.openevolve import checkpoints


def checkpoint(folder: Path, *programs: object, number: int = 10) -> Path:
    path = folder / f"checkpoint_{number}"
    (path / "programs").mkdir(parents=True)
    for index, program in enumerate(programs):
        (path / "programs" / f"{index}.json").write_text(json.dumps(program))
    return path


def program(id: str, score: float, iteration: int = 0, **more: object) -> dict[str, object]:
    return {"id": id, "code": f"# {id}", "metrics": {"combined_score": score}, "iteration_found": iteration, **more}


def fail_evaluation(skeleton: object) -> Evaluation:
    raise AssertionError("the evaluator must not run")


def test_programs_are_in_order_of_discovery(tmp_path):
    path = checkpoint(tmp_path, program("b", 2.0, 7), program("a", 1.0, 3, parent_id="x"))
    assert [(item.id, item.parent) for item in checkpoints.read_programs(path)] == [("a", "x"), ("b", None)]


def test_output_folder_gives_its_last_checkpoint(tmp_path):
    checkpoint(tmp_path / "checkpoints", program("old", 1.0), number=9)
    checkpoint(tmp_path / "checkpoints", program("new", 1.0), number=100)
    assert [item.id for item in checkpoints.read_programs(tmp_path)] == ["new"]


def test_checkpoint_evaluator_returns_stored_scores(tmp_path):
    blobs = store.MemoryBlobs()
    programs = checkpoints.read_programs(
        checkpoint(
            tmp_path,
            program("good", -2.0, artifacts_json=json.dumps({"log": "well"})),
            {"id": "bad", "code": "# bad", "metrics": {"error": 0.0, "timeout": True}},
        )
    )
    evaluator = checkpoints.CheckpointEvaluator(programs, fail_evaluation, ScoreFunction(), blobs)
    good, bad = (evaluator(function.Text(f"# {name}")) for name in ("good", "bad"))
    assert (good.score, bad.score) == (-2.0, None)
    assert blobs.load_blob(good.artifacts["log"]) == b"well"
    assert bad.failure == "the checkpoint has no score for it", "P6: a failure is not 0.0"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not a checkpoint program"),
        ("[]", "is not a checkpoint program"),
        ('{"id": "a"}', "it has no 'code'"),
        ('{"code": 3}', "'code' must be a string"),
        ('{"code": "", "metrics": [1]}', "'metrics' an object"),
        ('{"code": "", "iteration_found": "x"}', "'iteration_found' an integer"),
        ('{"code": "\\ud800"}', "is not a checkpoint program"),
    ],
)
def test_damaged_program_raises_one_sentence(tmp_path, content, message):
    path = checkpoint(tmp_path)
    (path / "programs" / "a.json").write_text(content)
    with pytest.raises(errors.SetupError, match=message) as caught:
        checkpoints.read_programs(path)
    assert "a.json" in str(caught.value)
    assert str(caught.value).endswith(".")


def test_fifo_and_device_are_rejected_without_blocking(tmp_path):
    path = checkpoint(tmp_path)
    file = path / "programs" / "a.json"
    for make in (lambda: os.mkfifo(file), lambda: file.symlink_to("/dev/zero")):
        make()
        with pytest.raises(errors.SetupError, match=r"a\.json is not a checkpoint program: it is not a regular file\."):
            checkpoints.read_programs(path)
        file.unlink()


def test_program_may_be_a_symlink_to_a_regular_file(tmp_path):
    path = checkpoint(tmp_path, program("a", 1.0))
    (path / "programs" / "0.json").rename(tmp_path / "elsewhere.json")
    (path / "programs" / "a.json").symlink_to(tmp_path / "elsewhere.json")
    assert [item.id for item in checkpoints.read_programs(path)] == ["a"]


def test_too_large_file_is_rejected(tmp_path):
    path = checkpoint(tmp_path)
    with (path / "programs" / "a.json").open("wb") as file:
        file.truncate(checkpoints.MAX_BYTES + 1)  # sparse file
    with pytest.raises(errors.SetupError, match="it has over 64 MiB"):
        checkpoints.read_programs(path)


def test_folder_without_checkpoint_is_rejected(tmp_path):
    for folder in (tmp_path, tmp_path / "none", checkpoint(tmp_path)):
        with pytest.raises(errors.SetupError, match="checkpoint"):
            checkpoints.read_programs(folder)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    programs=st.dictionaries(
        st.sampled_from(["id", "code", "metrics", "parent_id", "iteration_found", "artifacts_json"]), _JSON
    )
)
def test_any_json_gives_programs_or_one_sentence(tmp_path_factory, programs):
    path = tmp_path_factory.getbasetemp() / "any"
    (path / "programs").mkdir(parents=True, exist_ok=True)
    (path / "programs" / "a.json").write_text(json.dumps(programs))
    message = ""
    try:
        checkpoints.CheckpointEvaluator(
            checkpoints.read_programs(path), fail_evaluation, ScoreFunction(), store.MemoryBlobs()
        )
    except errors.SetupError as error:
        message = str(error)
    assert "\n" not in message
