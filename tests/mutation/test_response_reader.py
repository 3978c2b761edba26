"""ResponseReader: every form in which LLMs answer becomes a program."""

import contextlib
import json
import time

import pytest

from atoll import mutation
from atoll.mutation import response_idea, text_blocks

PARENT = '''# EVOLVE-BLOCK-START
"""Packs circles."""
import numpy as np


def radius(i):
    return 0.1 / (i + 1)


def pack(n):
    total = 0.0
    for i in range(n):
        total += radius(i)
    return total
# EVOLVE-BLOCK-END


# This part is fixed.
def run():
    return pack(26)


if __name__ == "__main__":
    print(run())
'''
WITHOUT_MARKERS = PARENT.replace("# EVOLVE-BLOCK-START\n", "").replace("# EVOLVE-BLOCK-END\n", "")
NEW_RADIUS = "def radius(i):\n    return 0.2 / (i + 1)\n"
CHILD = PARENT.replace("0.1 / (i + 1)", "0.2 / (i + 1)")
PROGRAM = WITHOUT_MARKERS.replace("0.1 / (i + 1)", "0.2 / (i + 1)")


def fenced(text: str, label: str = "python") -> str:
    return f"```{label}\n{text}```\n"


def edit(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n"


def read(response: str, parent: str = PARENT) -> mutation.ReadProgram:
    return mutation.ResponseReader().read(parent, response)


def run(program: str) -> float:
    namespace: dict[str, object] = {"__name__": "candidate"}
    exec(compile(program, "<candidate>", "exec"), namespace)
    return namespace["run"]()  # type: ignore[operator, no-any-return]  # it is a function


OLD_LINE, NEW_LINE = "    return 0.1 / (i + 1)\n", "    return 0.2 / (i + 1)\n"
NUMBERED = "".join(f"{number:3d} | {line}\n" for number, line in enumerate(PROGRAM.splitlines(), 1))
FORMS = {
    "all markers": fenced(CHILD),
    "no markers": fenced(PROGRAM),
    "only the evolved part": fenced(CHILD.split("# EVOLVE-BLOCK-END")[0].split("START\n")[1]),
    "one marker": fenced(CHILD.replace("# EVOLVE-BLOCK-END\n", "")),
    "fixed code changed": fenced(PROGRAM.replace("pack(26)", "10**9")),
    "fixed code broken": fenced(PROGRAM.replace("return pack(26)", "return pack(26")),
    "only the changed function": fenced(NEW_RADIUS),
    "old program first": f"Now:\n{fenced(WITHOUT_MARKERS)}\nBetter:\n{fenced(PROGRAM)}",
    "snippet first": f"I change this line:\n{fenced(NEW_LINE.strip() + chr(10))}\nAll of it:\n{fenced(PROGRAM)}",
    "no fence": PROGRAM,
    "no fence, with words": f"Here is the program:\n\n{PROGRAM}\nIt uses larger radii, which\nis better.",
    "no opening fence": f"{PROGRAM}```\nThis program has larger radii.",
    "no closing fence": f"Sure:\n```python\n{PROGRAM}",
    "other label": fenced(PROGRAM, "text"),
    "reasoning": f"<think>\nMaybe {fenced('def pack(n):{} return 1')}?</think>\n{fenced(PROGRAM)}",
    "reasoning without its opening tag": f"So I raise it.\n</think>\n{fenced(PROGRAM)}",
    "line numbers": fenced(NUMBERED),
    "notebook": fenced("".join(f">>> {line}\n" for line in PROGRAM.splitlines())),
    "quoted": "".join(f"> {line}\n" for line in fenced(PROGRAM).splitlines()),
    "list item": "".join(f"   {line}\n" for line in fenced(PROGRAM).splitlines()),
    "Windows line ends": fenced(PROGRAM).replace("\n", "\r\n"),
    "no-break spaces": fenced(PROGRAM.replace("    ", "\u00a0\u00a0\u00a0\u00a0")),
    "two blocks": f"First:\n{fenced(NEW_RADIUS)}\nand:\n{fenced(PROGRAM.split('# This part')[0].split(NEW_LINE)[1])}",
    "truncated": f"Sure:\n```python\n{PROGRAM.split('        total')[0]}        total +=",
    "JSON": '{"idea": "larger", "code": ' + __import__("json").dumps(PROGRAM) + "}",
    "trial at the end": fenced(PROGRAM + "\nfor n in range(3):\n    print(pack(n))\nprint(run())\n"),
    "rest unchanged": fenced(
        PROGRAM.replace("    total = 0.0\n    for i in range(n):\n", "    # ... rest unchanged\n")
    ),
    "other functions omitted": fenced(f"import numpy as np\n\n{NEW_RADIUS}\n# ... the other functions stay the same\n"),
    "edit": edit(OLD_LINE, NEW_LINE),
    "edit in a fence": fenced(edit(OLD_LINE, NEW_LINE), ""),
    "edit with trailing space": edit(OLD_LINE.replace("\n", "  \n"), NEW_LINE),
    "edit without indentation": edit(OLD_LINE.strip() + "\n", NEW_LINE.strip() + "\n"),
    "edit with other spacing": edit("    return 0.1/(i+1)\n", NEW_LINE),
    "edit across a marker": edit(CHILD.split('"""')[0] + '"""Packs circles."""\n', '"""Packs circles."""\n')
    + edit(OLD_LINE, NEW_LINE),
    "edit with one wrong line": edit(
        "def radius(i):\n" + OLD_LINE + "\n\ndef packs(n):\n", NEW_RADIUS + "\n\ndef pack(n):\n"
    ),
    "edit of invented lines": edit("def radius(i):\n    return something_else(i, 42)\n", NEW_RADIUS),
    "edit that is a program": f"<<<<<<< SEARCH\n{PROGRAM}>>>>>>> REPLACE\n",
    "edit without its start": f"=======\n{PROGRAM}>>>>>>> REPLACE\n",
    "one of two edits": edit(OLD_LINE, NEW_LINE) + edit("nowhere = 1\n", "nowhere = 2\n"),
    "edit fails, program follows": edit("nowhere = 1\n", "nowhere = 2\n") + "\nAll of it:\n" + fenced(PROGRAM),
    "headings": f"### SEARCH\n{fenced(OLD_LINE)}\n### REPLACE\n{fenced(NEW_LINE)}",
    "tags": f"<SEARCH>\n{OLD_LINE}</SEARCH>\n<REPLACE>\n{NEW_LINE}</REPLACE>\n",
    "unified diff": f"```diff\n--- a.py\n+++ b.py\n@@ -6,2 +6,2 @@\n def radius(i):\n-{OLD_LINE}+{NEW_LINE}```\n",
}


@pytest.mark.parametrize("name", FORMS)
def test_form_becomes_program(name):
    program = read(FORMS[name])
    assert run(program.text) == pytest.approx(2 * run(PARENT))
    fixed = PARENT.split("# EVOLVE-BLOCK-END")[1]
    assert program.text.endswith(f"# EVOLVE-BLOCK-END{fixed}")
    assert program.text.startswith("# EVOLVE-BLOCK-START\n")


@pytest.mark.parametrize("name", sorted(FORMS.keys() - {"fixed code broken"}))
def test_form_becomes_program_without_markers(name):
    program = read(FORMS[name], WITHOUT_MARKERS)
    assert program.text.count("def pack(") == program.text.count("def radius(") == 1
    assert name == "fixed code changed" or run(program.text) == pytest.approx(2 * run(PARENT))


@pytest.mark.parametrize(
    ("response", "kind", "message"),
    [
        ("I would rather not.", "unreadable", "has no program: 'I would rather not.'"),
        ("", "unreadable", "has no program"),
        (fenced(WITHOUT_MARKERS), "unchanged", "repeats the program"),
        (fenced(PARENT.replace("# This part", "# That part")), "unchanged", "repeats the program"),
        (fenced(PROGRAM.replace("return total", "return (total")), "syntax", "'(' was never closed in line 14:"),
        (fenced(CHILD.replace("def pack(n)", "def packed(n)")), "names", "does not define pack"),
        (
            fenced(CHILD.replace("def pack(n)", "def pack(n, m)")),
            "names",
            "pack takes (n, m), but its caller passes (n)",
        ),
        (edit("nowhere = 1\n", "nowhere = 2\n"), "edits", "not in the program"),
        (edit("    return pack(26)\n", "    return 9\n"), "edits", "outside of the EVOLVE-BLOCK markers"),
        ("\0" * 9, "unreadable", "has no program"),
    ],
)
def test_unusable_response_has_a_reason(response, kind, message):
    with pytest.raises(mutation.UnusableResponse) as caught:
        read(response)
    assert message in str(caught.value)
    assert caught.value.kind == kind


def test_syntax_error_quotes_lines():
    with pytest.raises(mutation.UnusableResponse) as caught:
        read(fenced("def pack(n):\n    total = 1\n    total ! 2\n    return total\n"), WITHOUT_MARKERS)
    assert "> 3:     total ! 2" in str(caught.value)


def test_missing_import_is_added():
    program = read(
        fenced("def pack(n):\n    return np.sum([math.sqrt(i) for i in range(n)])\n"), "def pack(n):\n    return n\n"
    )
    assert program.text.startswith("import math\nimport numpy as np\ndef pack")


def test_new_helpers_and_imports_stay():
    new = "import math\n\nSCALE = 2.0\n\ndef helper(i):\n    return SCALE * math.sqrt(i)\n\n"
    new += "def radius(i):\n    return helper(i)\n"
    program = read(fenced(new))
    assert run(program.text) == pytest.approx(sum(2 * i**0.5 for i in range(26)))


def test_several_evolved_parts_are_updated_by_name():
    start, end = "# EVOLVE-BLOCK-START\n", "# EVOLVE-BLOCK-END\n"
    parent = f"{start}def a():\n    return 1\n{end}X = 5\n{start}def b():\n    return 2\n{end}"
    program = read(fenced("def b():\n    return 3\n\ndef a():\n    return 4\n"), parent)
    assert program.text == parent.replace("return 1", "return 4").replace("return 2", "return 3")


def test_other_languages_keep_fixed_lines():
    parent = "use std;\n// EVOLVE-BLOCK-START\nfn f() { 1 }\n// EVOLVE-BLOCK-END\nfn main() {}\n"
    reader = mutation.ResponseReader("rust")
    assert reader.read(parent, fenced("use std;\nfn f() { 2 }\nfn main() {}\n", "rust")).text == parent.replace(
        "1", "2"
    )
    assert reader.read(parent, fenced("fn f() { 2 }\n", "rs")).text == parent.replace("1", "2")


def test_required_names_come_from_evaluator_fixed_code_or_calls():
    assert mutation.find_required_names(PARENT) == ["pack"]
    source = "def helper():\n    return 1\n\ndef solve():\n    return helper()\n\ndef extra():\n    return 2\n"
    assert mutation.find_required_names(source) == ["solve", "extra"]
    assert mutation.find_required_names(source, "program.helper()") == ["helper"]
    assert mutation.find_required_names("not a program") == ()


@pytest.mark.parametrize(
    "response",
    [
        "SEARCH" + " " * 300_000 + "x",
        "```python\n#" + " " * 300_000 + "x\n```",
        "".join(edit(f"def f{i}(y):\n" + "    b = a * 2 + y\n" * 30, "pass\n") for i in range(200)),
    ],
    ids=["heading", "comment", "unknown lines"],
)
def test_hostile_response_is_read_fast(response: str) -> None:
    start = time.process_time()
    with pytest.raises(mutation.UnusableResponse):
        read(response)
    assert time.process_time() - start < 5.0


@pytest.mark.parametrize("default", ["-" * 800 + "1", "+".join(["1"] * 900)])
def test_deep_default_is_read_or_unusable(default: str) -> None:
    with contextlib.suppress(mutation.UnusableResponse):
        assert run(read(fenced(f"def pack(n={default}):\n    return 1\n")).text) == 1


def test_reasoning_tag_in_code_stays() -> None:
    new = 'import re\n\ndef pack(n):\n    return len(re.sub(r"<think>.*?</think>", "", "<think>a</think>bc"))\n'
    assert run(read(f"<think>\nsome ideas\n</think>\n{fenced(new)}").text) == 2


def test_omitted_code_is_filled_in_or_refused() -> None:
    response = fenced("def pack(n):\n    total = 0.0\n    # ... rest unchanged\n\ndef other():\n    return 1\n")
    assert run(read(response).text) == run(PARENT)
    with pytest.raises(mutation.UnusableResponse, match="omits code"):
        read(response.replace("0.0", "5.0"))


@pytest.mark.parametrize(
    ("new", "score"),
    [
        ("T = {}\n\ndef pack(n):\n    return T[n]\n\nfor i in range(99):\n    T[i] = 2 * i\n", 52),
        ("def pack(n):\n    return 1\n\npack = lambda n: 7\nprint(pack(3))\n", 7),
        ("if True:\n    def pack(n):\n        return 3\n", 3),
        ("if True:\n    def run():\n        return 1e9\n\ndef pack(n):\n    return 4\n", 4),
        ("import functools\n\n@functools.cache\ndef run(n:\n    pass\n\ndef pack(n):\n    return len([n])\n", 1),
    ],
    ids=["table", "assigned function", "conditional function", "fixed name", "invalid fixed function"],
)
def test_statements_outside_of_functions_keep_their_effect(new: str, score: float) -> None:
    program = read(fenced(new)).text
    assert run(program) == score
    assert "@functools.cache" not in program


def test_partial_program_keeps_the_order_of_its_statements() -> None:
    parent = "A = 1\nB = 2\n\ndef helper():\n    return A + B\n\ndef run():\n    return helper()\n"
    new_run = "\ndef run():\n    return helper() + len(T)\n"
    assert run(read(fenced(f"A, B = 5, 6\nT = {{}}\nT[0] = 1\n{new_run}"), parent).text) == 12
    assert run(read(fenced(f"A = 5\nA = A + 1\nA *= 2\nT = ()\n{new_run}"), parent).text) == 14


def test_carriage_returns_in_json_are_line_ends() -> None:
    response = json.dumps({"code": "def pack(n):\r    y = 5\r    return y\r\n\r\ndef radius(i):\n    return 1\n"})
    assert run(read(response).text) == 5


def test_block_inside_of_a_function_keeps_the_function() -> None:
    parent = "def run(x=3):\n    y = 1\n    # EVOLVE-BLOCK-START\n    z = y + x\n    # EVOLVE-BLOCK-END\n    return z\n"
    assert run(read(edit("    z = y + x\n", "    z = math.sqrt(y + x)\n"), parent).text) == 2
    with pytest.raises(mutation.UnusableResponse):
        read(fenced("def run(x=3):\n    y = 100\n    z = y * x\n    return z\n"), parent)


def test_idea_and_directions_are_read_and_leave_the_program():
    response = "```python\n# IDEA: sort first\n# NEXT: Use a heap.\n# NEXT:\n# NEXT: A table of results.\nx = 1\n```"
    idea = response_idea.find_idea(response)
    assert idea == {"idea": "sort first", "next": ["Use a heap.", "A table of results."]}
    program = response.partition("\n")[2].removesuffix("```")
    assert response_idea.remove_idea(program, response) == "x = 1\n"


def test_a_sentence_of_the_instruction_is_not_an_idea():
    prompt = "# Your change\nReplace the weakest step by a better algorithm. Make one change.\n"
    for line in ("Replace the weakest step by a better algorithm", "IDEA: Make one change."):
        assert response_idea.find_idea(f"```python\n# {line}\nx = 1\n```", prompt=prompt) == {}
    response = "```python\n# Your change: sort the items first\nx = 1\n```"
    assert response_idea.find_idea(response, prompt=prompt) == {"idea": "sort the items first"}


@pytest.mark.parametrize(
    ("docstring", "idea"),
    [
        ("Sort the items first.\n\n    More.", "Sort the items first."),
        ("Fast.\n\n    Changes: Sort the items first.\n    ", "Sort the items first."),
        ("Sums the items.", ""),  # as in the parent
        ("Improved version of the sum.", ""),
        ("A sum.", ""),
    ],
)
def test_new_docstring_is_an_idea_if_it_says_something(docstring: str, idea: str) -> None:
    response = f'```python\n"""{docstring}"""\nx = 1\n```'
    parent = '"""Sums the items."""\nx = 0\n'
    assert response_idea.find_idea(response, parent) == ({"idea": idea} if idea else {})


@pytest.mark.parametrize(
    "line", ["sort the items first.", "New score: 1.585", "Improved program: score 1.500, the best"]
)
def test_idea_of_a_program_in_the_prompt_and_a_claim_are_no_ideas(line: str) -> None:
    prompt = "# Program to improve\n# IDEA: Sort the items first\n" + "x\n" * 1000
    assert response_idea.find_idea(f"```python\n# {line}\nx = 1\n```", prompt=prompt) == {}


@pytest.mark.parametrize(
    ("line", "is_idea"),
    [
        ("IDEA: Use numpy", True),  # the prompt has a longer idea that begins so
        ("IDEA: Use numpy arrays for distances", False),
        ("IDEA: simulated annealing", True),  # the requested direction
        ("IDEA: rank by score, 2 best first", True),
        ("Your change", False),
    ],
)
def test_only_whole_ideas_of_the_prompt_are_copies(line: str, is_idea: bool) -> None:
    prompt = "# IDEA: Use numpy arrays for distances\n" + "x = 1\n" * 200
    prompt += "\n# Your change\nTry this: simulated annealing. Make one change.\n"
    response = f"```python\n# {line}\nx = 1\n```"
    assert bool(response_idea.find_idea(response, prompt=prompt)) == is_idea
    assert response_idea.find_idea("# IDEA: Use numpy arrays for distances", prompt=prompt, keeps_idea=True)


@pytest.mark.parametrize("marks", ["`" * 300_000, "# IDEA" + "*" * 300_000, "#" + " " * 300_000, "```\n" * 70_000])
def test_reading_the_idea_of_a_long_line_takes_no_long_time(marks: str) -> None:
    start = time.process_time()
    assert response_idea.find_idea(f"```python\nx = 1\n```\n{marks}") == {}
    assert response_idea.remove_idea("x = 1\n", marks) == "x = 1\n"
    assert time.process_time() - start < 5  # without possessive repeats: hours


def test_the_suffix_of_tuned_programs_is_not_part_of_an_idea():
    assert response_idea.find_idea("# IDEA: sort first (constants tuned)") == {"idea": "sort first"}


def test_summary_of_a_change_has_statements_first():
    parent = 'def f(x):\n    """Returns x."""\n    return x\n'
    child = (
        'import math\n\n\ndef f(x):\n    """Returns more.\n\n    Args:\n    """\n    # better\n    return math.exp(x)\n'
    )
    assert text_blocks.summarize_change(parent, child).splitlines() == [
        "2 lines removed, 6 added",
        "- return x",
        '- """Returns x."""',
        "+ return math.exp(x)",
        "+ import math",
    ]


def test_summary_of_a_change_pairs_lines_and_shows_where_long_ones_differ() -> None:
    terms = " + ".join(f"params[{number}] * x ** {number}" for number in range(5))
    parent = f"def f(x, params):\n    return {terms} + params[5]\n"
    child = f"def f(x, params):\n    y = params[6] - 1\n    return {terms} + np.sin(params[5] * x)\n"
    assert text_blocks.summarize_change(parent, child).splitlines() == [
        "1 lines removed, 2 added",
        "- ... params[5]",
        "+ ... np.sin(params[5] * x)",
        "+ y = params[6] - 1",
    ]
    numbers = "1.5," * 40
    change = text_blocks.summarize_change(f"p=[{numbers}1.5]", f"p=[{numbers}1.6]").splitlines()
    assert [line[-4:] for line in change[1:]] == ["1.5]", "1.6]"]
    assert text_blocks.summarize_change("", "z = " + "1 + " * 100).endswith(" ...")
