"""Systems of other packages: found by entry points, usable by every command, harmless when broken."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from atoll import config, errors, system, systems
from atoll.config import systems as config_systems
from tests import processes

PAGE = Path(__file__).resolve().parents[2] / "docs" / "extending.md"


def install(site: Path, name: str, entry_points: dict[str, str]) -> None:
    """Writes the metadata that pip would write."""
    folder = site / f"{name}-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{key} = {value}" for key, value in entry_points.items()]
    (folder / "entry_points.txt").write_text("\n".join([f"[{config_systems.GROUP}]", *lines]) + "\n")


@pytest.fixture
def site(tmp_path):
    """A folder of installed packages: the example of the page, and a broken one."""
    folder = tmp_path / "site"
    for path, text in re.findall(r"^```\w+ file=letters/(\S+)\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    install(folder, project["name"], project["entry-points"][config_systems.GROUP])
    install(folder, "broken", {"broken": "no_such_module:SYSTEM"})
    return folder


@pytest.fixture
def installed(site, monkeypatch):
    monkeypatch.syspath_prepend(str(site))


def run_atoll(site: Path, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(site), "ATOLL_STORE": str(site.parent / "runs.db")}
    result = processes.run(["-P", "-m", "atoll", *arguments], cwd=site.parent, env=environment)
    assert result.returncode == status, result.stderr
    return result


def test_system_of_another_package_works_with_every_command(site):
    created = run_atoll(site, "init", "letters", "task")
    assert "System broken of package broken cannot be loaded" in created.stderr
    assert (site.parent / "task" / "atoll.toml").is_file()
    result = json.loads(run_atoll(site, "run", "task", "--set", "letters.num_islands=3", "--json").stdout)
    assert (result["status"], result["best_score"]) == ("done", 1.0)
    assert "island" in run_atoll(site, "best", "latest").stdout
    assert "letters" in run_atoll(site, "show", "latest").stdout
    run_atoll(site, "resume", "latest")


def test_broken_system_is_one_message_and_exit_status_2(site):
    (site.parent / "atoll.toml").write_text('system = "broken"\n')
    error = run_atoll(site, "run", ".", status=2).stderr
    assert "System broken of package broken cannot be loaded: ModuleNotFoundError" in error
    assert "Traceback" not in error


@pytest.mark.usefixtures("installed")
class TestInstalled:
    def test_own_systems_come_first(self):
        assert config.list_systems() == ["llmsr", "mind", "programs", "survival", "broken", "letters"]

    def test_settings_of_the_system_are_validated(self, site):
        folder = site / "letters_template"
        assert config.load(folder).to_data()["letters"] == {"num_islands": 2}
        with pytest.raises(errors.SetupError, match=r"Unknown key letters\.islands; the nearest is"):
            config.load(folder, [{"letters": {"islands": 3}}])

    def test_broken_system_leaves_the_others_alone(self, caplog, tmp_path):
        assert [descriptor.name for descriptor in config.iter_systems()][-1] == "letters"
        assert config.get_display_format("broken") is None
        (tmp_path / "train.csv").write_text("x,y\n1,2\n2,4\n")
        assert config.load(tmp_path).system == "llmsr"

    @pytest.mark.parametrize(
        ("entry_point", "problem"),
        [
            ({"other": "letters_system:SYSTEM"}, "its descriptor is named 'letters'"),
            ({"other": "letters_system:build"}, r"letters_system:build is not an atoll\.system\.System"),
            ({"other": "letters_system:missing"}, "AttributeError"),
            ({"run": "letters_system:SYSTEM"}, r"its name is the name of a section of atoll\.toml"),
        ],
    )
    def test_wrong_descriptor_is_reported(self, site, monkeypatch, entry_point, problem):
        install(site / "wrong", "wrong", entry_point)
        monkeypatch.syspath_prepend(str(site / "wrong"))
        with pytest.raises(errors.SetupError, match=problem):
            config.get_system(next(iter(entry_point)))


def test_unknown_system_is_reported_with_the_nearest():
    with pytest.raises(errors.SetupError, match="Unknown system 'lmsr'; the nearest is llmsr"):
        config.get_system("lmsr")


def test_run_of_a_missing_system_has_no_parts():
    assert config.get_display_format("gone") is None
    assert config.get_episode_reader("gone") is None
    assert config.get_review_module("gone") is None


@pytest.mark.parametrize("descriptor", [systems.LLMSR, systems.PROGRAMS, systems.MIND, systems.SURVIVAL])
def test_own_descriptors_name_existing_parts(descriptor):
    assert config.get_system(descriptor.name) == descriptor
    parts = ("task", "options", "build", "discover", "display", "reviews", "episodes", "openevolve")
    loaded = {part: descriptor.load(part) for part in parts}
    assert issubclass(loaded["task"], system.Settings)
    assert issubclass(loaded["options"], system.Settings)
    assert callable(loaded["build"])
    assert all(loaded[part] is not None for part in parts if getattr(descriptor, part) is not None)


def test_listing_runs_imports_no_system(tmp_path):
    script = "import sys; from atoll import config; config.get_display_format('llmsr'); print(*sys.modules)"
    result = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    modules = set(result.stdout.split())
    assert not {"numpy", "scipy", "atoll.llmsr", "atoll.mutation"} & modules
