"""Repository with planted faults for the benchmark `repair`: 48 modules, 6 services and their tests, over 300 kB.

Each module has the same kinds of functions for another subject, with its own names and constants. Expected values of
the tests come from the correct code. Half of the faults have no direct test: only the test of a service fails.
"""

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

NOUNS = """
orders invoices parcels tickets lessons recipes bottles engines gardens letters matches meters mirrors notes
oysters pallets pencils permits photos pianos plants pockets quotes rivers rockets routes samples seats
shelves signals sockets spoons stamps stations studios tables tanks tapes tiles tours towers trains trucks
tubes valves vessels wagons wheels
""".split()  # noqa: SIM905
# Functions with their parameters; `{noun}` and other fields differ between modules.
TEMPLATES = """total(rows):
    result = {c1}
    for price, count in rows:
        result = result + price * count
    return result - {c1}

average(values):
    if not values:
        return 0.0
    return round(sum(values) / len(values), {digits})

clamp(value):
    lowest, highest = {low}, {high}
    return max(lowest, min(highest, value))

merge(spans):
    merged = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged

rank(scores):
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [name for name, _ in ordered]

smooth(values):
    width = {width}
    last = len(values) - width + 1
    return [round(sum(values[i:i + width]) / width, 3) for i in range(last)]

batch(items):
    size = {width}
    return [items[i:i + size] for i in range(0, len(items), size)]

discount(amount):
    if amount >= {threshold}:
        return round(amount * {rate}, 2)
    return amount

find(rows, wanted):
    for index, (name, _) in enumerate(rows):
        if name == wanted:
            return index
    return -1

count(text):
    counts = {{}}
    for word in text.split():
        counts[word] = counts.get(word, 0) + 1
    return counts

middle(values):
    ordered = sorted(values)
    half = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2

tidy(text):
    words = text.strip().lower().split()
    return '{sep}'.join(words)

distance(first, second):
    return abs(first[0] - second[0]) + abs(first[1] - second[1]) + {c0}

overlap(first, second):
    start = max(first[0], second[0])
    end = min(first[1], second[1])
    return max(0, end - start)

encode(text):
    pairs = []
    for letter in text:
        if pairs and pairs[-1][0] == letter:
            pairs[-1] = (letter, pairs[-1][1] + 1)
        else:
            pairs.append((letter, 1))
    return pairs

decode(pairs):
    return ''.join(letter * number for letter, number in pairs)

check(code):
    digits = [int(digit) for digit in code]
    total = sum(digit * (index + {weight}) for index, digit in enumerate(digits[:-1]))
    return total % 10 == digits[-1]

group(rows):
    groups = {{}}
    for key, value in rows:
        groups.setdefault(key, []).append(value)
    return groups

plan(jobs):
    chosen, free = [], 0
    for start, end in sorted(jobs, key=lambda job: job[1]):
        if start >= free:
            chosen.append((start, end))
            free = end
    return chosen

locate(values, wanted):
    low, high = 0, len(values)
    while low < high:
        half = (low + high) // 2
        if values[half] < wanted:
            low = half + 1
        else:
            high = half
    return low

transpose(rows):
    return [list(column) for column in zip(*rows)]

running(values):
    sums, current = [], {c0}
    for value in values:
        current += value
        sums.append(current)
    return sums

fee(weight):
    if weight <= {low}:
        return {c1}
    return {c1} + (weight - {low}) * {width}

ready(parts, done):
    return all(part in done for part in parts)
"""
_HEADERS = re.findall(r"^(\w+)\((.*)\):\n((?:    .*\n)+)", TEMPLATES, re.MULTILINE)
PARAMETERS = {name: parameters for name, parameters, _ in _HEADERS}
SOURCES = {name: body for name, _, body in _HEADERS}
INPUTS: Mapping[str, Sequence[tuple[Any, ...]]] = {
    "total": [([(3, 2), (5, 4)],), ([],)],
    "average": [([1, 2, 4],), ([],)],
    "clamp": [(-100,), (7,), (10_000,)],
    "merge": [([(1, 3), (3, 5), (8, 9)],), ([(1, 2), (4, 6)],)],
    "rank": [({"a": 1, "b": 3, "c": 2},)],
    "smooth": [([1, 2, 3, 4, 5, 6, 7, 8, 9],)],
    "batch": [([1, 2, 3, 4, 5, 6, 7],)],
    "discount": [(10,), (100,), (1000,)],
    "find": [([("a", 1), ("b", 2)], "b"), ([("a", 1)], "z")],
    "count": [("a b a c a",)],
    "middle": [([5, 1, 3],), ([4, 1, 3, 2],)],
    "tidy": [("  One TWO  three ",)],
    "distance": [((1, 2), (4, 6)), ((0, 0), (-3, 2))],
    "overlap": [((1, 5), (3, 9)), ((1, 2), (5, 6))],
    "encode": [("aaabcc",)],
    "decode": [([("a", 3), ("b", 1)],)],
    "check": [("12340",), ("98765",), ("11117",)],
    "group": [([("a", 1), ("b", 2), ("a", 3)],)],
    "plan": [([(0, 9), (1, 2), (2, 4), (3, 5), (4, 7)],)],
    "locate": [([1, 3, 5, 7, 9], 6), ([1, 3], 3)],
    "transpose": [([[1, 2], [3, 4]],)],
    "running": [([1, 2, 3],)],
    "fee": [(1,), (50,), (500,)],
    "ready": [(["a", "b"], ["b", "a"]), (["a", "z"], ["a"])],
}
NOTE = (
    "    Used by the reports of this package. The input is not changed. An empty input gives an empty result or zero.\n"
    "    See the handbook, section {number}, for the agreed meaning of the values and for examples.\n"
)


class Fault(NamedTuple):
    """Planted fault: the wrong text in one function. A fault without a direct test fails only in a service."""

    noun: str
    kind: str
    right: str
    wrong: str
    has_test: bool


FAULTS = (
    Fault("invoices", "smooth", "width + 1", "width - 1", True),
    Fault("lessons", "clamp", "max(lowest", "min(lowest", False),
    Fault("gardens", "merge", "start <= merged", "start < merged", True),
    Fault("mirrors", "discount", "amount >=", "amount >", False),
    Fault("permits", "middle", "ordered) // 2", "ordered) / 2", True),
    Fault("quotes", "check", "% 10", "% 9", False),
    Fault("seats", "ready", "all(part", "any(part", True),
    Fault("stations", "overlap", "end = min", "end = max", False),
    Fault("trains", "distance", "[0]) + abs", "[0]) - abs", True),
    Fault("wheels", "tidy", ".strip().lower()", ".strip()", False),
)


def get_function(fault: Fault) -> str:
    return f"{fault.kind}_{fault.noun}"


def make(folder: Path, faults: Sequence[Fault]) -> Path:
    """Makes the repository with some of the faults and returns its folder."""
    services = _make_services()
    for index, noun in enumerate(NOUNS):
        source = _make_module(noun, index)
        broken = source
        for fault in (fault for fault in faults if fault.noun == noun):
            start = broken.index(f"def {get_function(fault)}(")
            assert fault.right in broken[start:], fault
            broken = broken[:start] + broken[start:].replace(fault.right, fault.wrong, 1)
        _write(folder / "company" / f"{noun}.py", broken)
        _write(folder / "tests" / f"test_{noun}.py", _make_tests(noun, index))
    for name, (source, test) in services.items():
        _write(folder / "company" / "services" / f"{name}.py", source)
        _write(folder / "tests" / f"test_{name}.py", test)
    for package in ("company", "company/services", "tests"):
        _write(folder / package / "__init__.py", "")
    for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "Begin")):
        user = ("-c", "user.name=bench", "-c", "user.email=bench@here")
        subprocess.run(["git", "-C", str(folder), *user, *arguments], check=True, capture_output=True)
    return folder


def _make_module(noun: str, index: int) -> str:
    rng = Random(index)
    values = {
        "c0": rng.randint(0, 3), "c1": rng.randint(2, 40), "digits": rng.randint(2, 5), "low": rng.randint(5, 30),
        "high": rng.randint(60, 400), "width": rng.randint(2, 4), "threshold": 100,
        "rate": rng.choice((0.9, 0.8, 0.75)), "sep": rng.choice("-_ ."), "weight": rng.randint(2, 6),
    }  # fmt: skip
    kinds = list(SOURCES)
    rng.shuffle(kinds)
    parts = [f'"""Functions for {noun}, as the handbook of the company describes them."""\n']
    for number, kind in enumerate(kinds, 1):
        doc = f'    """Returns the result of step {kind!r} for {noun}.\n\n{NOTE.format(number=number)}    """\n'
        parts.append(f"def {kind}_{noun}({PARAMETERS[kind]}):\n{doc}{SOURCES[kind].format(**values)}")
    return "\n\n".join(parts)


def _load(source: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    return namespace


def _make_tests(noun: str, index: int) -> str:
    functions = _load(_make_module(noun, index))
    untested = {fault.kind for fault in FAULTS if fault.noun == noun and not fault.has_test}
    lines = [
        "import unittest",
        "",
        f"from company import {noun}",
        "",
        "",
        f"class Test{noun.capitalize()}(unittest.TestCase):",
    ]
    for kind in SOURCES:
        if kind in untested:
            continue
        lines.append(f"    def test_{kind}_{noun}(self):")
        for inputs in INPUTS[kind]:
            expected = functions[f"{kind}_{noun}"](*inputs)
            arguments = ", ".join(repr(value) for value in inputs)
            lines.append(f"        self.assertEqual({noun}.{kind}_{noun}({arguments}), {expected!r})")
        lines.append("")
    return "\n".join(lines) + "\n"


def _make_services() -> Mapping[str, tuple[str, str]]:
    """Returns the source and the test of each service. It calls one function of several modules."""
    services = dict[str, tuple[str, str]]()
    hidden = [fault for fault in FAULTS if not fault.has_test]
    for index, fault in enumerate(hidden):
        others = [NOUNS[(index * 7 + step) % len(NOUNS)] for step in (3, 5)]
        names = list(dict.fromkeys((fault.noun, *others)))
        name = f"report_{index}"
        calls = [f"    {fault.noun}_part = [{fault.noun}.{get_function(fault)}(*item) for item in items]\n"]
        calls += [f"    {noun}_part = {noun}.count_{noun}('x y x')\n" for noun in names[1:]]
        imports = "".join(f"from company import {noun}\n" for noun in names)
        body = f"def make_{name}(items):\n{''.join(calls)}    return [{', '.join(f'{noun}_part' for noun in names)}]\n"
        source = f'"""Report {index}."""\n\n{imports}\n\n{body}'
        function = _load(_make_module(fault.noun, NOUNS.index(fault.noun)))[get_function(fault)]
        expected_parts: list[Any] = [[function(*item) for item in INPUTS[fault.kind]]]
        expected_parts += [{"x": 2, "y": 1} for _ in names[1:]]
        test = (
            f"import unittest\n\nfrom company.services import {name}\n\n\nclass TestReport(unittest.TestCase):\n"
            f"    def test_{name}(self):\n"
            f"        self.assertEqual({name}.make_{name}({list(INPUTS[fault.kind])!r}), {expected_parts!r})\n"
        )
        services[name] = (source, test)
    return services


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
