from pathlib import Path

import pytest

from bench import end_to_end, metering


def made(iterations: int, ms: float) -> end_to_end.Run:
    """Returns a run of ten iterations a second that cost the same, after half a CPU second to start."""
    replies = [100.0 + 1.0 + number / 10 for number in range(iterations)]
    when = [100.0, *replies]
    used = [0.0, *(0.5 + number * ms / 1e3 for number in range(iterations))]
    meter = metering.Metered(0, "", 100.0, iterations / 10 + 1, used[-1], when, used)
    return end_to_end.Run(iterations, meter, replies, 1000.0, 0)


def test_a_slice_holds_neither_the_start_nor_the_end():
    run = made(200, 4.0)
    assert run.used_until(0) == pytest.approx(0.5)
    assert run.cpu_ms(0, 100) == pytest.approx(4.0)
    assert run.cpu_ms(100, 200) == pytest.approx(4.0)
    assert run.rate(100, 200) == pytest.approx(10.0)


def test_verdicts_say_where_we_are_as_far_as_both_went():
    found = {"peer": [made(200, 9.0), made(1500, 100.0)], "ours": [made(200, 3.0), made(1500, 4.0)]}
    assert end_to_end.verdicts({name: runs[:1] for name, runs in found.items()}) == [
        "at 200: 3.0 times less (wanted >= 2): MET"
    ]
    assert end_to_end.verdicts(found)[1] == "at 1,500: 25.0 times less (wanted >= 30): MISSED"


def test_the_table_of_slices_compares_medians():
    runs = [made(200, ms) for ms in (1.0, 2.0, 60.0)]
    columns, rows = end_to_end.slices({"peer": [made(200, 8.0)], "ours": runs})
    assert columns == ["iterations", "CPU ms, peer", "CPU ms, ours", "times less", "1/s, peer", "1/s, ours"]
    assert [row[0] for row in rows] == ["1 to 100", "101 to 200"]
    assert rows[1][1:] == pytest.approx([8.0, 2.0, 4.0, 10.0, 10.0])


def test_failed_iterations_are_found_in_what_a_system_prints():
    assert end_to_end.atoll_failures('Run 1.\n{"run": "1", "failures": 3}\n') == 3
    logged = "2026-11-15 05:00:00,000 - WARNING - Iteration 7 error: No valid code found in response\nIteration 8\n"
    assert end_to_end.openevolve_failures(logged) == 1


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the meter reads /proc")
def test_atoll_runs_the_task_to_its_end():
    run = end_to_end.run(end_to_end.systems(with_peers=False)[0], 10)
    assert (run.iterations, run.failures, len(run.replies)) == (10, 0, 10)
    assert run.meter.cpu_seconds > run.used_until(10) > run.used_until(0) > 0
