"""Regressor as an estimator of scikit-learn, with pandas and sympy."""

import numpy as np
import pytest

from atoll import llmsr

# The tests load scikit-learn, pandas and sympy themselves: other test processes do not need to wait for them.

X = np.random.default_rng(0).uniform(0.5, 3.0, (120, 2))
Y = 2.0 * X[:, 0] / X[:, 1] + np.sin(X[:, 1])


@pytest.mark.slow  # 52 checks
@pytest.mark.filterwarnings("ignore:Estimator Regressor does not inherit")  # scikit-learn is not required
def test_estimator_passes_checks_of_scikit_learn():
    from sklearn.utils import estimator_checks

    for check in estimator_checks.check_estimator(llmsr.Regressor(steps=1), on_skip=None):
        assert check["status"] in ("passed", "skipped"), check


@pytest.mark.timeout(400)
def test_pipeline_search_and_cross_validation():
    from sklearn import model_selection, pipeline, preprocessing

    scaled = pipeline.make_pipeline(preprocessing.StandardScaler(), llmsr.Regressor(steps=2))
    assert scaled.fit(X, Y).score(X, Y) > 0.9
    assert len(model_selection.cross_val_score(llmsr.Regressor(steps=2), X, Y, cv=2)) == 2
    search = model_selection.GridSearchCV(llmsr.Regressor(), {"steps": [1, 2]}, cv=2).fit(X, Y)
    assert search.best_params_["steps"] in (1, 2)


def test_data_frame_gives_names_of_law_in_sympy_and_latex():
    import pandas
    import sympy

    frame = pandas.DataFrame(X, columns=["mass", "two words"])
    fitted = llmsr.Regressor(steps=30, random_state=1).fit(frame, pandas.Series(Y))
    assert list(fitted.feature_names_in_) == ["mass", "two words"]
    assert fitted.names_ == ["mass", "two_words"]
    assert fitted.predict(frame) == pytest.approx(Y, rel=1e-6)
    expression = fitted.sympy()
    symbols = sympy.symbols("mass two_words", real=True)
    values = sympy.lambdify(symbols, expression)(X[:, 0], X[:, 1])
    assert values == pytest.approx(fitted.predict(frame), rel=1e-9)
    assert "mass" in fitted.latex()


def test_regressor_without_law():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError, match=r"Call fit\(X, y\) first"):
        llmsr.Regressor().predict(X)
