"""Seccomp: which system calls a process may make. A list of what is allowed, everything else is EPERM."""

import ctypes
import errno
import struct
from collections.abc import Sequence
from typing import NamedTuple

from atoll.sandbox import kernel, syscalls

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_EQUAL, _ABOVE, _AT_LEAST, _ANY = 0x15, 0x25, 0x35, 0x45  # jumps
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCH, _ARG0 = 0, 4, 16
_MODE_FILTER = 1
_INSTRUCTION = struct.Struct("<HBBI")
_SELF = 0xFFFFFFFF  # stands for the number of the process until it is known

_THREAD = 0x10000
_NAMESPACES = 0x7E020080
_F_SETOWN, _F_SETSIG, _F_SETOWN_EX = 8, 10, 15
# isatty, the size of a terminal, close-on-exec, what is there to read, non-blocking.
_IOCTLS = (0x5401, 0x5413, 0x5450, 0x5451, 0x541B, 0x5421)
_PRCTLS = (3, 15, 16, 21, 39, 0x53564D41)  # read dumpable, set and get the name, seccomp, no_new_privs; name memory
_UNIX, _STREAM, _KIND = 1, 1, 0xF


class Rights(NamedTuple):
    """What a filter allows beyond what is harmless.

    Attributes:
        attributes: Changing the mode, owner and times of files: only where mounts guard all others.
        processes: Starting them; which programs is Landlock's to say.
        signals: To others than itself: only where Landlock or a pid namespace keeps them from strangers.
        sessions: Leaving the group of processes that die together: only where a pid namespace holds them.
        network: Sockets.
    """

    attributes: bool = False
    processes: bool = False
    signals: bool = False
    sessions: bool = False
    network: bool = False


class Step(NamedTuple):
    """One instruction: what to do, how far to jump if it is so and if not, and a number."""

    code: int
    if_so: int
    if_not: int
    k: int


def assemble(arch: syscalls.Arch, rights: Rights) -> list[Step]:
    """Returns the filter as a program; the number of the own process is `_SELF` in it."""
    tables = [syscalls.HARMLESS]
    tables += [syscalls.FILES] if rights.attributes else []
    tables += [syscalls.STARTING] if rights.processes else []
    tables += [syscalls.NETWORK] if rights.network else []
    allowed = syscalls.numbers(*tables, on=arch)
    if not rights.sessions:
        allowed = {name: number for name, number in allowed.items() if name not in ("setsid", "setpgid")}
    steps = [Step(_LOAD, 0, 0, _ARCH), Step(_EQUAL, 1, 0, arch.audit), _return(_KILL), Step(_LOAD, 0, 0, _NUMBER)]
    for name, number in syscalls.numbers(syscalls.CHECKED, on=arch).items():
        body = _checked(name, rights)
        steps += [Step(_EQUAL, 0, len(body), number), *body]
    return [*steps, *_tree(_ranges(sorted(set(allowed.values()))))]


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def _tree(ranges: Sequence[tuple[int, int]]) -> list[Step]:
    """Returns a search by halves: a filter is run for every call that there is when it is entered (to remember which
    are always allowed), and one after the other that took half a millisecond.
    """
    if len(ranges) == 1:
        [(low, high)] = ranges
        return [Step(_AT_LEAST, 0, 2, low), Step(_ABOVE, 1, 0, high), _return(_ALLOW), _refuse(errno.EPERM)]
    half = len(ranges) // 2
    left, right = _tree(ranges[:half]), _tree(ranges[half:])
    return [Step(_AT_LEAST, len(left), 0, ranges[half][0]), *left, *right]


def _checked(name: str, rights: Rights) -> list[Step]:
    """Returns what decides about a call whose arguments matter."""
    match name:
        case "clone" if rights.processes:
            return [_load(0), Step(_ANY, 0, 1, _NAMESPACES), _refuse(errno.EPERM), _return(_ALLOW)]
        case "clone":
            return [_load(0), Step(_ANY, 0, 1, _NAMESPACES), _refuse(errno.EPERM), *_unless_any(_THREAD)]
        case "clone3":  # its flags lie in memory, where no filter sees them; glibc then takes clone
            return [_refuse(errno.ENOSYS)]
        case "kill" | "tgkill" if rights.signals:
            return [_return(_ALLOW)]
        case "kill" | "tgkill":
            return [_load(0), *_one_of([_SELF], errno.EPERM)]
        case "prlimit64":
            return [_load(0), *_one_of([0, _SELF], errno.EPERM)]
        case "ioctl":
            return [_load(1), *_one_of(_IOCTLS, errno.ENOTTY)]
        case "prctl":
            return [_load(0), *_one_of(_PRCTLS, errno.EPERM)]
        case "fcntl":  # a descriptor's owner gets a signal of choice, from the kernel itself
            steps = [_load(1)]
            for command in (_F_SETOWN, _F_SETSIG, _F_SETOWN_EX):
                steps += [Step(_EQUAL, 0, 1, command), _refuse(errno.EPERM)]
            return [*steps, _return(_ALLOW)]
        case "socketpair":  # a pair of datagram sockets could send to any socket with a name
            kind = [_load(1), Step(_AND, 0, 0, _KIND), *_one_of([_STREAM], errno.EPERM)]
            return [_load(0), Step(_EQUAL, 1, 0, _UNIX), _refuse(errno.EPERM), *kind]
    return [_refuse(errno.EPERM)]


def _load(argument: int) -> Step:
    return Step(_LOAD, 0, 0, _ARG0 + 8 * argument)


def _return(action: int) -> Step:
    return Step(_RETURN, 0, 0, action)


def _refuse(error: int) -> Step:
    return _return(_ERRNO | error)


def _unless_any(bits: int) -> list[Step]:
    return [Step(_ANY, 1, 0, bits), _refuse(errno.EPERM), _return(_ALLOW)]


def _one_of(values: Sequence[int], error: int) -> list[Step]:
    steps = [step for value in values for step in (Step(_EQUAL, 0, 1, value), _return(_ALLOW))]
    return [*steps, _refuse(error)]


class Filter:
    """A filter that is ready to be entered by one process after the other.

    Raises:
        OSError: The architecture is not known.
    """

    def __init__(self, rights: Rights) -> None:
        arch = syscalls.arch()
        if arch is None:
            raise OSError(errno.ENOSYS, "the system calls of this architecture are not known to the jail")
        steps = assemble(arch, rights)
        self._own = [where for where, step in enumerate(steps) if step.k == _SELF]
        self._code = ctypes.create_string_buffer(b"".join(_INSTRUCTION.pack(*step) for step in steps))
        program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(self._code))
        self._enter = kernel.prepared("seccomp", _MODE_FILTER, 0, program)

    def enter(self, pid: int) -> None:
        """Binds this process, whose number is `pid`, and all that it starts, for good; no_new_privs must be set.

        Raises:
            OSError: The kernel refuses.
        """
        for where in self._own:
            struct.pack_into("<I", self._code, where * _INSTRUCTION.size + 4, pid)
        if self._enter() < 0:
            raise kernel.refusal("seccomp")
