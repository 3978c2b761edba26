"""Formulas from an LLM beside the law search: several per call, from the data and the laws so far.

The LLM writes in one of five iterations. The others search while it thinks. A weak LLM thus costs little of the search,
and a slow one does not stop it.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from random import Random

import numpy as np

from atoll import function, llm, mutation
from atoll.llmsr import fit
from atoll.llmsr.laws import constraints, engine, population, table, tree
from atoll.llmsr.laws.tree import Array

NUM_FORMULAS = 4
ITERATIONS_PER_CALL = 5
_MAX_LAWS = 5  # of the front, in a prompt
_EXACT_ERROR = 1e-20
_MAX_FORMULAS = 8  # of one response
_SYSTEM = """\
You find laws in data. A law is a formula that computes {target} from {names}.{description}

The data has {num_rows:,} rows:

{columns}

How to write a formula:
- Use only the variables {names} and the operators + - * / **.
- Use only the functions np.exp, np.log, np.sqrt, np.sin, np.cos, np.tanh and np.abs.
- Write params[0], params[1], ... for unknown numbers, at most 8. They are fitted to the data, so do not guess numbers.
- Prefer short formulas."""
_USER = """\
{state}Propose {count} new formulas for {target}. Each must differ in form from the others and from those above.
Think of products and ratios of variables, saturation, decay, waves, and values near zero and far away.

Answer with {count} lines. Each line begins with "law:", then the formula, then # and a reason in a few words.
For example:

{examples}
"""
_EXAMPLES = (
    "law: params[0]*{a}/(params[1] + {a})  # it saturates in {a}",
    "law: params[0]*np.exp(-params[1]*{a}) + params[2]  # it decays with {a}",
    "law: params[0]*{a}**params[1]  # power of {a}",
    "law: params[0]*np.sin(params[1]*{a} + params[2])  # wave in {a}",
    "law: params[0]*np.log(1 + params[1]*{a})  # it rises slowly with {a}",
    "law: params[0]*{a}*{b} + params[1]*{b}  # product of {a} and {b}",
    "law: params[0]*{a}/(params[1] + {b})  # {b} slows {a} down",
    "law: (params[0] + params[1]*{a})*np.exp(-params[2]*{b})  # {a} rises, {b} decays",
    "law: params[0]*np.sqrt({a}**2 + params[1]*{b}**2)  # length of two parts",
)
_NUM_EXAMPLES = 2
_MAX_SHOWN = 160  # characters of a law in a prompt; longer ones teach nothing
_LINE = re.compile(r"^[ \t>*\-\d.)`]*(?:law|formula|return)\b[ \t]*\d*[ \t:=*`]*(?P<formula>.+)$", re.I | re.M)
_ANY_LINE = re.compile(r"^(?P<formula>.*params\[\d.+)$", re.M)  # of a response that does not use the form
_FUNCTIONS = ("exp", "log", "sqrt", "sin", "cos", "tan", "tanh", "abs", "arctan", "log10", "maximum", "minimum")
_MAX_PARAMS = 10


class FormulaMutator:
    """Asks an LLM for formulas in one of `ITERATIONS_PER_CALL` iterations, and continues the law search in the others.

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
        if context.iteration % ITERATIONS_PER_CALL != 1:
            return self.law_search.propose(context)
        response = self._llm(self._build_prompt(context))
        parent = context.parents[-1]
        return [
            function.derive_child(
                parent,
                function.PyAstSkeleton(make_source(formula, self._train.names), {"np": np}),
                engine="llm",
                view=population.FORMULAS,
                model=response.model,
                idea=reason,
            )
            for formula, reason in read_formulas(response.text, self._train.names)
        ]

    def _build_prompt(self, context: function.ProposalContext) -> str:
        front = [fn for fn in context.inspirations.get("front", ()) if fn.evaluation is not None]
        user = _USER.format(
            state=self._describe_front(front),
            count=NUM_FORMULAS,
            target=self._train.target,
            examples="\n".join(self._draw_examples(context.rng)),
        )
        return llm.ChatPrompt(("system", self._system), ("user", user))

    def _draw_examples(self, rng: Random) -> Iterator[str]:
        """Yields examples of the form of an answer, with variables of the data. They differ between prompts."""
        names = list(self._train.names)
        usable = [example for example in _EXAMPLES if len(names) > 1 or "{b}" not in example]
        for example in rng.sample(usable, _NUM_EXAMPLES):
            chosen = rng.sample(names, min(2, len(names)))
            yield example.format(a=chosen[0], b=chosen[-1])

    def _describe_front(self, front: Sequence[function.Function]) -> str:
        """Returns the best laws in the form of an answer, and where the best one fails."""
        if not front:
            return ""
        laws = [(fn, _format_law(fn, self._train.names)) for fn in front]
        short = [(fn, text) for fn, text in laws if len(text) <= _MAX_SHOWN][-_MAX_LAWS:]
        lines = ["The best laws so far, from short to long. The number is the unexplained share of the variance:", ""]
        lines += [
            f"law: {text}  # {fn.evaluation.metrics['nmse']:.2g} unexplained"
            for fn, text in short
            if fn.evaluation is not None
        ]
        best = engine.get_any_law(front[-1], self._train.names)
        error = front[-1].evaluation.metrics["nmse"] if front[-1].evaluation else 0.0
        if best is not None and error > _EXACT_ERROR:
            residual = self._train.y - best.predict(self._train.rows.columns)
            lines += ["", "Where the best law fails:", *describe_residual(self._train, residual)]
        return "\n".join(lines) + "\n\n"


def read_formulas(text: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """Returns the formulas of a response that can be parsed, each with its reason.

    Lines that begin with "law:" are read; without any, lines with params. Other names for constants and functions
    without np are corrected.
    """
    cleaned = mutation.clean_response(text)
    for pattern in (_LINE, _ANY_LINE):
        formulas: dict[str, str] = {}
        for match in pattern.finditer(cleaned):
            formula, _, reason = match["formula"].partition("#")
            corrected = _correct_formula(formula, names)
            if corrected is not None:
                formulas.setdefault(corrected, reason.strip()[:200])
            if len(formulas) >= _MAX_FORMULAS:
                break
        if formulas:
            break
    return list(formulas.items())


def _correct_formula(text: str, names: Sequence[str]) -> str | None:
    """Returns a formula that can be parsed; None if the text is none."""
    formula = text.strip().strip("`").rstrip(";,.").strip().strip("`")
    if "=" in formula and "==" not in formula:
        formula = formula.rpartition("=")[2].strip()
    formula = re.sub(r"^[^\[(]*:", "", formula.replace("^", "**")).strip()
    try:
        tree = _NameCorrector(names).visit(ast.parse(formula, mode="eval"))
        corrected = ast.unparse(tree)
        fit.parse(corrected, names)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # errors of fit are ValueErrors
        return None
    return corrected


class _NameCorrector(ast.NodeTransformer):
    """Writes functions with np, and unknown names and decimal numbers as parameters. Exponents stay numbers."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = set(names)
        self._params: dict[str, int] = {}
        self._next = 0

    def visit_Expression(self, node: ast.Expression) -> ast.AST:
        known = [item.slice.value for item in ast.walk(node) if _is_param(item)]  # type: ignore[attr-defined]
        self._next = max(known, default=-1) + 1
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        arguments = [self.visit(argument) for argument in node.args]
        function_name = node.func
        if isinstance(function_name, ast.Name) and function_name.id in _FUNCTIONS:
            function_name = ast.Attribute(ast.Name("np", ast.Load()), function_name.id, ast.Load())
        return ast.Call(function_name, arguments, [])

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant):
            return ast.BinOp(self.visit(node.left), node.op, node.right)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return node if node.id in self._names or node.id in ("np", "params", "pi", "math") else self._make(node.id)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        is_decimal = isinstance(node.value, float) and node.value != round(node.value)
        return self._make(repr(node.value)) if is_decimal else node

    def _make(self, key: str) -> ast.AST:
        if key not in self._params:
            if self._next >= _MAX_PARAMS:
                raise ValueError("too many constants")
            self._params[key], self._next = self._next, self._next + 1
        return ast.Subscript(ast.Name("params", ast.Load()), ast.Constant(self._params[key]), ast.Load())


def _is_param(node: ast.AST) -> bool:
    is_subscript = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "params"
    return is_subscript and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int)  # type: ignore[attr-defined]


def _format_law(fn: function.Function, names: Sequence[str]) -> str:
    """Returns a law with params for its constants, as an answer is written."""
    known_law = engine.get_any_law(fn, names)
    law_tree = None if known_law is None else constraints.to_tree(known_law, len(names))
    if law_tree is None:
        return _get_formula(fn)
    law_tree = tree.simplify(law_tree)
    count = tree.count_constants(law_tree)
    constants: Iterator[tree.Tree] = iter(
        ("c", value) if value in (-1.0, 1.0, 2.0) else ("x", len(names) + index)
        for index, value in enumerate(tree.collect_constants(law_tree))
    )
    text = tree.to_text(tree.replace_constants(law_tree, constants), [*names, *(f"params[{i}]" for i in range(count))])
    numbers = {index: position for position, index in enumerate(dict.fromkeys(re.findall(r"params\[(\d+)\]", text)))}
    return re.sub(r"params\[(\d+)\]", lambda match: f"params[{numbers[match[1]]}]", text)


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
    for name, values in zip([*train.names, f"{train.target} (target)"], [*train.x.T, train.y], strict=True):
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
