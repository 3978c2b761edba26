"""ConstantMutator, the baseline that changes only numbers."""

import ast

import pytest

from atoll import function, llm, testing
from tests.mutation.constant_mutator import ConstantMutator
from tests.mutation.corpus import CORPUS
from tests.mutation.tasks import fn, make_child, task
from tests.mutation.test_syntax_mutator import evaluate_text


class TestConstantMutator(testing.ProposerSuite):
    def make(self, model: llm.LLM) -> function.Proposer:
        return ConstantMutator()

    def initial(self, model: llm.LLM) -> function.Function:
        skeleton = function.PyAstSkeleton(CORPUS["cap set"].source)
        return function.DefaultFunction(function.DefaultFunctionProps(skeleton, candidate_evaluator=evaluate_text))


class NumberEraser(ast.NodeTransformer):
    """Replaces all numbers by 0."""

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        inner = self.visit(node.operand)
        is_number = isinstance(node.op, ast.USub) and isinstance(inner, ast.Constant)
        return inner if is_number else ast.UnaryOp(node.op, inner)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant(0) if type(node.value) in (int, float) else node


def get_shape(text: str) -> str:
    return ast.dump(NumberEraser().visit(ast.parse(text)))


@pytest.mark.parametrize("name", [name for name in CORPUS if name not in ("energy", "equation")])
def test_constant_mutator_changes_only_numbers(name):
    source = CORPUS[name].source
    for seed in range(40):
        child = make_child(ConstantMutator(), source, seed=seed)
        assert ast.dump(ast.parse(child)) != ast.dump(ast.parse(source))
        assert get_shape(child) == get_shape(source)


def test_source_without_numbers_is_a_failed_proposal():
    with pytest.raises(ValueError, match="no number to change"):
        ConstantMutator().propose(task(fn(CORPUS["energy"].source)))


def test_index_stays_integer_and_power_small():
    source = "def f(el, x):\n    return el[1] + x ** 2\n"
    for seed in range(200):
        tree = ast.parse(make_child(ConstantMutator(), source, seed=seed))
        for node in ast.walk(tree):
            if isinstance(node, ast.Subscript):
                assert isinstance(ast.literal_eval(node.slice), int)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
                assert 0 < abs(ast.literal_eval(node.right)) <= 5


def test_several_numbers_may_move():
    source = "def f(x):\n    return 1.5 * x + 2.5\n"
    children = {make_child(ConstantMutator(), source, seed=seed) for seed in range(60)}
    assert any("1.5" not in child and "2.5" not in child for child in children)
    assert any("1.5" in child for child in children)
