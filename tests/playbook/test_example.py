"""The example of a playbook: what it claims is true."""

from examples import playbook_forager


def test_what_the_forager_met_once_it_knows(capsys):
    first, second = playbook_forager.main()
    assert first > 0 == second
    assert "Never eat a red berry." in capsys.readouterr().out
