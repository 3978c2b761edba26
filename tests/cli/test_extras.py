"""Messages about missing extras."""

import sys

from atoll import cli
from atoll.cli.services import doctor
from tests.survival.test_build import EXAMPLE


def test_missing_extra_prints_both_install_commands(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "crafter", None)  # as if it were not installed
    path = str(tmp_path / "atoll.db")
    assert cli.main(["run", str(EXAMPLE), "--set", "env=crafter", "--store", path]) == 2
    text = capsys.readouterr().err
    assert text.endswith("pip install 'atoll[envs]' (in a checkout: scripts/setup envs).\n")


def test_checkout_command_is_added_once():
    once = doctor.add_checkout_command("MCP is missing: pip install 'atoll[mcp]'.")
    assert once == doctor.add_checkout_command(once) == f"MCP is missing: {doctor.get_install_command('mcp')}."
