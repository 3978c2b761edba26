"""The best score over evaluations, as a drawing."""

import html
import math
from collections.abc import Callable, Sequence

from atoll.runs import text
from atoll.runs.progress import Improvement

WIDTH, HEIGHT = 900, 260
LEFT, RIGHT, TOP, BOTTOM = 90, 20, 16, 36
_MIN_RATIO = 1e-12  # of the largest score: what is smaller is drawn as zero
_LOG_RATIO = 1000.0  # scores that differ by such a factor are drawn on a logarithmic scale

type Scale = Callable[[float], float]


def render_curve(improvements: Sequence[Improvement], evaluations: int) -> str:
    """Returns the curve as an SVG element; `improvements` has one at least.

    Args:
        improvements: Each better than the one before.
        evaluations: Where the axis ends.
    """
    x_scale = _make_linear_scale(1.0, max(float(evaluations), 2.0), LEFT, WIDTH - RIGHT)
    scores = [improvement.score for improvement in improvements]
    scale, is_logarithmic = _choose_scale(scores)
    y_scale = _make_linear_scale(scale(scores[0]), scale(scores[-1]), HEIGHT - BOTTOM, TOP)
    points = [(x_scale(improvement.evaluations), y_scale(scale(improvement.score))) for improvement in improvements]
    path = f"M{_format_point(*points[0])}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in points[1:]) + f"H{WIDTH - RIGHT}"
    dots = "".join(
        f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{_describe_improvement(improvement)}</title></circle>'
        for (x, y), improvement in zip(points, improvements, strict=True)
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="best score over evaluations">'
        f"{_render_axes(scores, evaluations, y_scale(scale(scores[0])), y_scale(scale(scores[-1])), is_logarithmic)}"
        f'<path class="curve" d="{path}"/>{dots}</svg>'
    )


def _choose_scale(scores: Sequence[float]) -> tuple[Scale, bool]:
    """Returns how scores are drawn: as they are, or by their size where some are a thousand times others.

    The logarithm goes through zero in a straight piece as small as the smallest of them, so that signs may differ.
    """
    sizes = [abs(score) for score in scores if score]
    if len(scores) < 3 or not sizes or max(sizes) / min(sizes) < _LOG_RATIO:
        largest = max(sizes, default=1.0)
        return (lambda score: score / largest), False  # so that no difference overflows
    smallest = max(min(sizes), max(sizes) * _MIN_RATIO)
    return (lambda score: math.copysign(math.log1p(abs(score) / smallest), score)), True


def _make_linear_scale(low: float, high: float, start: float, end: float) -> Scale:
    if high <= low:
        return lambda value: (start + end) / 2
    return lambda value: start + (end - start) * (value - low) / (high - low)


def _render_axes(scores: Sequence[float], evaluations: int, low: float, high: float, is_logarithmic: bool) -> str:
    base, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    note = "score, on a logarithmic scale; evaluations" if is_logarithmic else "evaluations"
    ticks = {round(low): scores[0], round(high): scores[-1]}
    labels = "".join(
        f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{html.escape(text.format_number(score))}</text>'
        for y, score in ticks.items()
    )
    return (
        f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{base}H{right}"/>{labels}'
        f'<text x="{LEFT}" y="{base + 18}">1</text>'
        f'<text x="{(LEFT + right) / 2}" y="{base + 30}" text-anchor="middle">{note}</text>'
        f'<text x="{right}" y="{base + 18}" text-anchor="end">{evaluations:,}</text>'
    )


def _format_point(x: float, y: float) -> str:
    return f"{x:.1f} {y:.1f}"


def _describe_improvement(improvement: Improvement) -> str:
    return html.escape(text.escape_control(f"{improvement.id}: {text.format_number(improvement.score)} after {improvement.evaluations:,} evaluations"))
