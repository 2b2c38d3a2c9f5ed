"""The plan of a container's root, and paths in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.kubelet.runtimes.isolation.rootfs import (
    RootFailure,
    RootPlan,
    is_shown,
    order_mounts,
    plan_bound_host_root,
    plan_host_root,
    plan_image_root,
    plan_image_volumes,
    resolve_in_root,
)
from bridgehead.kubelet.runtimes.runtime import Mount


def test_system_directories_are_shown_and_others_are_hidden() -> None:
    entries = {"bin": "usr/bin", "usr": None, "etc": None, "home": None, "root": None, "data": None}
    plan = plan_host_root(entries, ["/", "/proc", "/sys", "/home"])
    assert plan == RootPlan(overlays={"usr": ("/usr",), "etc": ("/etc",)}, links={"bin": "usr/bin"})
    assert [is_shown(plan, path) for path in ("/usr/lib/x", "/bin/sh", "/home/me", "/etc")] == [True, True, False, True]


def test_a_directory_with_mounts_below_is_shown_read_only() -> None:
    plan = plan_host_root({"usr": None, "etc": None}, ["/", "/etc/hosts", "/usrlocal/x"])
    assert plan == RootPlan(overlays={"usr": ("/usr",)}, read_only=("/etc",))


def test_a_directory_that_is_a_mount_gets_an_overlay() -> None:
    assert plan_host_root({"usr": None}, ["/", "/usr"]).overlays == {"usr": ("/usr",)}


def test_an_image_is_the_whole_root() -> None:
    assert plan_image_root(("/layers/1", "/layers/2")) == RootPlan(
        overlays={"": ("/layers/2", "/layers/1")}, whole=True
    )


def test_where_overlays_are_refused_an_image_is_copied() -> None:
    assert plan_image_root(("/layers/1", "/layers/2"), is_copied=True) == RootPlan(
        copied={"": ("/layers/1", "/layers/2")}, whole=True
    )


def test_where_overlays_are_refused_the_hosts_directories_are_bound_but_for_those_that_containers_add_to() -> None:
    plan = plan_bound_host_root(
        {
            "": {"bin": "usr/bin", "usr": None, "etc": None, "home": None, "opt": None, "data": "x"},
            "usr": {"bin": None, "share": None, "tmp": "../var/tmp"},
            "usr/share": {"zoneinfo": None},
        },
        "/copies/etc",
    )
    assert plan == RootPlan(
        copied={"etc": ("/copies/etc",)},
        read_only=("/opt", "/usr/bin", "/usr/share/zoneinfo"),
        links={"bin": "usr/bin", "usr/tmp": "../var/tmp"},
    )
    shown = {
        path for path in ("/usr", "/usr/bin/env", "/usr/share/none", "/etc/x", "/bin", "/home") if is_shown(plan, path)
    }
    assert shown == {"/usr", "/usr/bin/env", "/etc/x", "/bin"}


def test_each_volume_of_an_image_has_a_directory_unless_the_pod_mounts_something_there() -> None:
    mounts = [Mount(source="/claim", target="/data/"), Mount(source="/x", target="/logs/old")]
    planned = plan_image_volumes(["/logs", "/data", "cache//x", "", "/", "/logs/"], mounts, "/pods/1")
    assert [(each.target, each.source) for each in planned] == [("/cache/x", "/pods/1/1"), ("/logs", "/pods/1/3")]
    assert not any(each.read_only or each.follows_links for each in planned)


LINKS = {"/var/run": "/run", "/a": "b/c", "/b": "../d", "/up": "../../../..", "/loop": "/loop", "/abs": "/a/x"}


@pytest.mark.parametrize(
    ("path", "resolved"),
    [
        ("/", "/"),
        ("/var/run/secrets/token", "/run/secrets/token"),
        ("var//run/./x", "/run/x"),
        ("/a/y", "/d/c/y"),
        ("/abs", "/d/c/x"),
        ("/../../etc", "/etc"),
        ("/up/etc", "/etc"),
        ("/x/../y", "/y"),
    ],
)
def test_paths_never_leave_the_root(path: str, resolved: str) -> None:
    assert resolve_in_root(path, LINKS.get) == resolved


def test_a_loop_of_links_is_detected() -> None:
    with pytest.raises(RootFailure, match="too many levels"):
        resolve_in_root("/loop/x", LINKS.get)


@given(st.lists(st.sampled_from(["..", ".", "", "a", "b", "up", "var", "run"]), max_size=12))
def test_path_resolution_is_idempotent(parts: list[str]) -> None:
    resolved = resolve_in_root("/" + "/".join(parts), LINKS.get)
    assert resolved.startswith("/")
    assert ".." not in resolved.split("/")
    assert resolve_in_root(resolved, LINKS.get) == resolved


def test_outer_mounts_are_ordered_first_and_equal_ones_keep_their_order() -> None:
    mounts = [Mount(source=str(n), target=t) for n, t in enumerate(["/a/b/c", "/z", "/a", "/a/b/", "/"])]
    assert [mount.target for mount in order_mounts(mounts)] == ["/", "/z", "/a", "/a/b/", "/a/b/c"]
