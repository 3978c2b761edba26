"""Seccomp: allows listed system calls; all others fail with EPERM.

Two filters restrict a candidate. The fork server has a long filter, which its forks inherit. Each candidate adds a
short one. It forbids the calls that only the fork server needs, and allows some calls only on the candidate's own pid.
Compiling one long filter for every candidate took a quarter of a millisecond.
"""

import ctypes
import errno
import struct
from collections.abc import Sequence
from typing import NamedTuple

from atoll.sandbox.linux import syscalls, system_calls

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_EQUAL, _ABOVE, _AT_LEAST, _ANY = 0x15, 0x25, 0x35, 0x45  # jumps
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER_OFFSET, _ARCH_OFFSET, _ARG0_OFFSET = 0, 4, 16
_MODE_FILTER = 1
_INSTRUCTION = struct.Struct("<HBBI")
_OWN_PID = 0xFFFFFFFF  # placeholder, replaced by the pid
_LATE_CHECKS = ("clone", "kill", "tgkill", "prctl", "prlimit64")  # calls whose arguments only the short filter checks

_THREAD = 0x10000
_NAMESPACES = 0x7E020080
_F_SETOWN, _F_SETSIG, _F_SETOWN_EX = 8, 10, 15
_F_SETLEASE, _F_NOTIFY, _F_SET_RW_HINT, _F_SET_FILE_RW_HINT = 1024, 1026, 1036, 1038
# isatty, terminal size, close-on-exec, bytes to read, non-blocking.
_IOCTLS = (0x5401, 0x5413, 0x5450, 0x5451, 0x541B, 0x5421)
_PRCTLS = (3, 15, 16, 21, 39, 0x53564D41)  # get dumpable, set and get the name, seccomp, no_new_privs; name memory
_UNIX, _STREAM, _TYPE_MASK = 1, 1, 0xF


class Rights(NamedTuple):
    """Calls that a filter allows in addition to the harmless ones.

    Attributes:
        attributes: Changing mode, owner and times of files. Mounts must protect all other files.
        processes: Starting processes. Landlock restricts which programs.
        signals: Signals to other processes. Landlock or a pid namespace must protect unrelated processes.
        sessions: Leaving the process group. A pid namespace must end such processes.
        network: Sockets.
    """

    attributes: bool = False
    processes: bool = False
    signals: bool = False
    sessions: bool = False
    network: bool = False


class Instruction(NamedTuple):
    """One BPF instruction: operation, jump offsets, and operand."""

    code: int
    jump_if_true: int
    jump_if_false: int
    k: int


def assemble(arch: syscalls.Arch, rights: Rights) -> list[Instruction]:
    """Returns one filter program with all rules for a candidate. `_OWN_PID` stands for its pid."""
    checked = syscalls.get_numbers(syscalls.CHECKED, arch=arch)
    checks = [(number, _check_arguments(name, rights)) for name, number in checked.items()]
    return _assemble(arch, checks, set(_find_allowed(arch, rights).values()))


def assemble_server(arch: syscalls.Arch, rights: Rights) -> list[Instruction]:
    """Returns the filter program of a fork server. Its candidates inherit the program and have these rights."""
    checked = syscalls.get_numbers(syscalls.CHECKED, arch=arch)
    late = {number for name, number in checked.items() if name in _LATE_CHECKS}
    checks = [(number, _check_arguments(name, rights)) for name, number in checked.items() if number not in late]
    own = set(syscalls.get_numbers(syscalls.SERVER_CALLS, arch=arch).values())
    return _assemble(arch, checks, {*_find_allowed(arch, rights).values()} | late | own)


def assemble_candidate(arch: syscalls.Arch, rights: Rights) -> list[Instruction]:
    """Returns the filter program that turns the rights of the fork server into those of a candidate."""
    allowed = _find_allowed(arch, rights)
    own = syscalls.get_numbers(syscalls.SERVER_CALLS, arch=arch)
    instructions = [Instruction(_LOAD, 0, 0, _NUMBER_OFFSET)]
    for name, number in own.items():
        instructions += [] if name in allowed else [Instruction(_EQUAL, 0, 1, number), _refuse(errno.EPERM)]
    for name, number in syscalls.get_numbers(syscalls.CHECKED, arch=arch).items():
        checks = _check_arguments(name, rights) if name in _LATE_CHECKS else []
        instructions += [Instruction(_EQUAL, 0, len(checks), number), *checks] if checks else []
    return [*instructions, _return(_ALLOW)]


def _find_allowed(arch: syscalls.Arch, rights: Rights) -> dict[str, int]:
    """Returns the calls that are allowed with any arguments."""
    tables = [syscalls.HARMLESS]
    tables += [syscalls.FILES] if rights.attributes else []
    tables += [syscalls.PROCESSES] if rights.processes else []
    tables += [syscalls.NETWORK] if rights.network else []
    allowed = syscalls.get_numbers(*tables, arch=arch)
    if not rights.sessions:
        allowed = {name: number for name, number in allowed.items() if name not in ("setsid", "setpgid")}
    return allowed


def _assemble(
    arch: syscalls.Arch, checks: Sequence[tuple[int, Sequence[Instruction]]], allowed: set[int]
) -> list[Instruction]:
    instructions = [
        Instruction(_LOAD, 0, 0, _ARCH_OFFSET),
        Instruction(_EQUAL, 1, 0, arch.audit),
        _return(_KILL),
        Instruction(_LOAD, 0, 0, _NUMBER_OFFSET),
    ]
    for number, steps in checks:
        instructions += [Instruction(_EQUAL, 0, len(steps), number), *steps]
    return [*instructions, *_build_search_tree(_merge_ranges(sorted(allowed)))]


def _merge_ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


def _build_search_tree(ranges: Sequence[tuple[int, int]]) -> list[Instruction]:
    """Returns a binary search for the number of a call.

    To cache which calls are allowed, the kernel runs a new filter once for each call. With a linear search this took
    half a millisecond.
    """
    if len(ranges) == 1:
        [(low, high)] = ranges
        return [
            Instruction(_AT_LEAST, 0, 2, low),
            Instruction(_ABOVE, 1, 0, high),
            _return(_ALLOW),
            _refuse(errno.EPERM),
        ]
    middle = len(ranges) // 2
    left, right = _build_search_tree(ranges[:middle]), _build_search_tree(ranges[middle:])
    return [Instruction(_AT_LEAST, len(left), 0, ranges[middle][0]), *left, *right]


def _check_arguments(name: str, rights: Rights) -> list[Instruction]:
    """Returns the instructions that check the arguments of a call."""
    match name:
        case "clone" if rights.processes:
            return [_load(0), Instruction(_ANY, 0, 1, _NAMESPACES), _refuse(errno.EPERM), _return(_ALLOW)]
        case "clone":
            return [_load(0), Instruction(_ANY, 0, 1, _NAMESPACES), _refuse(errno.EPERM), *_allow_if_any(_THREAD)]
        case "clone3":  # filters cannot see its flags, which are in memory; glibc falls back to clone
            return [_refuse(errno.ENOSYS)]
        case "kill" | "tgkill" if rights.signals:
            return [_return(_ALLOW)]
        case "kill" | "tgkill":
            return [_load(0), *_allow_values([_OWN_PID], errno.EPERM)]
        case "prlimit64":
            return [_load(0), *_allow_values([0, _OWN_PID], errno.EPERM)]
        case "ioctl":
            return [_load(1), *_allow_values(_IOCTLS, errno.ENOTTY)]
        case "prctl":
            return [_load(0), *_allow_values(_PRCTLS, errno.EPERM)]
        case "fcntl":  # else a candidate could make the kernel signal another process
            instructions = [_load(1)]
            # A hint about a file would outlast the candidate.
            hints = (_F_SETLEASE, _F_NOTIFY, _F_SET_RW_HINT, _F_SET_FILE_RW_HINT)
            for command in (_F_SETOWN, _F_SETSIG, _F_SETOWN_EX, *hints):
                instructions += [Instruction(_EQUAL, 0, 1, command), _refuse(errno.EPERM)]
            return [*instructions, _return(_ALLOW)]
        case "socketpair":  # datagram sockets could send to any named socket
            kind = [_load(1), Instruction(_AND, 0, 0, _TYPE_MASK), *_allow_values([_STREAM], errno.EPERM)]
            return [_load(0), Instruction(_EQUAL, 1, 0, _UNIX), _refuse(errno.EPERM), *kind]
    return [_refuse(errno.EPERM)]


def _load(argument: int) -> Instruction:
    return Instruction(_LOAD, 0, 0, _ARG0_OFFSET + 8 * argument)


def _return(action: int) -> Instruction:
    return Instruction(_RETURN, 0, 0, action)


def _refuse(error: int) -> Instruction:
    return _return(_ERRNO | error)


def _allow_if_any(bits: int) -> list[Instruction]:
    return [Instruction(_ANY, 1, 0, bits), _refuse(errno.EPERM), _return(_ALLOW)]


def _allow_values(values: Sequence[int], error: int) -> list[Instruction]:
    instructions = [
        instruction for value in values for instruction in (Instruction(_EQUAL, 0, 1, value), _return(_ALLOW))
    ]
    return [*instructions, _refuse(error)]


class Filter:
    """Both filters: one for a fork server, one for each of its candidate processes.

    Raises:
        OSError: The architecture is not supported.
    """

    def __init__(self, rights: Rights) -> None:
        arch = syscalls.detect_arch()
        if arch is None:
            raise OSError(errno.ENOSYS, "the sandbox does not support this architecture")
        self._server, self._candidate = (
            _Program(assemble_server(arch, rights)),
            _Program(assemble_candidate(arch, rights)),
        )

    def apply_to_server(self) -> None:
        """Restricts this process, the fork server, irreversibly. Its forks inherit the filter; see `apply`.

        Raises:
            OSError: The kernel refused the call.
        """
        self._server.load(0)

    def apply(self, pid: int) -> None:
        """Restricts this process (`pid`) and its children, irreversibly. Call `apply_to_server` in its parent first.

        Raises:
            OSError: The kernel refused the call.
        """
        self._candidate.load(pid)


class _Program:
    """Filter program in memory. A process must set no_new_privs before it loads the program."""

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self._pid_positions = [index for index, instruction in enumerate(instructions) if instruction.k == _OWN_PID]
        self._code = ctypes.create_string_buffer(
            b"".join(_INSTRUCTION.pack(*instruction) for instruction in instructions)
        )
        program = struct.pack("HxxxxxxQ", len(instructions), ctypes.addressof(self._code))
        self._load_filter = system_calls.prepare_call("seccomp", _MODE_FILTER, 0, program)

    def load(self, pid: int) -> None:
        for index in self._pid_positions:
            struct.pack_into("<I", self._code, index * _INSTRUCTION.size + 4, pid)
        if self._load_filter() < 0:
            raise system_calls.make_os_error("seccomp")
