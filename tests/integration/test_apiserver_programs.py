"""Clients of other people with `bridgehead apiserver`: lightkube, the `kubernetes` client's informers and elections.

test_apiserver_custom_resources.py has an operator made with kopf and the dynamic client with server-side apply.
"""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Iterator
from typing import Any

import lightkube
import pytest
from kubernetes import client
from kubernetes.informer import SharedInformer
from lightkube.codecs import load_all_yaml
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.autoscaling_v1 import ScaleSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap

from .apiserver_process import DEADLINE, DEPLOYMENT, ServerProcess
from .python_candidate import candidate, first_line

pytestmark = pytest.mark.integration


@pytest.fixture
def core(api: client.ApiClient) -> client.CoreV1Api:
    return client.CoreV1Api(api)


def config_map(name: str, **data: str) -> client.V1ConfigMap:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"of": "informer"}), data=data)


def test_an_informer_of_the_python_client(core: client.CoreV1Api) -> None:
    core.create_namespaced_config_map("default", config_map("before", a="1"))
    events: queue.Queue[tuple[str, str, str]] = queue.Queue()
    informer = SharedInformer(core.list_namespaced_config_map, namespace="default", label_selector="of=informer")
    for kind in ("ADDED", "MODIFIED", "DELETED"):
        informer.add_event_handler(kind, lambda obj, kind=kind: events.put((kind, obj.metadata.name, obj.data["a"])))
    informer.start()
    try:
        assert events.get(timeout=DEADLINE) == ("ADDED", "before", "1")
        core.create_namespaced_config_map("default", config_map("after", a="2"))
        assert events.get(timeout=DEADLINE) == ("ADDED", "after", "2")
        core.patch_namespaced_config_map("after", "default", {"data": {"a": "3"}})
        assert events.get(timeout=DEADLINE) == ("MODIFIED", "after", "3")
        core.delete_namespaced_config_map("before", "default")
        assert events.get(timeout=DEADLINE) == ("DELETED", "before", "1")
        assert informer.cache.list_keys() == ["default/after"]
    finally:
        core.delete_collection_namespaced_config_map("default", label_selector="of=informer")
        informer.stop()


@pytest.mark.slow
def test_leader_election_of_the_python_client(server: ServerProcess, core: client.CoreV1Api) -> None:
    leases: Any = client.CoordinationV1Api(core.api_client)
    with candidate(server, "one") as one:
        assert first_line(one) == "leads\n"
        assert leases.read_namespaced_lease("leader", "default").spec.holder_identity == "one"
        with candidate(server, "two") as two:
            one.kill()
            assert first_line(two) == "leads\n"
            assert leases.read_namespaced_lease("leader", "default").spec.holder_identity == "two"


@pytest.fixture
def light(server: ServerProcess) -> Iterator[lightkube.Client]:
    config = lightkube.KubeConfig.from_file(server.directory / "kubeconfig")
    with contextlib.closing(lightkube.Client(config, field_manager="lightkube", trust_env=False)) as client:
        yield client


def test_lightkube(light: Any) -> None:
    (web,) = load_all_yaml(DEPLOYMENT)
    applied = light.apply(web)
    assert applied.metadata.managedFields[0].manager == "lightkube"
    scale = light.replace(Deployment.Scale(metadata=ObjectMeta(name="web"), spec=ScaleSpec(replicas=2)), "web")
    assert scale.spec.replicas == 2
    with pytest.raises(lightkube.ApiError) as caught:
        light.apply(web, field_manager="another")
    assert caught.value.status.reason == "Conflict"
    assert light.apply(web, field_manager="another", force=True).spec.replicas == 3
    made = [light.create(ConfigMap(metadata=ObjectMeta(name=f"light{n}", labels={"n": str(n)}))) for n in range(3)]
    listed = list(light.list(ConfigMap, labels={"n": ["0", "2"]}, chunk_size=1))
    assert [one.metadata.name for one in listed] == ["light0", "light2"]
    patched = light.patch(ConfigMap, "light0", {"data": {"a": "b"}})
    watch = light.watch(ConfigMap, labels={"n": "0"}, resource_version=made[0].metadata.resourceVersion)
    assert next(watch) == ("MODIFIED", patched)
    watch.close()
    light.delete(ConfigMap, "light1")
    with pytest.raises(lightkube.ApiError) as caught:
        light.get(ConfigMap, "light1")
    assert (caught.value.status.code, caught.value.status.reason) == (404, "NotFound")
    generic = create_namespaced_resource("", "v1", "ConfigMap", "configmaps")
    assert light.get(generic, "light0")["data"] == {"a": "b"}
