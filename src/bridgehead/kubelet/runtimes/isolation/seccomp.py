"""System call filters of containers: compiled with libseccomp, installed in a container's first process.

libseccomp is called by ctypes. Eleven functions of a C library whose interface has not changed since 2015 need no
package between, and the existing one (pyseccomp) searches for the library with ldconfig and a compiler at each start. A
program is the kernel's `struct sock_filter[]`. The runtime compiles it once for each profile and set of capabilities.
Source: seccomp(2), seccomp_init(3) and its companions; opencontainers/runc libcontainer/seccomp.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import struct
from typing import Final

from bridgehead.network.uapi.audit import AUDIT_ARCH_S390, AUDIT_ARCH_S390X, AUDIT_ARCH_X86_64
from bridgehead.network.uapi.bpf_common import (
    BPF_ABS,
    BPF_JA,
    BPF_JEQ,
    BPF_JGT,
    BPF_JMP,
    BPF_JSET,
    BPF_K,
    BPF_LD,
    BPF_MAXINSNS,
    BPF_RET,
    BPF_W,
)
from bridgehead.network.uapi.prctl import PR_SET_SECCOMP
from bridgehead.network.uapi.seccomp import (
    SECCOMP_FILTER_FLAG_SPEC_ALLOW,
    SECCOMP_MODE_FILTER,
    SECCOMP_RET_ERRNO,
    SECCOMP_RET_TRACE,
    SECCOMP_SET_MODE_FILTER,
)
from bridgehead.network.uapi.syscall import SYS_seccomp

from .seccomp_profile import (
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
# seccomp.h of libseccomp.
_SCMP_FLTATR_CTL_NNP: Final = 3
_SCMP_FLTATR_CTL_OPTIMIZE: Final = 8
_SCMP_ARCH_X32: Final = 0x4000003E
_NR_SCMP_ERROR: Final = -1
_BINARY_TREE: Final = 2  # value of SCMP_FLTATR_CTL_OPTIMIZE
_MIN_RULES_FOR_TREE: Final = 32  # libseccomp up to 2.5.4 fails for a tree without rules

_X32_SYSCALL_BIT: Final = 0x40000000  # __X32_SYSCALL_BIT of asm/unistd.h on x86
_OFFSET_NR, _OFFSET_ARCH = 0, 4  # in struct seccomp_data (linux/seccomp.h)
_INSTRUCTION: Final = struct.Struct("=HBBI")  # struct sock_filter (linux/filter.h)
_LOAD: Final = BPF_LD | BPF_W | BPF_ABS
_JUMP: Final = BPF_JMP | BPF_JA
_JUMP_EQUAL: Final = BPF_JMP | BPF_JEQ | BPF_K
_JUMP_GREATER: Final = BPF_JMP | BPF_JGT | BPF_K
_JUMP_BITS: Final = BPF_JMP | BPF_JSET | BPF_K
_RETURN: Final = BPF_RET | BPF_K

_libc = ctypes.CDLL(None, use_errno=True)
_number: Final = SYS_seccomp.get(os.uname().machine)


class SeccompUnavailable(RuntimeError):
    """This machine has no libseccomp."""


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
    """Install a filter for the calling thread, the programs that it executes and its children.

    Needs no_new_privs or CAP_SYS_ADMIN: with no_new_privs call it last before the program is executed, otherwise before
    capabilities are dropped. The filter must allow the calls that follow; the default one allows capset, prctl, setuid,
    setgid, setgroups and execve, but not mount, pivot_root, setns and unshare. Raises OSError; EINVAL from a kernel
    without filters.
    """
    fprog = _Program(len(program) // _INSTRUCTION.size, program)
    if _number is not None:
        # Without SPEC_ALLOW, kernels before 5.16 disable speculative store bypass in filtered processes, which is slow.
        if _libc.syscall(_number, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, ctypes.byref(fprog)) == 0:
            return
        if ctypes.get_errno() not in (errno.EINVAL, errno.ENOSYS):
            raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")
    if _libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(fprog), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl(PR_SET_SECCOMP): {os.strerror(ctypes.get_errno())}")


def _host() -> Host:
    uname = os.uname()
    return Host(uname.machine, uname.release)


def load() -> ctypes.CDLL:
    """Load libseccomp. Raises `SeccompUnavailable`."""
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
        # `privileges.apply` sets no_new_privs, not libseccomp.
        library.seccomp_attr_set(context, _SCMP_FLTATR_CTL_NNP, 0)
        if len(plan.decisions) > _MIN_RULES_FOR_TREE:
            library.seccomp_attr_set(context, _SCMP_FLTATR_CTL_OPTIMIZE, _BINARY_TREE)  # since libseccomp 2.5
        architectures = _add_architectures(library, context, plan.architectures)
        for decision in plan.decisions:
            _add_rule(library, context, decision)
        program = _export(library, context)
    finally:
        library.seccomp_release(context)
    # TRACE, LOG and ALLOW, the greatest values, let new system calls pass.
    if plan.default < SECCOMP_RET_TRACE and plan.default != SECCOMP_RET_ERRNO | errno.ENOSYS:
        program = _unknown_prefix(_newest_syscalls(library, plan, architectures)) + program
    if len(program) > BPF_MAXINSNS * _INSTRUCTION.size:
        raise BadProfile(f"seccomp profile: too long: {len(program) // _INSTRUCTION.size} instructions of BPF")
    return program


def _add_architectures(library: ctypes.CDLL, context: int, names: tuple[str, ...]) -> list[int]:
    """Add the plan's architectures; returns their tokens, the machine's own first."""
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
    if number == _NR_SCMP_ERROR:
        return  # unknown to this libseccomp: as if the profile did not name it
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


def _newest_syscalls(library: ctypes.CDLL, plan: Plan, architectures: list[int]) -> dict[int, int]:
    """The highest number of a system call in the plan, by architecture."""
    names = {decision.syscall.encode() for decision in plan.decisions}
    newest: dict[int, int] = {}
    for architecture in architectures:
        numbers = [library.seccomp_syscall_resolve_name_arch(architecture, name) for name in names]
        if any(number > 0 for number in numbers):
            newest[architecture] = max(numbers)
    return newest


def _unknown_prefix(newest: dict[int, int]) -> bytes:
    """Instructions that return ENOSYS for system calls that are newer than all that the profile names, as in runc.

    The authors of the profile could not know such calls. After EPERM a program gives up; after ENOSYS it assumes an old
    kernel and uses another call.
    """
    return_enosys = (_RETURN, 0, 0, SECCOMP_RET_ERRNO | errno.ENOSYS)
    program: list[tuple[int, int, int, int]] = [(_LOAD, 0, 0, _OFFSET_ARCH)]
    blocks: list[tuple[int, list[tuple[int, int, int, int]]]] = []
    for architecture, number in newest.items():
        if architecture == _SCMP_ARCH_X32:
            continue
        tests = [(_LOAD, 0, 0, _OFFSET_NR)]
        if architecture in (AUDIT_ARCH_S390, AUDIT_ARCH_S390X):
            # An unknown number arrives as 0 on s390.
            tests += [(_JUMP_EQUAL, 0, 1, 0), return_enosys]
        if architecture == AUDIT_ARCH_X86_64:
            tests += [(_JUMP_BITS, 2, 0, _X32_SYSCALL_BIT), (_JUMP_GREATER, 0, 3, number), return_enosys]
            # Without x32 in the profile the filter itself decides on x32 calls.
            x32 = newest.get(_SCMP_ARCH_X32, 0xFFFFFFFF)
            tests += [(_JUMP_GREATER, 0, 1, x32), return_enosys]
        else:
            tests += [(_JUMP_GREATER, 0, 1, number), return_enosys]
        blocks.append((architecture, tests))
    rest = sum(len(tests) + 2 for _, tests in blocks)
    for architecture, tests in blocks:
        rest -= len(tests) + 2
        # At its end a block jumps over the following blocks to the filter.
        program += [(_JUMP_EQUAL, 0, len(tests) + 1, architecture), *tests, (_JUMP, 0, 0, rest)]
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in program)
