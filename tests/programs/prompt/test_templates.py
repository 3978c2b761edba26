"""Templates, ours and those of a folder (P9)."""

from random import Random

import pytest

from atoll import errors
from atoll.programs.prompt import Templates


def filled(text: str, **values: str) -> str:
    return Templates({"it": text}).fill("it", values)


def test_placeholders_are_filled_once_and_unknown_ones_stay():
    assert filled("{a} {b} {{c}}", a="{b} {{x}}") == "{b} {{x}} {b} {c}"


def test_a_fence_around_a_placeholder_grows_with_what_stands_in_it():
    assert (
        filled("```{language}\n{code}\n```", language="python", code="x = '````'") == "`````python\nx = '````'\n`````"
    )


def test_a_line_a_fence_or_a_section_that_says_nothing_goes():
    text = "# One\n{a}\n\n# Two\n{b}\n\n```\n{a}\n```\n{a}\n\n\n# Three\nend"
    assert filled(text, a="", b="x") == "# Two\nx\n\n# Three\nend"


def test_blank_lines_in_what_is_shown_stay():
    assert filled("{a}\n\n{b}", a="x\n\n\n\ny", b="z") == "x\n\n\n\ny\n\nz"


def test_a_file_of_a_folder_replaces_ours_and_the_others_stay(tmp_path):
    (tmp_path / "diff_user.txt").write_text("Mine: {current_program}")
    (tmp_path / "fragments.json").write_text('{"hint": "only this"}')
    mine, ours = Templates.read(tmp_path), Templates.read()
    assert mine.texts["diff_user"] == "Mine: {current_program}"
    assert mine.texts["full_rewrite_user"] == ours.texts["full_rewrite_user"]
    assert mine.draw_variations(Random(0))["hint"] == "only this"


def test_openevolves_names_are_all_there():
    names = {"system_message", "diff_user", "full_rewrite_user", "evolution_history", "previous_attempt", "top_program"}
    assert names | {"inspirations_section", "inspiration_program"} <= Templates.read().texts.keys()


def test_variations_are_drawn_from_the_generator_of_the_step():
    templates = Templates.read()
    drawn = {templates.draw_variations(Random(seed))["goal"] for seed in range(50)}
    assert drawn == set(templates.variations["goal"])
    assert templates.draw_variations(Random(3)) == templates.draw_variations(Random(3))


def test_a_folder_that_is_none_and_words_that_are_none_are_refused(tmp_path):
    with pytest.raises(errors.SetupError, match=r"Folder .* not found"):
        Templates.read(tmp_path / "missing")
    (tmp_path / "variations.json").write_text("[1]")
    with pytest.raises(errors.SetupError, match="is not a JSON object of texts"):
        Templates.read(tmp_path)
    (tmp_path / "diff_user.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(errors.SetupError, match="cannot be read"):
        Templates.read(tmp_path)


def test_what_is_said_by_name_wins_over_the_folder(tmp_path):
    (tmp_path / "repair.txt").write_text("from the folder")
    assert Templates.read(tmp_path, {"repair": "said"}).texts["repair"] == "said"
    with pytest.raises(errors.SetupError, match="has no template 'repare'"):
        Templates.read(None, {"repare": "said"})
