"""Fresh pairs of rules: how many paraphrases and contradictions are found, and how many merges are wrong.

The pairs in `playbook_pairs.jsonl` were written after the first version of the code, in English and German. Seeing
them, two things were changed: rules are no longer merged by embeddings alone, and an LLM may compare more pairs.
Embeddings are measured if the wheel of `bench/minilm.py` is installed. The scripted comparer knows the labels: its row
tests that the prompt shows it every pair and that its decision counts, with all rules in one playbook.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from atoll import playbook
from bench import minilm

PAIRS = Path(__file__).with_name("playbook_pairs.jsonl")
HEADINGS = [
    "comparison",
    "language",
    "paraphrases found",
    "contradictions found",
    "wrong merges",
    "wrong contradictions",
]
LABELS = {"duplicate": "same", "contradiction": "contradiction"}


def read_pairs() -> list[dict[str, str]]:
    return [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]


class ScriptedComparer:
    """LLM that reads the prompt of `LLMComparer` and answers with the labels of the pairs."""

    def __init__(self, pairs: Sequence[dict[str, str]]) -> None:
        self._labels = {frozenset((pair["first"], pair["second"])): pair["label"] for pair in pairs}

    def __call__(self, prompt: str) -> str:
        rule = prompt.partition("NEW RULE\n  ")[2].partition("\n")[0]
        lines = prompt.partition("RULES\n  ")[2].partition("\n\n")[0].splitlines()
        rules = dict(line.strip().split(". ", 1) for line in lines)
        compared = [
            {"number": int(number), "relation": LABELS.get(self._labels.get(frozenset((rule, text)), ""), "different")}
            for number, text in rules.items()
        ]
        return json.dumps({"rules": compared})


def measure_pairs(name: str, meaning: playbook.Meaning, pairs: Sequence[dict[str, str]]) -> list[list[object]]:
    """Compares the two rules of each pair."""
    relations = [meaning.relate(pair["first"], pair["second"]) for pair in pairs]
    return _make_rows(name, pairs, [("duplicate" if item == "same" else item) for item in relations])


def measure_playbook(name: str, meaning: playbook.Meaning, pairs: Sequence[dict[str, str]]) -> list[list[object]]:
    """Adds the first rules of all pairs of a language to one playbook, then proposes the second rules one by one."""
    curator = playbook.Curator(playbook.Config(max_tokens=200_000, max_deltas=1_000), meaning=meaning)
    relations = []
    books: dict[str, playbook.Playbook] = {}
    for language in dict.fromkeys(pair["language"] for pair in pairs):
        plain = playbook.Curator(curator.config)
        firsts = [playbook.add("rules", pair["first"]) for pair in pairs if pair["language"] == language]
        books[language] = plain.decide(playbook.Playbook(), firsts)[0]
    for pair in pairs:
        book = books[pair["language"]]
        _, (verdict,) = curator.decide(book, [playbook.add("rules", pair["second"])])
        partner = next(bullet.id for bullet in book.bullets.values() if bullet.content == pair["first"])
        is_partner = partner in verdict.ids
        if verdict.outcome == "held":
            relations.append("contradiction" if is_partner else "other contradiction")
        elif verdict.reason.startswith("confirms"):
            relations.append("duplicate" if is_partner or pair["label"] != "duplicate" else "wrong partner")
        else:
            relations.append("different")
    return _make_rows(name, pairs, relations)


def _make_rows(name: str, pairs: Sequence[dict[str, str]], relations: Sequence[str]) -> list[list[object]]:
    rows: list[list[object]] = []
    for language in dict.fromkeys(pair["language"] for pair in pairs):
        found = [
            (pair["label"], item) for pair, item in zip(pairs, relations, strict=True) if pair["language"] == language
        ]

        def share(label: str, relation: str, found: list[tuple[str, str]] = found) -> str:
            chosen = [item == relation for kind, item in found if kind == label]
            return f"{sum(chosen)} of {len(chosen)} ({100 * sum(chosen) / len(chosen):.0f} %)"

        others = [item for label, item in found if label != "duplicate"]
        calm = [item for label, item in found if label != "contradiction"]
        wrong_merges = f"{others.count('duplicate')} of {len(others)}"
        wrong_contradictions = f"{sum('contradiction' in item for item in calm)} of {len(calm)}"
        row = [share("duplicate", "duplicate"), share("contradiction", "contradiction")]
        rows.append([name, language, *row, wrong_merges, wrong_contradictions])
    return rows


def measure() -> list[list[object]]:
    """Returns the rows of all comparisons."""
    pairs = read_pairs()
    comparer = playbook.LLMComparer(ScriptedComparer(pairs))
    rows = measure_pairs("words (fallback)", playbook.Meaning(), pairs)
    embed = minilm.MiniLM(folder) if (folder := minilm.find_model()) else None
    if embed:
        rows += measure_pairs("embeddings (all-MiniLM-L6-v2, English)", playbook.Meaning(embed), pairs)
    rows += measure_playbook("scripted comparer, candidates by words", playbook.Meaning(comparer=comparer), pairs)
    if embed:
        rows += measure_playbook(
            "scripted comparer, candidates by embeddings", playbook.Meaning(embed, comparer), pairs
        )
    return rows


if __name__ == "__main__":
    print(" | ".join(HEADINGS))
    for row in measure():
        print(" | ".join(map(str, row)))
