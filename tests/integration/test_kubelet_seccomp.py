"""Filters of system calls, compiled by libseccomp and installed in processes that then try them."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import signal
from collections.abc import Callable
from typing import Any

import pytest

from bridgehead.kubelet.runtimes.isolation import seccomp
from bridgehead.network.uapi.prctl import PR_SET_NO_NEW_PRIVS
from tests import forks

from .api_world import DEADLINE

pytestmark = pytest.mark.integration

# Capabilities of a container whose Pod does not set any (containerd's).
DEFAULT_NAMES = """
    AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE NET_RAW SETFCAP SETGID SETPCAP SETUID
    SYS_CHROOT
"""
DEFAULT = frozenset(DEFAULT_NAMES.split())
BAD = -1  # no valid pointer, descriptor or number of anything
HIGH = 1 << 32  # the kernel does not look at the upper half of an int
CLONE_FS, CLONE_NEWUSER = 0x200, 0x10000000

_ANSWER = 3  # the descriptor for the answer of a process with a filter

libc = ctypes.CDLL(None, use_errno=True)
library = ctypes.CDLL("libseccomp.so.2")

# Arguments that the kernel itself refuses: another errno shows that the filter let the call through.
REFUSED = {
    "acct": (BAD,),
    "add_key": (BAD, BAD, 0, 0, BAD),
    "bpf": (BAD, BAD, 0),
    "clock_settime": (0, BAD),
    "clone": (CLONE_NEWUSER | CLONE_FS, 0, 0, 0, 0),
    "delete_module": (BAD, 0),
    "fanotify_init": (BAD, 0),
    "finit_module": (BAD, BAD, BAD),
    "fsopen": (BAD, 0),
    "get_mempolicy": (0, 0, 0, 0, BAD),
    "init_module": (BAD, 0, BAD),
    "io_uring_enter": (BAD, 0, 0, 0, 0, 0),
    "io_uring_register": (BAD, 0, 0, 0),
    "io_uring_setup": (1, BAD),
    "kcmp": (BAD, BAD, BAD, 0, 0),
    "kexec_load": (0, 0, BAD, BAD),
    "keyctl": (BAD, 0, 0, 0, 0),
    "mount": (BAD, BAD, BAD, 0, 0),
    "mount_setattr": (BAD, BAD, 0, BAD, 0),
    "move_mount": (BAD, BAD, BAD, BAD, BAD),
    "open_by_handle_at": (BAD, BAD, 0),
    "open_tree": (BAD, BAD, BAD),
    "perf_event_open": (BAD, 0, 0, 0, BAD),
    "personality": (0x0040000,),  # ADDR_NO_RANDOMIZE
    "pidfd_getfd": (BAD, BAD, 0),
    "pivot_root": (BAD, BAD),
    "process_madvise": (BAD, 0, 0, 0, 0),
    "quotactl": (BAD, BAD, 0, 0),
    "reboot": (0, 0, 0, 0),
    "request_key": (BAD, BAD, BAD, 0),
    "setns": (BAD, 0),
    "settimeofday": (BAD, 0),
    "socket": (38, 99, 0),  # AF_ALG
    "swapon": (BAD, 0),
    "syslog": (BAD, 0, 0),
    "umount2": (BAD, 0),
    "unshare": (1,),
    "userfaultfd": (BAD,),
}
PASSED = {
    "chroot": (BAD,),
    "mknodat": (BAD, BAD, 0, 0),
    "ptrace": (999, BAD, 0, 0),
    "process_vm_readv": (BAD, 0, 0, 0, 0, 0),
    "setgroups": (1 << 20, BAD),
    "capset": (BAD, BAD),
    "execve": (BAD, BAD, BAD),
    "seccomp": (BAD, 0, 0),
    "landlock_restrict_self": (BAD, 0),
    "name_to_handle_at": (BAD, BAD, BAD, BAD, 0),
    "memfd_create": (BAD, 0),
}


def call(name: str, *arguments: int) -> int:
    """Return the errno of a system call, 0 if it succeeds."""
    number = library.seccomp_syscall_resolve_name(name.encode())
    ctypes.set_errno(0)
    result = libc.syscall(number, *map(ctypes.c_long, arguments))
    return ctypes.get_errno() if result == -1 else 0


def in_child(program: bytes | None, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function of this module returns in a process with this filter. Raises `Killed`.

    The process has one thread, and is no fork of this one, whose other threads may hold locks.
    """
    reading, writing = os.pipe()
    with open(os.devnull, "r+b") as nothing, open(reading, "rb") as file:
        streams = (nothing.fileno(), nothing.fileno(), 2, writing)
        request = (program and program.hex(), function.__name__, *arguments)
        process = forks.fork(f"{__name__}:answer", *request, streams=streams)
        os.close(writing)
        answer = file.read()
    code = process.wait(DEADLINE)
    if code < 0:
        raise Killed(-code)
    return json.loads(answer)


def answer(program: str | None, function: str, *arguments: Any) -> None:
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if program is not None:
        seccomp.install(bytes.fromhex(program))
    os.write(_ANSWER, json.dumps(globals()[function](*arguments)).encode())


class Killed(Exception):
    @property
    def signal(self) -> int:
        return self.args[0]


def attempts(calls: dict[str, tuple[int, ...]]) -> dict[str, int]:
    return {name: call(name, *arguments) for name, arguments in calls.items()}


def in_order(*calls: tuple[Any, ...]) -> list[int]:
    return [call(name, *arguments) for name, *arguments in calls]


def refused(program: bytes | None, calls: dict[str, tuple[int, ...]]) -> set[str]:
    return {name for name, code in in_child(program, attempts, calls).items() if code == errno.EPERM}


def test_the_default_profile_refuses_what_containerds_refuses():
    program = seccomp.default_filter(DEFAULT)
    assert refused(program, REFUSED) == set(REFUSED)
    assert refused(program, PASSED) == set()


def test_without_a_filter_the_kernel_allows_the_refused_system_calls():
    # DAC_READ_SEARCH, SYS_MODULE, SYS_PTRACE, SYS_PACCT, SYS_ADMIN, SYS_BOOT, SYS_TIME, SYSLOG, PERFMON, BPF
    needed = sum(1 << number for number in (2, 16, 19, 20, 21, 22, 25, 34, 38, 39))
    with open("/proc/self/status", encoding="ascii") as status:
        held = next(int(line.split()[1], 16) for line in status if line.startswith("CapEff"))
    if needed & ~held:
        pytest.skip("only who has the capabilities gets past the kernel's own checks")
    assert refused(None, REFUSED) == set()


def test_unusual_socket_families_are_refused_with_high_bits_set():
    sockets = {
        "alg": (38, 99, 0),
        "alg, high": (38 + HIGH, 99, 0),
        "vsock": (40, 99, 0),
        "vsock, high": (40 + HIGH, 99, 0),
        "inet": (2, 1, 0),
        "inet6": (10, 1, 0),
        "unix": (1, 1, 0),
        "netlink": (16, 3, 0),
        "xdp": (44, 99, 0),
    }
    calls = [("socket", *arguments) for arguments in sockets.values()]
    codes = dict(zip(sockets, in_child(seccomp.default_filter(DEFAULT), in_order, *calls), strict=True))
    assert {name for name, code in codes.items() if code == errno.EPERM} == {"alg", "alg, high", "vsock", "vsock, high"}
    assert codes["inet"] == codes["unix"] == codes["netlink"] == 0


def test_the_default_profile_allows_processes_and_threads_but_no_namespaces():
    expected = [0, errno.ENOSYS, *[errno.EPERM] * 4, 0]
    assert in_child(seccomp.default_filter(DEFAULT), start_processes) == expected


def start_processes() -> list[int]:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return [
        status,
        call("clone3", 0, 0),
        *(call("clone", flag | CLONE_FS, 0, 0, 0, 0) for flag in (0x20000, 0x4000000, 0x8000000, 0x40000000)),
        call("personality", 0xFFFFFFFF),
    ]


def test_system_calls_newer_than_the_profile_give_enosys():
    assert in_child(seccomp.default_filter(DEFAULT), call_newer) == errno.ENOSYS


def call_newer() -> int:
    ctypes.set_errno(0)
    libc.syscall(5000, 0, 0, 0)
    return ctypes.get_errno()


@pytest.mark.parametrize(
    ("capability", "names"),
    [
        ("SYS_MODULE", {"init_module", "finit_module", "delete_module"}),
        ("SYS_BOOT", {"reboot"}),
        ("SYS_TIME", {"settimeofday", "clock_settime"}),
        ("SYSLOG", {"syslog"}),
        ("BPF", {"bpf"}),
        ("CAP_SYS_PTRACE", {"kcmp", "pidfd_getfd", "process_madvise"}),
        ("DAC_READ_SEARCH", {"open_by_handle_at"}),
        ("SYS_NICE", {"get_mempolicy"}),
    ],
)
def test_an_added_capability_allows_its_system_calls(capability: str, names: set[str]):
    program = seccomp.default_filter(DEFAULT | {capability})
    # The filter lets them through; without the capability itself the kernel may still refuse.
    codes = in_child(program, attempts, {name: REFUSED[name] for name in REFUSED if name not in names})
    assert {name for name in codes if codes[name] != errno.EPERM} == set()
    if os.geteuid() == 0:
        assert refused(program, {name: REFUSED[name] for name in names}) == set()


def test_a_dropped_capability_forbids_its_system_calls():
    assert refused(seccomp.default_filter(DEFAULT - {"SYS_CHROOT"}), PASSED) == {"chroot"}


def test_sys_admin_allows_namespaces_and_mounts():
    program = seccomp.default_filter(DEFAULT | {"SYS_ADMIN"})
    assert in_child(program, call, "clone3", 0, 0) == errno.EINVAL
    kept = {"add_key", "io_uring_setup", "keyctl", "kexec_load", "request_key", "swapon", "userfaultfd", "pivot_root"}
    assert refused(program, {name: REFUSED[name] for name in kept}) == kept
    if os.geteuid() == 0:
        assert refused(program, {name: REFUSED[name] for name in ("mount", "umount2", "unshare", "setns")}) == set()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="another machine's instructions")
def test_programs_of_32_bits_are_filtered_by_the_same_profile():
    try:
        codes = in_child(None, make_calls_of_32_bits)
        has_32_bits = codes["getpid"] > 0
    except Killed:
        has_32_bits = False
    if not has_32_bits:
        pytest.skip("this kernel runs no programs of 32 bits")
    codes = in_child(seccomp.default_filter(DEFAULT), make_calls_of_32_bits)
    assert codes.pop("getpid") > 0
    assert codes == {
        "mount": -errno.EPERM,
        "socket AF_ALG": -errno.EPERM,
        "unshare": -errno.EPERM,
        "keyctl": -errno.EPERM,
        "clone3": -errno.ENOSYS,
        "newer": -errno.ENOSYS,
    }


def make_calls_of_32_bits() -> dict[str, int]:
    # mov eax, edi; push rbx; mov ebx, esi; mov ecx, edx; xor edx, edx; int 0x80; pop rbx; ret
    code = bytes.fromhex("89f8 53 89f3 89d1 31d2 cd80 5b c3")
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    page = libc.mmap(None, 4096, 7, 0x22, -1, 0)
    ctypes.memmove(page, code, len(code))
    int80 = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_uint, ctypes.c_uint)(page)
    return {
        "getpid": int80(20, 0, 0),
        "mount": int80(21, 0, 0),
        "socket AF_ALG": int80(359, 38, 99),
        "unshare": int80(310, 1, 0),
        "keyctl": int80(288, 0xFFFFFFFF, 0),
        "clone3": int80(435, 0, 0),
        "newer": int80(5000, 0, 0),
    }


# Profiles in files.


def local(*rules: dict[str, Any], default: str = "SCMP_ACT_ALLOW", **fields: object) -> bytes:
    profile = {"defaultAction": default, "syscalls": list(rules), **fields}
    return seccomp.localhost_filter(json.dumps(profile).encode(), DEFAULT)


def test_a_profile_from_a_file_is_applied():
    program = local(
        {"names": ["mkdirat", "no_such_call"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.EROFS},
        {"names": ["mkdir"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.EROFS},
        {"names": ["ptrace"], "action": "SCMP_ACT_ERRNO", "includes": {"caps": ["CAP_SYS_ADMIN"]}},
        {"names": ["chroot"], "action": "SCMP_ACT_ERRNO", "excludes": {"caps": ["CAP_SYS_ADMIN"]}},
        {
            "names": ["lseek"],
            "action": "SCMP_ACT_ERRNO",
            "errnoRet": errno.EXDEV,
            "args": [{"index": 1, "value": 5, "op": "SCMP_CMP_GT"}, {"index": 2, "value": 1, "op": "SCMP_CMP_EQ"}],
        },
    )

    calls = [
        ("mkdirat", BAD, BAD, 0),
        ("ptrace", 999, BAD, 0, 0),
        ("chroot", BAD),
        ("lseek", BAD, 6, 1),
        ("lseek", BAD, 5, 1),
        ("lseek", BAD, 6, 0),
    ]
    assert in_child(program, in_order, *calls) == [
        errno.EROFS, errno.ESRCH, errno.EPERM, errno.EXDEV, errno.EBADF, errno.EBADF,
    ]  # fmt: skip


@pytest.mark.parametrize("action", ["SCMP_ACT_KILL", "SCMP_ACT_KILL_PROCESS", "SCMP_ACT_TRAP"])
def test_a_profile_can_kill_the_process(action: str):
    program = local({"names": ["chroot"], "action": action})
    with pytest.raises(Killed) as caught:
        in_child(program, call, "chroot", BAD)
    assert caught.value.signal == signal.SIGSYS


def test_a_profile_can_have_an_errno_as_default_action_and_more_architectures():
    fields = {"architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"]} if platform.machine() == "x86_64" else {}
    everything = ["write", "exit_group", "getpid", "brk", "mmap", "munmap", "futex", "rt_sigprocmask"]
    program = local({"names": everything, "action": "SCMP_ACT_ALLOW"}, default="SCMP_ACT_ERRNO", **fields)
    assert in_child(program, in_order, ["getpid"], ["getuid"]) == [0, errno.EPERM]


def test_an_architecture_unknown_to_libseccomp_is_named():
    with pytest.raises(seccomp.BadProfile, match="SCMP_ARCH_VAX"):
        local(architectures=["SCMP_ARCH_VAX"])


def test_a_missing_libseccomp_is_reported_with_its_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(seccomp, "_LIBRARY", "libseccomp-that-is-not-here.so.2")
    with pytest.raises(seccomp.SeccompUnavailable, match="libseccomp2"):
        seccomp.load()
