"""The README of a folder tells of all that is in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "atoll"
FOLDERS = sorted(page.parent.relative_to(PACKAGE).as_posix() for page in PACKAGE.rglob("README.md"))


def parts(folder: Path) -> Iterator[str]:
    """Yields what a README should name: `file.py`, and `folder/` where there is Python in it."""
    for path in sorted(folder.iterdir()):
        if path.suffix == ".py" and not path.name.startswith("__"):
            yield path.name
        elif path.is_dir() and any(path.glob("*.py")):
            yield f"{path.name}/"


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_readme_of_a_folder_names_every_file_and_package_in_it(folder):
    text = (PACKAGE / folder / "README.md").read_text("utf-8")
    missing = [part for part in parts(PACKAGE / folder) if f"`{part}`" not in text]
    assert not missing, f"give each a row in src/atoll/{folder}/README.md"


def test_every_readme_of_a_room_is_linked_from_the_architecture():
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rooms = [folder for folder in FOLDERS if "/" not in folder]
    assert not [room for room in rooms if f"](../src/atoll/{room}/README.md)" not in text]
