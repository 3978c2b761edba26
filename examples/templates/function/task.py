"""Area of a rectangle with rounded corners."""  # purpose of the function: an LLM reads this line

from collections.abc import Callable

# 1. Your data: one entry per evaluation of the function.
inputs = [(4.0, 3.0, 0.5, 11.785), (6.0, 2.0, 1.0, 11.142), (5.0, 5.0, 2.0, 21.566), (9.0, 4.0, 0.1, 35.991)]


# 2. Your function. Its body evolves; name and arguments stay. `task.function` in atoll.toml names it.
def area(width: float, height: float, radius: float) -> float:
    """Returns the area."""
    return width * height


# 3. Your score of the function on one input: higher is better. The score of a candidate is the mean over all inputs.
def evaluate(area: Callable[[float, float, float], float], case: tuple[float, float, float, float]) -> float:
    *arguments, measured = case
    return -abs(area(*arguments) - measured)
