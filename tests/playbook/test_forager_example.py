"""Example `playbook_forager`."""

from examples import playbook_forager


def test_forager_avoids_poison_in_second_season(capsys):
    first, second = playbook_forager.main()
    assert first > 0 == second
    assert "Never eat a red berry." in capsys.readouterr().out
