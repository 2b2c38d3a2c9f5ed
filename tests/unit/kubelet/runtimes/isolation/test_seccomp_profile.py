"""Plans of seccomp profiles, before they are compiled."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bridgehead.kubelet.runtimes.isolation.seccomp_profile import (
    BadProfile,
    Comparison,
    Decision,
    Host,
    Plan,
    default_profile,
    parse_profile,
    plan_filter,
)

HOST = Host("x86_64", "6.1.0-13-amd64")
ALLOW, EPERM = 0x7FFF0000, 0x00050001
NONE: frozenset[str] = frozenset()


def planned(
    syscalls: list[dict[str, Any]], capabilities: frozenset[str] = NONE, host: Host = HOST, **fields: object
) -> Plan:
    text = json.dumps({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": syscalls, **fields})
    return plan_filter(parse_profile(text.encode()), capabilities, host)


def allowed(plan: Plan) -> set[str]:
    return {each.syscall for each in plan.decisions if each.action == ALLOW}


def test_rules_have_system_calls_and_argument_conditions():
    plan = planned(
        [
            {"names": ["read", "write"], "action": "SCMP_ACT_ALLOW"},
            {
                "name": "personality",
                "action": "SCMP_ACT_ALLOW",
                "args": [{"index": 0, "value": 8, "op": "SCMP_CMP_EQ"}],
            },
            {
                "names": ["clone"],
                "action": "SCMP_ACT_ALLOW",
                "args": [{"index": 0, "value": 255, "valueTwo": 7, "op": "SCMP_CMP_MASKED_EQ"}],
            },
            {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
        ]
    )
    assert plan == Plan(
        EPERM,
        (),
        (
            Decision("read", ALLOW),
            Decision("write", ALLOW),
            Decision("personality", ALLOW, (Comparison(0, 4, 8, 0),)),
            Decision("clone", ALLOW, (Comparison(0, 7, 255, 7),)),
            Decision("clone3", 0x00050000 | 38),
        ),
    )


def test_an_argument_compared_twice_gives_two_rules_as_in_runc():
    twice = [{"index": 0, "value": 1, "op": "SCMP_CMP_EQ"}, {"index": 0, "value": 2, "op": "SCMP_CMP_EQ"}]
    other = [{"index": 0, "value": 1, "op": "SCMP_CMP_EQ"}, {"index": 1, "value": 2, "op": "SCMP_CMP_EQ"}]
    assert len(planned([{"names": ["x"], "action": "SCMP_ACT_ALLOW", "args": twice}]).decisions) == 2
    assert len(planned([{"names": ["x"], "action": "SCMP_ACT_ALLOW", "args": other}]).decisions) == 1


def test_a_rule_with_the_default_action_is_omitted():
    assert planned([{"names": ["x"], "action": "SCMP_ACT_ERRNO"}]).decisions == ()
    assert planned([{"names": ["x"], "action": "SCMP_ACT_ERRNO", "errnoRet": 2}]).decisions != ()
    assert planned([{"names": ["x"], "action": "SCMP_ACT_ERRNO"}], defaultErrnoRet=2).decisions != ()


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ({"includes": {"caps": ["CAP_SYS_ADMIN"]}}, False),
        ({"includes": {"caps": ["CAP_NET_RAW"]}}, True),
        ({"includes": {"caps": ["CAP_NET_RAW", "CAP_SYS_ADMIN"]}}, False),
        ({"excludes": {"caps": ["CAP_NET_RAW"]}}, False),
        ({"excludes": {"caps": ["CAP_SYS_ADMIN"]}}, True),
        ({"includes": {"arches": ["amd64"]}}, True),
        ({"includes": {"arches": ["arm64"]}}, False),
        ({"excludes": {"arches": ["amd64", "s390x"]}}, False),
        ({"includes": {"minKernel": "6.1"}}, True),
        ({"includes": {"minKernel": "6.2"}}, False),
        ({"includes": {"minKernel": "4.8"}}, True),
        ({"excludes": {"minKernel": "4.8"}}, False),
        ({"includes": {}, "excludes": {}}, True),
    ],
)
def test_docker_conditions_are_evaluated(condition: dict[str, Any], holds: bool):
    plan = planned([{"names": ["x"], "action": "SCMP_ACT_ALLOW", **condition}], frozenset({"NET_RAW"}))
    assert bool(plan.decisions) is holds


def test_architectures_are_listed_or_derived_from_the_map():
    assert planned([], architectures=["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"]).architectures == ("x86_64", "x86")
    archs = [
        {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": ["SCMP_ARCH_ARM"]},
        {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86", "SCMP_ARCH_X32"]},
    ]
    assert planned([], archMap=archs).architectures == ("x86_64", "x86", "x32")


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ("{", "cannot decode seccomp profile"),
        ("[]", "cannot decode seccomp profile"),
        ('{"syscalls": []}', "defaultAction"),
        ('{"defaultAction": "ALLOW"}', 'invalid action "ALLOW"'),
        ('{"defaultAction": "SCMP_ACT_NOTIFY"}', "SCMP_ACT_NOTIFY"),
        ('{"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 70000}', "invalid errno 70000"),
        ('{"defaultAction": "SCMP_ACT_ALLOW", "listenerPath": "/x"}', "listenerPath"),
        ('{"defaultAction": "SCMP_ACT_ALLOW", "flags": ["SECCOMP_FILTER_FLAG_LOG"]}', "FLAG_LOG"),
        ('{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"action": "SCMP_ACT_KILL"}]}', "no system call"),
        (
            '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"name": "a", "names": ["b"], "action": ""}]}',
            "use only one",
        ),
        (
            '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["b"], "action": "SCMP_ACT_KILL", '
            '"args": [{"index": 6, "value": 0, "op": "SCMP_CMP_EQ"}]}]}',
            "argument index 6",
        ),
        (
            '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["b"], "action": "SCMP_ACT_KILL", '
            '"args": [{"index": 0, "value": 0, "op": "=="}]}]}',
            'operator "=="',
        ),
        (
            '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["b"], "action": "SCMP_ACT_KILL", '
            '"args": [{"index": 0, "value": -1, "op": "SCMP_CMP_EQ"}]}]}',
            "64 bits",
        ),
        (
            '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["b"], "action": "SCMP_ACT_KILL", '
            '"includes": {"minKernel": "new"}}]}',
            'kernel version "new"',
        ),
        ('{"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["x86"]}', 'architecture "x86"'),
        (
            '{"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86"], '
            '"archMap": [{"architecture": "SCMP_ARCH_X86_64"}]}',
            "use only one",
        ),
    ],
)
def test_an_invalid_profile_is_refused_in_one_line(profile: str, message: str):
    with pytest.raises(BadProfile) as caught:
        plan_filter(parse_profile(profile.encode()), NONE, HOST)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# containerd's default.


def default(capabilities: frozenset[str] = NONE, host: Host = HOST) -> Plan:
    return plan_filter(default_profile(host), capabilities, host)


def test_the_default_profile_depends_on_capabilities():
    without = allowed(default())
    assert {
        "mount",
        "unshare",
        "setns",
        "bpf",
        "syslog",
        "chroot",
        "reboot",
        "keyctl",
        "io_uring_setup",
    } & without == set()
    assert {"read", "execve", "ptrace", "mknod", "seccomp", "name_to_handle_at"} <= without
    assert allowed(default(frozenset({"SYS_CHROOT"}))) - without == {"chroot"}
    assert allowed(default(frozenset({"CAP_SYSLOG"}))) - without == {"syslog"}
    admin = allowed(default(frozenset({"SYS_ADMIN"}))) - without
    assert {"mount", "unshare", "setns", "bpf", "clone3"} <= admin
    assert {"keyctl", "add_key", "io_uring_setup", "userfaultfd", "kexec_load"} & admin == set()


def test_the_default_profile_allows_clone_of_namespaces_with_sys_admin_only():
    def of(name: str, plan: Plan) -> list[Decision]:
        return [each for each in plan.decisions if each.syscall == name]

    flags = 0x7E020000
    assert of("clone", default()) == [Decision("clone", ALLOW, (Comparison(0, 7, flags, 0),))]
    assert of("clone3", default()) == [Decision("clone3", 0x00050026)]
    assert of("clone", default(frozenset({"SYS_ADMIN"}))) == [Decision("clone", ALLOW)]
    # CONFIG_CLONE_BACKWARDS2: the flags are the second argument there.
    assert of("clone", default(host=Host("s390x", "6.1"))) == [Decision("clone", ALLOW, (Comparison(1, 7, flags, 0),))]


def test_the_default_profile_depends_on_kernel_and_machine():
    assert "ptrace" not in allowed(default(host=Host("x86_64", "4.4.0")))
    assert "ptrace" in allowed(default(frozenset({"SYS_PTRACE"}), Host("x86_64", "4.4.0")))
    assert default().architectures == ("x86_64", "x86", "x32")
    assert default(host=Host("aarch64", "6.1")).architectures == ("arm", "aarch64")
    assert "arch_prctl" in allowed(default())
    assert "arch_prctl" not in allowed(default(host=Host("aarch64", "6.1")))
