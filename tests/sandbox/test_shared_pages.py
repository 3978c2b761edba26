"""`shared_pages`, tested in child processes because it is irreversible."""

import subprocess
import sys

import pytest

_SCRIPT = """
import sys
from atoll.sandbox.process import shared_pages

class Thing:
    def method(self):
        return "result"

thing, data = Thing(), [1.5]
{}
shared_pages.prepare_for_fork()
{}
"""


def run_script(lines: str, before: str = "") -> str:
    command = [sys.executable, "-c", _SCRIPT.format(before, lines)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.skipif(sys.getrefcount(None) != 2**32 - 1, reason="needs CPython 3.12 or 3.13")
def test_only_functions_and_classes_become_immortal():
    counts = run_script(
        "print(*(sys.getrefcount(item) for item in (Thing, Thing.method, Thing.method.__code__, data, thing)))"
    )
    assert counts.split()[:3] == [str(2**32 - 1)] * 3
    assert all(int(count) < 10 for count in counts.split()[3:])


@pytest.mark.skipif(sys.getrefcount(None) != 2**32 - 1, reason="needs CPython 3.12 or 3.13")
def test_constants_become_immortal_but_not_the_containers_that_hold_data():
    before = "name, pair, mixed = str(2.5) + 'x', (1.25, 'a' * 9), (data, 1.5)\ntable = {name: data}"
    counts = run_script("print(*(sys.getrefcount(item) for item in (name, pair, globals(), mixed, table)))", before)
    assert counts.split()[:3] == [str(2**32 - 1)] * 3
    assert all(int(count) < 10 for count in counts.split()[3:])


@pytest.mark.parametrize(
    "lines",
    [
        "import weakref\nodd = weakref.proxy(Thing())",
        "odd = type('Odd', (), {'__class__': property(lambda self: 1 / 0)})()",
        "Odd = type('Odd', (), {})\nOdd.__module__ = None\nodd = Odd()",
        "odd = ()\nfor _ in range(100_000): odd = (odd,)",
    ],
)
def test_odd_objects_do_no_harm(lines):
    owner = "Thing.__module__ = 'atoll.thing'\nthing.odd, thing.pair = odd, (odd, 1)\n"
    assert run_script("shared_pages.prepare_for_fork(thing)\nprint(thing.method())", f"{lines}\n{owner}") == "result"


def test_program_still_works():
    output = run_script("print(thing.method(), Thing.method.__qualname__, [item for item in data])")
    assert output == "result Thing.method [1.5]"


def test_objects_are_still_freed():
    assert run_script("Thing.__del__ = lambda self: print('gone')\ndel thing\nprint('after')") == "gone\nafter"


def test_new_objects_share_pages():
    # 20 objects of 128 bytes fit into one or two pages; in holes they would lie on many.
    holes = "old = [bytes(90) for _ in range(3000)]\ndel old[::7]"
    result = run_script(
        "objects = [bytes(90) for _ in range(20)]\nprint(len({id(item) // 4096 for item in objects}))", holes
    )
    assert int(result) <= 3
