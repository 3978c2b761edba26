"""The models that `openevolve-run`'s options and an OpenEvolve configuration name."""

import pytest

from atoll import errors
from atoll.programs.openevolve import model_names

HERE = "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize(
    ("options", "model"),
    [
        (("a", None, None, None), "openai:a"),
        (("a", None, f"{HERE}/", None), f"openai:a@{HERE}"),
        (("a", "b", HERE, "openai:c"), f"openai:a@{HERE}*1,openai:b@{HERE}*0.2"),
        ((None, "b", None, None), "openai:b"),
        (("a", None, model_names.PUBLIC_URL, None), "openai:a"),
        (
            (None, None, HERE, "openai:c@http://elsewhere/v1*0.8,openai:d*0.2"),
            f"openai:c@{HERE}*0.8,openai:d@{HERE}*0.2",
        ),
        ((None, None, HERE, "openai:c"), f"openai:c@{HERE}"),
    ],
)
def test_the_options_of_openevolve_run_name_a_model(options, model):  # P20
    assert model_names.choose_model_name(*options) == model


def test_an_address_alone_or_none_at_all_is_refused():
    with pytest.raises(errors.SetupError, match="pass --primary-model too"):
        model_names.choose_model_name(None, None, HERE, None)
    with pytest.raises(errors.SetupError, match="--api-base here is not a URL"):
        model_names.choose_model_name("a", None, "here", None)
