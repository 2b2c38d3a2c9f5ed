"""Volumes of claims: paths on the node, and claims that a pod cannot use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridgehead.client.errors import Forbidden
from bridgehead.kubelet.errors import VolumeNotReady
from bridgehead.kubelet.volumes.persistent import Claims, prepare_persistent
from bridgehead.kubelet.volumes.volume_manager import VolumeManager
from bridgehead.objects.core import Node
from bridgehead.objects.kinds import Kind
from bridgehead.objects.storage import PersistentVolume, PersistentVolumeClaim
from tests.unit.kubelet.pod_factory import make_pod

OURS = {"pv.kubernetes.io/provisioned-by": "bridgehead.io/host-path"}


def volume(annotations: dict[str, str] | None = None, **spec: Any) -> PersistentVolume:
    metadata = {"name": "pv", "annotations": annotations or {}}
    claim = {"claimRef": {"namespace": "default", "name": "data", "uid": "u"}}
    return msgspec.convert({"metadata": metadata, "spec": claim | spec}, PersistentVolume)


def test_a_provisioned_directory_is_made_for_any_user(tmp_path: Path) -> None:
    path = tmp_path / "volumes" / "pvc-1"
    made = volume(OURS, hostPath={"path": str(path), "type": "DirectoryOrCreate"})
    assert prepare_persistent(made, None) == path
    assert path.stat().st_mode & 0o7777 == 0o777
    (path / "kept").touch()
    assert prepare_persistent(made, os.getgid()) == path
    assert (path / "kept").exists()


def test_local_volumes_and_host_paths(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    assert prepare_persistent(volume(local={"path": str(tmp_path / "disk")}), None) == tmp_path / "disk"
    made = volume(hostPath={"path": str(tmp_path / "made"), "type": "DirectoryOrCreate"})
    assert prepare_persistent(made, None).is_dir()
    with pytest.raises(VolumeNotReady, match='/none" does not exist') as missing:
        prepare_persistent(volume(local={"path": str(tmp_path / "none")}), None)
    assert missing.value.step == "MountVolume.NewMounter initialization"
    with pytest.raises(VolumeNotReady, match="mount options are not supported") as refused:
        prepare_persistent(volume(hostPath={"path": str(tmp_path)}, mountOptions=["noatime"]), None)
    assert refused.value.step == "MountVolume.MountOptionSupport check"
    with pytest.raises(ValueError, match="no volume plugin matched; supported: hostPath, local"):
        prepare_persistent(volume(), None)


@pytest.mark.parametrize("annotations", [OURS, {}])
@pytest.mark.parametrize("below", ["", "/deeper"])
def test_a_path_over_a_link_is_refused(tmp_path: Path, below: str, annotations: dict[str, str]) -> None:
    (tmp_path / "link").symlink_to("/")
    with pytest.raises(ValueError, match=f'leads over the symbolic link "{tmp_path}/link"'):
        prepare_persistent(volume(annotations, hostPath={"path": f"{tmp_path}/link{below}", "type": ""}), None)


class Api:
    """Answers with the object of each kind."""

    def __init__(self, *objects: Any) -> None:
        self._objects = {type(one): one for one in objects}
        self.asked = 0

    async def get(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        self.asked += 1
        if kind.type not in self._objects:
            raise Forbidden(403, "Forbidden", f"no {kind.plural}")
        return self._objects[kind.type]


def claim(phase: str = "Bound", **spec: Any) -> PersistentVolumeClaim:
    metadata = {"name": "data", "namespace": "default", "uid": "u"}
    fields = {"metadata": metadata, "spec": {"volumeName": "pv"} | spec, "status": {"phase": phase}}
    return msgspec.convert(fields, PersistentVolumeClaim)


POD = make_pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "e", "emptyDir": {}}])
VOLUME = POD.spec.volumes[0]
NODE = msgspec.convert({"metadata": {"name": "node1", "labels": {"disk": "ssd"}}}, Node)


def on_disk(kind: str) -> dict[str, Any]:
    expression = {"key": "disk", "operator": "In", "values": [kind]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


async def test_the_volume_of_a_claim_is_fetched_once() -> None:
    api = Api(claim(), volume(nodeAffinity=on_disk("ssd")), NODE)
    claims = Claims(api, "node1")  # type: ignore[arg-type]
    await claims.fetch(POD, VOLUME)
    await claims.fetch(POD, VOLUME)
    assert claims.volume(POD, "v").metadata.name == "pv"
    assert api.asked == 3
    claims.forget(POD.metadata.uid)
    await claims.fetch(POD, VOLUME)
    assert api.asked == 6


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ((), "no persistentvolumeclaims"),
        ((claim("Pending"),), "error processing PVC ns/data: PVC is not bound"),
        ((claim(),), "no persistentvolumes"),
        ((claim(), volume(claimRef={"uid": "x"})), "PV object pv does not point to the claim"),
        ((claim(volumeMode="Block"), volume()), "volumeMode Block is not supported"),
        ((claim(), volume(nodeAffinity=on_disk("hdd")), NODE), "no matching NodeSelectorTerms"),
    ],
)
async def test_claims_that_cannot_be_used(objects: tuple[Any, ...], message: str) -> None:
    with pytest.raises(VolumeNotReady, match=message):
        await Claims(Api(*objects), "node1").fetch(POD, VOLUME)  # type: ignore[arg-type]


EPHEMERAL = make_pod(volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}])


async def test_the_claim_of_an_ephemeral_volume_belongs_to_the_pod() -> None:
    with pytest.raises(VolumeNotReady, match=r"PVC default/data was not created for pod .* \(pod is not owner\)"):
        await Claims(Api(claim(), volume()), "node1").fetch(EPHEMERAL, EPHEMERAL.spec.volumes[0])  # type: ignore[arg-type]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": EPHEMERAL.metadata.uid, "controller": True}
    meta = msgspec.convert({"name": "p-v", "uid": "u", "ownerReferences": [owner]}, type(claim().metadata))
    owned = Claims(Api(msgspec.structs.replace(claim(), metadata=meta), volume()), "node1")  # type: ignore[arg-type]
    await owned.fetch(EPHEMERAL, EPHEMERAL.spec.volumes[0])
    assert owned.volume(EPHEMERAL, "v").metadata.name == "pv"


async def test_a_volume_for_one_pod_has_one_holder() -> None:
    claims = Claims(Api(claim(), volume(accessModes=["ReadWriteOncePod"])), "node1")  # type: ignore[arg-type]
    other = msgspec.structs.replace(POD, metadata=msgspec.structs.replace(POD.metadata, uid="other"))
    for _ in range(2):
        await claims.fetch(POD, VOLUME)
    with pytest.raises(VolumeNotReady, match="uses the ReadWriteOncePod access mode and is already in use by another"):
        await claims.fetch(other, VOLUME)
    claims.forget(POD.metadata.uid)
    await claims.fetch(other, VOLUME)


async def test_the_first_pod_of_a_node_gives_a_local_volume_to_its_group(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir(0o700)
    api = Api(claim(), volume(local={"path": str(disk)}))
    manager = VolumeManager(tmp_path / "kubelet", api, None, {"memory": 1 << 30}, "node1")  # type: ignore[arg-type]

    async def mode_for(uid: str, *, is_read_only: bool = False, group: int | None = None) -> int:
        source = {"claimName": "data", "readOnly": is_read_only}
        pod = make_pod({"fsGroup": group}, volumes=[{"name": "v", "persistentVolumeClaim": source}])
        paths, _ = await manager.prepare(
            msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=uid))
        )
        assert paths == {"v": str(disk)}
        return disk.stat().st_mode & 0o7777

    assert await mode_for("reader", is_read_only=True, group=os.getgid()) == 0o700
    assert await mode_for("first", group=os.getgid()) == 0o2770
    disk.chmod(0o700)
    assert await mode_for("first", group=os.getgid()) == 0o700
    assert await mode_for("second", group=os.getgid()) == 0o700
    await manager.remove("first")
    await manager.remove("second")
    assert await mode_for("without") == 0o700
    await manager.remove("without")
    assert await mode_for("third", group=os.getgid()) == 0o2770
