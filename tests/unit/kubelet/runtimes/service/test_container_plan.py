"""The plan of a container's first process: command, environment, user."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.kubelet.runtimes.runtime import ContainerSpec, Image, RuntimeFailure, Security
from bridgehead.kubelet.runtimes.service.container_plan import (
    check_ids,
    last_id,
    plan_argv,
    plan_environment,
    plan_working_dir,
    pod_id_ranges,
)
from bridgehead.kubelet.runtimes.spawn.program_start import DEFAULT_PATH


def image(**fields: Any) -> Image:
    return Image(**{"name": "app", "id": "app", "source": "store", **fields})


def spec(**fields: Any) -> ContainerSpec:
    return ContainerSpec(**{"pod_uid": "u", "name": "c", "attempt": 0, "image": image(), **fields})


@pytest.mark.parametrize(
    ("entrypoint", "cmd", "command", "args", "argv"),
    [  # the table of "Define a Command and Arguments for a Container"
        (("/ep-1",), ("foo", "bar"), (), (), ("/ep-1", "foo", "bar")),
        (("/ep-1",), ("foo", "bar"), ("/ep-2",), (), ("/ep-2",)),
        (("/ep-1",), ("foo", "bar"), (), ("zoo", "boo"), ("/ep-1", "zoo", "boo")),
        (("/ep-1",), ("foo", "bar"), ("/ep-2",), ("zoo", "boo"), ("/ep-2", "zoo", "boo")),
        ((), (), (), (), ()),
    ],
)
def test_command_and_args_override_the_images(
    entrypoint: tuple[str, ...],
    cmd: tuple[str, ...],
    command: tuple[str, ...],
    args: tuple[str, ...],
    argv: tuple[str, ...],
) -> None:
    assert plan_argv(image(entrypoint=entrypoint, command=cmd), spec(command=command, args=args)) == argv


def test_the_pods_environment_overrides_the_images() -> None:
    made = plan_environment(image(env={"A": "1", "B": "1"}), spec(env={"B": "2"}), "web-0")
    assert made == {"PATH": DEFAULT_PATH, "HOSTNAME": "web-0", "A": "1", "B": "2"}


def test_the_pod_can_override_path_home_and_hostname() -> None:
    env = {"PATH": "/x", "HOME": "/h", "HOSTNAME": "n"}
    assert plan_environment(image(), spec(env=env), "web-0") == env


def test_the_working_directory_is_the_pods_or_the_images() -> None:
    assert plan_working_dir(image(working_dir="/srv"), spec()) == "/srv"
    assert plan_working_dir(image(working_dir="/srv"), spec(working_dir="/w")) == "/w"
    assert plan_working_dir(image(working_dir=""), spec()) == "/"


def test_ids_in_the_user_namespace_are_accepted() -> None:
    check_ids(Security(), [range(1)], [range(1)])
    check_ids(Security(user=0, group=0), [range(1)], [range(1)])
    check_ids(Security(user=1000, group=1001, supplemental_groups=(1999,)), [range(1001)], [range(1000, 2000)])


@pytest.mark.parametrize("fields", [{"user": 1000}, {"group": 1000}, {"supplemental_groups": (1, 1000)}])
def test_ids_outside_the_user_namespace_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(RuntimeFailure, match=r"cannot run as (user|group) 1000: .* user namespace .* uidmap"):
        check_ids(Security(**fields), [range(2)], [range(2)])


@pytest.mark.parametrize(
    ("ids", "last"),
    [
        ([range(1)], 0),
        ([range(1, 65537), range(1)], 65534),
        ([range(1), range(1, 1000)], 999),
        ([range(1), range(2, 70000)], 0),
        ([range(1 << 32)], 65534),
        ([range(1000, 1001)], -1),
    ],
)
def test_the_last_id_has_all_before_it(ids: list[range], last: int) -> None:
    assert last_id(ids) == last


@pytest.mark.parametrize(
    ("ids", "count"),
    [
        ([range(1)], 0),
        ([range(65536)], 0),
        ([range(65537)], 0),
        ([range(1), range(1, 131071)], 0),
        ([range(1), range(1, 131072)], 1),
        ([range(65536), range(65536, 65 * 65536)], 64),
        ([range(65536), range(65537, 65 * 65536)], 0),
        ([range(2**32 - 1)], 110),
    ],
)
def test_pods_have_whole_ranges_of_the_ids_after_the_nodes_own(ids: list[range], count: int) -> None:
    assert pod_id_ranges(ids) == count
