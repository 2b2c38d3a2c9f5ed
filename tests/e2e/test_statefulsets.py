"""W43: StatefulSets with volume claims, and volumes that act."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridgehead.lab.plan import LabFiles

from .conftest import PATIENCE, Lab, Namespace, eventually

DATABASE = """
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {app: db}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 3
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: db
        image: busybox
        command: [sh, -c, "test -e /data/name || hostname > /data/name; exec sleep 3600"]
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab("stateful", tmp_path / "state")
    yield lab
    lab.stop("--delete")


def names(ns: Namespace) -> list[str] | None:
    """Return what is in the volumes of the pods of `db`; None while one of the pods does not run."""
    answers = [ns.execute(f"db-{number}", "cat", "/data/name") for number in range(3)]
    return [one.stdout.strip() for one in answers] if all(one.returncode == 0 for one in answers) else None


def addresses(ns: Namespace) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in ns.pods("app=db")}


def resolves(lab: Lab, ns: Namespace) -> bool:
    """Whether the name of each pod leads to its address."""
    wanted = addresses(ns)
    return all(
        lab.inside("dig", "+short", "@10.96.0.10", f"{name}.db.default.svc.cluster.local").stdout.split() == [ip]
        for name, ip in wanted.items()
    )


@pytest.mark.needs("dig")
def test_w43_a_stateful_set_keeps_names_and_data(other: Lab) -> None:
    other.start("--nodes=2", "--ip-family=ipv4", "--no-balancer")
    ns = Namespace(other, "default")
    assert "standard (default)" in ns.kubectl("get", "storageclasses")
    ns.apply(DATABASE)
    rolled_out = ns.kubectl("rollout", "status", "statefulset/db", f"--timeout={PATIENCE}s")
    assert "partitioned roll out complete: 3 new pods have been updated..." in rolled_out
    eventually(lambda: names(ns) == ["db-0", "db-1", "db-2"])
    assert re.search(r"^db +3/3 +\S+$", ns.kubectl("get", "sts"), re.MULTILINE)
    assert re.search(r"^data-db-1 +Bound +pvc-\S+ +1Gi +RWO +standard ", ns.kubectl("get", "pvc"), re.MULTILINE)
    eventually(lambda: resolves(other, ns))
    ns.kubectl("exec", "db-1", "--", "sh", "-c", "echo kept > /data/name")
    node = ns.get("pods", "db-1")["spec"]["nodeName"]
    ns.kubectl("delete", "pod", "db-1")
    ns.ready("db-1")
    assert ns.get("pods", "db-1")["spec"]["nodeName"] == node

    other.stop()
    other.start()
    eventually(lambda: names(ns) == ["db-0", "kept", "db-2"], message="data is lost")
    eventually(lambda: resolves(other, ns))


def claim(name: str = "data", **spec: Any) -> str:
    default = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": name}
    return json.dumps(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": default | spec}
    )


def user_of(claim_name: str, command: str, name: str = "user", mount: dict[str, Any] | None = None) -> str:
    """A pod that runs a command with the claim's volume at /data."""
    container = {
        "name": "c",
        "image": "busybox",
        "command": ["sh", "-c", command],
        "volumeMounts": [{"name": "v", "mountPath": "/data"} | (mount or {})],
    }
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "securityContext": {"runAsUser": 1000},
        "containers": [container],
        "volumes": [volume],
    }
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def on_node(lab: Lab, node: str, path: str) -> Path:
    """Return a path of a node as one of the machine."""
    return LabFiles(lab.state_dir).root / "roots" / node / path.removeprefix("/")


def test_a_claims_directory_is_shared_read_only_and_deleted(lab: Lab, ns: Namespace) -> None:
    ns.apply(claim())
    ns.apply(user_of("data", "mkdir /data/sub && echo hello > /data/sub/file"))
    ns.succeeded("user")
    read = user_of("data", "cat /data/file; touch /data/x 2>&1", "reader", {"subPath": "sub", "readOnly": True})
    ns.apply(read)
    eventually(lambda: ns.get("pods", "reader")["status"]["phase"] == "Failed")
    log = ns.kubectl("logs", "reader")
    assert log.startswith("hello\n")
    assert "Read-only file system" in log
    node = ns.get("pods", "user")["spec"]["nodeName"]
    path = f"/var/lib/bridgehead/volumes/{ns.get('persistentvolumeclaims', 'data')['spec']['volumeName']}"
    directory = on_node(lab, node, path)
    assert (directory / "sub/file").read_text() == "hello\n"
    eventually(lambda: "Successfully provisioned volume pvc-" in ns.kubectl("describe", "pvc", "data"))
    ns.kubectl("delete", "pod", "user", "reader")
    ns.kubectl("delete", "pvc", "data")
    eventually(lambda: not directory.exists(), message="the directory is kept")
    eventually(lambda: directory.name not in ns.kubectl("get", "pv", "-o", "name"))


def test_a_volume_that_is_a_link_is_refused(lab: Lab, ns: Namespace) -> None:
    """A claim does not give its user the node's root, whatever its directory has become."""
    node, path = "node1", f"/var/{ns.name}"
    on_node(lab, node, path).symlink_to("/")
    affinity = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": ns.name,
        "local": {"path": path},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [affinity]}},
    }
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": ns.name}, "spec": spec}
    ns.kubectl("create", "-f", "-", stdin=json.dumps(volume))
    try:
        ns.apply(claim(storageClassName=ns.name))
        ns.apply(user_of("data", "true"))
        refused = f'path "{path}" of the volume leads over the symbolic link "{path}"'
        eventually(lambda: refused in ns.kubectl("describe", "pod", "user"))
    finally:
        ns.kubectl("delete", "pod", "user")
        ns.kubectl("delete", "pvc", "data")
        ns.kubectl("delete", "pv", ns.name)


def test_a_claim_that_nobody_can_satisfy_waits(ns: Namespace) -> None:
    ns.apply(claim(storageClassName=""))
    ns.apply(user_of("data", "true"))
    none = "no persistent volumes available for this claim and no storage class is set"
    eventually(lambda: none in ns.kubectl("describe", "pvc", "data"))
    waits = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    eventually(lambda: waits in ns.kubectl("describe", "pod", "user"))
    assert re.search(r"^data +Pending ", ns.kubectl("get", "pvc"), re.MULTILINE)
