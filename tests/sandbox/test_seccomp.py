"""Interprets the filter as the kernel would, on both architectures."""

import errno
import itertools
import struct

import pytest

from atoll.sandbox.linux import seccomp, syscalls
from atoll.sandbox.linux.seccomp import Rights, assemble, assemble_candidate, assemble_server

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
SELF = 77
ARCHS = list(syscalls.ARCHS)


def run(arch: str, rights: Rights, name: str | int, *args: int, audit: int | None = None, make=assemble) -> int:
    """Runs a filter on one call and returns its action."""
    known = syscalls.ARCHS[arch]
    tables = (
        syscalls.HARMLESS,
        syscalls.CHECKED,
        syscalls.FILES,
        syscalls.PROCESSES,
        syscalls.NETWORK,
        syscalls.SANDBOX_CALLS,
        syscalls.SERVER_CALLS,
    )
    number = syscalls.get_numbers(*tables, arch=known)[name] if isinstance(name, str) else name
    filled = [arg & (2**64 - 1) for arg in (*args, *(0,) * (6 - len(args)))]
    data = struct.pack("<iIQ6Q", number, known.audit if audit is None else audit, 0, *filled)
    steps, value, at = make(known, rights), 0, 0
    while True:
        code, if_so, if_not, k = steps[at]
        k = SELF if k == seccomp._OWN_PID else k
        at += 1
        if code == 0x06:
            return k
        if code == 0x20:
            value = int(struct.unpack_from("<I", data, k)[0])
        elif code == 0x54:
            value &= k
        else:
            holds = {0x15: value == k, 0x25: value > k, 0x35: value >= k, 0x45: bool(value & k)}[code]
            at += if_so if holds else if_not


def test_tables_match_the_kernel():
    x86, arm = (syscalls.get_numbers(syscalls.HARMLESS, arch=syscalls.ARCHS[arch]) for arch in ("x86_64", "aarch64"))
    assert (x86["read"], x86["openat"], x86["futex"], x86["getrandom"]) == (0, 257, 202, 318)
    assert (arm["read"], arm["openat"], arm["futex"], arm["getrandom"]) == (63, 56, 98, 278)
    assert "open" not in arm
    for table in (x86, arm):
        assert len(set(table.values())) == len(table)


@pytest.mark.parametrize("arch", ARCHS)
def test_filter_allows_only_harmless_calls(arch):
    for name, number in syscalls.get_numbers(syscalls.HARMLESS, arch=syscalls.ARCHS[arch]).items():
        assert run(arch, Rights(), number) == ALLOW, name
    for name in ("mount", "unshare", "pivot_root", "seccomp", "socket", "execve", "fchmod", "truncate"):
        assert run(arch, Rights(), name) == ERRNO | errno.EPERM
    assert run(arch, Rights(), 9999) == ERRNO | errno.EPERM


@pytest.mark.parametrize("arch", ARCHS)
def test_filter_kills_calls_of_another_architecture(arch):
    assert run(arch, Rights(), "read", audit=0x40000003) == KILL


@pytest.mark.parametrize("arch", ARCHS)
def test_filter_checks_arguments(arch):
    narrow, wide = Rights(), Rights(attributes=True, processes=True, signals=True, sessions=True, network=True)
    refused = ERRNO | errno.EPERM
    assert run(arch, narrow, "clone", 0x3D0F00) == ALLOW  # a thread
    assert run(arch, narrow, "clone", 0x11) == refused
    assert run(arch, narrow, "clone", 0x10000000 | 0x3D0F00) == refused
    assert run(arch, wide, "clone", 0x11) == ALLOW
    assert run(arch, wide, "clone", 0x10000011) == refused
    assert run(arch, wide, "clone3") == ERRNO | errno.ENOSYS
    assert run(arch, narrow, "kill", SELF) == ALLOW
    for pid in (1, 0, -1, SELF + 1):
        assert run(arch, narrow, "kill", pid) == refused
    assert run(arch, wide, "kill", 5) == ALLOW
    assert run(arch, wide, "tkill", SELF) == refused
    assert run(arch, narrow, "prlimit64", 0) == ALLOW
    assert run(arch, narrow, "prlimit64", 1) == refused
    assert run(arch, narrow, "fcntl", 3, 1) == ALLOW
    for command in (8, 10, 15):
        assert run(arch, wide, "fcntl", 3, command) == refused
    assert run(arch, narrow, "ioctl", 0, 0x5401) == ALLOW
    assert run(arch, narrow, "ioctl", 0, 0x5412) == ERRNO | errno.ENOTTY
    assert run(arch, narrow, "socketpair", 1, 1 | 0o2000000) == ALLOW
    assert run(arch, narrow, "socketpair", 1, 2) == refused
    assert run(arch, narrow, "socketpair", 2, 1) == refused
    assert run(arch, narrow, "prctl", 15) == ALLOW
    assert run(arch, narrow, "prctl", 22) == refused
    for name in ("socket", "execve", "fchmod", "setsid"):
        assert run(arch, wide, name) == ALLOW
    assert run(arch, Rights(processes=True), "setsid") == refused


@pytest.mark.parametrize("arch", ARCHS)
def test_both_filters_of_a_candidate_allow_the_same_as_the_whole_one(arch):
    arguments = [(), (SELF,), (SELF + 1,), (1, 1), (1, 2), (0x11,), (0x3D0F00,), (0x10010000,), (3, 8), (3, 0x5401)]
    arguments += [(number,) for number in (1, 3, 4, 15, 22, 38)]
    for rights in (
        Rights(),
        Rights(True),
        Rights(True, True, True, True),
        Rights(processes=True),
        Rights(network=True),
    ):
        programs = {
            make: make(syscalls.ARCHS[arch], rights) for make in (assemble, assemble_server, assemble_candidate)
        }
        checked = syscalls.get_numbers(syscalls.CHECKED, arch=syscalls.ARCHS[arch]).values()
        calls = [*itertools.product(checked, arguments), *itertools.product((*range(480), 1024, 0x40000001), [()])]
        for number, args in calls:
            whole, server, candidate = (
                run(arch, rights, number, *args, make=lambda *_, steps=steps: steps) for steps in programs.values()
            )
            assert whole == (candidate if candidate != ALLOW else server), (rights, number, args)
    assert run(arch, Rights(), "read", audit=0x40000003, make=assemble_server) == KILL


@pytest.mark.parametrize("arch", ARCHS)
def test_fork_server_can_do_its_work(arch):
    for name in ("clone", "kill", "wait4", "seccomp", "landlock_restrict_self", "memfd_create", "pidfd_open", "fchmod"):
        assert run(arch, Rights(), name, 17, make=assemble_server) == ALLOW
    for name in ("mount", "unshare", "socket", "execve", "capset", "pivot_root"):
        assert run(arch, Rights(), name, make=assemble_server) == ERRNO | errno.EPERM


@pytest.mark.parametrize("arch", ARCHS)
def test_all_jumps_are_inside_the_program(arch):
    for rights, make in itertools.product(
        (Rights(), Rights(True, True, True, True, True)), (assemble, assemble_server, assemble_candidate)
    ):
        steps = make(syscalls.ARCHS[arch], rights)
        assert all(max(step.jump_if_true, step.jump_if_false) < 256 for step in steps)
        assert len(steps) < 4096  # the kernel's limit
        assert all(
            at + 1 + max(step.jump_if_true, step.jump_if_false) < len(steps) or step.code == 6
            for at, step in enumerate(steps)
        )
