"""Programs of malicious candidates and their expected failures. `W` holds paths, ports and pids outside the sandbox."""

from typing import NamedTuple

from atoll.sandbox.linux import syscalls

ABSENT = r"it raised FileNotFoundError"  # at L3 the path does not exist
DENIED = r"the sandbox does not allow it: PermissionError"
BLOCKED = r"the sandbox does not allow it: PermissionError: \[Errno 1\] Operation not permitted"
NO_FILE = rf"{ABSENT}|{DENIED}"
NO_WRITE = rf"{ABSENT}|the sandbox does not allow it: (OSError: \[Errno 30\]|PermissionError)"

SYSCALL = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    if libc.syscall(number, *args) < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
"""

# name:x86_64:aarch64, as in atoll.sandbox.linux.syscalls, of calls that no candidate may make; aarch64 has no fork.
FORBIDDEN = """
    add_key:248:217 bpf:321:280 chroot:161:51 clock_settime:227:112 clone:56:220 execve:59:221 fork:57:
    io_uring_setup:425:425 keyctl:250:219 memfd_create:319:279 mount:165:40 open_by_handle_at:304:265
    perf_event_open:298:241 pidfd_open:434:434 pivot_root:155:41 prctl:157:167 process_vm_readv:310:270 ptrace:101:117
    reboot:169:142 setns:308:268 setuid:105:146 shmget:29:194 umount2:166:39 unshare:272:97 userfaultfd:323:282
"""
# Refused whatever their arguments are: other ways to reach processes, memory, files, devices and the scheduler.
ALWAYS_FORBIDDEN = """
    acct:163:89 execveat:322:281 fanotify_init:300:262 init_module:175:105 inotify_init1:294:26 ioprio_set:251:30
    kcmp:312:272 kexec_load:246:104 memfd_secret:447:447 mlock:149:228 mq_open:240:180 msgget:68:186
    name_to_handle_at:303:264 personality:135:92 pidfd_getfd:438:438 process_madvise:440:440 process_vm_writev:311:271
    rt_sigqueueinfo:129:138 sched_setaffinity:203:122 sched_setscheduler:144:119 seccomp:317:277 semget:64:190
    setpriority:141:140 setxattr:188:5 splice:275:76 syslog:103:116 tkill:200:130 vmsplice:278:75
"""
NUMBERS = syscalls.get_numbers(FORBIDDEN, ALWAYS_FORBIDDEN, arch=syscalls.detect_arch() or syscalls.ARCHS["x86_64"])


class Attack(NamedTuple):
    """A program, and the pattern of its failure; or its answer, if the attempt has no effect."""

    program: str
    failure: str = ""
    answer: object = None


def reading(path: str) -> Attack:
    return Attack(f"answer = open({path}).read()", NO_FILE)


def calling(name: str, *args: str) -> Attack:
    return Attack(f"{SYSCALL}\ncall({', '.join([str(NUMBERS[name]), *args])})", BLOCKED)


READS = {
    "a file of the home": reading("W['home'] + '/.netrc'"),
    "the list of the home": Attack("import os; answer = os.listdir(W['home'])", NO_FILE),
    "the passwords": reading("'/etc/shadow'"),
    "the users": reading("'/etc/passwd'"),
    "the store": reading("W['store']"),
    "the evaluator's source": reading("W['evaluator']"),
    "the test data": reading("W['data']"),
    "the environment": Attack("import os; answer = 'SECRET' in str(dict(os.environ))", answer=False),
    "the environment of the parent": reading("f\"/proc/{W['parent']}/environ\""),
    "the memory of the parent": reading("f\"/proc/{W['parent']}/mem\""),
    "its own environment by /proc": reading("'/proc/self/environ'"),
    "the root by /proc": reading("'/proc/1/' 'root/etc/shadow'"),
    "an open descriptor by /proc": reading("f\"/proc/{W['parent']}/fd/1\""),
    "the parent's descriptors": Attack("import os; answer = os.listdir(f\"/proc/{W['parent']}/fd\")", NO_FILE),
    "a link to the passwords": Attack("import os; os.symlink('/etc/shadow', 'x'); answer = open('x').read()", NO_FILE),
    "a path with many dots": reading("'../' * 20 + 'etc/shadow'"),
    "the raw disk": reading("'/dev/sda'"),
    "the terminal": Attack("answer = open('/dev/tty', 'w')", rf"{NO_WRITE}|it raised OSError: \[Errno 6\]"),
    "the kernel's log": reading("'/dev/kmsg'"),
    "another scratch folder": Attack(
        "import os\nanswer = [n for n in os.listdir('..') if os.path.exists('../' + n + '/desk')]\n"
        "open(W['other'] + '/x')",
        NO_FILE,
    ),
    "what is open": Attack(
        "import os\nanswer = []\nfor fd in range(256):\n"
        "    try: os.fstat(fd); answer.append(fd)\n    except OSError: pass\nanswer = len(answer)",
        answer=6,  # nothing to read, two for printing and a spare of each kind, and the pipe of the result
    ),
}

WRITES = {
    "a new file outside": Attack("open(W['outside'] + '/new', 'w')", NO_WRITE),
    "a file outside": Attack("open(W['victim'], 'w')", NO_WRITE),
    "a library of Python": Attack("import os; open(os.__file__, 'a')", NO_WRITE),
    "the package of the sandbox": Attack(
        "import sys; open(W['package'] + '/sandbox/process/worker.py', 'a')", NO_WRITE
    ),
    "a mode outside": Attack("import os; os.chmod(W['victim'], 0o777)", NO_WRITE),
    "a time outside": Attack("import os; os.utime(W['victim'], (0, 0))", NO_WRITE),
    "a size outside": Attack("import os; os.truncate(W['victim'], 0)", NO_WRITE),
    "the mode of a library": Attack("import os; os.chmod(os.__file__, 0o777)", NO_WRITE),
    "a name outside": Attack("import os; os.rename(W['victim'], W['victim'] + '2')", NO_WRITE),
    "a removal outside": Attack("import os; os.unlink(W['victim'])", NO_WRITE),
    "a folder in the root": Attack("import os; os.mkdir('/new')", NO_WRITE),
    "a way through a link": Attack("import os; os.symlink(W['victim'], 'x'); open('x', 'w')", NO_WRITE),
    "a second name": Attack("import os; os.link(W['victim'], 'x'); open('x', 'w')", rf"{NO_WRITE}|it raised OSError"),
    "a device": Attack("import os; os.mknod('null', 0o20666, os.makedev(1, 3))", BLOCKED),
}

NETWORK = {
    "tcp": Attack("import socket; socket.create_connection(('127.0.0.1', W['port']), 2)", BLOCKED),
    "udp": Attack(
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', W['port']))",
        BLOCKED,
    ),
    "a unix socket": Attack("import socket; socket.socket(socket.AF_UNIX).connect(W['unix'])", BLOCKED),
    "an abstract socket": Attack(
        "import socket; socket.socket(socket.AF_UNIX).connect('\\0' + W['abstract'])", BLOCKED
    ),
    "a name": Attack(
        "import socket; socket.getaddrinfo('example.com', 80)", r"it raised gaierror|the sandbox does not allow it"
    ),
    "a page": Attack(
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1')", r"it raised URLError|" + BLOCKED
    ),
    "a raw socket": Attack("import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)", BLOCKED),
    "netlink": Attack("import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)", BLOCKED),
    "a server": Attack("import socket; socket.create_server(('127.0.0.1', 0))", BLOCKED),
    "a pair that can send to others": Attack(
        "import socket; a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendto(b'x', W['unix'])", BLOCKED
    ),
}

LIMITS = {
    "a fork bomb": Attack("import os\nwhile True: os.fork()", BLOCKED),
    "a thread bomb": Attack(
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
        r"it started more than 64 threads or processes|it used more than 512 MiB",
    ),
    "a memory bomb": Attack("x = []\nwhile True: x.append(bytes(2**20))", "it used more than 512 MiB"),
    "memory of no object": Attack("import mmap; x = mmap.mmap(-1, 2**31)", "it used more than 512 MiB|.*Errno 12"),
    "a large file": Attack(
        "with open('x', 'wb') as file:\n    while True: file.write(bytes(2**20))", "it wrote more than 32 MiB to files"
    ),
    "many files": Attack(
        "import time\nfor n in range(64):\n    open(f'x{n}', 'wb').write(bytes(2**20))\n    time.sleep(0.003)\n"
        "time.sleep(1)",
        "it wrote more than 32 MiB to files",
    ),
    "a flood of printing": Attack(
        "import os\nwhile True: os.write(1, b'x' * 2**20)", "it wrote more than 32 MiB to files"
    ),
    "a flood on the pipe of the result": Attack(
        "import os\nwhile True: os.write(3, b'x' * 2**16)", "it returned more than 10 kB"
    ),
    "a large answer": Attack("answer = 'x' * 10**6", "it returned 1 MB, more than 10 kB"),
    "a deep answer": Attack(
        "answer = []\nfor _ in range(10**5): answer = [answer]", "it returned data that is not plain JSON"
    ),
    "all descriptors": Attack("x = []\nwhile True: x.append(open('/dev/null'))", "it opened more than 256 files"),
    "more than the limits": Attack(
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
        "it raised ValueError: not allowed to raise",
    ),
}

TIME = {
    "sleep": Attack("import time; time.sleep(60)", "it took longer than 0.3 s"),
    "ignored signals": Attack(
        "import signal, time\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\ntime.sleep(60)",
        "it took longer than 0.3 s",
    ),
    "a stop": Attack("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", "it took longer than 0.3 s"),
}

ENDS = {
    "exit 0": Attack("import os; os._exit(0)", "it left its process with exit status 0"),
    "exit 3": Attack("import os; os._exit(3)", "it left its process with exit status 3"),
    "a segfault": Attack("import ctypes; ctypes.string_at(0)", r"its process died with signal 11 \(SIGSEGV\)"),
    "an abort": Attack("import os; os.abort()", r"its process died with signal 6 \(SIGABRT\)"),
    "SystemExit": Attack("raise SystemExit(3)", "it raised SystemExit: 3"),
    "KeyboardInterrupt": Attack("raise KeyboardInterrupt", "it raised KeyboardInterrupt"),
    "a stack overflow": Attack(
        "import sys; sys.setrecursionlimit(10**9)\nclass A:\n    def __getattr__(self, n): return getattr(self, n)\n"
        "A().x",
        "its process died with signal 11|it used more than|it raised (RecursionError|SystemError)",
    ),
    "what cannot be printed": Attack(
        "class Odd(Exception):\n    def __str__(self): raise SystemExit\nraise Odd", "it raised Odd"
    ),
}

OTHERS = {
    "the parent": Attack("import os; os.kill(W['parent'], 9)", BLOCKED),
    "the fork server": Attack("import os; os.kill(os.getppid(), 9)", BLOCKED),
    "a stranger": Attack("import os; os.kill(W['stranger'], 9)", BLOCKED),
    "everybody": Attack("import os; os.kill(-1, 9)", BLOCKED),
    "its group": Attack("import os; os.killpg(0, 9)", BLOCKED),
    "a signal by the owner of a pipe": Attack(
        "import fcntl, os, signal\nr, w = os.pipe()\nfcntl.fcntl(r, fcntl.F_SETSIG, signal.SIGKILL)\n"
        "fcntl.fcntl(r, fcntl.F_SETOWN, os.getppid())",
        BLOCKED,
    ),
    "a session of its own": Attack("import os; os.fork() or os.setsid()", BLOCKED),
    "a program": Attack("import subprocess; subprocess.run(['/bin/true'])", rf"{BLOCKED}|{NO_FILE}"),
    "a program in its place": Attack("import os, sys; os.execv(sys.executable, ['x'])", rf"{BLOCKED}|{NO_FILE}"),
    "a shell": Attack("import os; answer = os.system('id')", answer=127 << 8),
    "ptrace": calling("ptrace", "16", "W['parent']", "0", "0"),
    "the memory of a process": calling("process_vm_readv", "W['parent']", "0", "0", "0", "0", "0"),
}

CALLS = {
    "unshare": calling("unshare", "0x10000000"),
    "mount": calling("mount", "b'none'", "b'/tmp'", "b'tmpfs'", "0", "None"),
    "umount": calling("umount2", "b'/tmp'", "2"),
    "setns": calling("setns", "0", "0"),
    "pivot_root": calling("pivot_root", "b'.'", "b'.'"),
    "chroot": calling("chroot", "b'/'"),
    "bpf": calling("bpf", "0", "None", "0"),
    "keyctl": calling("keyctl", "0", "-3", "0"),
    "add_key": calling("add_key", "b'user'", "b'x'", "b'x'", "1", "-3"),
    "io_uring": calling("io_uring_setup", "8", "ctypes.create_string_buffer(256)"),
    "userfaultfd": calling("userfaultfd", "0"),
    "perf_event_open": calling("perf_event_open", "None", "0", "-1", "-1", "0"),
    "memfd_create": calling("memfd_create", "b'x'", "0"),
    "open_by_handle_at": calling("open_by_handle_at", "-100", "None", "0"),
    "pidfd_open": calling("pidfd_open", "W['parent']", "0"),
    "clone into a new user": calling("clone", "0x10000011", "0", "0", "0", "0"),
    "clone3": Attack(f"{SYSCALL}\ncall(435, None, 0)", r"it raised OSError: \[Errno 38\]"),
    **({"fork by number": calling("fork")} if "fork" in NUMBERS else {}),
    "exec by number": calling("execve", "b'/bin/true'", "None", "None"),
    "setuid": calling("setuid", "0"),
    "reboot": calling("reboot", "0", "0", "0", "None"),
    "the clock": calling("clock_settime", "0", "None"),
    "a shared segment": calling("shmget", "1", "100", "0o1666"),
    "seccomp off": calling("prctl", "22", "0", "0", "0", "0"),
    "a terminal's input": Attack(
        "import fcntl; fcntl.ioctl(1, 0x5412, b'x')", r"it raised OSError: \[Errno 25\]|the sandbox does not allow it"
    ),
    "a call of another architecture": Attack(f"{SYSCALL}\ncall(0x40000000 + 57)", BLOCKED),
    **{f"{row.partition(':')[0]} by number": calling(row.partition(":")[0]) for row in ALWAYS_FORBIDDEN.split()},
}

FORGERIES = {
    "noise on the pipe": Attack("import os; os.write(3, b'noise')\nanswer = 99", "it wrote to the pipe of its result"),
    "a frame too many": Attack(
        "import os; os.write(3, (15).to_bytes(8) + b'[null,false,99]')\nanswer = 99",
        "it wrote to the pipe of its result",
    ),
    "a frame without a result": Attack(
        "import os; os.write(3, (2).to_bytes(8) + b'[]'); os._exit(0)", "it wrote to the pipe of its result"
    ),
    "a deep frame": Attack(
        "import os; os.write(3, (9000).to_bytes(8) + b'[' * 9000); os._exit(0)", "it wrote to the pipe of its result"
    ),
    "a frame that promises more": Attack(
        "import os; os.write(3, (4 * 10**9).to_bytes(8)); os._exit(0)", "it wrote to the pipe of its result"
    ),
    "no pipe": Attack("import os; os.close(3)", "it left its process with exit status 1"),
    "its own score": Attack("import os; os.write(3, (15).to_bytes(8) + b'[null,false,99]'); os._exit(0)", answer=99),
    "a zip bomb": Attack(
        "import io, zipfile, base64\nfile = io.BytesIO()\nwith zipfile.ZipFile(file, 'w', zipfile.ZIP_DEFLATED) as z:\n"
        "    z.writestr('x', bytes(10**7))\nanswer = base64.b64encode(file.getvalue()).decode()",
        "it returned 1[0-9.]+ kB, more than 10 kB",
    ),
    "a pickle": Attack("import pickle; answer = pickle.dumps(print)", "it returned data that is not plain JSON: bytes"),
}

ALL = {
    f"{kind}: {name}": attack
    for kind, attacks in {
        "reads": READS,
        "writes": WRITES,
        "network": NETWORK,
        "limits": LIMITS,
        "ends": ENDS,
        "others": OTHERS,
        "calls": CALLS,
        "forgeries": FORGERIES,
    }.items()
    for name, attack in attacks.items()
}
