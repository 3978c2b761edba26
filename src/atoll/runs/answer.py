"""Answer of a run in a few sentences: what it found, how much better, at what cost, how sure, and what to do next.

The dashboard and the HTML export show the same sentences.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from atoll import store
from atoll.runs import comparison, text_format
from atoll.store.candidate_queries import CandidateQueries

MAX_SEEDS = 50  # runs of a seed group
_MANY_FAILURES = 0.3  # share of the evaluations
_LATE = 0.8  # share of the evaluations after which an improvement is late
_FEW_SEEDS, _FEW_INSTANCES = 3, 5
_TIE = 0.01  # share of the gain within which two scores are about the same
_EXACT = 1e-20  # relative squared error that is only rounding
_MAX_LIVES = 500
_METHODS = {
    "best of N": "every child from the initial candidate",
    "sequential conditioning": "every child from the best so far",
}
_NO_SEED = ("seed", "workers")  # settings that do not make a group


class SeedGroup(NamedTuple):
    """Final scores of runs of the same task with the same settings, but other seeds."""

    scores: Sequence[float]

    def describe(self) -> str:
        """Returns a sentence about the spread of the scores."""
        low, high = format_score(min(self.scores)), format_score(max(self.scores))
        median = format_score(statistics.median(self.scores))
        return f"{len(self.scores)} runs with these settings reached a median of {median}, from {low} to {high}."


class BaselineScore(NamedTuple):
    """Title and best score of a baseline, its run, and the status of that run."""

    title: str
    score: float | None
    run: str = ""
    status: str = "done"


class NextStep(NamedTuple):
    """Advice, with the command that follows it; empty: none."""

    text: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """Facts about a run that its answer is made of.

    Attributes:
        evaluations_to_best: Evaluations until the best candidate; None: unknown.
        seconds: Elapsed time; None: unknown.
        life_scores: Scores of the lives of a survival run, oldest first.
        top_failure: The most frequent reason of failures.
        result: Result that the system wrote; empty before the end.
        seeds: Runs with other seeds, including this one; None: only this one.
        is_counted: Whether the whole journal was read; if not, calls, failures and times are incomplete.
    """

    run: str
    system: str
    status: str
    initial_score: float | None
    best_score: float | None
    evaluations: int
    failures: int
    calls: int
    cost_usd: float
    tokens: int = 0
    task: str = ""
    target: float | None = None
    evaluations_to_best: int | None = None
    seconds: float | None = None
    baselines: Sequence[BaselineScore] = ()
    top_failure: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    seeds: SeedGroup | None = None
    life_scores: Sequence[float] = ()
    is_baseline: bool = False
    is_gain_within_noise: bool = False
    is_counted: bool = True

    @property
    def gain(self) -> float | None:
        if self.initial_score is None or self.best_score is None:
            return None
        return self.best_score - self.initial_score


class Answer(NamedTuple):
    """Sentences of an answer.

    Attributes:
        headline: What was found.
        details: How much better, at what cost, how sure.
        next_steps: What to do next.
    """

    headline: str
    details: Sequence[str]
    next_steps: Sequence[NextStep]


def make_answer(facts: AnswerFacts) -> Answer:
    """Returns the answer of a run."""
    if not facts.baselines:
        facts = replace(facts, baselines=list(_iter_own_baselines(facts.result)))
    gains = [*_describe_score(facts), *_compare_with_initial(facts), *_compare_with_baselines(facts)]
    details = [*gains, _describe_cost(facts)]
    return Answer(_make_headline(facts), [*details, *_describe_certainty(facts)], list(_advise(facts)))


def _make_headline(facts: AnswerFacts) -> str:
    result, best = facts.result, facts.best_score
    match facts.system:
        case "mind" if isinstance(total := result.get("total"), int) and total:
            return f"Solved {result.get('solved', 0)} of {total} problem{'' if total == 1 else 's'}."
        case "survival" if isinstance(episodes := result.get("episodes"), int) and episodes:
            cut, ticks = int(result.get("alive_at_max_turns", 0)), result.get("mean_ticks", math.nan)
            survived = episodes - int(result.get("deaths", 0)) - cut
            limit = f" {cut} were alive at survival.max_turns." if cut else ""
            return f"{survived} of {episodes} lives survived to the end; the mean life lasted {ticks:.0f} ticks.{limit}"
        case "llmsr" if isinstance(errors := result.get("nmse"), Mapping):
            name, error = _choose_split(errors)
            return f"Found a law with {_describe_error(error)} on {_name_split(name)}."
    if best is None:
        return "No candidate has a score yet." if facts.status in ("running", "paused") else "No candidate has a score."
    if facts.target is not None and best >= facts.target:
        return f"Reached the target: the best score is {format_score(best)}{_format_gain(facts)}."
    if facts.gain is not None and facts.gain <= 0:
        return f"Found nothing better than the initial candidate, which scores {format_score(best)}."
    doubt = ", which is within the noise of the evaluator" if facts.is_gain_within_noise else ""
    return f"The best score is {format_score(best)}{_format_gain(facts)}{doubt}."


def _iter_own_baselines(result: Mapping[str, Any]) -> Iterator[BaselineScore]:
    """Yields the baselines that a run of `atoll.evolve` made itself; they have no runs of their own."""
    scores = result.get("baselines")
    for title, score in scores.items() if isinstance(scores, Mapping) else ():
        if isinstance(score, int | float):
            yield BaselineScore(title.replace("best-of-N", "best of N"), score)


def _describe_score(facts: AnswerFacts) -> Iterator[str]:
    """Yields what the scores mean, and those on test data."""
    result = facts.result
    if facts.system == "mind" and result.get("total"):
        if scoring := result.get("scoring"):
            yield f"How the task scores a plan: {scoring}"
        best, start = format_score(facts.best_score), format_score(facts.initial_score)
        yield f"The best fitness, from 0 to 1, which guides the search, is {best}; without a plan it was {start}."
    if isinstance(test := result.get("test"), int | float):
        initial = result.get("initial_test")
        before = f", up from {format_score(initial)}" if isinstance(initial, int | float) and initial < test else ""
        yield f"On test data, which the search did not use, it scores {format_score(test)}{before}."
        if isinstance(initial, int | float) and initial >= test:
            yield f"That is no better than the initial candidate ({format_score(initial)})."
    match result.get("gain"), result.get("test_size", 0):
        case [float(mean), float(low), float(high)], int(size) if size >= _FEW_INSTANCES:
            yield f"The mean gain on its {size} instances is {mean:.3g}; its 95 % interval is {low:.3g} to {high:.3g}."
        case _, int(size) if size:
            yield f"The test data has only {_count(size, 'instance')}, so this is not sure."


def _choose_split(errors: Mapping[str, Any]) -> tuple[str, float | None]:
    """Returns the split that says most about a law: held-out data of the same kind, if there is any."""
    name = next((name for name in ("test_id", "test", "test_ood", "train") if errors.get(name) is not None), "train")
    return name, errors.get(name)


def _name_split(name: str) -> str:
    names = {"train": "the training data", "test_id": "held-out data", "test_ood": "data outside the training range"}
    return names.get(name, name)


def _describe_error(error: float | None) -> str:
    if error is None:
        return "no finite error"
    return "no error but rounding" if error < _EXACT else f"a relative squared error of {error:.2g}"


def _format_gain(facts: AnswerFacts) -> str:
    gain, initial = facts.gain, facts.initial_score
    if gain is None or initial is None or gain <= 0:
        return ""
    share = gain / initial if initial > 0 else math.inf
    percent = f" (+{share:.0%})" if 0.005 <= share < 10 else ""
    return f", up from {format_score(initial)}{percent}"


def _compare_with_initial(facts: AnswerFacts) -> Iterator[str]:
    gain = facts.gain
    if gain is not None and gain > 0 and facts.result and facts.system == "llmsr":
        start = facts.initial_score if abs(facts.initial_score or 0.0) > 1e-9 else 0.0
        meaning = " (correct digits on the training data)" if "law" in facts.result else ""
        yield f"The best score{meaning} is {format_score(facts.best_score)}, up from {format_score(start)}."
    if facts.system == "survival" and (causes := facts.result.get("death_causes")):
        yield "Causes of death: " + ", ".join(f"{name} {count}" for name, count in causes.items()) + "."
    if len(facts.life_scores) > 3:
        half = len(facts.life_scores) // 2
        early, late = (statistics.fmean(part) for part in (facts.life_scores[:half], facts.life_scores[-half:]))
        trend = "more than" if late > early else "no more than"
        chance = " The difference may be chance." if late > early and _may_be_chance(facts.life_scores) else ""
        ticks = facts.result.get("mean_ticks", math.nan)
        is_ticks = math.isclose(statistics.fmean(facts.life_scores), ticks, rel_tol=1e-3)
        unit = " (the score is the number of ticks lived)" if is_ticks else ""
        means = f"{late:.4g} on average, {trend} the first {half} ({early:.4g})"
        yield f"The last {half} lives scored {means}{unit}.{chance}"
    has_one_best = facts.system not in ("mind", "survival")  # these have one best candidate for each problem or life
    if gain is not None and gain > 0 and facts.evaluations_to_best is not None and has_one_best:
        yield f"It was found after {facts.evaluations_to_best:,} of {_count(facts.evaluations, 'evaluation')}."


def _may_be_chance(scores: Sequence[float]) -> bool:
    """Checks whether the halves differ by less than two standard errors."""
    half = len(scores) // 2
    early, late = scores[:half], scores[-half:]
    error = math.sqrt(statistics.variance(early) / half + statistics.variance(late) / half)
    return statistics.fmean(late) - statistics.fmean(early) < 2 * error


def _compare_with_baselines(facts: AnswerFacts) -> Iterator[str]:
    best = facts.best_score
    for title, score, _, status in facts.baselines:
        if score is None or best is None:
            continue
        name = f"{title} ({_METHODS[title]})" if title in _METHODS else title
        if status != "done":
            yield f"The baseline {name} reached {format_score(score)}, but did not end (status: {status})."
            continue
        if math.isclose(score, best, rel_tol=1e-9, abs_tol=1e-12):
            yield f"The baseline {name} reached the same score with the same budget."
        elif _is_tie(facts, score):
            yield f"The baseline {name} reached about the same score, {format_score(score)}, with the same budget."
        elif score < best:
            yield f"The baseline {name} reached only {format_score(score)} with the same budget."
        else:
            yield f"The baseline {name} was better: {format_score(score)} with the same budget."


def _describe_cost(facts: AnswerFacts) -> str:
    parts = [_count(facts.evaluations, "evaluation")]
    if not facts.is_counted:
        return f"Cost: {parts[0]}. LLM calls and time are still being counted."
    if facts.calls:
        price = f"${facts.cost_usd:.4g}" if facts.cost_usd else "price unknown" if facts.tokens else "no cost"
        parts.append(f"{_count(facts.calls, 'LLM call')} ({price})")
    else:
        parts.append("no LLM calls")
    if facts.seconds is not None:
        parts.append(format_duration(facts.seconds))
    return f"Cost: {', '.join(parts)}."


def _describe_certainty(facts: AnswerFacts) -> Iterator[str]:
    if facts.system == "mind" and facts.result.get("solved"):
        yield f"Every solved plan was checked {facts.result.get('graded', 'by the task')}."
    elif facts.seeds is not None and len(facts.seeds.scores) > 1 and facts.system != "mind":
        yield facts.seeds.describe()
    elif facts.status not in ("running", "paused"):
        yield "This is one run with one seed, so part of the result may be chance."


def _advise(facts: AnswerFacts) -> Iterator[NextStep]:
    run = facts.run
    if facts.status in ("crashed", "interrupted", "failed"):
        yield NextStep(f"The run ended early ({facts.status}). Resume it.", f"atoll resume {run}")
    if facts.status in ("running", "paused"):
        return
    total = facts.evaluations + facts.failures
    if total and facts.failures / total >= _MANY_FAILURES:
        reason = f" The most frequent reason is: {facts.top_failure}" if facts.top_failure else ""
        yield NextStep(f"{facts.failures / total:.0%} of the attempts failed.{reason} Fix this first.")
    better = _find_better_baseline(facts)
    if better and better.score is not None and _is_tie(facts, better.score):
        yield NextStep(f"The baseline {better.title} was as good and is simpler. Try it first next time.")
        better = None
    if better:
        text = f"The baseline {better.title} was better: this search was not worth its cost. Use that run."
        yield NextStep(text, f"atoll best {better.run}" if better.run else "")
    is_late = facts.evaluations_to_best is not None and facts.evaluations_to_best >= _LATE * facts.evaluations
    has_target = facts.target is not None and facts.best_score is not None and facts.best_score >= facts.target
    is_finished = has_target or _is_exact(facts)
    unsolved = facts.result.get("total", 0) != facts.result.get("solved", 0)
    if facts.system == "mind" and facts.result.get("total") and not unsolved:
        yield NextStep("All problems are solved. Read the plans below.")
    elif facts.best_score is None or (facts.gain is not None and facts.gain <= 0):
        yield NextStep("Nothing better was found. Give it more iterations, or an LLM.", f"atoll resume {run} -i 200")
    elif not is_finished and (is_late or (facts.system == "mind" and unsolved)):
        why = "It still improved near the end" if is_late else "Some problems are not solved"
        yield NextStep(f"{why}, so a larger budget may help.", f"atoll resume {run} -i 200")
    if facts.system == "survival" and 2 * facts.result.get("deaths", 0) > facts.result.get("episodes", 0):
        yield NextStep("Most lives ended early. Let it learn from more lives.", f"atoll resume {run} -i 20")
    if facts.best_score is not None and not better and facts.result.get("total", 1) == 1:
        text = "Read the playbook of the best life." if facts.system == "survival" else "Use the result."
        yield NextStep(text, f"atoll best {run}")
    num_seeds = len(facts.seeds.scores) if facts.seeds else 1
    if facts.task and num_seeds < _FEW_SEEDS:
        yield NextStep("Run it with other seeds to see the spread.", f"atoll run {facts.task} --seed {num_seeds + 1}")
    if any(item.status != "done" for item in facts.baselines):
        yield NextStep("A baseline did not end. Run it to its end.", f"atoll resume {run} --baselines")
    if not facts.baselines and not facts.is_baseline and facts.system != "survival":
        yield _advise_baselines(facts)


def _advise_baselines(facts: AnswerFacts) -> NextStep:
    if facts.system == "evolve":  # the evaluator is a Python function, which a command cannot call
        return NextStep("Compare it with simple baselines: pass baselines=True to atoll.evolve.")
    return NextStep("Compare it with simple baselines.", f"atoll resume {facts.run} --baselines")


def _find_better_baseline(facts: AnswerFacts) -> BaselineScore | None:
    """Returns the best of the baselines that were as good as the run, or better."""
    best = -math.inf if facts.best_score is None else facts.best_score
    scored = [(item.score, item) for item in facts.baselines if item.score is not None and item.score >= best]
    return max(scored, key=lambda pair: pair[0])[1] if scored else None


def _is_tie(facts: AnswerFacts, score: float) -> bool:
    return facts.best_score is not None and abs(score - facts.best_score) <= _TIE * max(0.0, facts.gain or 0.0)


def _is_exact(facts: AnswerFacts) -> bool:
    """Checks whether a law has no error on any split."""
    errors = facts.result.get("nmse") if facts.system == "llmsr" else None
    values = list(errors.values()) if isinstance(errors, Mapping) else []
    return bool(values) and all(isinstance(error, int | float) and error < _EXACT for error in values)


def find_seed_group(run_store: store.Store, run_id: str, all_runs: Sequence[Any] | None = None) -> Sequence[str]:
    """Returns the runs with the same task and settings but the seed, newest first; includes the run itself."""
    key = make_group_key(run_store.get_run(run_id).config)
    if key is None:
        return [run_id]
    stored_runs = run_store.list_runs() if all_runs is None else all_runs
    return [run.id for run in stored_runs if make_group_key(run.config) == key][:MAX_SEEDS]


def make_group_key(config: Mapping[str, Any]) -> str | None:
    """Returns a key that runs of a seed group share; None: the task is unknown."""
    task = comparison.get_task_key(config)
    if task is None:
        return None
    run_section = config.get("run")
    section = run_section if isinstance(run_section, Mapping) else {}
    settings = sorted((name, str(value)) for name, value in section.items() if name not in _NO_SEED)
    system = str(config.get("system", ""))
    return f"{task} {config.get('baseline')} {config.get(system)} {config.get('llm')} {settings}"


def load_seed_scores(run_store: store.Store, run_ids: Sequence[str]) -> SeedGroup | None:
    """Returns the best scores of runs; None if fewer than two have one."""
    best = [CandidateQueries(run_store, run_id).list_best() for run_id in run_ids]
    scores = [heads[0].score for heads in best if heads and heads[0].score is not None]
    return SeedGroup(scores) if len(scores) > 1 else None


def load_life_scores(run_store: store.Store, run_id: str, system: str) -> Sequence[float]:
    """Returns the scores of the newest lives of a survival run, oldest first; empty for other systems."""
    if system != "survival":
        return []
    queries = CandidateQueries(run_store, run_id)
    last = queries.get_last_step()
    heads = queries.list_window(max(1, last - _MAX_LIVES + 1), last, _MAX_LIVES)
    return [head.score for head in sorted(heads, key=lambda head: head.step) if head.score is not None]


def format_score(score: float | None) -> str:
    return text_format.format_number(score)


def format_duration(seconds: float) -> str:
    """Formats a duration with its two largest units."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
