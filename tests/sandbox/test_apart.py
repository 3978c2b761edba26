"""Evaluators apart from their programs: what is forwarded, what is not, and programs that try to forge their score."""

import functools
import math
import random
import textwrap
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atoll import executor, function, sandbox
from atoll.programs.evaluation import failures
from atoll.programs.evaluation.evaluator_job import ApartFunctionJob
from atoll.programs.gepa.instance_job import InstanceJob
from atoll.sandbox import Limits, Permissions, SandboxResult
from atoll.sandbox.apart import codec
from atoll.sandbox.apart.sandbox import _collect_numbers
from tests.sandbox import forgeries
from tests.sandbox.evaluator_shapes import HIGHEST, LOAD, SHAPES

LEVEL = sandbox.get_level(sandbox.probe())
LIMITS = Limits(seconds=4.0, memory_mb=1024, output_bytes=100_000, call_seconds=2.0, call_mb=4)
pytestmark = pytest.mark.skipif(LEVEL < "L2", reason=" ".join(sandbox.describe_missing(sandbox.probe())))


@pytest.fixture
def open_box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    boxes: dict[tuple[str, str], sandbox.ApartSandbox] = {}

    def open_evaluator(source: str, level: str = LEVEL) -> sandbox.ApartSandbox:
        if (source, level) not in boxes:
            folder = tmp_path_factory.mktemp("evaluator")
            folder.chmod(0o755)
            (folder / "evaluator.py").write_text(LOAD + textwrap.dedent(source))
            permissions = sandbox.permissions_from_source(LOAD + source)
            boxes[source, level] = sandbox.ApartSandbox(
                functools.partial(ApartFunctionJob, str(folder / "evaluator.py"), ".py"),
                functools.partial(sandbox.ProgramJob, ["numpy"]),
                LIMITS,
                level=level,
                permissions=permissions,
                program_permissions=Permissions(),
            )
        return boxes[source, level]

    yield open_evaluator
    for box in boxes.values():
        box.close()


def evaluate(box: sandbox.Sandbox, program: str) -> SandboxResult:
    return box.run({"program": program, "call": "evaluate"})


def get_score(result: SandboxResult) -> float | None:
    assert result.failure is None or result.value is None
    return None if result.failure is not None else result.value["metrics"]["combined_score"]  # type: ignore[index, call-overload, return-value]


@pytest.mark.parametrize("level", [level for level in ("L3", "L2") if level <= LEVEL])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_program_forges_its_score(open_box: Callable[..., Any], shape: str, level: str) -> None:
    source, honest = SHAPES[shape]
    box = open_box(source, level)
    honest_score = get_score(evaluate(box, honest))
    assert honest_score is not None
    forged = {}
    for name, attack in forgeries.FORGERIES.items():
        score = get_score(evaluate(box, f"{honest}\n{attack}"))
        if score is not None and score > HIGHEST.get(shape, 1.0):
            forged[name] = score
    assert not forged
    assert get_score(evaluate(box, honest)) == honest_score  # nothing is left of the attacks


def score_sum(fn: Any, expected: float) -> float:
    """Evaluator of a function, as in `llmsr` and `atoll.evolve`."""
    return float(10.0 - abs(fn([1.0, 2.0]) - expected))


def evaluate_sum(fn: Any, instance: float) -> float:
    return score_sum(fn, instance)


SUM_SOURCE = "def total(items):\n    return float(np.sum(items))\n"
_DECODE = functools.partial(function.PyAstSkeleton, names={"np": np})
_FRAME_VALUE = '{"metrics": {"combined_score": 987654321.0}, "scores": [], "feedback": "", "artifacts": {}}'
_PARTS = {"validation": [3.0]}
# The jobs of `llmsr` and of `atoll.evolve`, together and apart; a request; and what forges a result of their shape.
FUNCTION_JOBS: dict[str, Any] = {
    "llmsr": (
        functools.partial(sandbox.ScoreJob, score_sum, [3.0], {"np": np}),
        functools.partial(sandbox.ScoreJob, score_sum, [3.0], decode=sandbox.RemoteFunction),
        lambda source: source,
        '[{"score": 987654321.0}]',
    ),
    "evolve": (
        functools.partial(InstanceJob, evaluate_sum, _DECODE, _PARTS),
        functools.partial(InstanceJob, evaluate_sum, sandbox.RemoteFunction, _PARTS),
        lambda source: {"content": source, "part": "validation", "at": [0]},
        f"[{_FRAME_VALUE}]",
    ),
}


@pytest.mark.parametrize("name", FUNCTION_JOBS)
def test_no_function_forges_its_score(name: str) -> None:
    together, apart, make_request, forged_value = FUNCTION_JOBS[name]
    config = executor.ExecutorConfig(LIMITS)
    program_job = functools.partial(sandbox.FunctionServerJob, _DECODE)
    opened = config.open_scoring(together, (apart, program_job), make_request(SUM_SOURCE))
    attacks = {key: attack.replace(_FRAME_VALUE, forged_value) for key, attack in forgeries.FORGERIES.items()}
    with opened.executor as box, config.open(together) as shared:
        assert opened.is_apart, opened.reason
        assert get_numbers(box.run(make_request(SUM_SOURCE))) == [0.0, 10.0]
        forged = [key for key, attack in attacks.items() if is_forged(box, make_request(f"{SUM_SOURCE}\n{attack}"))]
        assert not forged
        frame = attacks["a frame on descriptor 3"]
        assert is_forged(shared, make_request(f"{SUM_SOURCE}\n{frame}"))  # in one sandbox it succeeds


def get_numbers(result: SandboxResult) -> list[float]:
    return [0.0] if result.failure is not None else [0.0, *_collect_numbers(result.value)]


def is_forged(box: sandbox.Sandbox, request: Any) -> bool:
    return any(number > 10.0 for number in get_numbers(box.run(request)))


def test_functions_without_an_llm_and_with_other_scores_run_together() -> None:
    together, apart, make_request, _ = FUNCTION_JOBS["llmsr"]
    config, job = executor.ExecutorConfig(LIMITS), functools.partial(sandbox.FunctionServerJob, _DECODE)
    failing = functools.partial(sandbox.FunctionServerJob, functools.partial(function.PyAstSkeleton, names={}))
    for jobs, has_llm, reason in (((apart, job), False, "no LLM"), ((apart, failing), True, "NameError")):
        opened = config.open_scoring(together, jobs, make_request(SUM_SOURCE), has_llm=has_llm)
        with opened.executor:
            assert not opened.is_apart
            assert reason in opened.reason


def test_evaluators_that_start_processes(open_box: Callable[..., Any]) -> None:
    source = """
    import pickle, subprocess, sys, tempfile
    SCRIPT = "import importlib.util as u, pickle, sys\\nspec = u.spec_from_file_location('p', sys.argv[1])\\n" \\
        "m = u.module_from_spec(spec)\\nspec.loader.exec_module(m)\\n" \\
        "pickle.dump({'sum': m.pack(3)}, open(sys.argv[2], 'wb'))"
    def evaluate(path):
        with tempfile.NamedTemporaryFile() as file:
            subprocess.run([sys.executable, "-c", SCRIPT, path, file.name], check=True)
            result = pickle.load(open(file.name, "rb"))
        return {"combined_score": min(float(result["sum"]), 3.0)}
    """
    honest = "def pack(n): return sum([0.5] * n)"
    box = open_box(source)
    result = evaluate(box, honest)
    assert get_score(result) == 1.5, result
    for name in ("a frame on descriptor 3", "a number that lies", "a pickle", "the result's file"):
        score = get_score(evaluate(box, f"{honest}\n{forgeries.FORGERIES[name]}"))
        assert score is None or score <= 3.0, name


def test_values_keep_their_types(open_box: Callable[..., Any]) -> None:
    source = """
    import collections, dataclasses
    import numpy as np
    @dataclasses.dataclass
    class Case:
        x: float
        items: tuple
    VALUES = [None, True, 1, -2**70, 2.5, float("inf"), "text\\ud800", b"bytes", (1, [2]), {1: "a", (2,): {3}}, {4},
              1 + 2j, frozenset([5]), range(3), np.float32(1.5), np.arange(6).reshape(2, 3), np.array(["a", "b"]),
              np.zeros((0, 3)), np.array([True]), np.array(7.0), np.array([1, "x"], dtype=object),
              np.asfortranarray(np.eye(2))]
    def same(a, b):
        if isinstance(a, np.ndarray):
            return type(b) is np.ndarray and a.dtype == b.dtype and a.shape == b.shape and bool(np.all(a == b))
        return type(a) is type(b) and a == b
    def evaluate(path):
        program = load(path)
        wrong = [repr(value) for value in VALUES if not same(value, program.echo(value))]
        case = program.echo(Case(1.0, (2,)))
        pair = program.pair()
        assert (case.x, case.items, pair.left, pair._fields) == (1.0, (2,), 1, ("left", "right")), case
        assert np.isnan(program.echo(float("nan")))
        return {"combined_score": 1.0, "wrong": " ".join(wrong)}
    """
    program = """
    import collections
    def echo(value): return value
    def pair(): return collections.namedtuple("Pair", "left right")(1, 2)
    def raises_key(): raise KeyError("missing")
    """
    source = source.replace(
        "        program.raises_key()", "        return {'combined_score': 1.0, 'wrong': ' '.join(wrong)}"
    )
    result = evaluate(open_box(source), textwrap.dedent(program))
    assert result.value == {
        "metrics": {"combined_score": 1.0},
        "scores": [],
        "feedback": "",
        "artifacts": {"wrong": ""},
    }, result


def test_the_program_behaves_as_in_one_process(open_box: Callable[..., Any]) -> None:
    source = """
    import inspect, random
    import numpy as np
    def evaluate(path):
        program = load(path)
        kinds = []
        for call in (program.fails, program.leaves, program.own_error):
            try:
                call()
            except program.OwnError as error:
                kinds.append(f"own {error}")
            except BaseException as error:
                kinds.append(f"{type(error).__name__} {error}")
        random.seed(3); np.random.seed(4)
        drawn = program.draw()
        random.seed(3); np.random.seed(4)
        assert drawn == (random.random(), float(np.random.rand())), drawn
        counter = program.Counter()
        counter.add(2)
        counter.add(3)
        assert counter.total == 5 and isinstance(counter, program.Counter) and not hasattr(program, "missing")
        assert list(program.squares(3)) == [0, 1, 4]
        assert program.optimize(lambda x: (x - 2.0) ** 2, [1.0, 2.0, 3.0]) == 2.0
        assert inspect.isfunction(program.draw) and program.draw.__doc__ == "Draws."
        return {"combined_score": 1.0, "kinds": kinds}
    """
    program = """
    import random, sys
    import numpy as np
    class OwnError(Exception): pass
    def fails(): return 1 / 0
    def leaves(): sys.exit(4)
    def own_error(): raise OwnError("mine")
    def draw():
        "Draws."
        return random.random(), float(np.random.rand())
    class Counter:
        def __init__(self): self.total = 0
        def add(self, n): self.total += n
    def squares(n):
        for k in range(n): yield k * k
    def optimize(f, xs): return min(xs, key=f)
    """
    result = evaluate(open_box(source), textwrap.dedent(program))
    assert result.failure is None, result
    assert result.value["artifacts"] == {"kinds": '["ZeroDivisionError division by zero", "SystemExit 4", "own mine"]'}  # type: ignore[index, call-overload]


@pytest.mark.parametrize(("head", "is_same"), [("import scipy.stats", False), ("np.random.seed(3)", True)])
def test_every_evaluation_draws_its_own_numbers_unless_the_evaluator_sets_a_seed(
    open_box: Callable[..., Any], head: str, is_same: bool
) -> None:
    source = f"""
    import numpy as np
    {head}
    def evaluate(path):
        return {{"combined_score": 1.0, "own": float(np.random.rand()), "drawn": load(path).draw()}}
    """
    box = open_box(source)
    program = "import numpy.random\ndef draw(): return float(numpy.random.rand())\n"
    results: list[Any] = [evaluate(box, program).value for _ in range(3)]
    assert len({result["metrics"]["own"] for result in results}) == (1 if is_same else 3)
    assert len({result["metrics"]["drawn"] for result in results}) == 3


@pytest.mark.parametrize(
    ("program", "failure"),
    [
        ("import os\ndef solve(x): os._exit(3)", "it left its process with exit status 3"),
        ("def solve(x):\n    while True: pass", "TimeoutError: a call of the program took longer than 2 s"),
        ("def solve(x): return 'x' * 10**7", "a message of more than 4194304 bytes"),
        ("def solve(x): return bytearray(2**33)", "it used more than 1024 MiB"),
        ("import ctypes\ndef solve(x): ctypes.string_at(0)", "its process died with signal 11"),
        ("def solve(x): return undefined", "NameError"),
        ("def solve(:", "SyntaxError"),
        ("def other(x): return 1", "AttributeError"),
    ],
)
def test_failures_of_programs(open_box: Callable[..., Any], program: str, failure: str) -> None:
    box = open_box("def evaluate(path): return float(load(path).solve(1))")
    result = evaluate(box, program)
    assert failure in str(result.failure), result
    assert get_score(evaluate(box, "def solve(x): return 2 * x")) == 2.0


def test_a_traceback_has_the_line_of_the_program_and_none_of_the_sandbox(open_box: Callable[..., Any]) -> None:
    box = open_box("def evaluate(path): return float(load(path).solve(1))")
    program = "def solve(x):\n    return undefined + x\n"
    artifacts, printed = failures.make_failure_artifacts(evaluate(box, program), program, "evaluate", 1)
    places = [line.split(", line")[0].split("/")[-1] for line in artifacts["traceback"].splitlines() if "File " in line]
    assert places == ['evaluator.py"', 'program.py"'], artifacts["traceback"]
    assert "\n    return undefined + x\n" in artifacts["traceback"]
    assert printed == ""
    assert failures.find_place(artifacts["traceback"]) == " (program.py, line 2)"


def test_an_evaluator_that_catches_an_error_sees_the_line_of_the_program(open_box: Callable[..., Any]) -> None:
    source = """
    import os, traceback
    def evaluate(path):
        read_fd, write_fd = os.pipe()
        if os.fork() == 0:  # many evaluators measure in a process of their own
            os.write(write_fd, repr(measure(path)).encode())
            os._exit(0)
        os.wait()
        return eval(os.read(read_fd, 100_000))
    def measure(path):
        try:
            load(path).solve(1)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            lines = [frame.lineno for frame in frames if frame.filename == path]
            return {"combined_score": 0.0, "error": f"{error} (line {lines[-1]})", "trace": traceback.format_exc()}
    """
    program = "def solve(x):\n    return help(x)\n\n\ndef help(x):\n    return [x][5]\n"
    value: Any = evaluate(open_box(source), program).value
    artifacts = value["artifacts"]
    assert artifacts["error"] == "list index out of range (line 6)"
    lines = [line.split(", line ")[-1].strip() for line in artifacts["trace"].splitlines()]
    assert lines[-5:] == [
        "2, in solve",
        "return help(x)",
        "6, in help",
        "return [x][5]",
        "IndexError: list index out of range",
    ]


def test_a_caught_error_keeps_nothing_alive_and_has_its_cause(open_box: Callable[..., Any]) -> None:
    source = """
    import gc
    def evaluate(path):
        program = load(path)
        gc.collect()
        gc.disable()
        for _ in range(20):
            try:
                program.solve(1)
            except ValueError as error:
                notes = error.__notes__
        return {"combined_score": float(gc.collect()), "notes": "".join(notes)}
    """
    program = """
    def solve(x):
        try:
            return [x][5]
        except IndexError as error:
            raise ValueError(x) from error
    """
    value: Any = evaluate(open_box(source), textwrap.dedent(program)).value
    assert value["metrics"]["combined_score"] < 5, "objects in reference cycles"
    assert "IndexError: list index out of range" in value["artifacts"]["notes"]


def test_a_program_cannot_replace_the_source_of_its_evaluator(open_box: Callable[..., Any]) -> None:
    source = """
    import linecache
    def evaluate(path):
        try:
            exec(compile(open(path).read(), path, "exec"), names := {"__file__": __file__, "__name__": "program"})
            names["solve"](1)
        except Exception:
            pass
        return {"combined_score": 1.0, "line": linecache.getline(__file__, 3)}
    """
    value: Any = evaluate(open_box(source), "def solve(x):\n    x = 'forged'\n    return [x][5]\n").value
    assert "forged" not in str(value)
    assert "[x][5]" not in str(value)


def test_a_forged_traceback_is_only_text() -> None:
    frames: list[Any] = [[3, "solve", "a = 1\nFile"], [0, "f", ""], [2**40, "f", ""], "x", [4, 'f", line 9', "b"], None]
    tb = codec.make_traceback(frames, "/nowhere/program.py")
    found = [(item.lineno, item.name, item.line) for item in traceback.extract_tb(tb)]
    assert found == [(3, "solve", "a = 1"), (4, "<module>", "b")]
    assert codec.make_traceback([], "/nowhere/program.py") is None


def test_a_program_sees_neither_the_evaluator_nor_its_data(open_box: Callable[..., Any]) -> None:
    source = """
    ANSWERS = "the-secret" + "-answers"
    def evaluate(path): return {"combined_score": 1.0, "found": load(path).look(__file__)}
    """
    program = """
    import gc, os, sys
    def look(path):
        found = [name for name in sys.modules if name == "evaluation_module"]
        found += [1 for item in gc.get_objects() if isinstance(item, dict) and "ANSWERS" in item]
        found += [path] if os.path.exists(path) and open(path).read() else []
        return repr(found)
    """
    for level in ("L3", "L2"):
        if level > LEVEL:
            continue
        value: Any = evaluate(open_box(source, level), textwrap.dedent(program))
        if level == "L2" and value.failure:  # at L2 the existence of a file is visible; opening it fails
            assert "PermissionError" in value.failure
        else:
            assert value.value["artifacts"]["found"] == "[]", value


def test_the_codec_refuses_what_its_writer_cannot_write() -> None:
    def refuse(tag: Any, content: Any = None) -> Any:
        raise TypeError("tag")

    message = codec.pack(7, {"a": [1, (2.5, b"xy")], "b": np.arange(4.0)}, refuse)
    _, text_size, _ = codec.HEADER.unpack_from(message)
    start = codec.HEADER.size
    text, blob = message[start : start + text_size], message[start + text_size :]
    assert codec.unpack(text, blob, refuse)["a"] == [1, (2.5, b"xy")]
    generator = random.Random(1)
    for _ in range(3000):
        changed = bytearray(text)
        for _ in range(generator.randint(1, 3)):
            changed[generator.randrange(len(changed))] = generator.randrange(32, 127)
        try:
            codec.unpack(bytes(changed), blob, refuse)
        except codec.MalformedError:
            continue
    for bad in (
        '{"a":["<f8",[1e9],[0,8]]}',
        '{"a":["<f8",[-1],[0,8]]}',
        '{"a":["|O8",[1],[0,8]]}',
        '{"h":[0,{}]}',
        "[" * 10**5,
    ):
        with pytest.raises(codec.MalformedError):
            codec.unpack(bad.encode(), blob, refuse)
    with pytest.raises(TypeError):
        codec.pack(1, object(), refuse)
    assert math.isnan(codec.unpack(b"NaN", b"", refuse))


def test_a_program_cannot_make_stand_ins_of_trusted_modules(open_box: Callable[..., Any], tmp_path: Path) -> None:
    box = open_box("def evaluate(path): return {'combined_score': 1.0, 'm': str(load(path).get())}")
    result = evaluate(box, "import atoll.sandbox.apart.codec as c\ndef get(): return c")
    assert "malformed" in str(result.failure)
