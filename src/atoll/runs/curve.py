"""The best score over evaluations, as a drawing."""

import html
import math
from collections.abc import Callable, Sequence

from atoll.runs import text
from atoll.runs.progress import Improvement

WIDTH, HEIGHT = 900, 260
LEFT, RIGHT, TOP, BOTTOM = 90, 20, 16, 36
_SMALL = 1e-12  # of the largest score: what is smaller is drawn as zero
_WIDE = 1000.0  # scores that differ by such a factor are drawn on a logarithmic scale

type Scale = Callable[[float], float]


def svg(improvements: Sequence[Improvement], evaluations: int) -> str:
    """Returns the curve as an SVG element; `improvements` has one at least.

    Args:
        improvements: Each better than the one before.
        evaluations: Where the axis ends.
    """
    across = _linear(1.0, max(float(evaluations), 2.0), LEFT, WIDTH - RIGHT)
    scores = [each.score for each in improvements]
    scale, is_logarithmic = _scale(scores)
    up = _linear(scale(scores[0]), scale(scores[-1]), HEIGHT - BOTTOM, TOP)
    points = [(across(each.evaluations), up(scale(each.score))) for each in improvements]
    path = f"M{_point(*points[0])}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in points[1:]) + f"H{WIDTH - RIGHT}"
    dots = "".join(
        f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{_told(each)}</title></circle>'
        for (x, y), each in zip(points, improvements, strict=True)
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="best score over evaluations">'
        f"{_axes(scores, evaluations, up(scale(scores[0])), up(scale(scores[-1])), is_logarithmic)}"
        f'<path class="curve" d="{path}"/>{dots}</svg>'
    )


def _scale(scores: Sequence[float]) -> tuple[Scale, bool]:
    """Returns how scores are drawn: as they are, or by their size where some are a thousand times others.

    The logarithm goes through zero in a straight piece as small as the smallest of them, so that signs may differ.
    """
    sizes = [abs(score) for score in scores if score]
    if len(scores) < 3 or not sizes or max(sizes) / min(sizes) < _WIDE:
        largest = max(sizes, default=1.0)
        return (lambda score: score / largest), False  # so that no difference overflows
    smallest = max(min(sizes), max(sizes) * _SMALL)
    return (lambda score: math.copysign(math.log1p(abs(score) / smallest), score)), True


def _linear(low: float, high: float, start: float, end: float) -> Scale:
    if high <= low:
        return lambda value: (start + end) / 2
    return lambda value: start + (end - start) * (value - low) / (high - low)


def _axes(scores: Sequence[float], evaluations: int, low: float, high: float, is_logarithmic: bool) -> str:
    base, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    note = "score, on a logarithmic scale; evaluations" if is_logarithmic else "evaluations"
    marks = {round(low): scores[0], round(high): scores[-1]}
    labels = "".join(
        f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{html.escape(text.number(score))}</text>'
        for y, score in marks.items()
    )
    return (
        f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{base}H{right}"/>{labels}'
        f'<text x="{LEFT}" y="{base + 18}">1</text>'
        f'<text x="{(LEFT + right) / 2}" y="{base + 30}" text-anchor="middle">{note}</text>'
        f'<text x="{right}" y="{base + 18}" text-anchor="end">{evaluations:,}</text>'
    )


def _point(x: float, y: float) -> str:
    return f"{x:.1f} {y:.1f}"


def _told(each: Improvement) -> str:
    return html.escape(text.visible(f"{each.id}: {text.number(each.score)} after {each.evaluations:,} evaluations"))
