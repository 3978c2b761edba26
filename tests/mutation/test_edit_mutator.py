"""EditMutator: changes by an LLM (P12, P15)."""

from random import Random

import pytest

from atoll import errors, function, llm, mutation, testing
from tests.mutation.tasks import fn, task
from tests.mutation.test_syntax_mutator import evaluate_text

SOURCE = "def f(x):\n    return x\n"
DIFF = "<<<<<<< SEARCH\n    return x\n=======\n    return x * {}\n>>>>>>> REPLACE\n"


def build_prompt(task: function.ProposalContext, request: mutation.EditRequest) -> mutation.Prompt:
    prompt = f"{request.mode}\n{request.parent.skeleton()}"
    return mutation.Prompt(f"{prompt}\nfailure: {request.failure}" if request.failure else prompt)


class TestEditMutator(testing.ProposerSuite):
    def make(self, model: llm.LLM) -> function.Proposer:
        return mutation.EditMutator(model, build_prompt, crossover=0.3, num_proposals=2)

    def initial(self, model: llm.LLM) -> function.Function:
        skeleton = function.PyAstSkeleton(SOURCE)
        return function.DefaultFunction(function.DefaultFunctionProps(skeleton, candidate_evaluator=evaluate_text))

    def answer(self, step: int, call: str, prompt: str) -> str:
        number = Random(f"{step}/{call}/{prompt}").randint(0, 9)
        if number > 6:
            return "I cannot."
        program = f"```python\ndef f(x):\n    return x * {number}\n```\n"
        return program if number % 2 else DIFF.format(number)


class ScriptedModel:
    """LLM with fixed responses that records its prompts."""

    def __init__(self, *answers: str) -> None:
        self.answers, self.prompts = list(answers), list[str]()

    def __call__(self, prompt: str) -> llm.Response:
        self.prompts.append(prompt)
        answer = self.answers.pop(0)
        if answer == "no response":
            raise llm.LLMError("The LLM does not respond.")
        return llm.Response(answer, "scripted")


def propose(model: ScriptedModel, *parents: function.Function, **options) -> list[function.Function]:
    return list(mutation.EditMutator(model, build_prompt, **options).propose(task(*(parents or (fn(SOURCE),)))))


def text(child: function.Function) -> str:
    return str(child.skeleton())


def meta(child: function.Function):
    assert child.candidate is not None
    return dict(child.candidate.meta)


def test_diff_makes_child_with_meta():
    [child] = propose(ScriptedModel(DIFF.format(2)), fn(SOURCE, 0.5))
    assert text(child) == "def f(x):\n    return x * 2\n"
    changed = "1 lines removed, 1 added\n- return x\n+ return x * 2"
    assert meta(child) == {"engine": "diff", "model": "scripted", "change": changed, "from_score": 0.5}


def test_response_may_have_another_form_than_requested():
    [child] = propose(ScriptedModel("```python\ndef f(x):\n    return 7\n```"))
    assert (text(child), meta(child)["engine"]) == ("def f(x):\n    return 7\n", "rewrite")
    [child] = propose(ScriptedModel(f"```python\n{DIFF.format(3)}```"), mode="rewrite")
    assert (text(child), meta(child)["engine"]) == ("def f(x):\n    return x * 3\n", "diff")


@pytest.mark.parametrize("response", ["I would rather not.", ""])
def test_edit_response_without_program_is_a_failed_proposal(response):
    with pytest.raises(mutation.UnusableResponse, match="The response has no program"):
        propose(ScriptedModel(response, response))


def test_unusable_response_is_repaired_once():
    model = ScriptedModel("Sorry?", DIFF.format(4))
    [child] = propose(model)
    assert text(child) == "def f(x):\n    return x * 4\n"
    assert meta(child)["is_repaired"] is True
    assert "failure: The response has no program: 'Sorry?'" in model.prompts[1]


def test_diff_of_which_half_applies_counts_without_repair():
    both = DIFF.format(4) + "<<<<<<< SEARCH\nnowhere\n=======\nx\n>>>>>>> REPLACE\n"
    model = ScriptedModel(both)
    [child] = propose(model)
    assert text(child) == "def f(x):\n    return x * 4\n"
    assert meta(child)["problems"] == ["block 2 (nowhere): its SEARCH block is not in the program"]


def test_failure_without_repair_names_blocks():
    with pytest.raises(ValueError, match=r"Too few edits could be applied: block 1 \(nowhere\)"):
        propose(ScriptedModel("<<<<<<< SEARCH\nnowhere\n=======\nx\n>>>>>>> REPLACE\n"), can_repair=False)


def test_repeated_or_too_long_program_is_a_failed_proposal():
    with pytest.raises(ValueError, match="repeats the program"):
        propose(ScriptedModel(f"```python\n{SOURCE}```"), can_repair=False)
    reader = mutation.ResponseReader(max_length=99)
    with pytest.raises(ValueError, match=r"The program has 114 characters\. The limit is 99"):
        propose(ScriptedModel(f"```python\n{SOURCE}{'x' * 90}\n```"), can_repair=False, reader=reader)


def test_repeated_program_is_asked_for_again():
    model = ScriptedModel(f"```python\n{SOURCE}```", DIFF.format(4))
    [child] = propose(model)
    assert text(child) == "def f(x):\n    return x * 4\n"
    assert "failure: The response repeats the program in the prompt." in model.prompts[1]


def test_known_program_is_asked_for_again():
    def find_duplicate(program: str, context: function.ProposalContext) -> str:
        return "it equals program 7.0" if "x * 4" in program else ""

    model = ScriptedModel(DIFF.format(4), DIFF.format(5))
    [child] = propose(model, find_duplicate=find_duplicate)
    assert text(child) == "def f(x):\n    return x * 5\n"
    assert "failure: The program is not new: it equals program 7.0." in model.prompts[1]


def test_failed_second_call_reports_first_failure():
    with pytest.raises(mutation.UnusableResponse, match="no program"):
        propose(ScriptedModel("Sorry?", "no response"))


def test_edit_keeps_text_outside_of_markers():
    parent = "import os\n# EVOLVE-BLOCK-START\nx = 1\n# EVOLVE-BLOCK-END\ny = x\n"
    program = parent.replace("1", "2").replace("y = x", "y = 10**9").replace("import os", "import sys")
    [child] = propose(ScriptedModel(f"```python\n{program}```"), fn(parent), mode="rewrite")
    assert text(child) == parent.replace("1", "2")
    with pytest.raises(ValueError, match="outside of the EVOLVE-BLOCK markers"):
        propose(ScriptedModel("<<<<<<< SEARCH\ny = x\n=======\ny = 9\n>>>>>>> REPLACE"), fn(parent), can_repair=False)


def test_proposals_alternate_between_parents():
    first, second = fn("def f(x):\n    return x\n", 1.0), fn("def g(x):\n    return x\n", 2.0)
    model = ScriptedModel(*(DIFF.format(number) for number in range(3, 6)))
    children = propose(model, first, second, num_proposals=3)
    assert [text(child)[4] + text(child)[-2] for child in children] == ["g3", "f4", "g5"]


def test_failed_proposals_do_not_affect_others():
    children = propose(ScriptedModel(DIFF.format(3), "no", "no", DIFF.format(5)), num_proposals=3)
    assert len(children) == 2
    assert len(propose(ScriptedModel(DIFF.format(3), "no response"), num_proposals=3)) == 1
    with pytest.raises(llm.LLMError):
        propose(ScriptedModel("no response"), num_proposals=3)


def test_max_evaluations_limits_proposals():
    model = ScriptedModel(DIFF.format(3), DIFF.format(4))
    mutation.EditMutator(model, build_prompt, num_proposals=9).propose(task(fn(SOURCE))._replace(max_evaluations=2))
    assert len(model.prompts) == 2


def test_crossover_has_partner_and_two_parents():
    first, second = fn(SOURCE, 1.0), fn("def f(x):\n    return 5\n", 2.0)
    requests = list[mutation.EditRequest]()

    def record_request(task: function.ProposalContext, request: mutation.EditRequest) -> mutation.Prompt:
        requests.append(request)
        return build_prompt(task, request)

    model = ScriptedModel("```python\ndef f(x):\n    return x + 5\n```")
    [child] = mutation.EditMutator(model, record_request, mode="cross").propose(task(first, second))
    assert (requests[0].mode, requests[0].partner) == ("cross", first)
    assert child.candidate is not None
    assert child.candidate.parents == tuple(fn.candidate.id for fn in (second, first) if fn.candidate)
    assert meta(child)["engine"] == "cross"


def test_crossover_without_partner_is_a_rewrite():
    model = ScriptedModel("```python\ndef f(x):\n    return x + 5\n```")
    [child] = propose(model, mode="cross")
    assert (model.prompts[0].split()[0], meta(child)["engine"]) == ("rewrite", "rewrite")


def test_advice_sets_mode():
    model = ScriptedModel(DIFF.format(3))
    mutation.EditMutator(model, build_prompt, crossover=1.0).propose(
        task(fn("y"), fn(SOURCE))._replace(advice={"mode": "rewrite"})
    )
    assert model.prompts[0].startswith("rewrite\n")


def test_setup_error_is_raised():
    def raise_error(task: function.ProposalContext, request: mutation.EditRequest) -> mutation.Prompt:
        raise errors.SetupError("It does not fit.")

    with pytest.raises(errors.SetupError):
        mutation.EditMutator(ScriptedModel(), raise_error).propose(task(fn(SOURCE)))
