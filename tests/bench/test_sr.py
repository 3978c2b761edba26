import math

from bench import sr


def made(method: str, problem: str, seed: int, inside: float, outside: float) -> sr.Run:
    nmse = {"train": inside, "test_id": inside, "test_ood": outside}
    return sr.Run(method, problem, seed, 60.0, nmse, 10, 50.0, 1000, "x")


def test_verdicts_compare_medians_and_rank_nan_last():
    runs = [made("ours", "a", seed, 1e-20, 1e-16 * (seed + 1)) for seed in range(3)]
    runs += [made("gplearn", "a", seed, 1e-21, math.nan) for seed in range(3)]
    assert sr.verdicts(runs) == [
        "ours against gplearn: better on 1, worse on 1 of 2 numbers",
        "numbers of Atoll that are not finite: 0",
    ]


def test_table_counts_exact_laws_and_nan():
    runs = [made("ours", "a", 0, 1e-20, 1e-16), made("ours", "a", 1, 1e-20, math.nan)]
    columns, rows = sr.medians(runs)["NMSE, medians over the seeds"]
    assert dict(zip(columns, rows[0], strict=True)) | {"NMSE OOD": 0} == {
        "problem": "a",
        "method": "ours",
        "seeds": 2,
        "NMSE train": 1e-20,
        "NMSE ID": 1e-20,
        "NMSE OOD": 0,
        "no number": 1,
        "exact": "1 of 2",
    }


def test_baselines_are_compared_in_digits_and_exact_results_are_equal():
    runs = [made("ours", "a", seed, 1e-30, 1e-4) for seed in range(4)]
    runs += [made("sequential", "a", seed, 1e-16, math.nan) for seed in range(3)]
    assert sr.plain_ways(runs) == {
        "a, test_id": {"Atoll": [15.0] * 3, "sequential": [15.0] * 3},
        "a, test_ood": {"Atoll": [4.0] * 3, "sequential": [-3.0] * 3},
    }
    assert "better on 1, MATCHED on 1" in sr.verdicts(runs)[0]


def test_finished_runs_are_not_repeated(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "train.csv").touch()
    parts = [made("ours", "a", seed, 1e-20, 1e-16) for seed in range(2)]
    assert list(sr.contest(tmp_path, ["ours"], 2, 60.0, 0, 2, parts)) == parts
    assert len(parts) == 2
