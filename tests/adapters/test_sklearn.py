"""Estimators of scikit-learn tuned with `AtollSearchCV`."""

import numpy
import pytest

from atoll import errors

# The tests load scikit-learn themselves: other test processes do not need to wait for it.
X = numpy.random.default_rng(0).normal(size=(120, 4))
Y = (X[:, 0] - X[:, 1] + 0.3 * X[:, 2] > 0).astype(int)
PARAMETERS = {"n_neighbors": (60, 1, 79), "weights": ("uniform", ["uniform", "distance"])}


def make_search(**options):
    from sklearn.neighbors import KNeighborsClassifier

    from atoll.adapters.sklearn import AtollSearchCV

    return AtollSearchCV(KNeighborsClassifier(), PARAMETERS, budget="20evals", **options)


def test_search_finds_better_parameters_and_predicts():
    search = make_search().fit(X, Y)
    assert search.best_score_ > search.result_.initial_score
    assert search.best_estimator_.get_params()["n_neighbors"] == search.best_params_["n_neighbors"]
    assert search.predict(X).shape == Y.shape
    assert search.predict_proba(X).shape == (120, 2)
    assert search.score(X, Y) > 0.8
    assert list(search.classes_) == [0, 1]


def test_search_is_clonable_and_repeatable():
    from sklearn.base import clone

    search = clone(make_search(random_state=3))
    assert search.get_params()["random_state"] == 3
    assert search.get_params()["estimator__n_neighbors"] == 5
    assert clone(search).fit(X, Y).best_params_ == search.fit(X, Y).best_params_


def test_search_is_step_of_pipeline_and_tunes_regression():
    from sklearn import linear_model, pipeline, preprocessing

    from atoll.adapters.sklearn import AtollSearchCV

    target = X @ numpy.array([1.0, -2.0, 0.5, 0.0])
    search = AtollSearchCV(linear_model.Ridge(), {"alpha": (90.0, 0.001, 100.0)}, budget="12evals", scoring="r2")
    fitted = pipeline.make_pipeline(preprocessing.StandardScaler(), search).fit(X, target)
    assert fitted.score(X, target) > 0.99
    assert not hasattr(search, "predict_proba")


def test_invalid_parameter_is_one_sentence():
    from sklearn.linear_model import Ridge

    from atoll.adapters.sklearn import AtollSearchCV

    with pytest.raises(errors.SetupError, match="initial candidate has no score"):
        AtollSearchCV(Ridge(), {"nothing": (1.0, 0.0, 2.0)}, budget="3evals").fit(X, Y)
