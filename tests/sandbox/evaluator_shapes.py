"""Evaluators as OpenEvolve folders have them, each with an honest program and the highest score of a program."""

LOAD = """
import importlib.util
def load(path):
    spec = importlib.util.spec_from_file_location("program", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
"""
# Shapes of evaluators that OpenEvolve folders have, and an honest program for each.
SHAPES = {
    "number": (
        "def evaluate(path):\n    value = load(path).solve([1.0, 2.0])\n"
        "    return {'combined_score': 10.0 - abs(value - 3.0) if value == value else 0.0}",
        "def solve(items): return sum(items)",
    ),
    "validated array": (
        "import numpy as np\ndef evaluate(path):\n    try:\n        points = load(path).place()\n"
        "        points = np.asarray(points) if not isinstance(points, np.ndarray) else points\n"
        "        if points.shape != (3, 2) or not np.all((points >= 0) & (points <= 1)):\n"
        "            return {'combined_score': 0.0}\n"
        "        return {'combined_score': float(points.sum())}\n"
        "    except Exception as error:\n        return {'combined_score': 0.0, 'error': str(error)}",
        "import numpy as np\ndef place(): return np.full((3, 2), 0.5)",
    ),
    "validated list": (
        "def evaluate(path):\n    values = load(path).choose()\n"
        "    if len(values) != 3 or any(not 0 <= value <= 1 for value in values):\n        return 0.0\n"
        "    return sum(values[index] for index in range(3))",
        "def choose(): return [0.5, 0.25, 0.75]",
    ),
    "threads with a time limit": (
        "import concurrent.futures\nfrom openevolve.evaluation_result import EvaluationResult\n"
        "def evaluate(path):\n    program = load(path)\n    scores = []\n    for trial in range(2):\n"
        "        with concurrent.futures.ThreadPoolExecutor(max_workers=1) as pool:\n"
        "            try:\n                x, y = pool.submit(program.search).result(timeout=5)\n"
        "                scores.append(1 / (1 + (float(x) - 1) ** 2 + (float(y) + 1) ** 2))\n"
        "            except Exception:\n                scores.append(0.0)\n"
        "    return EvaluationResult({'combined_score': sum(scores) / 2}, {'note': 'done'})",
        "def search(): return 1.0, -1.0",
    ),
    "class and constant": (
        "def evaluate(path):\n    program = load(path)\n    solver = program.Solver(program.SIZE)\n"
        "    right = sum(solver.solve(k) == k * 2 for k in range(4))\n"
        "    return {'combined_score': right / 4, 'size': program.SIZE}",
        "SIZE = 2\nclass Solver:\n    def __init__(self, size): self.size = size\n"
        "    def solve(self, k): return k * self.size",
    ),
    "methods of an array": (
        "def evaluate(path):\n    points = load(path).place()\n"
        "    if points.shape != (3, 2) or points.min() < 0 or points.max() > 1:\n        return 0.0\n"
        "    return float(points.sum())",
        "import numpy as np\ndef place(): return np.full((3, 2), 0.5)",
    ),
    "values of a dict": (
        "def evaluate(path):\n    shares = load(path).divide()\n"
        "    if set(shares) != {'a', 'b'} or any(not 0 <= shares[name] <= 1 for name in shares):\n"
        "        return 0.0\n    return sum(shares.values()) + shares.get('a')",
        "def divide(): return {'a': 0.5, 'b': 0.5}",
    ),
    "its own solution": (
        "def solve(items): return sum(items)\ndef evaluate(path):\n    solver = load(path).make()\n"
        "    return sum(solver.solve([k, 2 * k]) == solve([k, 2 * k]) for k in (3, 4)) / 2",
        "class Solver:\n    def solve(self, items): return 0\ndef make(): return Solver()",
    ),
    "a map over the cases": (
        "def evaluate(path):\n    program = load(path)\n"
        "    return 10.0 - sum(abs(a - b) for a, b in zip(map(program.square, range(5)), [0, 1, 4, 9, 16]))",
        "def square(x): return x",
    ),
}
HIGHEST = {"number": 10.0, "validated array": 6.0, "validated list": 3.0, "threads with a time limit": 1.0}
HIGHEST |= {"methods of an array": 6.0, "values of a dict": 3.0, "its own solution": 0.5, "a map over the cases": 9.0}
