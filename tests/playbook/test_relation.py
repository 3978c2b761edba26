"""Which rules say the same: 250 labelled pairs, half of them held out while the words were collected."""

import json
from pathlib import Path

import pytest

from atoll import playbook

PAIRS = [json.loads(line) for line in Path(__file__).with_name("pairs.jsonl").read_text(encoding="utf-8").splitlines()]
MERGED = ("same", "duplicate")


def of(label: str, half: str | None = None) -> list[dict[str, str]]:
    return [each for each in PAIRS if each["label"] == label and half in (None, each["half"])]


def related(pair: dict[str, str]) -> str:
    return playbook.relate(pair["first"], pair["second"])


def test_there_are_enough_pairs_of_every_kind():
    assert len(PAIRS) >= 200
    assert len(of("duplicate", "held out")) >= 50
    assert {each["why"] for each in PAIRS} >= {"negation", "number", "unit", "role", "opposite", "entity", "scope"}


def test_no_pair_is_merged_that_does_not_say_the_same():
    wrong = [pair for label in ("contradiction", "different") for pair in of(label) if related(pair) in MERGED]
    assert not wrong


def test_four_of_five_true_duplicates_are_found():
    found = [pair for pair in of("duplicate") if related(pair) in MERGED]
    assert len(found) >= 0.8 * len(of("duplicate"))


def test_most_contradictions_are_seen():
    seen = [pair for pair in of("contradiction") if related(pair) == "contradiction"]
    assert len(seen) >= 0.9 * len(of("contradiction"))


def test_the_order_of_two_rules_does_not_matter():
    assert all(related(pair) == playbook.relate(pair["second"], pair["first"]) for pair in PAIRS)


def test_every_rule_says_what_it_says():
    assert all(playbook.relate(each[side], each[side]) == "same" for each in PAIRS for side in ("first", "second"))


@pytest.mark.parametrize("halves", [("tuning", "held out"), ("held out", "tuning")])
def test_rules_of_different_pairs_are_not_merged_at_random(halves):
    firsts = [each["first"] for each in PAIRS if each["half"] == halves[0]]
    others = [each["first"] for each in PAIRS if each["half"] == halves[1]]
    texts = [(one, other) for one in firsts[::3] for other in others[::3]]
    merged = [pair for pair in texts if playbook.relate(*pair) == "duplicate"]
    same = {frozenset((each["first"], each["second"])) for each in of("duplicate")}
    assert not [pair for pair in merged if frozenset(pair) not in same]


def test_other_languages_are_the_same_only_word_for_word():
    assert playbook.relate("夜は溶岩に近づかない", "夜は溶岩に近づく") == "different"
    assert playbook.relate("夜は溶岩に近づかない", "夜は溶岩に近づかない。") == "same"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Rest if health < 5.", "Rest if health > 5."),
        ("Stop when x = 5.", "Stop when x != 5."),
        ("Stop when x ≤ 5.", "Stop when x ≥ 5."),
        ("The change is +5.", "The change is -5."),
        ("Pay $5.", "Pay €5."),
        ("Write a/b.", "Write a*b."),
        ("Use n² steps.", "Use n³ steps."),
        ("Smile ☺ at bears.", "Smile ☹ at bears."),
        ("Turn the lamp off.", "Turn the lamp on."),
        ("Turn the lamp off at dawn.", "Turn the lamp on at dawn."),
        ("You can eat berries.", "You must eat berries."),
        ("Use door 1.", "Use the door."),
        ("Grow wheat in the field.", "Grow wheat."),
        ("Check the units.", "Unite the checks."),
        ("Spiders are insects.", "Insects are spiders."),
        ("Only wolves hunt deer.", "Wolves hunt only deer."),
        ("Wolves attack if you run.", "Wolves attack unless you run."),
        ("Walk from camp to lake.", "Walk from lake to camp."),
    ],
)
def test_small_words_and_symbols_tell_rules_apart(first, second):
    assert playbook.relate(first, second) not in MERGED


def test_a_recipe_and_a_definition_are_one_rule():
    defined = "The speed is the distance divided by the time."
    assert playbook.relate(defined, "Divide the distance by the time to get the speed.") == "duplicate"
    assert playbook.relate(defined, "To find the speed, divide the distance by the time.") == "duplicate"
    assert playbook.relate(defined, "Divide the time by the distance to get the speed.") == "different"
    assert playbook.relate(defined, "Multiply the distance by the time to get the speed.") != "duplicate"
