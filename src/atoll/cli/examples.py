"""The examples, which come with the package."""

import importlib.util
from pathlib import Path
from types import ModuleType

import atoll
from atoll import errors


def get_examples_dir() -> Path:
    """Returns where the examples are: inside an installed package, or beside the sources of a checkout.

    Raises:
        SetupError: They are in neither place.
    """
    package = Path(atoll.__file__).parent
    for folder in (package / "examples", package.parents[1] / "examples"):
        if folder.is_dir():
            return folder
    raise errors.SetupError(f"The examples are neither in {package} nor beside it: install Atoll again.")


def load_example(path: Path) -> ModuleType:
    """Imports an example by its file."""
    spec = importlib.util.spec_from_file_location(f"atoll_example_{path.stem}", path)
    assert spec is not None, "a .py file has a loader"
    assert spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
