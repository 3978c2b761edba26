"""What a zygote shares; in processes of their own, since it is for good."""

import subprocess
import sys

import pytest

_SCRIPT = """
import sys
from atoll.sandbox import pages

class Thing:
    def method(self):
        return "said"

thing, data = Thing(), [1.5]
pages.share()
{}
"""


def said(lines: str) -> str:
    script = _SCRIPT.format(lines)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.skipif(sys.getrefcount(None) != 2**32 - 1, reason="this Python counts references otherwise")
def test_references_to_functions_and_classes_are_no_longer_counted_and_those_to_data_are():
    counts = said(
        "print(*(sys.getrefcount(each) for each in (Thing, Thing.method, Thing.method.__code__, data, thing)))"
    )
    assert counts.split()[:3] == [str(2**32 - 1)] * 3
    assert all(int(count) < 10 for count in counts.split()[3:])


def test_a_program_goes_on_as_before_and_ends_well():
    assert (
        said("print(thing.method(), Thing.method.__qualname__, [each for each in data])") == "said Thing.method [1.5]"
    )


def test_an_object_still_ends_with_its_last_reference():
    assert said("Thing.__del__ = lambda self: print('gone')\ndel thing\nprint('after')") == "gone\nafter"


def test_new_objects_lie_side_by_side():
    # 20 of 128 bytes fit into one page, or two where they lie on both sides of a border; holes would be anywhere.
    found = said("made = [bytes(90) for _ in range(20)]\nprint(len({id(each) // 4096 for each in made}))")
    assert int(found) <= 3
