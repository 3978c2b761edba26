"""Starts Python processes that have imported Atoll: a fork takes milliseconds, the imports take a second.

python process_server.py DESCRIPTOR: the socket on which `tests.processes` sends requests. The server ends with it.
"""

import array
import importlib
import io
import json
import os
import random
import runpy
import select
import signal
import socket
import sys
import types
from pathlib import Path
from typing import Any

MODULES = (
    *("numpy", "sqlalchemy.dialects.sqlite", "atoll.cli", "atoll.runs.coordinator", "atoll.store", "atoll.cluster"),
    *("atoll.cli.run.run", "atoll.config", "atoll.executor", "atoll.sandbox", "atoll.llmsr.build"),
    *("atoll.programs.build", "atoll.llm", "atoll.testing"),
)
MAX_BYTES, NUM_DESCRIPTORS = 2**20, 4  # of a request; stdin, stdout, stderr and the socket of the process


def serve(requests: socket.socket) -> dict[str, Any]:
    """Forks a process for each request and reports its end. Returns the request, in the new process only."""
    wakeup_reader, wakeup_writer = socket.socketpair()
    for end in (wakeup_reader, wakeup_writer):
        end.setblocking(False)
    signal.set_wakeup_fd(wakeup_writer.fileno())
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    sockets = dict[int, socket.socket]()
    while True:
        ready, _, _ = select.select([requests, wakeup_reader], [], [])
        if wakeup_reader in ready:
            wakeup_reader.recv(4096)
            report_ends(sockets)
        if requests in ready:
            request, descriptors = receive(requests)
            if not request:
                sys.exit()
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for number, descriptor in enumerate(descriptors[:3]):
                    os.dup2(descriptor, number)
                os.closerange(3, os.sysconf("SC_OPEN_MAX"))
                for owner in (requests, wakeup_reader, wakeup_writer, *sockets.values()):
                    owner.detach()
                return request
            for descriptor in descriptors[:3]:
                os.close(descriptor)
            sockets[pid] = socket.socket(fileno=descriptors[3])
            sockets[pid].send(json.dumps(pid).encode())


def report_ends(sockets: dict[int, socket.socket]) -> None:
    """Sends the exit status of every process that ended."""
    while sockets:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with sockets.pop(pid) as receiver:
            try:
                receiver.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())
            except OSError:  # the test did not wait
                continue


def receive(requests: socket.socket) -> tuple[dict[str, Any], list[int]]:
    size = array.array("i").itemsize * NUM_DESCRIPTORS
    data, ancillary, _, _ = requests.recvmsg(MAX_BYTES, socket.CMSG_SPACE(size))
    descriptors = array.array("i", b"".join(item for _, _, item in ancillary))
    return json.loads(data or b"{}"), list(descriptors)


def prepare(request: dict[str, Any]) -> None:
    """Makes this process what a new Python would be: session, folder, environment, streams, random numbers."""
    if request["start_new_session"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path[:0] = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    random.seed()
    sys.modules["numpy"].random.seed()
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    sys.stdout = open_output(1, "strict", os.isatty(1))
    sys.stderr = open_output(2, "backslashreplace", True)


def open_output(descriptor: int, errors: str, line_buffering: bool) -> io.TextIOWrapper:
    file = io.BufferedWriter(io.FileIO(descriptor, "w", closefd=False))
    return io.TextIOWrapper(file, errors=errors, line_buffering=line_buffering)


def run(arguments: list[str]) -> None:
    """Runs `-m MODULE`, `-c CODE` or a script with its arguments, after `-P` or without it."""
    is_safe = arguments[0] == "-P"
    first, *rest = arguments[is_safe:]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if not is_safe:
        sys.path.insert(0, {"-m": os.getcwd(), "-c": ""}.get(first, os.path.dirname(os.path.abspath(first))))
    if first == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    else:
        sys.argv = [first, *rest]
        main.__file__ = first
        exec(compile(Path(first).read_bytes(), first, "exec"), main.__dict__)


if __name__ == "__main__":
    sys.path.pop(0)
    for name in MODULES:
        importlib.import_module(name)
    sys.modules["atoll.sandbox"].probe()  # its result is cached
    with socket.socket(fileno=int(sys.argv[1])) as control:
        request = serve(control)
    prepare(request)
    run(request["arguments"])
