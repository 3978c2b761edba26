"""Offline ACE: epochs, the gate on validation questions, and agents with a playbook."""

import asyncio
import json
import threading

import pytest

from atoll import errors, playbook, store

CODES = {"printer": "QX4", "router": "ZR9", "payslip": "LM2"}
QUESTIONS = [f"Who repairs {adjective} {item}?" for item in CODES for adjective in ("the", "a new", "an old", "my")]


def find_item(question):
    return next(item for item in CODES if item in question)


def grade(question, answer):
    target = CODES[find_item(question)]
    return playbook.Grade(answer.text == target, f"The right answer is {target}.", f"{find_item(question)}: {target}")


class Reader:
    """Answers with the code that a rule states."""

    def answer(self, question, excerpts, reflection):
        for excerpt in excerpts:
            if excerpt.text.startswith(find_item(question)):
                return playbook.Answer(excerpt.text.split(": ")[1], (excerpt.bullet.id,), "I read a rule.")
        return playbook.Answer("QX4" if "printer" in question else "?")


def make_learner(reflector, **options):
    config = playbook.Config(context_limit=8)
    notes = playbook.make_store(store.MemoryVersions(), config=config)
    return playbook.OfflineLearner(notes, Reader(), grade, reflector, **options)


def test_changes_that_help_are_accepted():
    learner = make_learner(playbook.TaggingReflector(), num_jobs=3, batch_size=4)
    result = learner.learn(QUESTIONS[::2], QUESTIONS[1::2], epochs=2)
    assert (result.first, result.last, result.num_validation) == (2, 6, 6)
    assert "accepted: 2 of 6 right before, 6 after" in result.summary
    assert {bullet.content for bullet in result.playbook.bullets.values()} >= {"router: ZR9", "payslip: LM2"}
    assert learner.store.rollback(1) == learner.store.get_version(1)


def test_a_short_playbook_is_shown_whole_and_the_best_match_first():
    orders = []

    class Recorder(Reader):
        def answer(self, question, excerpts, reflection):
            orders.append((find_item(question), [excerpt.text for excerpt in excerpts]))
            return super().answer(question, excerpts, reflection)

    learner = make_learner(playbook.TaggingReflector())
    learner._generator = Recorder()
    rules = [playbook.add("rules", f"{item}: {code}") for item, code in CODES.items()]
    learner.store.put(learner.store.curator.decide(learner.store.current(), rules)[0], "three rules", "test")
    assert all(learner.answer_all(learner.store.current(), QUESTIONS))
    assert all(texts[0] == f"{item}: {CODES[item]}" and len(texts) == 3 for item, texts in orders)


class WrongReflector:
    """Proposes a rule that makes right answers wrong."""

    def reflect(self, experience):
        return [playbook.add("rules", "printer: ZZ9"), playbook.add("rules", "weather: fine")]


class SilentReader(Reader):
    """Does not say which rules it used."""

    def answer(self, question, excerpts, reflection):
        return super().answer(question, excerpts, reflection)._replace(used=())


def test_changes_that_do_not_help_are_rejected():
    learner = make_learner(WrongReflector())
    learner._generator = SilentReader()
    result = learner.learn(QUESTIONS[::2], QUESTIONS[1::2], epochs=2)
    assert result.summary.startswith("no gain: nothing kept")
    assert len(result.playbook) == 0
    assert {done.decision for done in result.rounds} == {"rejected"}
    assert result.rounds[0].losses == 2


def test_new_rules_that_mislead_on_the_training_questions_are_removed_before_validation():
    class HalfWrongReflector:
        def reflect(self, experience):
            return [playbook.add("rules", "printer: ZZ9"), playbook.add("rules", "router: ZR9")]

    result = make_learner(HalfWrongReflector()).learn(QUESTIONS[::2], QUESTIONS[1::2])
    assert [bullet.content for bullet in result.playbook.bullets.values()] == ["router: ZR9"]
    (done,) = result.rounds
    assert (done.decision, done.wins, done.losses) == ("accepted", 2, 0)
    assert any("more wrong than right" in verdict.reason for verdict in done.verdicts)
    result = make_learner(WrongReflector()).learn(QUESTIONS[::2], QUESTIONS[1::2])
    assert "printer: ZZ9" not in result.playbook.to_text()


class SilentReflector:
    """Proposes nothing."""

    def reflect(self, experience):
        return []


class ExampleReader(Reader):
    """Answers with the code of the first example about the same item."""

    def answer(self, question, excerpts, reflection):
        texts = [excerpt.text for excerpt in excerpts if find_item(question) in excerpt.text]
        return playbook.Answer(texts[0].rpartition(" ")[2].rstrip(".") if texts else "?")


def test_examples_are_accepted_where_rules_do_not_help():
    learner = make_learner(SilentReflector())
    learner._generator = ExampleReader()
    result = learner.learn(QUESTIONS[::2], QUESTIONS[1::2])
    assert (result.first, result.last) == (0, 6)
    assert {bullet.section for bullet in result.playbook.bullets.values()} == {"examples"}
    learner = make_learner(SilentReflector(), has_examples=False)
    learner._generator = ExampleReader()
    assert learner.learn(QUESTIONS[::2], QUESTIONS[1::2]).summary.startswith("no gain")


def test_rejected_examples_are_tried_again_with_those_of_the_next_batches():
    learner = make_learner(SilentReflector(), batch_size=1)
    learner._generator = ExampleReader()
    train = list({find_item(question): question for question in QUESTIONS}.values())
    validation = [question for question in QUESTIONS if question not in train]
    one_of_each = list({find_item(question): question for question in validation}.values())
    result = learner.learn(train, one_of_each)  # an example alone wins one question, which may be chance
    assert [done.decision for done in result.rounds] == ["rejected", "accepted", "rejected"]
    assert (result.first, result.last, len(result.playbook)) == (0, 2, 2)


def test_examples_state_the_right_answer_without_the_words_that_all_questions_share():
    end = "Which desk handles it? Answer with its code, one of QX4, ZR9 and LM2."
    questions = [f"{question} {end}" for question in QUESTIONS]

    class ExampleReader:
        def answer(self, question, excerpts, reflection):
            texts = [excerpt.text for excerpt in excerpts if find_item(question) in excerpt.text]
            return playbook.Answer(texts[0].rpartition(" ")[2] if texts else "QX4")

    class Silent:
        def reflect(self, experience):
            return []

    learner = make_learner(SilentReflector())
    learner._generator = ExampleReader()
    learner._grader = lambda question, answer: grade(question, answer)._replace(
        feedback="", expected=CODES[find_item(question)]
    )
    result = learner.learn(questions[::2], questions[1::2])
    texts = {bullet.content for bullet in result.playbook.bullets.values()}
    assert "Example: Who repairs the printer? ... Answer: QX4" in texts  # a right answer is an example too
    assert "Example: Who repairs an old router? ... Answer: ZR9" in texts
    assert result.last == result.num_validation


def test_questions_are_in_flight_at_once():
    barrier = threading.Barrier(3, timeout=20)

    class Waiting(Reader):
        def answer(self, question, excerpts, reflection):
            barrier.wait()
            return playbook.Answer("")

    learner = make_learner(playbook.TaggingReflector(), num_jobs=3)
    learner._generator = Waiting()
    assert learner.answer_all(playbook.Playbook(), QUESTIONS[:6]) == [False] * 6


class TestWrap:
    def test_plain_function_gets_rules_and_learns(self):
        prompts = []

        def agent(prompt):
            prompts.append(prompt)
            return "ZR9" if "router: ZR9" in prompt else "?"

        wrapped = playbook.wrap(agent)
        answer = wrapped("Who repairs the router?")
        assert answer == "?"
        wrapped.learn(is_success=False, feedback="wrong", lesson="router: ZR9")
        assert wrapped("Who repairs my router?") == "ZR9"
        wrapped.learn(is_success=True)
        assert "helpful=1" in wrapped.store.format_context("router")
        assert prompts[0] == "Who repairs the router?"
        assert "[rules-00001] helpful=0 harmful=0 :: router: ZR9" in prompts[1]

    def test_llm_reflects_on_wrapped_agent(self):
        def model(prompt):
            if "You review the work" in prompt:
                return json.dumps({"key_insight": "router: ZR9"})
            return json.dumps({"operations": [{"type": "add", "section": "rules", "content": "router: ZR9"}]})

        wrapped = playbook.wrap(lambda prompt: "?", reflector=playbook.LLMReflector(model))
        wrapped("Who repairs the router?")
        (verdict,) = wrapped.learn(is_success=False, feedback="It is ZR9.")
        assert verdict.outcome == "applied"

    def test_learning_before_the_first_call_is_refused(self):
        with pytest.raises(Exception, match="Call the agent first"):
            playbook.wrap(str).learn(is_success=True)

    def test_pydantic_ai_agent_gets_rules_as_instructions(self):
        models = pytest.importorskip("pydantic_ai.models.function")
        from pydantic_ai import Agent, messages

        seen = []

        def respond(history, info):
            seen.append(info.instructions or history[0].instructions or "")
            return messages.ModelResponse(parts=[messages.TextPart("ZR9")])

        wrapped = playbook.wrap_pydantic_ai(Agent(models.FunctionModel(respond)))
        wrapped.store.apply([playbook.add("rules", "router: ZR9")], "t", "me")
        result = asyncio.run(wrapped.run("Who repairs the router?"))
        assert result.output == "ZR9"
        assert "router: ZR9" in seen[0]
        wrapped.learn(is_success=True)
        assert wrapped.store.current().bullets["rules-00001"].helpful == 1


def test_parts_may_return_plain_texts_and_truth_values():
    class TextReader(Reader):
        def answer(self, question, excerpts, reflection):
            return super().answer(question, excerpts, reflection).text

    notes = playbook.make_store(store.MemoryVersions())
    learner = playbook.OnlineLearner(
        notes, TextReader(), lambda question, answer: answer.text == "QX4", playbook.TaggingReflector()
    )
    assert [turn.grade.is_correct for turn in learner.run(QUESTIONS[3:5])] == [True, False]


@pytest.mark.parametrize(
    ("generator", "grader", "reflector", "questions", "message"),
    [
        (str, grade, playbook.TaggingReflector(), QUESTIONS, "no method answer"),
        (Reader(), grade, str, QUESTIONS, "no method reflect"),
        (
            Reader(),
            lambda question, answer: float("nan"),
            playbook.TaggingReflector(),
            QUESTIONS,
            "grader returned nan",
        ),
        (
            Reader(),
            lambda question, answer: playbook.Grade(0.7),  # type: ignore[arg-type]
            playbook.TaggingReflector(),
            QUESTIONS,
            "returned 0.7",
        ),
        (Reader(), grade, playbook.TaggingReflector(), [], "validation questions are"),
        (Reader(), grade, playbook.TaggingReflector(), "one text", "validation questions are"),
        (Reader(), grade, playbook.TaggingReflector(), [("a", "b")], "validation questions are"),
    ],
)
def test_wrong_parts_and_questions_are_refused_in_one_sentence(generator, grader, reflector, questions, message):
    notes = playbook.make_store(store.MemoryVersions())
    with pytest.raises(errors.SetupError, match=message):
        playbook.OfflineLearner(notes, generator, grader, reflector).learn(QUESTIONS, questions)


def test_wrong_stores_are_refused_and_version_0_is_the_empty_playbook():
    with store.Store("sqlite://") as run_store, pytest.raises(errors.SetupError, match=r"\.versions\(\)"):
        playbook.PlaybookStore(run_store)  # type: ignore[arg-type]
    with pytest.raises(errors.SetupError, match="is not a playbook store"):
        playbook.wrap(str, "atoll.db")  # type: ignore[arg-type]
    notes = playbook.make_store(store.MemoryVersions())
    notes.apply([playbook.add("rules", "printer: QX4")], "a rule", "test")
    assert len(notes.rollback(0)) == 0
    assert len(notes.rollback(1)) == 1


def test_a_wrong_answer_with_a_lesson_does_not_blame_the_rules_that_were_there():
    wrapped = playbook.wrap(lambda prompt: "?")
    wrapped.store.apply([playbook.add("rules", "Pears cost 3 each.")], "a rule", "test")
    wrapped("What do pears and apples cost?")
    wrapped.learn(is_success=False, lesson="Apples cost 2 each.")
    assert {bullet.harmful for bullet in wrapped.store.current().bullets.values()} == {0}
    wrapped("What do pears cost?")
    (pears,) = [id for id, bullet in wrapped.store.current().bullets.items() if "Pears" in bullet.content]
    wrapped.learn(is_success=False, lesson="Pears are sold out.", used=[pears])
    assert wrapped.store.current().bullets[pears].harmful == 1
