"""Comparison of two values of a parameter by pairs of runs with the same task and seed."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from atoll import config, errors, store
from atoll.candidate import Candidate
from atoll.runs import executor_config
from atoll.runs.run_llm import LLMFactory
from atoll.runs.session import Session, make_parameter_reader
from atoll.runs.summary import summarize
from atoll.store.versions import ledger


class PairedRuns:
    """Samples, apply function and score function of a shadow run that compares values by whole runs.

    Every run has the budget of the configuration and leaves nothing in the store.

    Args:
        run_config: Configuration of a task that has the parameter among its settings.
        key: Key of the parameter.
        version_ledger: Has the parameters of the task; only read.
        seeds: One pair of runs for each.
        llm_factory: Makes the LLM; by default the one that the configuration names.
        allowed: Safety checks that the user waives.

    Attributes:
        parameter_name: Name of the parameter in the task, e.g. `KEY@production`; has the current value.

    Raises:
        SetupError: The task does not use the parameter.
        NotFound: The parameter does not exist.
    """

    def __init__(
        self,
        run_config: config.RunConfig,
        key: str,
        version_ledger: ledger.VersionLedger,
        seeds: Sequence[int],
        *,
        llm_factory: LLMFactory | None = None,
        allowed: executor_config.UnsafeOptions = executor_config.SAFE_OPTIONS,
    ) -> None:
        self._run_config, self._seeds, self._llm_factory, self._allowed = run_config, seeds, llm_factory, allowed
        self._read_parameter, self._key = make_parameter_reader(version_ledger), key
        names = [name for name in run_config.bindings.values() if self._read_parameter(name).key == key]
        if not names:
            raise errors.SetupError(
                f'{run_config.folder.name} has no setting that is the parameter {key}. Write one as "@param:{key}", '
                f"e.g. --set {run_config.system}.KEY=@param:{key}. 'atoll params settings {run_config.system}' lists "
                "the settings that can be parameters."
            )
        self.parameter_name = names[0]

    @property
    def functions(self) -> Sequence[Callable[..., Any]]:
        return self.samples, self.apply, self.score

    def samples(self) -> Sequence[Candidate]:
        """Returns a sample for each seed."""
        return [Candidate(f"seed {seed}", json.dumps({"seed": seed})) for seed in self._seeds]

    def apply(self, candidate: Candidate, value: Any) -> Candidate:
        """Returns a sample that uses a value of the parameter."""
        return Candidate(candidate.id, json.dumps({**json.loads(candidate.content), "value": value}))

    def score(self, candidate: Candidate) -> tuple[float, dict[str, float]]:
        """Runs the task and returns its best score and its usage.

        Raises:
            SetupError: The task cannot run with this value.
            RunFailed: The run failed, or no candidate has a score.
        """
        data = json.loads(candidate.content)
        run_config = config.RunConfig.from_data(self._run_config.to_data(), [{"run": {"seed": data["seed"]}}])
        with store.Store("sqlite://") as run_store:
            with Session(
                run_store,
                run_config.bind_parameters(self._make_reader(data["value"])),
                llm_factory=self._llm_factory,
                allowed=self._allowed,
            ) as session:
                session.run()
            summary = summarize(run_store, session.run_id)
        if summary.best_score is None:
            raise errors.RunFailed(f"The run with {candidate.id} has no score.")
        usage = summary.totals
        return summary.best_score, {"evaluations": float(usage.evaluations), "usd": usage.cost.usd}

    def _make_reader(self, value: Any) -> Callable[[str], config.BoundParameter]:
        def read_parameter(name: str) -> config.BoundParameter:
            parameter = self._read_parameter(name)
            return parameter._replace(value=value) if parameter.key == self._key else parameter

        return read_parameter
