"""Estimator of scikit-learn that tunes the parameters of another one with `atoll.evolve`.

search = AtollSearchCV(SVC(), {"C": (1.0, 0.01, 100.0), "kernel": ("rbf", ["rbf", "linear"])})
search.fit(X, y).predict(X_new)
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import check_cv, cross_val_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from atoll.evaluation import Evaluation
from atoll.evolve import evolve


def _has_method(name: str) -> Any:
    def check(search: "AtollSearchCV") -> bool:
        return hasattr(getattr(search, "best_estimator_", search.estimator), name)

    return check


class AtollSearchCV(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Tunes numbers and choices of an estimator by cross-validation.

    Args:
        estimator: The estimator to tune.
        parameters: By name `(initial, low, high)`, `(initial, [choices])` or a number, as in `atoll.evolve`. Names of
            nested parameters are `step__name`.
        budget: Such as "50evals" or "60s"; one evaluation is one cross-validation.
        cv: Number of folds, or a splitter.
        scoring: Name of a score or a scorer; None: the `score` of the estimator.
        llm: LLM that proposes values too; None: only the numeric optimizer.
        random_state: Random seed.
        workers: Evaluations in parallel; the numeric optimizer alone uses one.
        verbose: Whether to show progress on stderr.

    Attributes:
        best_params_: The best values.
        best_score_: Their mean score over the folds.
        best_estimator_: The estimator with these values, fitted to all data.
        result_: Result of `atoll.evolve`.
    """

    def __init__(
        self,
        estimator: Any,
        parameters: Mapping[str, Any],
        *,
        budget: str = "50evals",
        cv: Any = 3,
        scoring: Any = None,
        llm: Any = None,
        random_state: int = 0,
        workers: int = 1,
        verbose: bool = False,
    ) -> None:
        self.estimator, self.parameters, self.budget = estimator, parameters, budget
        self.cv, self.scoring, self.llm = cv, scoring, llm
        self.random_state, self.workers, self.verbose = random_state, workers, verbose

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> Self:  # noqa: N803  # as in scikit-learn
        """Tunes the parameters, then fits the estimator to all data.

        Raises:
            SetupError: A parameter is invalid, or the initial values cannot be fitted.
        """
        is_classifier = getattr(self.estimator, "_estimator_type", "") == "classifier" or hasattr(
            self.estimator, "predict_proba"
        )
        folds = list(check_cv(self.cv, y, classifier=is_classifier).split(X, y))  # the same for all candidates

        def evaluate(values: Mapping[str, Any]) -> Evaluation:
            candidate = clone(self.estimator).set_params(**values)
            scores = cross_val_score(
                candidate, X, y, cv=folds, scoring=self.scoring, params=fit_params or None, error_score="raise"
            )
            return Evaluation(float(numpy.mean(scores)), tuple(map(float, scores)))

        self.result_ = evolve(
            dict(self.parameters),
            evaluate,
            budget=self.budget,
            llm=self.llm,
            seed=self.random_state,
            workers=self.workers,
            verbose=self.verbose,
            objective="The values are parameters of an estimator of scikit-learn; the score is that of validation.",
        )
        self.best_params_, self.best_score_ = dict(self.result_.best), self.result_.score
        self.best_estimator_ = clone(self.estimator).set_params(**self.best_params_).fit(X, y, **fit_params)
        if hasattr(self.best_estimator_, "classes_"):
            self.classes_ = self.best_estimator_.classes_
        return self

    @available_if(_has_method("predict"))  # type: ignore[untyped-decorator]  # scikit-learn ships no types
    def predict(self, X: Any) -> Any:  # noqa: N803
        """Predicts with the best estimator."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict(X)

    @available_if(_has_method("predict_proba"))  # type: ignore[untyped-decorator]  # scikit-learn ships no types
    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        """Returns the probabilities of the classes by the best estimator."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict_proba(X)

    @available_if(_has_method("transform"))  # type: ignore[untyped-decorator]  # scikit-learn ships no types
    def transform(self, X: Any) -> Any:  # noqa: N803
        """Transforms data with the best estimator."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.transform(X)

    def score(self, X: Any, y: Any = None) -> float:  # noqa: N803
        """Returns the score of the best estimator on other data."""
        check_is_fitted(self, "best_estimator_")
        if self.scoring is None:
            return float(self.best_estimator_.score(X, y))
        from sklearn.metrics import check_scoring

        return float(check_scoring(self.best_estimator_, self.scoring)(self.best_estimator_, X, y))
