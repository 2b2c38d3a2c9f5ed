"""The plan of a container's root, and paths in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.kubelet.runtimes.rootfs import (
    RootFailure,
    RootPlan,
    copy_tree,
    is_shown,
    order_mounts,
    plan_host_root,
    plan_image_root,
    resolve_in_root,
)
from bridgehead.kubelet.runtimes.runtime import Mount


def test_system_directories_are_shown_and_the_others_are_not() -> None:
    entries = {"bin": "usr/bin", "usr": None, "etc": None, "home": None, "root": None, "data": None}
    plan = plan_host_root(entries, ["/", "/proc", "/sys", "/home"])
    assert plan == RootPlan(overlays={"usr": "/usr", "etc": "/etc"}, links={"bin": "usr/bin"})
    assert [is_shown(plan, path) for path in ("/usr/lib/x", "/bin/sh", "/home/me", "/etc")] == [True, True, False, True]


def test_a_directory_with_mounts_below_is_shown_as_it_is() -> None:
    plan = plan_host_root({"usr": None, "etc": None}, ["/", "/etc/hosts", "/usrlocal/x"])
    assert plan == RootPlan(overlays={"usr": "/usr"}, read_only=("/etc",))


def test_a_directory_that_is_a_mount_itself_is_covered() -> None:
    assert plan_host_root({"usr": None}, ["/", "/usr"]).overlays == {"usr": "/usr"}


def test_an_image_brings_all_of_its_root() -> None:
    assert plan_image_root("/images/app/rootfs") == RootPlan(overlays={"": "/images/app/rootfs"}, whole=True)


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
def test_paths_never_lead_out_of_the_root(path: str, resolved: str) -> None:
    assert resolve_in_root(path, LINKS.get) == resolved


def test_a_loop_of_links_is_found() -> None:
    with pytest.raises(RootFailure, match="too many levels"):
        resolve_in_root("/loop/x", LINKS.get)


@given(st.lists(st.sampled_from(["..", ".", "", "a", "b", "up", "var", "run"]), max_size=12))
def test_a_resolved_path_is_normal_and_resolves_to_itself(parts: list[str]) -> None:
    resolved = resolve_in_root("/" + "/".join(parts), LINKS.get)
    assert resolved.startswith("/")
    assert ".." not in resolved.split("/")
    assert resolve_in_root(resolved, LINKS.get) == resolved


def test_outer_mounts_come_first_and_equals_stay_in_order() -> None:
    mounts = [Mount(source=str(n), target=t) for n, t in enumerate(["/a/b/c", "/z", "/a", "/a/b/", "/"])]
    assert [mount.target for mount in order_mounts(mounts)] == ["/", "/z", "/a", "/a/b/", "/a/b/c"]


def test_a_tree_is_copied(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "file").write_text("text")
    (source / "sub" / "file").chmod(0o755)
    (source / "link").symlink_to("sub/file")
    (source / "dangling").symlink_to("/nowhere")
    (source / "directory").symlink_to("sub")
    target = tmp_path / "target"
    for _ in range(2):
        copy_tree(str(source), str(target))
        assert (target / "sub" / "file").read_text() == "text"
        assert (target / "sub" / "file").stat().st_mode & 0o777 == 0o755
        links = [(target / name).readlink() for name in ("link", "dangling", "directory")]
        assert [str(link) for link in links] == ["sub/file", "/nowhere", "sub"]
