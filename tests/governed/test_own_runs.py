"""The loop closed on our own runs: a parameter is shadowed by runs, approved, used by the next one, rolled back."""

from examples import governed_own_runs as loop


def test_run_parameter_is_shadowed_approved_used_and_rolled_back():
    result = loop.main()
    assert result.verdict == "promote"
    assert result.used == [(1, 12), (2, 40), (3, 12)]
    assert result.resumed == 2  # what is under way keeps what it began with
