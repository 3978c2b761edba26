"""Formulas from an LLM beside the law search: several per call, from the data and the laws so far."""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from atoll import function, llm, mutation
from atoll.llmsr import fit
from atoll.llmsr.laws import engine, table
from atoll.llmsr.laws.tree import Array

NUM_FORMULAS = 4
_MAX_LAWS = 5  # of the front, in a prompt
_EXACT_ERROR = 1e-20
_MAX_FORMULAS = 8  # of one response
_SYSTEM = """\
You find laws in data. A law is a formula that computes {target} from {names}.{description}

The data has {num_rows:,} rows:

{columns}

Write formulas in Python with numpy (np). Free constants are params[0], params[1], ... They are fitted to the data, so
choose the form and not the numbers. Use at most 8 of them. Prefer short formulas that explain all rows and hold beyond
them."""
_USER = """\
{state}Propose {count} formulas that differ in form from each other and from those above. Think about what {target}
depends on: products and ratios of variables, limits for small and large values, saturation, waves, decay. Then write
each formula on a line of its own, with a reason in a few words:

law: params[0]*{first}/(params[1] + {first})   # it saturates
"""
_LINE = re.compile(r"^[ \t>*\-\d.)]*(?:law|formula|return)\b[ \t]*\d*[ \t:=*]*(?P<formula>.+)$", re.I | re.M)


class FormulaMutator:
    """Asks an LLM for formulas and continues the law search, in every iteration.

    Args:
        law_search: The search.
        language_model: The LLM.
        train: The training rows.
        description: What the data is, in the words of the user.
    """

    def __init__(
        self, law_search: engine.LawMutator, language_model: llm.LLM, train: table.Table, description: str
    ) -> None:
        self.law_search, self._llm, self._train = law_search, language_model, train
        self._system = _SYSTEM.format(
            target=train.target,
            names=", ".join(train.names),
            description=f"\n{description.strip()}" if description.strip() else "",
            num_rows=len(train.y),
            columns="\n".join(_describe_columns(train)),
        )

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        response = self._llm(self._build_prompt(context))
        parent = context.parents[-1]
        children = [
            function.derive_child(
                parent,
                function.PyAstSkeleton(make_source(formula, self._train.names), {"np": np}),
                engine="llm",
                model=response.model,
                idea=reason,
            )
            for formula, reason in read_formulas(response.text, self._train.names)
        ]
        return [*children, *self.law_search.propose(context)]

    def _build_prompt(self, context: function.ProposalContext) -> str:
        front = [fn for fn in context.inspirations.get("front", ()) if fn.evaluation is not None]
        user = _USER.format(
            state=self._describe_front(front[-_MAX_LAWS:]),
            count=NUM_FORMULAS,
            target=self._train.target,
            first=self._train.names[0],
        )
        return llm.ChatPrompt(("system", self._system), ("user", user))

    def _describe_front(self, front: Sequence[function.Function]) -> str:
        if not front:
            return ""
        lines = ["The best laws so far, with the share of the variance that each leaves unexplained:"]
        lines += [
            f"- {fn.evaluation.metrics['nmse']:.3g}, {int(fn.evaluation.metrics['size'])} nodes: {_get_formula(fn)}"
            for fn in front
            if fn.evaluation is not None
        ]
        best = engine.get_any_law(front[-1], self._train.names)
        error = front[-1].evaluation.metrics["nmse"] if front[-1].evaluation else 0.0
        if best is not None and error > _EXACT_ERROR:
            residual = self._train.y - best.predict(self._train.rows.columns)
            lines += ["", "Where the last one fails:", *describe_residual(self._train, residual)]
        return "\n".join(lines) + "\n\n"


def read_formulas(text: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """Returns the formulas of a response that can be parsed, each with its reason."""
    formulas: dict[str, str] = {}
    for match in _LINE.finditer(mutation.clean_response(text)):
        formula, _, reason = match["formula"].partition("#")
        formula = formula.strip().strip("`").rstrip(";,.").strip()
        if "=" in formula and "==" not in formula:
            formula = formula.rpartition("=")[2].strip()
        formula = formula.replace("^", "**")
        try:
            fit.parse(formula, names)
        except (fit.InvalidEquation, fit.UnsupportedEquation):
            continue
        formulas.setdefault(formula, reason.strip()[:200])
        if len(formulas) >= _MAX_FORMULAS:
            break
    return list(formulas.items())


def make_source(formula: str, names: Sequence[str]) -> str:
    """Returns a formula as a Python function with fitted constants."""
    return f"def equation({', '.join(names)}, params):\n    return {formula}\n"


def _get_formula(fn: function.Function) -> str:
    text = str(fn.skeleton())
    formula = " ".join(text.partition("return")[2].split())
    return formula[2:-2] if formula.startswith("( ") else formula or text


def _describe_columns(train: table.Table) -> Iterator[str]:
    """Yields a table of the variables and the target."""
    yield "| name | smallest | median | largest | correlation with the target |"
    yield "|---|---|---|---|---|"
    for name, values in zip([*train.names, train.target], [*train.x.T, train.y], strict=True):
        low, middle, high = np.quantile(values, [0.0, 0.5, 1.0])
        correlation = np.corrcoef(values, train.y)[0, 1]
        yield f"| {name} | {low:.4g} | {middle:.4g} | {high:.4g} | {correlation:.2f} |"


def describe_residual(train: table.Table, residual: Array) -> Iterator[str]:
    """Yields in words where a law is too low or too high, by thirds of every variable."""
    scale = float(residual.std()) or 1.0
    for name, values in zip(train.names, train.x.T, strict=True):
        bounds = np.quantile(values, [1 / 3, 2 / 3])
        thirds = np.digitize(values, bounds)
        means = [
            float(residual[thirds == third].mean()) / scale if (thirds == third).any() else 0.0 for third in range(3)
        ]
        words = ["too low" if mean > 0.3 else "too high" if mean < -0.3 else "about right" for mean in means]
        if set(words) != {"about right"}:
            yield f"- {name}: {words[0]} for small, {words[1]} for medium, {words[2]} for large values"
    worst = np.argsort(-np.abs(residual))[:3]
    for row in worst:
        values_text = ", ".join(f"{name} = {value:.4g}" for name, value in zip(train.names, train.x[row], strict=True))
        yield f"- at {values_text} the target is {train.y[row]:.5g}, the law {train.y[row] - residual[row]:.5g}"
