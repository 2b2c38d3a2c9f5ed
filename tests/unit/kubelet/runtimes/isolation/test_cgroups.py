"""Limits as files of a cgroup, and where in the file system a cgroup is."""

from __future__ import annotations

import pytest

from bridgehead.kubelet.runtimes.isolation.cgroup_files import (
    parse_events,
    parse_mounts,
    parse_own_path,
    plan_files,
    quota_of,
    visible_paths,
    weight_of,
)
from bridgehead.kubelet.runtimes.isolation.container_cgroups import Delegation
from bridgehead.kubelet.runtimes.runtime import Limits

ALL = frozenset({"memory", "cpu", "pids"})


@pytest.mark.parametrize(
    ("millis", "weight"),
    [(0, 1), (1, 1), (2, 1), (10, 4), (100, 17), (250, 35), (500, 59), (1000, 100), (2000, 174), (256_000, 10_000),
     (10_000_000, 10_000)],
)  # fmt: skip
def test_the_weight_of_a_cpu_request_matches_kubernetes(millis: int, weight: int):
    assert weight_of(millis) == weight


@pytest.mark.parametrize(("millis", "quota"), [(1, 1000), (10, 1000), (15, 1500), (100, 10_000), (2500, 250_000)])
def test_the_cpu_quota_follows_the_limit(millis: int, quota: int):
    assert quota_of(millis) == quota


def test_limits_become_cgroup_files():
    limits = Limits(memory=64 << 20, cpu_millis=250, cpu_request_millis=100, pids=32)
    assert plan_files(limits, ALL) == {
        "memory.oom.group": "1",
        "memory.max": "67108864",
        "memory.swap.max": "0",
        "cpu.weight": "17",
        "cpu.max": "25000 100000",
        "pids.max": "32",
    }
    assert plan_files(Limits(), ALL) == {"memory.oom.group": "1", "cpu.weight": "1"}
    assert plan_files(limits, frozenset({"pids"})) == {"pids.max": "32"}


def test_limits_without_a_controller_are_listed():
    limits = Limits(memory=1 << 20, cpu_millis=100, pids=5)
    assert Delegation("/x", frozenset({"pids"})).lacking(limits) == ("memory", "cpu")
    assert Delegation("/x", ALL).lacking(limits) == ()
    # A request is a share, of which nothing is promised where nobody divides.
    assert Delegation("/x", frozenset()).lacking(Limits(cpu_request_millis=100)) == ()


def test_events_of_a_cgroup_are_parsed():
    assert parse_events("low 0\noom 2\noom_kill 3\n") == {"low": 0, "oom": 2, "oom_kill": 3}


HYBRID = """\
31 26 0:27 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755
32 31 0:28 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw,nsdelegate
33 31 0:29 / /sys/fs/cgroup/memory rw,nosuid shared:11 - cgroup cgroup rw,memory
"""
IN_A_LAB = """\
32 31 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw
90 80 0:28 /bridgehead-lab /run/bridge\\040head/cgroup rw - cgroup2 cgroup2 rw
"""


def test_a_cgroup_is_found_in_the_mounts():
    assert parse_own_path("9:name=systemd:/\n4:memory:/a\n0::/user.slice/x.scope\n") == "/user.slice/x.scope"
    assert parse_own_path("4:memory:/a\n") is None
    assert parse_mounts(HYBRID) == [("/sys/fs/cgroup/unified", "/")]
    assert list(visible_paths("/", parse_mounts(HYBRID))) == ["/sys/fs/cgroup/unified"]
    assert list(visible_paths("/a/b", parse_mounts(HYBRID))) == ["/sys/fs/cgroup/unified/a/b"]
    assert list(visible_paths("/bridgehead-lab/processes", parse_mounts(IN_A_LAB))) == [
        "/run/bridge head/cgroup/processes",
        "/sys/fs/cgroup/bridgehead-lab/processes",
    ]
    assert list(visible_paths("/bridgehead-lab2/processes", parse_mounts(IN_A_LAB))) == [
        "/sys/fs/cgroup/bridgehead-lab2/processes"
    ]
