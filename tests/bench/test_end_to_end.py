from pathlib import Path

import pytest
import yaml

from bench import end_to_end, metering


def made(iterations: int, ms: float) -> end_to_end.Run:
    """Returns a run of ten iterations a second that cost the same, after half a CPU second to start."""
    replies = [100.0 + 1.0 + number / 10 for number in range(iterations)]
    when = [100.0, *replies]
    used = [0.0, *(0.5 + number * ms / 1e3 for number in range(iterations))]
    meter = metering.Metered(0, "", 100.0, iterations / 10 + 1, used[-1], when, used)
    return end_to_end.Run(iterations, meter, replies, 1000.0, 0)


def test_slice_excludes_start_and_end():
    run = made(200, 4.0)
    assert run.used_until(0) == pytest.approx(0.5)
    assert run.cpu_ms(0, 100) == pytest.approx(4.0)
    assert run.cpu_ms(100, 200) == pytest.approx(4.0)
    assert run.rate(100, 200) == pytest.approx(10.0)


def system(name: str, goals: end_to_end.Bars | None = None) -> end_to_end.System:
    return end_to_end.System(name, end_to_end.atoll_command, end_to_end.atoll_failures, goals=goals)


PEER, USUAL = system("peer"), system("peer, usual")
SANDBOXED, TRUSTED = system("sandboxed", end_to_end.GOALS_SANDBOXED), system("trusted", end_to_end.GOALS_TRUSTED)


def test_verdicts_compare_up_to_the_shortest_run():
    short = {PEER: [made(200, 9.0)], SANDBOXED: [made(200, 10.0)], TRUSTED: [made(200, 3.0)]}
    assert end_to_end.verdicts(short) == [
        "sandboxed, at 200: 0.9 times less (goal >= 1): MISSED; 0.9 to 0.9 between single runs",
        "trusted, at 200: 3.0 times less (goal >= 2): MET; 3.0 to 3.0 between single runs",
    ]
    long = {PEER: [made(1500, ms) for ms in (80.0, 100.0, 120.0)], SANDBOXED: [made(1500, 4.0), made(1500, 4.0)]}
    assert end_to_end.verdicts(long)[1] == (
        "sandboxed, at 1,500: 25.0 times less (goal >= 30): MISSED; 20.0 to 30.0 between single runs"
    )


def test_other_peer_settings_are_reported_without_a_verdict():
    found = {PEER: [made(1500, 100.0)], USUAL: [made(1500, 40.0)], SANDBOXED: [made(1500, 2.0)]}
    assert [line.partition(";")[0] for line in end_to_end.verdicts(found)] == [
        "sandboxed, at 200: 50.0 times less (goal >= 1): MET",
        "sandboxed, at 1,500: 50.0 times less (goal >= 30): MET",
        "sandboxed, at 1,500: 20.0 times less than peer, usual",
    ]


def test_slice_table_compares_medians_with_the_peer():
    runs = [made(200, ms) for ms in (1.0, 2.0, 60.0)]
    columns, rows = end_to_end.slices({PEER: [made(200, 8.0)], SANDBOXED: [made(200, 4.0)], TRUSTED: runs})
    assert columns == [
        "iterations",
        *("CPU ms, peer", "CPU ms, sandboxed", "CPU ms, trusted"),
        *("sandboxed: times less than peer", "trusted: times less than peer"),
        *("1/s, peer", "1/s, sandboxed", "1/s, trusted"),
    ]
    assert [row[0] for row in rows] == ["1 to 100", "101 to 200"]
    assert rows[1][1:] == pytest.approx([8.0, 4.0, 2.0, 2.0, 4.0, 10.0, 10.0, 10.0])


def test_configurations_differ_only_in_their_named_settings():
    folder = end_to_end.ROOT / end_to_end.TASK_DIR
    judged, usual, lean = (
        yaml.safe_load(folder.joinpath(name).read_text())
        for name in ("config.yaml", "config_usual.yaml", "config_lean.yaml")
    )
    assert usual == {**judged, "database": {**judged["database"], "population_size": 1000}}
    assert lean["database"].pop("log_prompts") is False
    assert lean["database"].pop("max_snapshot_artifacts") == 0
    assert lean == judged


def test_failed_iterations_are_read_from_the_output():
    assert end_to_end.atoll_failures('Run 1.\n{"run": "1", "failures": 3}\n') == 3
    logged = "2026-11-15 05:00:00,000 - WARNING - Iteration 7 error: No valid code found in response\nIteration 8\n"
    assert end_to_end.openevolve_failures(logged) == 1


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the meter reads /proc")
@pytest.mark.parametrize("place", [0, 1])  # jailed, trusted
def test_atoll_runs_the_task_to_its_end(place):
    run = end_to_end.run(end_to_end.systems(with_peers=False)[place], 10)
    assert (run.iterations, run.failures, len(run.replies)) == (10, 0, 10)
    assert run.meter.cpu_seconds >= run.used_until(10) > run.used_until(0) > 0
