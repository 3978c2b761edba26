"""The baseline that moves numbers."""

import ast

import pytest

from atoll import function, llm, testing
from tests.mutation.constant_mutator import ConstantMutator
from tests.mutation.corpus import CORPUS
from tests.mutation.tasks import child_of, fn, task
from tests.mutation.test_syntax import judged_by_its_text


class TestConstants(testing.ProposerSuite):
    def make(self, model: llm.LLM) -> function.Proposer:
        return ConstantMutator()

    def initial(self, model: llm.LLM) -> function.Function:
        skeleton = function.PyAstSkeleton(CORPUS["cap set"].source)
        return function.DefaultFunction(function.DefaultFunctionProps(skeleton, candidate_evaluator=judged_by_its_text))


class WithoutNumbers(ast.NodeTransformer):
    """Makes all numbers one."""

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        inner = self.visit(node.operand)
        is_number = isinstance(node.op, ast.USub) and isinstance(inner, ast.Constant)
        return inner if is_number else ast.UnaryOp(node.op, inner)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant(0) if type(node.value) in (int, float) else node


def shape(text: str) -> str:
    return ast.dump(WithoutNumbers().visit(ast.parse(text)))


@pytest.mark.parametrize("name", [name for name in CORPUS if name not in ("energy", "equation")])
def test_only_numbers_change(name):
    source = CORPUS[name].source
    for seed in range(40):
        child = child_of(ConstantMutator(), source, seed=seed)
        assert ast.dump(ast.parse(child)) != ast.dump(ast.parse(source))
        assert shape(child) == shape(source)


def test_a_source_without_numbers_is_a_failed_proposal():
    with pytest.raises(ValueError, match="no number to change"):
        ConstantMutator().propose(task(fn(CORPUS["energy"].source)))


def test_an_index_stays_whole_and_a_power_small():
    source = "def f(el, x):\n    return el[1] + x ** 2\n"
    for seed in range(200):
        tree = ast.parse(child_of(ConstantMutator(), source, seed=seed))
        for node in ast.walk(tree):
            if isinstance(node, ast.Subscript):
                assert isinstance(ast.literal_eval(node.slice), int)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
                assert 0 < abs(ast.literal_eval(node.right)) <= 5


def test_several_numbers_may_move_at_once():
    source = "def f(x):\n    return 1.5 * x + 2.5\n"
    children = {child_of(ConstantMutator(), source, seed=seed) for seed in range(60)}
    assert any("1.5" not in child and "2.5" not in child for child in children)
    assert any("1.5" in child for child in children)
