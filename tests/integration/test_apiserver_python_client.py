"""The official Python client with `bridgehead apiserver`."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException

pytestmark = pytest.mark.integration


def service(name: str) -> client.V1Service:
    spec = client.V1ServiceSpec(selector={"app": "web"}, ports=[client.V1ServicePort(port=80)])
    return client.V1Service(metadata=client.V1ObjectMeta(name=name), spec=spec)


def test_a_service_is_created_read_patched_and_deleted(api):
    core: Any = client.CoreV1Api(api)
    made = core.create_namespaced_service("default", service("web"))
    assert made.spec.cluster_ip.startswith("10.")
    assert made.spec.ports[0].target_port == 80
    with pytest.raises(ApiException) as caught:
        core.create_namespaced_service("default", service("web"))
    assert (caught.value.status, caught.value.reason) == (409, "Conflict")
    made.spec.ports[0].target_port = "http"
    replaced = core.replace_namespaced_service("web", "default", made)
    assert replaced.spec.ports[0].target_port == "http"
    with pytest.raises(ApiException) as caught:
        core.replace_namespaced_service("web", "default", made)
    assert caught.value.status == 409
    patched = core.patch_namespaced_service("web", "default", {"metadata": {"labels": {"a": "b"}}})
    assert patched.metadata.labels == {"a": "b"}
    names = [item.metadata.name for item in core.list_service_for_all_namespaces(label_selector="a=b").items]
    assert names == ["web"]
    core.delete_namespaced_service("web", "default")
    with pytest.raises(ApiException) as caught:
        core.read_namespaced_service("web", "default")
    assert caught.value.status == 404


def test_a_watch_delivers_the_events_of_an_object(api):
    core: Any = client.CoreV1Api(api)
    version = core.list_namespaced_config_map("default").metadata.resource_version
    config_map = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="seen"), data={"k": "v"})
    maker = threading.Thread(target=core.create_namespaced_config_map, args=("default", config_map))
    maker.start()
    events = watch.Watch().stream(
        core.list_namespaced_config_map, "default", resource_version=version, timeout_seconds=20
    )
    event = next(iter(events))
    events.close()
    maker.join()
    assert (event["type"], event["object"].metadata.name) == ("ADDED", "seen")


def test_a_deployment_is_scaled_and_its_status_written(api):
    apps: Any = client.AppsV1Api(api)
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels={"app": "web"}),
        spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="nginx")]),
    )
    spec = client.V1DeploymentSpec(
        replicas=2, selector=client.V1LabelSelector(match_labels={"app": "web"}), template=template
    )
    apps.create_namespaced_deployment(
        "default", client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec)
    )
    assert apps.read_namespaced_deployment_scale("web", "default").spec.replicas == 2
    apps.patch_namespaced_deployment_scale("web", "default", {"spec": {"replicas": 5}})
    apps.patch_namespaced_deployment_status("web", "default", {"status": {"replicas": 3}})
    deployment = apps.read_namespaced_deployment("web", "default")
    assert (deployment.spec.replicas, deployment.status.replicas) == (5, 3)


def test_the_version_and_the_resources_are_discovered(api):
    assert client.VersionApi(api).get_code().minor == "36"
    assert "apps" in [group.name for group in client.ApisApi(api).get_api_versions().groups]
