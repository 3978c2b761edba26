"""LLM names from `openevolve-run` options and OpenEvolve configurations."""

import pytest

from atoll import errors
from atoll.programs.openevolve import model_names

LOCAL_URL = "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize(
    ("options", "model"),
    [
        (("a", None, None, None), "openai:a"),
        (("a", None, f"{LOCAL_URL}/", None), f"openai:a@{LOCAL_URL}"),
        (("a", "b", LOCAL_URL, "openai:c"), f"openai:a@{LOCAL_URL}*1,openai:b@{LOCAL_URL}*0.2"),
        ((None, "b", None, None), "openai:b"),
        (("a", None, model_names.PUBLIC_URL, None), "openai:a"),
        (
            (None, None, LOCAL_URL, "openai:c@http://elsewhere/v1*0.8,openai:d*0.2"),
            f"openai:c@{LOCAL_URL}*0.8,openai:d@{LOCAL_URL}*0.2",
        ),
        ((None, None, LOCAL_URL, "openai:c"), f"openai:c@{LOCAL_URL}"),
    ],
)
def test_openevolve_run_options_name_an_llm(options, model):  # P20
    assert model_names.choose_model_name(*options) == model


def test_another_url_keeps_the_options_of_each_llm():
    old = "openai:a@http://elsewhere/v1*0.8,openai:a@http://elsewhere/v1#2*0.2"
    new = model_names.choose_model_name(None, None, LOCAL_URL, old)
    assert new == f"openai:a@{LOCAL_URL}*0.8,openai:a@{LOCAL_URL}#2*0.2"
    options = {"openai:a@http://elsewhere/v1#2": {"temperature": 1.0}}
    assert model_names.rename_options(old, new, options) == {f"openai:a@{LOCAL_URL}#2": {"temperature": 1.0}}


def test_url_without_llm_name_and_invalid_url_are_rejected():
    with pytest.raises(errors.SetupError, match="pass --primary-model too"):
        model_names.choose_model_name(None, None, LOCAL_URL, None)
    with pytest.raises(errors.SetupError, match="--api-base here is not a URL"):
        model_names.choose_model_name("a", None, "here", None)
