"""Seccomp profiles: containerd's default, profiles in files, and the rules that apply to a container.

Pure: no I/O, no clock, no randomness. `seccomp` compiles the resulting plan. A profile has the format of
`linux.seccomp` in the OCI runtime specification, with Docker's additions: `archMap`, and `includes` and `excludes` of a
rule.
Source: opencontainers/runtime-spec config-linux.md; moby/profiles seccomp/seccomp.go; opencontainers/runc
libcontainer/seccomp.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable
from typing import Final

import msgspec

from bridgehead.network.uapi.personality import PER_LINUX, PER_LINUX32, UNAME26
from bridgehead.network.uapi.sched import (
    CLONE_NEWCGROUP,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
)
from bridgehead.network.uapi.seccomp import (
    SECCOMP_RET_ALLOW,
    SECCOMP_RET_ERRNO,
    SECCOMP_RET_KILL_PROCESS,
    SECCOMP_RET_KILL_THREAD,
    SECCOMP_RET_LOG,
    SECCOMP_RET_TRACE,
    SECCOMP_RET_TRAP,
)
from bridgehead.network.uapi.socket import AF_ALG, AF_VSOCK

# uname(2)'s name of a machine -> Go's name, which profiles use in `includes` and `excludes`.
_GO_NAMES: Final = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "ppc64": "ppc64",
    "ppc64le": "ppc64le",
    "s390x": "s390x",
    "riscv64": "riscv64",
    "loongarch64": "loong64",
    "mips64": "mips64",
}
# The system call tables that the default profile allows, by Go's name of the machine.
_DEFAULT_ARCHITECTURES: Final = {
    "amd64": ("SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"),
    "arm64": ("SCMP_ARCH_ARM", "SCMP_ARCH_AARCH64"),
    "s390x": ("SCMP_ARCH_S390", "SCMP_ARCH_S390X"),
    "mips64": ("SCMP_ARCH_MIPS", "SCMP_ARCH_MIPS64", "SCMP_ARCH_MIPS64N32"),
}
_ACTIONS: Final = {
    "SCMP_ACT_KILL": SECCOMP_RET_KILL_THREAD,
    "SCMP_ACT_KILL_THREAD": SECCOMP_RET_KILL_THREAD,
    "SCMP_ACT_KILL_PROCESS": SECCOMP_RET_KILL_PROCESS,
    "SCMP_ACT_TRAP": SECCOMP_RET_TRAP,
    "SCMP_ACT_ERRNO": SECCOMP_RET_ERRNO,
    "SCMP_ACT_TRACE": SECCOMP_RET_TRACE,
    "SCMP_ACT_LOG": SECCOMP_RET_LOG,
    "SCMP_ACT_ALLOW": SECCOMP_RET_ALLOW,
}
_ACTIONS_WITH_ERRNO: Final = {"SCMP_ACT_ERRNO", "SCMP_ACT_TRACE"}
# enum scmp_compare of libseccomp.
_OPERATORS: Final = {
    "SCMP_CMP_NE": 1,
    "SCMP_CMP_LT": 2,
    "SCMP_CMP_LE": 3,
    "SCMP_CMP_EQ": 4,
    "SCMP_CMP_GE": 5,
    "SCMP_CMP_GT": 6,
    "SCMP_CMP_MASKED_EQ": 7,
}
_ARGUMENTS: Final = 6  # of a system call
# TSYNC concerns other threads, which a new container does not have; `seccomp.install` always sets SPEC_ALLOW.
_FLAGS: Final = {"SECCOMP_FILTER_FLAG_TSYNC", "SECCOMP_FILTER_FLAG_SPEC_ALLOW"}

_CLONE_NEW_ANY: Final = (
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET
)
_FAMILIES_END: Final = 46  # above the address families that containerd's profile allows
_MAX_ERRNO: Final = 4095  # the kernel's MAX_ERRNO


class BadProfile(ValueError):
    """A profile that cannot be applied; the message is one line."""


class Argument(msgspec.Struct, frozen=True, kw_only=True):
    """A condition on one argument of a system call. `value` is the mask for SCMP_CMP_MASKED_EQ, `value_two` its
    result."""

    index: int
    value: int
    value_two: int = msgspec.field(default=0, name="valueTwo")
    op: str


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """The condition of a rule: capabilities of the container ("CAP_SYS_ADMIN"), machines, the kernel ("4.8")."""

    caps: tuple[str, ...] = ()
    arches: tuple[str, ...] = ()
    min_kernel: str = msgspec.field(default="", name="minKernel")


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """The action for system calls in `names` whose arguments match all of `args`."""

    names: tuple[str, ...] = ()
    name: str = ""
    action: str
    errno: int | None = msgspec.field(default=None, name="errnoRet")
    args: tuple[Argument, ...] | None = None
    includes: Condition = Condition()
    excludes: Condition = Condition()


class SubArchitectures(msgspec.Struct, frozen=True, kw_only=True):
    architecture: str
    sub: tuple[str, ...] | None = msgspec.field(default=None, name="subArchitectures")


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    default_action: str = msgspec.field(name="defaultAction")
    default_errno: int | None = msgspec.field(default=None, name="defaultErrnoRet")
    architectures: tuple[str, ...] | None = None
    arch_map: tuple[SubArchitectures, ...] | None = msgspec.field(default=None, name="archMap")
    flags: tuple[str, ...] | None = None
    listener_path: str = msgspec.field(default="", name="listenerPath")
    syscalls: tuple[Rule, ...] | None = None


class Host(msgspec.Struct, frozen=True):
    """The host, for conditions of rules: `machine` and `release` as in uname(2)."""

    machine: str
    release: str


class Comparison(msgspec.Struct, frozen=True):
    """A comparison of one argument, as in libseccomp's `struct scmp_arg_cmp`."""

    index: int
    operator: int
    value: int
    value_two: int


class Decision(msgspec.Struct, frozen=True):
    """The action (SECCOMP_RET_*) for one system call if all comparisons are true."""

    syscall: str
    action: int
    comparisons: tuple[Comparison, ...] = ()


class Plan(msgspec.Struct, frozen=True):
    """A profile's decisions for one container. `default` is the action for all other system calls. `architectures` are
    libseccomp's names, in addition to the machine's own."""

    default: int
    architectures: tuple[str, ...]
    decisions: tuple[Decision, ...]


def parse_profile(text: bytes) -> Profile:
    """Raises `BadProfile`."""
    try:
        return msgspec.json.decode(text, type=Profile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadProfile(f"cannot decode seccomp profile: {' '.join(str(error).split())}") from error


def plan_filter(profile: Profile, capabilities: frozenset[str], host: Host) -> Plan:
    """The decisions of a profile. `capabilities` is the container's bounding set, names with or without "CAP_".

    Raises `BadProfile`.
    """
    if profile.listener_path:
        raise BadProfile("seccomp profile: listenerPath is not supported")
    for flag in profile.flags or ():
        if flag not in _FLAGS:
            raise BadProfile(f'seccomp profile: the flag "{flag}" is not supported')
    caps = frozenset(name if name.startswith("CAP_") else f"CAP_{name}" for name in map(str.upper, capabilities))
    default = _action(profile.default_action, profile.default_errno)
    decisions: list[Decision] = []
    for rule in profile.syscalls or ():
        if rule.name and rule.names:
            raise BadProfile("both 'name' and 'names' are specified in the seccomp profile, use only one")
        if not _applies(rule, caps, host):
            continue
        action = _action(rule.action, rule.errno)
        for name in rule.names or (rule.name,):
            if not name:
                raise BadProfile("seccomp profile: a rule has no system call")
            if action != default:  # libseccomp rejects a rule with the default action
                decisions += [Decision(name, action, each) for each in _alternatives(rule.args or ())]
    return Plan(default, _architectures(profile, host), tuple(decisions))


def _alternatives(args: tuple[Argument, ...]) -> Iterable[tuple[Comparison, ...]]:
    """The comparisons of one decision. A rule that compares one argument twice gives several decisions, one for each
    comparison, as in runc."""
    comparisons = tuple(map(_comparison, args))
    if len({each.index for each in comparisons}) == len(comparisons):
        return (comparisons,)
    return ((each,) for each in comparisons)


def _comparison(argument: Argument) -> Comparison:
    operator = _OPERATORS.get(argument.op)
    if operator is None:
        raise BadProfile(f'seccomp profile: invalid operator "{argument.op}"')
    if not 0 <= argument.index < _ARGUMENTS:
        raise BadProfile(f"seccomp profile: invalid argument index {argument.index}: system calls have six")
    for value in (argument.value, argument.value_two):
        if not 0 <= value < 1 << 64:
            raise BadProfile(f"seccomp profile: the value {value} does not fit into 64 bits")
    return Comparison(argument.index, operator, argument.value, argument.value_two)


def _action(name: str, number: int | None) -> int:
    if name == "SCMP_ACT_NOTIFY":
        raise BadProfile("seccomp profile: the action SCMP_ACT_NOTIFY is not supported: there is no agent")
    if name not in _ACTIONS:
        raise BadProfile(f'seccomp profile: invalid action "{name}"')
    if name not in _ACTIONS_WITH_ERRNO:
        return _ACTIONS[name]
    number = errno.EPERM if number is None else number
    if not 0 <= number <= _MAX_ERRNO:
        raise BadProfile(f"seccomp profile: invalid errno {number}")
    return _ACTIONS[name] | number


def _applies(rule: Rule, caps: frozenset[str], host: Host) -> bool:
    arch = _GO_NAMES.get(host.machine, host.machine)
    excludes, includes = rule.excludes, rule.includes
    if arch in excludes.arches or caps.intersection(excludes.caps):
        return False
    if excludes.min_kernel and _is_at_least(host.release, excludes.min_kernel):
        return False
    if includes.arches and arch not in includes.arches:
        return False
    if includes.min_kernel and not _is_at_least(host.release, includes.min_kernel):
        return False
    return caps.issuperset(includes.caps)


def _is_at_least(release: str, minimum: str) -> bool:
    wanted = re.fullmatch(r"(\d+)\.(\d+)", minimum)
    if wanted is None:
        raise BadProfile(f'seccomp profile: invalid kernel version "{minimum}": expected "<kernel>.<major>"')
    has = re.match(r"(\d+)\.(\d+)", release)
    return has is not None and (int(has[1]), int(has[2])) >= (int(wanted[1]), int(wanted[2]))


def _architectures(profile: Profile, host: Host) -> tuple[str, ...]:
    if profile.architectures and profile.arch_map:
        raise BadProfile("both 'architectures' and 'archMap' are specified in the seccomp profile, use only one")
    names = list(profile.architectures or ())
    for entry in profile.arch_map or ():
        if _scmp_name(entry.architecture) == host.machine:
            names += [entry.architecture, *(entry.sub or ())]
    for name in names:
        if not name.startswith("SCMP_ARCH_"):
            raise BadProfile(f'seccomp profile: invalid architecture "{name}"')
    return tuple(dict.fromkeys(map(_scmp_name, names)))


def _scmp_name(name: str) -> str:
    return name.removeprefix("SCMP_ARCH_").lower()


# containerd's default profile.
# Source: containerd 2.x, contrib/seccomp/seccomp_default.go, with AF_ALG refused as since its change 13327 (2026).

_ALLOWED: Final = """
    accept accept4 access adjtimex alarm bind brk cachestat capget capset chdir chmod chown chown32 clock_adjtime
    clock_adjtime64 clock_getres clock_getres_time64 clock_gettime clock_gettime64 clock_nanosleep
    clock_nanosleep_time64 close close_range connect copy_file_range creat dup dup2 dup3 epoll_create epoll_create1
    epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2 execve execveat exit
    exit_group faccessat faccessat2 fadvise64 fadvise64_64 fallocate fanotify_mark fchdir fchmod fchmodat fchmodat2
    fchown fchown32 fchownat fcntl fcntl64 fdatasync fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat
    fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate ftruncate64 futex futex_requeue futex_time64 futex_wait
    futex_waitv futex_wake futimesat get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid
    getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32 getitimer getpeername getpgid getpgrp getpid
    getppid getpriority getrandom getresgid getresgid32 getresuid getresuid32 getrlimit getrusage getsid getsockname
    getsockopt gettid gettimeofday getuid getuid32 getxattr getxattrat inotify_add_watch inotify_init inotify_init1
    inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents io_pgetevents_time64 io_setup io_submit ioctl
    ioprio_get ioprio_set ipc kill landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown lchown32
    lgetxattr link linkat listen listmount listxattr listxattrat llistxattr _llseek lremovexattr lseek lsetxattr
    lsm_get_self_attr lsm_list_modules lsm_set_self_attr lstat lstat64 madvise map_shadow_stack membarrier
    memfd_create memfd_secret mincore mkdir mkdirat mknod mknodat mlock mlock2 mlockall mmap mmap2 mprotect
    mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 mq_unlink
    mremap mseal msgctl msgget msgrcv msgsnd msync munlock munlockall munmap name_to_handle_at nanosleep newfstatat
    _newselect open openat openat2 pause pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free pkey_mprotect
    poll ppoll ppoll_time64 prctl pread64 preadv preadv2 prlimit64 process_mrelease pselect6 pselect6_time64 pwrite64
    pwritev pwritev2 read readahead readlink readlinkat readv recv recvfrom recvmmsg recvmmsg_time64 recvmsg
    remap_file_pages removexattr removexattrat rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction
    rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64
    rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam
    sched_getscheduler sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity sched_setattr
    sched_setparam sched_setscheduler sched_yield seccomp select semctl semget semop semtimedop semtimedop_time64 send
    sendfile sendfile64 sendmmsg sendmsg sendto set_robust_list set_thread_area set_tid_address setfsgid setfsgid32
    setfsuid setfsuid32 setgid setgid32 setgroups setgroups32 setitimer setpgid setpriority setregid setregid32
    setresgid setresgid32 setresuid setresuid32 setreuid setreuid32 setrlimit setsid setsockopt setuid setuid32
    setxattr setxattrat shmat shmctl shmdt shmget shutdown sigaltstack signalfd signalfd4 sigprocmask sigreturn
    socketcall socketpair splice stat stat64 statfs statfs64 statmount statx symlink symlinkat sync sync_file_range
    syncfs sysinfo tee tgkill time timer_create timer_delete timer_getoverrun timer_gettime timer_gettime64
    timer_settime timer_settime64 timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime timerfd_settime64
    times tkill truncate truncate64 ugetrlimit umask uname unlink unlinkat uretprobe utime utimensat utimensat_time64
    utimes vfork vmsplice wait4 waitid waitpid write writev
"""
_ALLOWED_ON: Final = {
    "ppc64le": "sync_file_range2 swapcontext",
    "arm64": "arm_fadvise64_64 arm_sync_file_range sync_file_range2 breakpoint cacheflush set_tls",
    "amd64": "arch_prctl modify_ldt",
    "s390x": "s390_pci_mmio_read s390_pci_mmio_write s390_runtime_instr",
    "riscv64": "riscv_flush_icache riscv_hwprobe",
}
_ALLOWED_WITH: Final = {
    "CAP_DAC_READ_SEARCH": "open_by_handle_at",
    "CAP_SYS_ADMIN": """
        bpf clone clone3 fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie mount mount_setattr move_mount
        open_tree perf_event_open quotactl quotactl_fd setdomainname sethostname setns syslog umount umount2 unshare
    """,
    "CAP_SYS_BOOT": "reboot",
    "CAP_SYS_CHROOT": "chroot",
    "CAP_SYS_MODULE": "delete_module init_module finit_module",
    "CAP_SYS_NICE": "get_mempolicy mbind set_mempolicy set_mempolicy_home_node",
    "CAP_SYS_PACCT": "acct",
    "CAP_SYS_PTRACE": "kcmp pidfd_getfd process_madvise process_vm_readv process_vm_writev ptrace",
    "CAP_SYS_RAWIO": "iopl ioperm",
    "CAP_SYS_TIME": "settimeofday stime clock_settime clock_settime64",
    "CAP_SYS_TTY_CONFIG": "vhangup",
    "CAP_SYSLOG": "syslog",
    "CAP_BPF": "bpf",
    "CAP_PERFMON": "perf_event_open",
}
_PERSONALITIES: Final = (PER_LINUX, PER_LINUX32, UNAME26, UNAME26 | PER_LINUX32, 0xFFFFFFFF)  # the last one: no change
_NOT_ADMIN: Final = Condition(caps=("CAP_SYS_ADMIN",))


def default_profile(host: Host) -> Profile:
    """containerd's default profile, for all sets of capabilities."""
    arch = _GO_NAMES.get(host.machine, host.machine)
    rules = [_allow(_ALLOWED)]
    # The filter compares 64 bits, the kernel uses 32: "greater than AF_VSOCK" would allow 2^32 + AF_ALG.
    families = [Argument(index=0, value=AF_ALG, op="SCMP_CMP_LT")]
    families += [
        Argument(index=0, value=family, op="SCMP_CMP_EQ")
        for family in range(AF_ALG + 1, _FAMILIES_END)
        if family != AF_VSOCK
    ]
    rules += [_allow("socket", (family,)) for family in families]
    rules += [_allow("personality", (Argument(index=0, value=each, op="SCMP_CMP_EQ"),)) for each in _PERSONALITIES]
    # In earlier kernels a tracer can change a system call after the filter has run.
    rules.append(_allow("process_vm_readv process_vm_writev ptrace", includes=Condition(min_kernel="4.8")))
    rules += [_allow(names, includes=Condition(arches=(on,))) for on, names in _ALLOWED_ON.items()]
    rules += [_allow(names, includes=Condition(caps=(cap,))) for cap, names in _ALLOWED_WITH.items()]
    flags = Argument(index=1 if arch == "s390x" else 0, value=_CLONE_NEW_ANY, op="SCMP_CMP_MASKED_EQ")
    rules.append(_allow("clone", (flags,), excludes=_NOT_ADMIN))
    # The flags of clone3 are in memory, which a filter cannot read. After ENOSYS, C libraries use clone.
    rules.append(Rule(names=("clone3",), action="SCMP_ACT_ERRNO", errno=errno.ENOSYS, excludes=_NOT_ADMIN))
    return Profile(
        default_action="SCMP_ACT_ERRNO",
        architectures=_DEFAULT_ARCHITECTURES.get(arch, ()),
        syscalls=tuple(rules),
    )


def _allow(
    names: str,
    args: tuple[Argument, ...] = (),
    *,
    includes: Condition = Condition(),  # noqa: B008 - frozen
    excludes: Condition = Condition(),  # noqa: B008
) -> Rule:
    return Rule(names=tuple(names.split()), action="SCMP_ACT_ALLOW", args=args, includes=includes, excludes=excludes)
