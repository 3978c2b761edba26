"""Tables as input: single files, Parquet, time series with derivatives, and folders of tables."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atoll import cli, errors, llmsr
from atoll.llmsr import srbench
from atoll.llmsr.laws import derivative, table


def write(path: Path, names: str, *columns: Any) -> Path:
    np.savetxt(path, np.column_stack(columns), delimiter=",", header=names, comments="")
    return path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ATOLL_STORE", raising=False)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> tuple[dict[str, Any], str]:
    assert cli.main(["run", *arguments, "--json"]) == status
    output = capsys.readouterr()
    return json.loads(output.out.splitlines()[-1]) if output.out else {}, output.err


def test_file_is_a_task_and_front_is_printed(folder, capsys):
    x = np.linspace(0.5, 3.0, 60)
    write(folder / "fall.csv", "time,height", x, 4.9 * x**2 + 0.3 * np.sin(3.0 * x))
    result, progress = run(capsys, "fall.csv", "--iterations", "4")
    assert "time" in result["law"]
    assert "size  1, error 1.00e+00" in progress
    assert (folder / "atoll.db").is_file()


def test_derivative_finds_growth_law_from_noisy_samples(folder, capsys):
    t = np.linspace(0.0, 10.0, 200)
    x = 5.0 / (1.0 + 9.0 * np.exp(-0.9 * t)) + np.random.default_rng(0).normal(0.0, 0.01, 200)
    write(folder / "growth.csv", "t,x", t, x)
    result, _ = run(capsys, "growth.csv", "--derivative", "t", "--iterations", "12")
    assert result["target"] == "dx/dt"
    at = np.linspace(0.6, 4.8, 20)
    assert eval(result["law"], {"np": np, "x": at}) == pytest.approx(0.9 * at - 0.18 * at**2, abs=0.03)
    assert result["size"] < 20


def test_derivative_finds_oscillator(folder):
    t = np.linspace(0.0, 15.0, 400)
    x, v = np.cos(1.5 * t), -1.5 * np.sin(1.5 * t)
    fitted = llmsr.regress(write(folder / "swing.csv", "t,x,v", t, x, v), derivative="t", steps=4)
    assert fitted.names_ == ["x", "v"]
    assert fitted.law == "-2.25*x"


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_derivative_is_robust(noise):
    t = np.sort(np.random.default_rng(1).uniform(0.0, 12.0, 300))
    x = np.cos(1.5 * t) + np.random.default_rng(2).normal(0.0, noise, 300)
    both = [np.concatenate([values, values]) for values in (x, t)]  # two series, one below the other
    estimate = derivative.differentiate([both[0]], both[1], 0, "data")
    true_x = estimate.columns[:, 0]
    expected = 1.5 * np.sqrt(np.maximum(1.0 - true_x**2, 0.0))
    assert np.abs(np.abs(estimate.slopes) - expected).mean() < (0.1 if noise else 1e-3)
    assert estimate.freedom < (100 if noise else 601)


@pytest.mark.parametrize(
    ("columns", "reader", "message"),
    [
        (2, table.TableReader(derivative="s"), "has no column 's', only t, x"),
        (2, table.TableReader("t", "t"), "is the time and the target"),
        (1, table.TableReader(derivative="t"), "A derivative needs at least 12"),
        (2, table.TableReader("z"), "has no column 'z'"),
    ],
)
def test_wrong_columns_are_rejected(columns, reader, message, folder):
    t = np.arange(40.0) if columns == 2 else np.arange(40.0) % 5
    path = write(folder / "data.csv", "t,x", t, np.sin(t))
    with pytest.raises(errors.SetupError, match=message):
        reader.read(path)


def test_folder_of_tables_gives_constants_of_each(folder, capsys):
    rng = np.random.default_rng(0)
    (folder / "enzymes").mkdir()
    for index, (scale, half) in enumerate([(1.0, 0.5), (2.0, 0.8), (3.5, 0.3)]):
        s, q = rng.uniform(0.2, 6.0, (2, 80))
        write(folder / "enzymes" / f"e{index}.csv", "s,q,rate", s, q, scale * s / (half + s) + 0.7 * q)
    result, _ = run(capsys, "enzymes", "--iterations", "14")
    assert result["law"].count("c0") == 1
    assert "0.7*" in result["law"]  # equal in all tables
    assert result["nmse"]["train"] < 1e-15
    assert [row["table"] for row in result["tables"]] == ["e0", "e1", "e2"]
    assert all("c2" in row and "c3" not in row for row in result["tables"])
    write(folder / "enzymes" / "other.csv", "a,b", np.arange(20.0), np.arange(20.0))
    _, message = run(capsys, "enzymes", "--iterations", "2", status=2)
    assert "other has the columns a, b" in message


def test_parquet_and_data_frames(folder):
    polars = pytest.importorskip("polars")
    pandas = pytest.importorskip("pandas")
    x, z = np.random.default_rng(0).uniform(1.0, 3.0, (2, 50))
    columns = {"x": x, "z": z, "y": 2.0 * x * z}
    polars.DataFrame(columns).write_parquet("data.parquet")
    assert llmsr.regress("data.parquet", steps=2).law in ("2*x*z", "2*z*x")
    assert llmsr.regress(pandas.DataFrame(columns), steps=2).law in ("2*x*z", "2*z*x")
    assert llmsr.regress(pandas.DataFrame(columns), "y", steps=2).names_ == ["x", "z"]
    (folder / "broken.parquet").write_bytes(b"nothing")
    with pytest.raises(errors.SetupError, match="is not a valid Parquet file"):
        llmsr.regress("broken.parquet", steps=2)
    with pytest.raises(errors.SetupError, match="has no named columns"):
        llmsr.regress(np.ones((20, 2)), steps=2)


def test_parquet_without_library_is_rejected(folder, monkeypatch):
    for name in ("polars", "pandas"):
        monkeypatch.setitem(sys.modules, name, None)
    (folder / "data.parquet").write_bytes(b"")
    with pytest.raises(errors.SetupError, match="Install polars to read it"):
        table.TableReader().read(folder / "data.parquet")


def test_names_of_variables_are_as_python_reads_them():
    names = table.make_identifiers(["x\u00b2", "x2", "\ufb01", "fi", "1.5", "class", "__import__('os')", ""])
    assert names == ["x2", "x2_1", "fi", "fi_3", "x1_5", "class_", "__import____os__", "x"]


def test_model_of_srbench_has_names_of_columns():
    pandas = pytest.importorskip("pandas")
    sympy = pytest.importorskip("sympy")
    x, z = np.random.default_rng(0).uniform(1.0, 3.0, (2, 50))
    data = pandas.DataFrame({"a_1": x, "b": z})
    fitted = llmsr.Regressor(steps=2).fit(data.to_numpy(), 2.0 * x * z)
    assert sympy.sympify(srbench.model(fitted, data)) == 2 * sympy.Symbol("a_1") * sympy.Symbol("b")
    assert "x0" in srbench.model(fitted)
    assert srbench.complexity(fitted) == fitted.law_.size
    assert set(srbench.eval_kwargs["test_params"]) <= set(fitted.get_params())
    srbench.set_time_limit(fitted, data, x)
    assert fitted.get_params()["seconds"] < 3600


def test_plot_draws_law_and_front():
    fitted = llmsr.regress(np.linspace(1.0, 3.0, 30)[:, None], np.linspace(1.0, 3.0, 30) ** 2, steps=2)
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        with pytest.raises(errors.SetupError, match="needs matplotlib"):
            fitted.plot()
    else:
        assert len(fitted.plot().axes) == 2


def test_interrupt_returns_best_law(folder):
    script = (
        "import numpy as np\nfrom atoll import llmsr\n"
        "x = np.linspace(1.0, 3.0, 50)\n"
        "fitted = llmsr.Regressor(seconds=100.0, verbose=True).fit(x[:, None], np.sin(5.0 * x) * x + x**0.3)\n"
        "print('law', fitted.law)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert process.stderr is not None
    while "error" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    output, message = process.communicate(timeout=60)
    assert output.startswith("law "), message
    assert "interrupted" in message
