"""Tables of system calls as name:x86_64:aarch64; the number is empty if the architecture lacks the call.

The numbers come from the kernel's `asm/unistd_64.h` and `asm-generic/unistd.h`. Calls outside HARMLESS need a right.
Calls in no table are never allowed: ptrace, bpf, keyctl, io_uring, and all calls of later kernels.
"""

import os
from typing import NamedTuple


class Arch(NamedTuple):
    """One architecture.

    Attributes:
        audit: Its constant in seccomp filters.
        column: Its column in the tables.
    """

    audit: int
    column: int


ARCHS = {"x86_64": Arch(0xC000003E, 1), "aarch64": Arch(0xC00000B7, 2)}

# Affect only the caller's own memory, clock and descriptors, or files, which mounts and Landlock protect.
HARMLESS = """
    access:21: alarm:37: arch_prctl:158: brk:12:214 capget:125:90 chdir:80:49 clock_getres:229:114
    clock_gettime:228:113 clock_nanosleep:230:115 close:3:57 close_range:436:436 copy_file_range:326:285 creat:85:
    dup:32:23 dup2:33: dup3:292:24 epoll_create:213: epoll_create1:291:20 epoll_ctl:233:21 epoll_pwait:281:22
    epoll_pwait2:441:441 epoll_wait:232: eventfd:284: eventfd2:290:19 exit:60:93 exit_group:231:94 faccessat:269:48
    faccessat2:439:439 fadvise64:221:223 fchdir:81:50 fdatasync:75:83 fgetxattr:193:10
    flistxattr:196:13 flock:73:32 fstat:5:80 fstatfs:138:44 fsync:74:82 ftruncate:77:46 futex:202:98
    futex_waitv:449:449 get_robust_list:274:100 getcpu:309:168 getcwd:79:17 getdents:78: getdents64:217:61
    getegid:108:177 geteuid:107:175 getgid:104:176 getgroups:115:158 getitimer:36:102 getpeername:52:205
    getpgid:121:155 getpgrp:111: getpid:39:172 getppid:110:173 getpriority:140:141 getrandom:318:278
    getresgid:120:150 getresuid:118:148 getrlimit:97:163 getrusage:98:165 getsid:124:156 getsockname:51:204
    getsockopt:55:209 gettid:186:178 gettimeofday:96:169 getuid:102:174 getxattr:191:8 lgetxattr:192:9 link:86:
    linkat:265:37 listxattr:194:11 llistxattr:195:12 lseek:8:62 lstat:6: madvise:28:233 membarrier:324:283
    mincore:27:232 mkdir:83: mkdirat:258:34 mmap:9:222 mprotect:10:226 mremap:25:216 msync:26:227 munmap:11:215
    nanosleep:35:101 newfstatat:262:79 open:2: openat:257:56 openat2:437:437 pause:34: pipe:22: pipe2:293:59 poll:7:
    ppoll:271:73 pread64:17:67 preadv:295:69 preadv2:327:286 pselect6:270:72 pwrite64:18:68 pwritev:296:70
    pwritev2:328:287 read:0:63 readlink:89: readlinkat:267:78 readv:19:65 recvfrom:45:207 recvmsg:47:212 rename:82:
    renameat:264:38 renameat2:316:276 restart_syscall:219:128 rmdir:84: rseq:334:293 rt_sigaction:13:134
    rt_sigpending:127:136 rt_sigprocmask:14:135 rt_sigreturn:15:139 rt_sigsuspend:130:133 rt_sigtimedwait:128:137
    sched_get_priority_max:146:125 sched_get_priority_min:147:126 sched_getaffinity:204:123 sched_getparam:143:121
    sched_getscheduler:145:120 sched_rr_get_interval:148:127 sched_yield:24:124 select:23: sendfile:40:71
    sendto:44:206 set_robust_list:273:99 set_tid_address:218:96 setitimer:38:103 setsockopt:54:208
    shutdown:48:210 sigaltstack:131:132 signalfd:282: signalfd4:289:74 stat:4: statfs:137:43 statx:332:291
    symlink:88: symlinkat:266:36 sync_file_range:277:84 sysinfo:99:179 time:201: timer_create:222:107
    timer_delete:226:111 timer_getoverrun:225:109 timer_gettime:224:108 timer_settime:223:110 timerfd_create:283:85
    timerfd_gettime:287:87 timerfd_settime:286:86 times:100:153 umask:95:166 uname:63:160 unlink:87: unlinkat:263:35
    wait4:61:260 waitid:247:95 write:1:64 writev:20:66
"""

# Allowed for some arguments; see `seccomp.py`.
CHECKED = """
    clone:56:220 clone3:435:435 fcntl:72:25 ioctl:16:29 kill:62:129 prctl:157:167 prlimit64:302:261
    socketpair:53:199 tgkill:234:131 tkill:200:130
"""

# Change files without opening them. Landlock cannot see that, so mounts must protect the files. A message can carry a
# removed file, and `fallocate` takes gigabytes at once: only a folder of a fixed size limits these two.
FILES = """
    chmod:90: chown:92: fallocate:285:47 fchmod:91:52 fchmodat:268:53 fchmodat2:452:452 fchown:93:55 fchownat:260:54
    futimesat:261: lchown:94: sendmsg:46:211 truncate:76:45 utime:132: utimensat:280:88 utimes:235:
"""

# Start processes and programs, or leave the process group.
PROCESSES = """
    execve:59:221 fork:57: pidfd_open:434:434
    setpgid:109:154 setsid:112:157 vfork:58:
"""

# Communicate with other processes.
NETWORK = """
    accept:43:202 accept4:288:242 bind:49:200 connect:42:203 listen:50:201 recvmmsg:299:243 sendmmsg:307:269
    sendmsg:46:211 socket:41:198
"""

# Used to set up the sandbox; never allowed for candidates.
SANDBOX_CALLS = """
    capset:126:91 landlock_add_rule:445:445 landlock_create_ruleset:444:444 landlock_restrict_self:446:446
    mount:165:40 mount_setattr:442:442 pivot_root:155:41 seccomp:317:277 sethostname:170:161
    umount2:166:39 unshare:272:97
"""

# Needed by a fork server that has a filter of its own; its candidates have them only if another table does.
SERVER_CALLS = """
    chmod:90: fchmod:91:52 fchmodat:268:53 fork:57: landlock_restrict_self:446:446 memfd_create:319:279
    pidfd_open:434:434 seccomp:317:277 utimensat:280:88 vfork:58:
"""


def detect_arch() -> Arch | None:
    """Returns the architecture of this machine; None: not supported."""
    return ARCHS.get(os.uname().machine)


def get_numbers(*tables: str, arch: Arch) -> dict[str, int]:
    """Returns the numbers of all calls in the tables, by name."""
    rows = [row.split(":") for table in tables for row in table.split()]
    return {row[0]: int(row[arch.column]) for row in rows if row[arch.column]}
