"""System call filters of containers: compiled with libseccomp, installed in a container's first process.

Edge. libseccomp is called by ctypes: eleven functions of a C library whose interface has not changed since 2015 need no
package between, and the one there is (pyseccomp) looks for it with ldconfig and a compiler, at each start. A program
is the kernel's `struct sock_filter[]`. The caller compiles it before it forks, once for each set of capabilities or
profile, and keeps it.
Source: seccomp(2), seccomp_init(3) and its companions; opencontainers/runc libcontainer/seccomp.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import struct
from typing import Final

from bridgehead.kubelet.runtimes.seccomp_profile import (
    BadProfile,
    Decision,
    Host,
    Plan,
    default_profile,
    parse_profile,
    plan_filter,
)

__all__ = ["BadProfile", "SeccompUnavailable", "default_filter", "install", "localhost_filter"]

_LIBRARY: Final = "libseccomp.so.2"
_NNP, _OPTIMIZE = 3, 8  # SCMP_FLTATR_CTL_NNP, SCMP_FLTATR_CTL_OPTIMIZE
_BINARY_TREE: Final = 2
_WORTH_A_TREE: Final = 32  # rules; libseccomp up to 2.5.4 stumbles over a tree of none
_NATIVE: Final = 0  # SCMP_ARCH_NATIVE
_UNKNOWN: Final = -1  # __NR_SCMP_ERROR
_ARCH_X86_64, _ARCH_X32 = 0xC000003E, 0x4000003E
_ARCH_S390, _ARCH_S390X = 0x00000016, 0x80000016
_X32_BIT: Final = 0x40000000  # __X32_SYSCALL_BIT
_PERMISSIVE: Final = 0x7FF00000  # SECCOMP_RET_TRACE and what is greater: LOG, ALLOW
_RET_ERRNO: Final = 0x00050000
_MAX_INSTRUCTIONS: Final = 4096  # BPF_MAXINSNS

_INSTRUCTION: Final = struct.Struct("=HBBI")  # struct sock_filter
_LOAD, _JUMP, _JUMP_EQUAL, _JUMP_GREATER, _JUMP_BITS, _RETURN = 0x20, 0x05, 0x15, 0x25, 0x45, 0x06
_NR, _ARCH = 0, 4  # offsets in struct seccomp_data

_SET_MODE_FILTER, _SPEC_ALLOW = 1, 4  # SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_SYS_SECCOMP: Final = {"x86_64": 317, "aarch64": 277, "riscv64": 277, "loongarch64": 277, "s390x": 348, "ppc64le": 358}

_libc = ctypes.CDLL(None, use_errno=True)
_number: Final = _SYS_SECCOMP.get(os.uname().machine)


class SeccompUnavailable(RuntimeError):
    """libseccomp is not on this machine."""


class _Comparison(ctypes.Structure):
    """struct scmp_arg_cmp."""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("value_two", ctypes.c_uint64),
    )


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


@functools.cache
def default_filter(capabilities: frozenset[str]) -> bytes:
    """containerd's default profile, for a container whose bounding set is `capabilities` ("NET_ADMIN").

    Raises `SeccompUnavailable`.
    """
    host = _host()
    return _compile(plan_filter(default_profile(host), capabilities, host))


@functools.lru_cache(maxsize=64)
def localhost_filter(profile: bytes, capabilities: frozenset[str]) -> bytes:
    """`profile` is JSON, of the OCI runtime specification or Docker's. Raises `BadProfile`, `SeccompUnavailable`."""
    return _compile(plan_filter(parse_profile(profile), capabilities, _host()))


def install(program: bytes) -> None:
    """Filter the calling thread's system calls from here on, those of programs that it executes and of its children.

    Needs no_new_privs or CAP_SYS_ADMIN: call it last of all before the program when no_new_privs is set, and else
    before capabilities are dropped; what follows must then be allowed by the filter (of the default one: capset, prctl,
    setuid, setgid, setgroups, execve; not mount, pivot_root, setns, unshare). Raises OSError; EINVAL from a kernel
    without filters.
    """
    described = _Program(len(program) // _INSTRUCTION.size, program)
    if _number is not None:
        # Without SPEC_ALLOW kernels before 5.16 slow every filtered process down, for the sake of sandboxes within one.
        if _libc.syscall(_number, _SET_MODE_FILTER, _SPEC_ALLOW, ctypes.byref(described)) == 0:
            return
        if ctypes.get_errno() not in (errno.EINVAL, errno.ENOSYS):
            raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")
    if _libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(described), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl(PR_SET_SECCOMP): {os.strerror(ctypes.get_errno())}")


def _host() -> Host:
    uname = os.uname()
    return Host(uname.machine, uname.release)


def load() -> ctypes.CDLL:
    """libseccomp. Raises `SeccompUnavailable`."""
    try:
        library = ctypes.CDLL(_LIBRARY, use_errno=True)
    except OSError as error:
        raise SeccompUnavailable(
            f"cannot filter system calls: {_LIBRARY} is missing; "
            "install libseccomp2 (Debian, Ubuntu) or libseccomp (Fedora, Arch, Alpine)"
        ) from error
    context, word = ctypes.c_void_p, ctypes.c_uint32
    library.seccomp_init.restype = context
    library.seccomp_init.argtypes = (word,)
    library.seccomp_release.restype = None
    library.seccomp_release.argtypes = (context,)
    library.seccomp_attr_set.argtypes = (context, ctypes.c_int, word)
    library.seccomp_arch_native.restype = word
    library.seccomp_arch_resolve_name.restype = word
    library.seccomp_arch_resolve_name.argtypes = (ctypes.c_char_p,)
    library.seccomp_arch_add.argtypes = (context, word)
    library.seccomp_syscall_resolve_name.argtypes = (ctypes.c_char_p,)
    library.seccomp_syscall_resolve_name_arch.argtypes = (word, ctypes.c_char_p)
    library.seccomp_rule_add_array.argtypes = (context, word, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)
    library.seccomp_export_bpf.argtypes = (context, ctypes.c_int)
    return library


def _compile(plan: Plan) -> bytes:
    library = load()
    context = library.seccomp_init(plan.default)
    if not context:
        raise BadProfile("seccomp profile: libseccomp does not take its default action")
    try:
        # The caller says whether there are new privileges.
        library.seccomp_attr_set(context, _NNP, 0)
        if len(plan.decisions) > _WORTH_A_TREE:
            library.seccomp_attr_set(context, _OPTIMIZE, _BINARY_TREE)  # since libseccomp 2.5
        architectures = _add_architectures(library, context, plan.architectures)
        for decision in plan.decisions:
            _add_rule(library, context, decision)
        program = _export(library, context)
    finally:
        library.seccomp_release(context)
    if plan.default < _PERMISSIVE and plan.default != _RET_ERRNO | errno.ENOSYS:
        program = _unknown_prefix(_newest(library, plan, architectures)) + program
    if len(program) > _MAX_INSTRUCTIONS * _INSTRUCTION.size:
        raise BadProfile(f"seccomp profile: too long: {len(program) // _INSTRUCTION.size} instructions of BPF")
    return program


def _add_architectures(library: ctypes.CDLL, context: int, names: tuple[str, ...]) -> list[int]:
    """Of the plan and the machine's own."""
    tokens = [library.seccomp_arch_native()]
    for name in names:
        token = library.seccomp_arch_resolve_name(name.encode())
        if token == 0:
            raise BadProfile(f'seccomp profile: invalid architecture "SCMP_ARCH_{name.upper()}"')
        if token in tokens:
            continue
        error = library.seccomp_arch_add(context, token)
        if error:
            raise BadProfile(f'seccomp profile: cannot add the architecture "{name}": {os.strerror(-error)}')
        tokens.append(token)
    return tokens


def _add_rule(library: ctypes.CDLL, context: int, decision: Decision) -> None:
    number = library.seccomp_syscall_resolve_name(decision.syscall.encode())
    if number == _UNKNOWN:
        return  # one that this libseccomp does not know yet: as if the profile did not name it
    comparisons = (_Comparison * len(decision.comparisons))(
        *(_Comparison(each.index, each.operator, each.value, each.value_two) for each in decision.comparisons)
    )
    error = library.seccomp_rule_add_array(context, decision.action, number, len(comparisons), comparisons)
    if error and -error != errno.EEXIST:
        raise BadProfile(f"seccomp profile: cannot add the rule for {decision.syscall}: {os.strerror(-error)}")


def _export(library: ctypes.CDLL, context: int) -> bytes:
    with open(os.memfd_create("seccomp", os.MFD_CLOEXEC), "rb") as file:
        error = library.seccomp_export_bpf(context, file.fileno())
        if error:
            raise BadProfile(f"seccomp profile: cannot compile it: {os.strerror(-error)}")
        file.seek(0)
        return file.read()


def _newest(library: ctypes.CDLL, plan: Plan, architectures: list[int]) -> dict[int, int]:
    """The greatest number of a system call that the plan names, by architecture."""
    names = {decision.syscall.encode() for decision in plan.decisions}
    newest: dict[int, int] = {}
    for architecture in architectures:
        numbers = [library.seccomp_syscall_resolve_name_arch(architecture, name) for name in names]
        if any(number > 0 for number in numbers):
            newest[architecture] = max(numbers)
    return newest


def _unknown_prefix(newest: dict[int, int]) -> bytes:
    """Instructions that answer ENOSYS to system calls newer than any that the profile names.

    Its authors could not know them. To a program EPERM means that it may not, and it gives up; ENOSYS means that the
    kernel is old, and it does it another way. runc does the same.
    """
    refuse = (_RETURN, 0, 0, _RET_ERRNO | errno.ENOSYS)
    program: list[tuple[int, int, int, int]] = [(_LOAD, 0, 0, _ARCH)]
    blocks: list[tuple[int, list[tuple[int, int, int, int]]]] = []
    for architecture, number in newest.items():
        if architecture == _ARCH_X32:
            continue
        tests = [(_LOAD, 0, 0, _NR)]
        if architecture in (_ARCH_S390, _ARCH_S390X):
            # A number that the kernel does not know arrives as 0 there.
            tests += [(_JUMP_EQUAL, 0, 1, 0), refuse]
        if architecture == _ARCH_X86_64:
            tests += [(_JUMP_BITS, 2, 0, _X32_BIT), (_JUMP_GREATER, 0, 3, number), refuse]
            # Without x32 in the profile the filter itself has the last word on its system calls.
            x32 = newest.get(_ARCH_X32, 0xFFFFFFFF)
            tests += [(_JUMP_GREATER, 0, 1, x32), refuse]
        else:
            tests += [(_JUMP_GREATER, 0, 1, number), refuse]
        blocks.append((architecture, tests))
    rest = sum(len(tests) + 2 for _, tests in blocks)
    for architecture, tests in blocks:
        rest -= len(tests) + 2
        # At its end a block goes on to the filter, past the blocks that follow.
        program += [(_JUMP_EQUAL, 0, len(tests) + 1, architecture), *tests, (_JUMP, 0, 0, rest)]
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in program)
