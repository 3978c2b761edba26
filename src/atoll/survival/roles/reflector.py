"""ACE Reflector: turns the lessons of a turn into deltas, and tags known bullets as helpful or harmful."""

from collections.abc import Sequence

from atoll import playbook
from atoll.survival.learning import Lesson

MAX_DELTAS = 3  # per turn; lessons about damage come first


class LessonReflector:
    def reflect(self, book: playbook.Playbook, lessons: Sequence[Lesson]) -> list[playbook.Delta]:
        ids_by_content = {bullet.content: id for id, bullet in book.bullets.items()} if lessons else {}
        deltas: list[playbook.Delta] = []
        for lesson in lessons:
            refuted_ids = [
                id for content, id in ids_by_content.items() if lesson.refutes and content.startswith(lesson.refutes)
            ]
            deltas += [playbook.tag(id, "harmful", evidence=lesson.evidence) for id in refuted_ids]
            # `harmless` refuted by damage is dangerous and goes at once, unless it has helped more often.
            is_damage = lesson.refutes.endswith("is harmless")
            wrong_ids = [id for id in refuted_ids if is_damage and book.bullets[id].net_helpful <= 0]
            deltas += [playbook.remove(id, evidence=lesson.evidence, source="life") for id in wrong_ids]
            belief = lesson.text.partition("(")[0]  # the same belief with any damage
            known_id = next((id for content, id in ids_by_content.items() if content.partition("(")[0] == belief), None)
            if known_id is not None:
                deltas.append(playbook.tag(known_id, "helpful", evidence=lesson.evidence))
            else:
                source = "life" if not lesson.evidence else f"life: {lesson.evidence}"
                deltas.append(playbook.add(lesson.section, lesson.text, evidence=lesson.evidence, source=source[:80]))
        return sorted(deltas, key=lambda delta: delta.section != "tactics")[:MAX_DELTAS]
