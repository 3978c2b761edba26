"""ACE Reflector: turns the lessons of a turn into deltas; what is known already is confirmed or put in doubt."""

from collections.abc import Sequence

from atoll import playbook
from atoll.survival.learning import Lesson

MAX_DELTAS = 3  # that one turn may bring; the first ones are the ones that hurt


class LessonReflector:
    """Reflects without a model."""

    def reflect(self, book: playbook.Playbook, lessons: Sequence[Lesson]) -> list[playbook.Delta]:
        ids_by_content = {bullet.content: id for id, bullet in book.bullets.items()} if lessons else {}
        deltas: list[playbook.Delta] = []
        for lesson in lessons:
            deltas += [
                playbook.tag(id, "harmful", evidence=lesson.evidence)
                for content, id in ids_by_content.items()
                if lesson.refutes and content.startswith(lesson.refutes)
            ]
            belief = lesson.text.partition("(")[0]  # "Avoid X: it hurts (lava, 0.35)." and (lava, 0.70) are one belief
            known_id = next((id for content, id in ids_by_content.items() if content.partition("(")[0] == belief), None)
            if known_id is not None:
                deltas.append(playbook.tag(known_id, "helpful", evidence=lesson.evidence))
            else:
                source = "life" if not lesson.evidence else f"life: {lesson.evidence}"
                made = playbook.add(lesson.section, lesson.text, evidence=lesson.evidence, source=source[:80])
                deltas.append(made)
        return sorted(deltas, key=lambda delta: delta.section != "tactics")[:MAX_DELTAS]
