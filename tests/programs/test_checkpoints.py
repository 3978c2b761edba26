"""Checkpoints of OpenEvolve, read (P21); damaged ones are told in one sentence."""

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
    place = folder / f"checkpoint_{number}"
    (place / "programs").mkdir(parents=True)
    for index, program in enumerate(programs):
        (place / "programs" / f"{index}.json").write_text(json.dumps(program))
    return place


def program(id: str, score: float, iteration: int = 0, **more: object) -> dict[str, object]:
    return {"id": id, "code": f"# {id}", "metrics": {"combined_score": score}, "iteration_found": iteration, **more}


def nobody(skeleton: object) -> Evaluation:
    raise AssertionError("nobody is to be asked")


def test_programs_come_in_the_order_in_which_they_were_found(tmp_path):
    place = checkpoint(tmp_path, program("b", 2.0, 7), program("a", 1.0, 3, parent_id="x"))
    assert [(each.id, each.parent) for each in checkpoints.read_programs(place)] == [("a", "x"), ("b", None)]


def test_of_an_output_folder_the_last_checkpoint_counts(tmp_path):
    checkpoint(tmp_path / "checkpoints", program("old", 1.0), number=9)
    checkpoint(tmp_path / "checkpoints", program("new", 1.0), number=100)
    assert [each.id for each in checkpoints.read_programs(tmp_path)] == ["new"]


def test_the_judge_knows_their_scores_and_asks_about_others_only(tmp_path):
    bodies = store.MemoryBlobs()
    found = checkpoints.read_programs(
        checkpoint(
            tmp_path,
            program("good", -2.0, artifacts_json=json.dumps({"log": "well"})),
            {"id": "bad", "code": "# bad", "metrics": {"error": 0.0, "timeout": True}},
        )
    )
    remembering = checkpoints.CheckpointEvaluator(found, nobody, ScoreFunction(), bodies)
    good, bad = (remembering(function.Text(f"# {name}")) for name in ("good", "bad"))
    assert (good.score, bad.score) == (-2.0, None)
    assert bodies.load_blob(good.artifacts["log"]) == b"well"
    assert bad.failure == "the checkpoint has no score for it", "P6: a failure is no 0.0"


@pytest.mark.parametrize(
    ("content", "said"),
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
def test_a_damaged_program_is_one_sentence(tmp_path, content, said):
    place = checkpoint(tmp_path)
    (place / "programs" / "a.json").write_text(content)
    with pytest.raises(errors.SetupError, match=said) as caught:
        checkpoints.read_programs(place)
    assert "a.json" in str(caught.value)
    assert str(caught.value).endswith(".")


def test_what_is_no_plain_file_is_one_sentence_and_nobody_waits_for_it(tmp_path):
    place = checkpoint(tmp_path)
    file = place / "programs" / "a.json"
    for make in (lambda: os.mkfifo(file), lambda: file.symlink_to("/dev/zero")):
        make()
        with pytest.raises(errors.SetupError, match=r"a\.json is not a checkpoint program: it is not a regular file\."):
            checkpoints.read_programs(place)
        file.unlink()


def test_a_program_may_be_a_link_to_a_plain_file(tmp_path):
    place = checkpoint(tmp_path, program("a", 1.0))
    (place / "programs" / "0.json").rename(tmp_path / "elsewhere.json")
    (place / "programs" / "a.json").symlink_to(tmp_path / "elsewhere.json")
    assert [each.id for each in checkpoints.read_programs(place)] == ["a"]


def test_a_file_that_is_too_large_is_one_sentence(tmp_path):
    place = checkpoint(tmp_path)
    with (place / "programs" / "a.json").open("wb") as file:
        file.truncate(checkpoints.MAX_BYTES + 1)  # a hole: it takes no room on the disk
    with pytest.raises(errors.SetupError, match="it has over 64 MiB"):
        checkpoints.read_programs(place)


def test_what_is_no_checkpoint_is_told(tmp_path):
    for folder in (tmp_path, tmp_path / "none", checkpoint(tmp_path)):
        with pytest.raises(errors.SetupError, match="checkpoint"):
            checkpoints.read_programs(folder)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    found=st.dictionaries(
        st.sampled_from(["id", "code", "metrics", "parent_id", "iteration_found", "artifacts_json"]), _JSON
    )
)
def test_any_json_gives_programs_or_one_sentence(tmp_path_factory, found):
    place = tmp_path_factory.getbasetemp() / "any"
    (place / "programs").mkdir(parents=True, exist_ok=True)
    (place / "programs" / "a.json").write_text(json.dumps(found))
    said = ""
    try:
        checkpoints.CheckpointEvaluator(checkpoints.read_programs(place), nobody, ScoreFunction(), store.MemoryBlobs())
    except errors.SetupError as error:
        said = str(error)
    assert "\n" not in said
