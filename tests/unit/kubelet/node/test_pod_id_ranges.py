"""Ranges of users of pods: one for each, kept over restarts of the kubelet, free again with the pod's directory."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec

from bridgehead.kubelet.node.pod_id_ranges import PodUsers
from bridgehead.objects.core import Pod


def pod(uid: str, host_users: bool = False) -> Pod:
    return msgspec.convert({"metadata": {"uid": uid}, "spec": {"hostUsers": host_users}}, Pod)


def test_each_pod_has_a_range_as_long_as_its_directory_is_there(tmp_path: Path) -> None:
    users = PodUsers(tmp_path, 2)
    assert users.are_supported
    assert [users.claim(pod(uid)) for uid in ("a", "a", "b", "c")] == [True, True, True, False]
    assert [users.id_base(pod(uid)) for uid in ("a", "b", "c")] == [65536, 131072, 0]
    mapping = {"hostId": 65536, "containerId": 0, "length": 65536}
    assert json.loads((tmp_path / "a" / "userns").read_bytes()) == {"uidMappings": [mapping], "gidMappings": [mapping]}
    shutil.rmtree(tmp_path / "a")
    again = PodUsers(tmp_path, 2)  # of a kubelet that was restarted
    assert again.claim(pod("c"))
    assert [again.id_base(pod(uid)) for uid in ("b", "c")] == [131072, 65536]


def test_other_pods_have_the_users_of_the_node(tmp_path: Path) -> None:
    users = PodUsers(tmp_path, 0)
    assert not users.are_supported
    assert users.claim(pod("a", host_users=True))
    assert users.id_base(pod("a", host_users=True)) == 0
    assert not users.claim(pod("b"))
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_record_is_made_anew(tmp_path: Path) -> None:
    users = PodUsers(tmp_path, 1)
    (tmp_path / "a").mkdir()
    for text in ("", "{", '{"uidMappings": [], "gidMappings": []}'):
        (tmp_path / "a" / "userns").write_text(text)
        assert users.id_base(pod("a")) == 0
        assert users.claim(pod("a"))
        assert users.id_base(pod("a")) == 65536
