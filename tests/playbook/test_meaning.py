"""Relation of rules: by words, by embeddings and by a judge."""

import json
from pathlib import Path

import numpy as np
import pytest

from atoll import errors, llm, playbook, store

PAIRS = [json.loads(line) for line in Path(__file__).with_name("pairs.jsonl").read_text(encoding="utf-8").splitlines()]
MERGED = ("same", "duplicate")


def get_relation(pair: dict[str, str]) -> str:
    return playbook.relate_words(pair["first"], pair["second"])


def test_words_never_merge_different_rules():
    assert not [pair for pair in PAIRS if pair["label"] != "duplicate" and get_relation(pair) in MERGED]


def test_relation_of_words_is_symmetric():
    assert all(get_relation(pair) == playbook.relate_words(pair["second"], pair["first"]) for pair in PAIRS)


@pytest.mark.parametrize(
    ("first", "second", "relation"),
    [
        ("Boil eggs for 7 minutes.", "boil the eggs for 7 minutes", "duplicate"),
        ("Boil eggs for 7 minutes.", "Boil eggs for 9 minutes.", "different"),
        ("Boil eggs for 7 minutes.", "Never boil eggs for 7 minutes.", "contradiction"),
        ("Geh nachts in die Höhle.", "Geh nachts nicht in die Höhle.", "contradiction"),
        ("夜は溶岩に近づかない", "夜は溶岩に近づかない。", "same"),
        ("夜は溶岩に近づかない", "夜は溶岩に近づく", "different"),
        ("You can eat berries.", "You must eat berries.", "different"),
        ("Spiders are insects.", "Insects are spiders.", "different"),
        ("x < 5", "x > 5", "different"),
    ],
)
def test_words_decide_without_embeddings(first, second, relation):
    assert playbook.Meaning().relate(first, second) == relation


def embed(texts):
    """Places a torch and a lamp close to each other."""
    rows = [[1.0 + ("torch" in text.lower() or "lamp" in text.lower()) * 9, 9.0 * ("egg" in text)] for text in texts]
    return np.array(rows)


def test_embeddings_find_contradictions_and_merge_nothing():
    meaning = playbook.Meaning(embed)
    assert meaning.relate("Carry a torch in caves.", "Never take a lamp underground.") == "contradiction"
    assert meaning.relate("Carry a torch in caves.", "Bring a lamp underground.") == "different"
    assert meaning.relate("Carry 2 torches in caves.", "Never take a lamp underground.") == "different"
    assert meaning.relate("Carry a torch in caves.", "Boil an egg.") == "different"


def test_embeddings_retrieve_bullets_with_other_words():
    notes = playbook.PlaybookStore(store.MemoryVersions(), curator=playbook.Curator(meaning=playbook.Meaning(embed)))
    notes.apply([playbook.add("tactics", "Carry a torch in caves."), playbook.add("food", "Boil an egg.")], "t", "me")
    assert notes.retrieve("lamp", limit=1)[0].bullet.id == "tactics-00001"


def test_wrong_embeddings_are_reported():
    with pytest.raises(errors.SetupError, match="embed must return"):
        playbook.Meaning(lambda texts: [1.0]).relate("Go north.", "Go south.")


class TestJudge:
    """An LLM decides. It must be asked about the right rules, and its answer must count."""

    def make_curator(self, relation):
        prompts = []

        def answer(prompt):
            prompts.append(prompt)
            return json.dumps({"rules": [{"number": 1, "relation": relation}]})

        return playbook.Curator(meaning=playbook.Meaning(judge=playbook.LLMJudge(answer))), prompts

    @pytest.mark.parametrize(
        ("relation", "outcome", "count"),
        [("same", "applied", 1), ("contradiction", "held", 1), ("different", "applied", 2)],
    )
    def test_judge_decides_in_any_language(self, relation, outcome, count):
        curator, prompts = self.make_curator(relation)
        book, _ = curator.decide(playbook.Playbook(), [playbook.add("правила", "Ночью оставайся в пещере.")])
        book, (verdict,) = curator.decide(book, [playbook.add("правила", "Not a word in common.")])
        assert (verdict.outcome, len(book)) == (outcome, count)
        assert "1. Ночью оставайся в пещере." in prompts[0]

    def test_words_decide_if_judge_fails(self):
        def fail(prompt):
            raise llm.LLMError("down")

        meaning = playbook.Meaning(judge=playbook.LLMJudge(fail))
        assert meaning.relate("Boil eggs.", "Never boil eggs.") == "contradiction"


@pytest.mark.parametrize(
    ("name", "section"),
    [("Café", "cafe"), ("правила", "правила"), ("नियम", "नियम"), ("戦術", "戦術"), ("2024", "s_2024"), ("!", "s_21")],
)
def test_any_section_name_is_accepted(name, section, tmp_path):
    notes = playbook.PlaybookStore(store.MemoryVersions())
    (verdict,) = notes.apply([playbook.add(name, "Wolves fear fire.")], "t", "me").verdicts
    assert verdict.ids == (f"{section}-00001",)
    playbook.export_folder(notes, tmp_path)
    assert playbook.load_folder(tmp_path) == notes.current()
