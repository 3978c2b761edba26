"""Candidates that try to forge their score: code that is appended to an honest program.

`wrap(f)` in an attack replaces each function of the program; `FORGED` is the score that it wants.
"""

FORGED = 987654321.0

_WRAP = """
import types as _types
def wrap(change):
    for _name, _f in list(globals().items()):
        if isinstance(_f, _types.FunctionType) and _name not in ("wrap",) and not _name.startswith("_"):
            globals()[_name] = (lambda f: lambda *args, **options: change(f, *args, **options))(_f)
"""
_FRAME = """
import json, os, struct
_value = {"metrics": {"combined_score": 987654321.0}, "scores": [], "feedback": "", "artifacts": {}}
_body = json.dumps([None, False, _value]).encode()
_frame = struct.pack("!Q", len(_body)) + _body
"""
_LINK = """
import json, os, struct, sys
def _pipes():
    # The pipes are open in this process, whatever the numbers of their descriptors.
    found = []
    for fd in range(3, 300):
        try:
            if os.fstat(fd).st_mode & 0o170000 == 0o010000: found.append(fd)
        except OSError: pass
    return found
def _find_server():
    return [item for item in __import__("gc").get_objects() if type(item).__name__ == "_Server"][0]
def _message(number, value):
    text = json.dumps(value).encode()
    return struct.pack("!QII", number, len(text), 0) + text
"""
_SEND_BAD = """
_count = [0]
def _send(f, *args, **options):
    server = _find_server()
    _count[0] += 1
    os.write(server._pipes.write_fd, _message(server._call, {"t": ["ok", _bad[_count[0] % len(_bad)]]}))
    return f(*args, **options)
wrap(_send)
"""

# Changes of a program that need no attack: it fails, or returns large numbers.
HONEST = (
    _WRAP + "def _fail(f, *args, **options): raise ValueError('failed')\nwrap(_fail)",
    _WRAP
    + """
def _scale(value):
    if isinstance(value, dict): return {key: _scale(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)): return type(value)(_scale(item) for item in value)
    return value * 1e12 if hasattr(value, "__mul__") and not isinstance(value, (str, bytes, bool)) else value
wrap(lambda f, *args, **options: _scale(f(*args, **options)))
""",
)
FORGERIES = {
    "a frame on descriptor 3": _FRAME + "os.write(3, _frame); os._exit(0)",
    "a frame on descriptor 3, then on": _FRAME + "os.write(3, _frame)",
    "a frame on every descriptor": _FRAME
    + """
for _fd in range(3, 256):
    try: os.set_blocking(_fd, False); os.write(_fd, _frame)
    except OSError: pass
""",
    "a frame at exit": _FRAME + "import atexit; atexit.register(lambda: os.write(3, _frame)); raise SystemExit(0)",
    "a frame in a thread": _FRAME
    + """
import threading
def _flood():
    while True:
        try: os.write(3, _frame)
        except OSError: return
threading.Thread(target=_flood, daemon=True).start()
""",
    "globals of the callers": """
import sys
_frame = sys._getframe()
while _frame:
    for _key, _item in list(_frame.f_globals.items()):
        if callable(_item) and _key in ("evaluate", "evaluate_stage1", "to_plain_result", "_encode_value", "validate"):
            _frame.f_globals[_key] = lambda *args, **options: {"combined_score": 987654321.0}
    _frame = _frame.f_back
""",
    "the evaluator's module": """
import sys
for _name in ("evaluation_module", "__main__", "evaluator"):
    _module = sys.modules.get(_name)
    if _module is not None and hasattr(_module, "evaluate"):
        _module.evaluate = lambda path: {"combined_score": 987654321.0}
        _module.EXPECTED = None
""",
    "every function in memory": """
import gc, types
def _forged(*args, **options): return {"combined_score": 987654321.0}
for _item in gc.get_objects():
    if isinstance(_item, types.FunctionType) and _item.__name__.startswith("evaluate"):
        _item.__code__ = _forged.__code__
""",
    "built-in functions": """
import builtins
for _name in ("float", "abs", "max", "min", "sum", "round", "isinstance"):
    setattr(builtins, _name, lambda *args, **options: 987654321.0)
""",
    "functions of numpy and math": """
import math, numpy
for _module in (math, numpy, numpy.linalg):
    for _name in ("sum", "abs", "mean", "isfinite", "allclose", "sqrt", "dist", "norm", "exp", "all"):
        if hasattr(_module, _name): setattr(_module, _name, lambda *args, **options: 987654321.0)
""",
    "the clock": """
import time
for _name in ("time", "perf_counter", "monotonic", "process_time"): setattr(time, _name, lambda: 0.0)
""",
    "json": "import json; json.dumps = lambda *args, **options: '{\"ok\": [987654321.0]}'",
    "a number that lies": _WRAP
    + """
class Liar(float):
    def _lie(self, *others): return Liar(987654321.0)
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __neg__ = __abs__ = __pow__ = _lie
    def _yes(self, other): return True
    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = _yes
    def __float__(self): return 987654321.0
wrap(lambda f, *args, **options: Liar(1.0))
""",
    "an object that lies": _WRAP
    + """
class Liar:
    def __float__(self): return 987654321.0
    def __index__(self): return 987654321
    def __call__(self, *args): return self
    def __getattr__(self, name): return self
    def __getitem__(self, key): return self
    def __iter__(self): return iter([self, self, self])
    def __len__(self): return 3
    def __eq__(self, other): return True
    def __hash__(self): return 0
    def __array__(self, *args, **options): return __import__("numpy").full((3, 2), 987654321.0)
for _name in ("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__abs__"):
    setattr(Liar, _name, lambda self, *others: self)
for _name in ("__lt__", "__gt__", "__le__", "__ge__"):
    setattr(Liar, _name, lambda self, other: True)
wrap(lambda f, *args, **options: Liar())
""",
    "an array that lies": _WRAP
    + """
import numpy as np
class Liar(np.ndarray):
    def __array_ufunc__(self, *args, **options): return 987654321.0
    def sum(self, *args, **options): return 987654321.0
    shape = property(lambda self: (3, 2))
wrap(lambda f, *args, **options: np.asarray(f(*args, **options)).view(Liar))
""",
    "another value at each read": _WRAP
    + """
class Changing(list):
    count = 0
    def __getitem__(self, key):
        Changing.count += 1
        return list.__getitem__(self, key) if Changing.count < 3 else 987654321.0
    def __iter__(self):
        Changing.count += 1
        return list.__iter__(self) if Changing.count < 2 else iter([987654321.0] * 3)
def _change(f, *args, **options):
    value = f(*args, **options)
    return Changing(value) if isinstance(value, (list, tuple)) else value
wrap(_change)
""",
    "an error named as a result": _WRAP
    + """
class EvaluationResult(Exception):
    metrics = {"combined_score": 987654321.0}
    score = 987654321.0
def _raise(f, *args, **options): raise EvaluationResult("987654321.0")
wrap(_raise)
""",
    "a pickle": _WRAP
    + """
class Bomb:
    def __reduce__(self): return (eval, ("987654321.0",))
import pickle
wrap(lambda f, *args, **options: pickle.dumps(Bomb()))
""",
    "replies in advance": _LINK
    + """
for _fd in _pipes():
    for _number in range(64):
        try: os.set_blocking(_fd, False); os.write(_fd, _message(_number, {"t": ["ok", 987654321.0]}))
        except OSError: pass
""",
    "malformed replies": _WRAP
    + _LINK
    + """
_bad = [{"a": ["<f8", [10**9], [0, 8]]}, {"h": [0, {"of": 0}]}, {"m": "os"}, {"m": "atoll.sandbox"},
        {"nt": ["x(", [], []]}, {"dc": ["A", {"__class__": 1}]}, {"x": 1}, {"t": 5}, {"i": "z"},
        {"a": ["O", [1], [0, 8]]}, {"fn": 1}]
"""
    + _SEND_BAD,
    "functions of the evaluator that it did not pass": _WRAP
    + """
import gc
_server = [item for item in gc.get_objects() if type(item).__name__ == "_Server"]
def _call(f, *args, **options):
    for number in range(3):
        _server[0].call_back(number, ("combined_score",), {})
    return f(*args, **options)
if _server: wrap(_call)
""",
    "names of the module": """
globals().update({"__getattr__": lambda name: (lambda *args: 987654321.0), "__builtins__": {}, "__class__": 1,
                  "__path__": ["/tmp"], "__name__": "evaluation_module", "__file__": "/etc/passwd"})
""",
    "a flood of printed results": "print('{\"combined_score\": 987654321.0}\\n' * 1000)",
    "signals to the evaluator": """
import os, signal
for _pid in (os.getppid(), 1, 2, 3, 4, 5):
    try: os.kill(_pid, signal.SIGKILL)
    except OSError: pass
""",
    "the memory of the evaluator": """
import ctypes, os
_libc = ctypes.CDLL(None, use_errno=True)
for _pid in range(1, 20):
    _libc.ptrace(16, _pid, 0, 0); _libc.syscall(310, _pid, 0, 0, 0, 0, 0); _libc.syscall(311, _pid, 0, 0, 0, 0, 0)
""",
    "a change of the arguments": _WRAP
    + """
def _change(f, *args, **options):
    for item in args:
        if isinstance(item, list): item.clear()
        if hasattr(item, "fill"): item.fill(987654321.0)
    return f(*args, **options)
wrap(_change)
""",
    "the result's file": """
import glob, os, pickle
for _folder in (".", "..", "/tmp", "/atoll-scratch", os.environ.get("TMPDIR", ".")):
    for _path in glob.glob(_folder + "/*"):
        try: open(_path, "wb").write(pickle.dumps({"sum": 987654321.0}))
        except OSError: pass
""",
    "items that differ from the indices": _WRAP
    + """
class Liar:
    def __len__(self): return 3
    def __iter__(self): return iter([0.5, 0.5, 0.5])
    def __getitem__(self, key): return 987654321.0
wrap(lambda f, *args, **options: Liar())
""",
    "more items than the length": _WRAP
    + """
class Liar:
    def __len__(self): return 3
    def __iter__(self): return iter([0.5] * 1000)
    def __getitem__(self, key): return 0.5
wrap(lambda f, *args, **options: Liar())
""",
    "values that differ from the items": _WRAP
    + """
class Liar:
    def keys(self): return ["a", "b"]
    def __len__(self): return 2
    def __iter__(self): return iter(["a", "b"])
    def __getitem__(self, key): return 0.5
    def values(self): return [987654321.0]
    def get(self, key, default=None): return 987654321.0
    def items(self): return [("a", 987654321.0)]
wrap(lambda f, *args, **options: Liar())
""",
    "an object with the methods of an array": _WRAP
    + """
class Liar:
    shape, ndim = (3, 2), 2
    def min(self): return 0.5
    max = min
    def sum(self): return 987654321.0
    def __len__(self): return 3
    def __iter__(self): return iter([[0.5, 0.5]] * 3)
wrap(lambda f, *args, **options: Liar())
""",
    "an array whose methods appear when asked for": _WRAP
    + """
class Liar:
    def __getattr__(self, name):
        return (3, 2) if name == "shape" else lambda: 987654321.0 if name == "sum" else 0.5
    def __len__(self): return 3
    def __getitem__(self, key): return [0.5, 0.5]
wrap(lambda f, *args, **options: Liar())
""",
    "a class instead of a value": _WRAP
    + """
class Meta(type):
    shape = (3, 2)
    def __getattr__(cls, name): return lambda: 987654321.0 if name in ("sum", "values", "solve") else 0.5
    def __len__(cls): return 3
    def __iter__(cls): return iter([0.5, 0.5, 0.5])
    def __getitem__(cls, key): return 987654321.0
class Liar(metaclass=Meta): pass
wrap(lambda f, *args, **options: Liar)
""",
    "the evaluator's own module": _WRAP
    + """
import types
_fake = types.ModuleType("evaluation_module")
wrap(lambda f, *args, **options: _fake)
""",
    "the main module": _WRAP
    + "import types\n_fake = types.ModuleType('__main__')\nwrap(lambda f, *args, **options: _fake)",
    "the end of an iteration": _WRAP + "def _stop(f, *args, **options): raise StopIteration\nwrap(_stop)",
    "an exit": _WRAP + "def _exit(f, *args, **options): raise SystemExit(0)\nwrap(_exit)",
    "an error of the evaluator's own kinds": _WRAP
    + """
class LinkError(BaseException): pass
class AssertionError(Exception): pass
_kinds = [GeneratorExit, KeyboardInterrupt, LinkError, TimeoutError, StopAsyncIteration, BaseExceptionGroup]
_count = [0]
def _raise(f, *args, **options):
    _count[0] += 1
    raise _kinds[_count[0] % 5]("987654321.0")
wrap(_raise)
""",
    "objects as items of an array": _WRAP
    + """
import numpy as np
class Liar:
    def __float__(self): return 987654321.0
    def __lt__(self, other): return True
    __gt__ = __le__ = __ge__ = __lt__
def _change(f, *args, **options):
    array = np.empty((3, 2), dtype=object)
    array[:] = Liar()
    return array
wrap(_change)
""",
    "a structured array": _WRAP
    + """
import numpy as np
wrap(lambda f, *args, **options: np.zeros((3, 2), dtype=[("x", "O"), ("y", "f8")]))
""",
    "types of arrays without bytes": _WRAP
    + _LINK
    + """
_bad = [{"a": ["<U0", [3, 2], [0, 0]]}, {"n": ["<S0", [0, 0]]}, {"a": ["<U1", [1], [0, 4]]},
        {"a": ["<f3", [1], [0, 3]]}, {"nt": ["X", ["\ufb01", "fi"], [1, 2]]},
        {"dc": ["X", {"_\uff3fclass__": 1}]}, {"r": [0, 10**300, 1]}]
"""
    + _SEND_BAD,
    "half a reply": _WRAP
    + _LINK
    + """
def _send(f, *args, **options):
    server = _find_server()
    reply = _message(server._call, {"t": ["ok", 987654321.0]})
    os.write(server._pipes.write_fd, reply[: len(reply) // 2])
    return f(*args, **options)
wrap(_send)
""",
    "a reply to the next call": _WRAP
    + _LINK
    + """
def _send(f, *args, **options):
    server = _find_server()
    for number in range(5):
        os.write(server._pipes.write_fd, _message(server._call + number, {"t": ["ok", 987654321.0]}))
    return f(*args, **options)
wrap(_send)
""",
    "a huge reply": _WRAP
    + _LINK
    + """
def _send(f, *args, **options):
    server = _find_server()
    os.write(server._pipes.write_fd, struct.pack("!QII", server._call, 2**32 - 1, 2**32 - 1))
    return f(*args, **options)
wrap(_send)
""",
    "numbers of another kind": _WRAP
    + """
import fractions, decimal, numpy as np
class Big(int):
    def __sub__(self, other): return 0
    __rsub__ = __sub__
_values = [float("nan"), fractions.Fraction(987654321), decimal.Decimal("987654321"), Big(1), np.float16(65504),
           np.datetime64("NaT"), np.str_("987654321.0"), True]
_count = [0]
def _change(f, *args, **options):
    _count[0] += 1
    return _values[_count[0] % len(_values)]
wrap(_change)
""",
    "a program that forks and traces": """
import ctypes, os
_libc = ctypes.CDLL(None, use_errno=True)
_calls = ((57,), (56, 17, 0, 0, 0, 0), (425, 8, 0), (319, b"x", 0), (323, 0), (250, 0, -3, 0), (29, 1, 9, 950))
for _number, *_args in _calls:
    _libc.syscall(_number, *_args)
for _call in (lambda: os.fork(), lambda: os.setsid(), lambda: os.nice(-5), lambda: os.sched_setaffinity(0, {0})):
    try: _call()
    except OSError: pass
""",
    "locks on the pipes": _LINK
    + """
import fcntl
for _fd in _pipes():
    try: fcntl.flock(_fd, fcntl.LOCK_SH | fcntl.LOCK_NB); fcntl.flock(_fd, fcntl.LOCK_UN)
    except OSError: pass
""",
    "files that Python loads at its start": """
import os, sys
for _folder in (*sys.path, os.path.dirname(os.__file__), "."):
    for _name in ("sitecustomize.py", "usercustomize.py", "x.pth", "__pycache__/json.cpython-312.pyc"):
        try: open(os.path.join(_folder, _name), "w").write("raise SystemExit(9)")
        except OSError: pass
""",
}
