"""READMEs of folders name every file and package of the folder, and no others."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "atoll"
FOLDERS = sorted(page.parent.relative_to(PACKAGE).as_posix() for page in PACKAGE.rglob("README.md"))


def parts(folder: Path) -> Iterator[str]:
    """Yields the names that a README needs: `file.py`, and `folder/` if it contains Python."""
    for path in sorted(folder.iterdir()):
        if path.suffix == ".py" and not path.name.startswith("__"):
            yield path.name
        elif path.is_dir() and any(path.glob("*.py")):
            yield f"{path.name}/"


@pytest.mark.parametrize("folder", FOLDERS)
def test_readme_names_every_file_and_package(folder):
    text = (PACKAGE / folder / "README.md").read_text("utf-8")
    missing = [part for part in parts(PACKAGE / folder) if f"`{part}`" not in text]
    assert not missing, f"Add a row for each to src/atoll/{folder}/README.md."


@pytest.mark.parametrize("folder", FOLDERS)
def test_readme_tables_name_only_existing_files(folder):
    text = (PACKAGE / folder / "README.md").read_text("utf-8")
    first_cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    names = [name for cell in first_cells for name in re.findall(r"`([\w/]+\.py)`", cell)]
    assert not [name for name in names if not any((PACKAGE / folder).rglob(name))]


def test_architecture_links_every_readme():
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    packages = [folder for folder in FOLDERS if "/" not in folder]
    assert not [package for package in packages if f"](../src/atoll/{package}/README.md)" not in text]
