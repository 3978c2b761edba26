"""Relation of rules on 250 labeled pairs. Half were held out while the lexicon was written."""

import json
from pathlib import Path

import pytest

from atoll import playbook

PAIRS = [json.loads(line) for line in Path(__file__).with_name("pairs.jsonl").read_text(encoding="utf-8").splitlines()]
MERGED = ("same", "duplicate")


def get_pairs(label: str, half: str | None = None) -> list[dict[str, str]]:
    return [pair for pair in PAIRS if pair["label"] == label and half in (None, pair["half"])]


def get_relation(pair: dict[str, str]) -> str:
    return playbook.relate(pair["first"], pair["second"])


def test_pairs_cover_every_kind():
    assert len(PAIRS) >= 200
    assert len(get_pairs("duplicate", "held out")) >= 50
    assert {pair["why"] for pair in PAIRS} >= {"negation", "number", "unit", "role", "opposite", "entity", "scope"}


def test_different_rules_are_not_merged():
    wrong = [
        pair for label in ("contradiction", "different") for pair in get_pairs(label) if get_relation(pair) in MERGED
    ]
    assert not wrong


def test_most_duplicates_are_found():
    matches = [pair for pair in get_pairs("duplicate") if get_relation(pair) in MERGED]
    assert len(matches) >= 0.8 * len(get_pairs("duplicate"))


def test_most_contradictions_are_found():
    matches = [pair for pair in get_pairs("contradiction") if get_relation(pair) == "contradiction"]
    assert len(matches) >= 0.9 * len(get_pairs("contradiction"))


def test_relation_is_symmetric():
    assert all(get_relation(pair) == playbook.relate(pair["second"], pair["first"]) for pair in PAIRS)


def test_rule_is_the_same_as_itself():
    assert all(playbook.relate(pair[side], pair[side]) == "same" for pair in PAIRS for side in ("first", "second"))


@pytest.mark.parametrize("halves", [("tuning", "held out"), ("held out", "tuning")])
def test_rules_of_different_pairs_are_not_merged(halves):
    firsts = [pair["first"] for pair in PAIRS if pair["half"] == halves[0]]
    others = [pair["first"] for pair in PAIRS if pair["half"] == halves[1]]
    texts = [(one, other) for one in firsts[::3] for other in others[::3]]
    merged = [pair for pair in texts if playbook.relate(*pair) == "duplicate"]
    same = {frozenset((pair["first"], pair["second"])) for pair in get_pairs("duplicate")}
    assert not [pair for pair in merged if frozenset(pair) not in same]


def test_other_languages_match_only_equal_text():
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
def test_small_words_and_symbols_make_rules_different(first, second):
    assert playbook.relate(first, second) not in MERGED


def test_instruction_equals_definition():
    defined = "The speed is the distance divided by the time."
    assert playbook.relate(defined, "Divide the distance by the time to get the speed.") == "duplicate"
    assert playbook.relate(defined, "To find the speed, divide the distance by the time.") == "duplicate"
    assert playbook.relate(defined, "Divide the time by the distance to get the speed.") == "different"
    assert playbook.relate(defined, "Multiply the distance by the time to get the speed.") != "duplicate"
