"""The engine that asks a model for changes (P12, P15)."""

from random import Random

import pytest

from atoll import errors, function, llm, mutation, testing
from tests.mutation.tasks import fn, task
from tests.mutation.test_syntax import judged_by_its_text

SOURCE = "def f(x):\n    return x\n"
DIFF = "<<<<<<< SEARCH\n    return x\n=======\n    return x * {}\n>>>>>>> REPLACE\n"


def ask(task: function.ProposalContext, request: mutation.EditRequest) -> mutation.Prompt:
    shown = f"{request.mode}\n{request.parent.skeleton()}"
    return mutation.Prompt(f"{shown}\nfault: {request.failure}" if request.failure else shown)


class TestEdit(testing.ProposerSuite):
    def make(self, model: llm.LLM) -> function.Proposer:
        return mutation.EditMutator(model, ask, crossover=0.3, num_proposals=2)

    def initial(self, model: llm.LLM) -> function.Function:
        skeleton = function.PyAstSkeleton(SOURCE)
        return function.DefaultFunction(function.DefaultFunctionProps(skeleton, candidate_evaluator=judged_by_its_text))

    def answer(self, step: int, call: str, prompt: str) -> str:
        number = Random(f"{step}/{call}/{prompt}").randint(0, 9)
        if number > 6:
            return "I cannot."
        whole = f"```python\ndef f(x):\n    return x * {number}\n```\n"
        return whole if number % 2 else DIFF.format(number)


class Asked:
    """A model that answers in turn and keeps what it was asked."""

    def __init__(self, *answers: str) -> None:
        self.answers, self.prompts = list(answers), list[str]()

    def __call__(self, prompt: str) -> llm.Response:
        self.prompts.append(prompt)
        answer = self.answers.pop(0)
        if answer == "silence":
            raise llm.LLMError("The model is silent.")
        return llm.Response(answer, "scripted")


def proposed(model: Asked, *parents: function.Function, **options) -> list[function.Function]:
    return list(mutation.EditMutator(model, ask, **options).propose(task(*(parents or (fn(SOURCE),)))))


def text(child: function.Function) -> str:
    return str(child.skeleton())


def meta(child: function.Function):
    assert child.candidate is not None
    return dict(child.candidate.meta)


def test_a_diff_makes_a_child_that_says_how_it_came_about():
    [child] = proposed(Asked(DIFF.format(2)), fn(SOURCE, 0.5))
    assert text(child) == "def f(x):\n    return x * 2\n"
    changed = "1 lines went, 1 came\n- return x\n+ return x * 2"
    assert meta(child) == {"engine": "diff", "model": "scripted", "change": changed, "from_score": 0.5}


def test_a_whole_program_counts_where_a_diff_was_asked_for_and_the_other_way_round():
    [child] = proposed(Asked("```python\ndef f(x):\n    return 7\n```"))
    assert (text(child), meta(child)["engine"]) == ("def f(x):\n    return 7\n", "rewrite")
    [child] = proposed(Asked(f"```python\n{DIFF.format(3)}```"), mode="rewrite")
    assert (text(child), meta(child)["engine"]) == ("def f(x):\n    return x * 3\n", "diff")


@pytest.mark.parametrize("reply", ["I would rather not.", "", "def f(x):\n    return 2\n"])
def test_a_reply_with_no_program_is_a_failed_proposal_and_never_a_program(reply):
    with pytest.raises(ValueError, match="replied without a program"):
        proposed(Asked(reply, reply))


def test_a_reply_that_cannot_be_used_is_mended_once_with_its_fault_shown():
    model = Asked("Sorry?", DIFF.format(4))
    [child] = proposed(model)
    assert text(child) == "def f(x):\n    return x * 4\n"
    assert meta(child)["is_repaired"] is True
    assert "fault: scripted replied without a program: 'Sorry?'" in model.prompts[1]


def test_a_diff_that_applies_in_part_is_mended_and_counts_if_it_cannot_be():
    both = DIFF.format(4) + "<<<<<<< SEARCH\nnowhere\n=======\nx\n>>>>>>> REPLACE\n"
    model = Asked(both, "No.")
    [child] = proposed(model)
    assert text(child) == "def f(x):\n    return x * 4\n"
    assert meta(child)["problems"] == ["block 2 (nowhere): its SEARCH part stands nowhere in the program"]
    assert "fault: block 2 (nowhere)" in model.prompts[1]


def test_without_repair_the_fault_names_the_blocks():
    with pytest.raises(ValueError, match=r"no block of scripted could be applied: block 1 \(nowhere\)"):
        proposed(Asked("<<<<<<< SEARCH\nnowhere\n=======\nx\n>>>>>>> REPLACE\n"), can_repair=False)


def test_the_program_again_and_one_that_is_too_long_are_failed_proposals():
    with pytest.raises(ValueError, match="that it was shown"):
        proposed(Asked(f"```python\n{SOURCE}```"), can_repair=False)
    with pytest.raises(ValueError, match="wrote 503 characters; at most 99 count"):
        proposed(Asked(f"```python\n{'x' * 502}\n```"), can_repair=False, max_length=99)


def test_outside_of_markers_nothing_changes_in_any_mode():
    parent = "import os\n# EVOLVE-BLOCK-START\nx = 1\n# EVOLVE-BLOCK-END\ny = x\n"
    whole = parent.replace("1", "2").replace("y = x", "y = 10**9").replace("import os", "import sys")
    [child] = proposed(Asked(f"```python\n{whole}```"), fn(parent), mode="rewrite")
    assert text(child) == parent.replace("1", "2")
    with pytest.raises(ValueError, match="outside of the EVOLVE-BLOCK markers"):
        proposed(Asked("<<<<<<< SEARCH\ny = x\n=======\ny = 9\n>>>>>>> REPLACE"), fn(parent), can_repair=False)


def test_several_proposals_take_turns_among_the_parents_the_best_first():
    one, two = fn("def f(x):\n    return x\n", 1.0), fn("def g(x):\n    return x\n", 2.0)
    model = Asked(*(DIFF.format(number) for number in range(3, 6)))
    children = proposed(model, one, two, num_proposals=3)
    assert [text(child)[4] + text(child)[-2] for child in children] == ["g3", "f4", "g5"]


def test_what_some_proposals_lack_does_not_cost_the_others():
    children = proposed(Asked(DIFF.format(3), "no", "no", DIFF.format(5)), num_proposals=3)
    assert len(children) == 2
    assert len(proposed(Asked(DIFF.format(3), "silence"), num_proposals=3)) == 1
    with pytest.raises(llm.LLMError):
        proposed(Asked("silence"), num_proposals=3)


def test_a_budget_that_allows_fewer_evaluations_asks_for_fewer():
    model = Asked(DIFF.format(3), DIFF.format(4))
    mutation.EditMutator(model, ask, num_proposals=9).propose(task(fn(SOURCE))._replace(max_evaluations=2))
    assert len(model.prompts) == 2


def test_a_crossover_shows_another_program_and_has_two_parents():
    one, two = fn(SOURCE, 1.0), fn("def f(x):\n    return 5\n", 2.0)
    seen = list[mutation.EditRequest]()

    def watch(task: function.ProposalContext, request: mutation.EditRequest) -> mutation.Prompt:
        seen.append(request)
        return ask(task, request)

    model = Asked("```python\ndef f(x):\n    return x + 5\n```")
    [child] = mutation.EditMutator(model, watch, mode="cross").propose(task(one, two))
    assert (seen[0].mode, seen[0].partner) == ("cross", one)
    assert child.candidate is not None
    assert child.candidate.parents == tuple(each.candidate.id for each in (two, one) if each.candidate)
    assert meta(child)["engine"] == "cross"


def test_a_crossover_with_nobody_is_a_rewrite():
    model = Asked("```python\ndef f(x):\n    return x + 5\n```")
    [child] = proposed(model, mode="cross")
    assert (model.prompts[0].split()[0], meta(child)["engine"]) == ("rewrite", "rewrite")


def test_advice_decides_the_mode_of_a_step():
    model = Asked(DIFF.format(3))
    mutation.EditMutator(model, ask, crossover=1.0).propose(
        task(fn("y"), fn(SOURCE))._replace(advice={"mode": "rewrite"})
    )
    assert model.prompts[0].startswith("rewrite\n")


def test_a_set_up_that_cannot_work_ends_the_run():
    def refuse(task: function.ProposalContext, request: mutation.EditRequest) -> mutation.Prompt:
        raise errors.SetupError("It does not fit.")

    with pytest.raises(errors.SetupError):
        mutation.EditMutator(Asked(), refuse).propose(task(fn(SOURCE)))
