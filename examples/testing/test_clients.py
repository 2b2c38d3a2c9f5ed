"""Tests of code that uses a client library: each gets a kubeconfig, or the client itself, for its own namespace."""

import pytest

kubernetes = pytest.importorskip("kubernetes")
lightkube = pytest.importorskip("lightkube")


def scale_all(api, namespace, replicas):
    """The code under test: scale all Deployments of a namespace."""
    apps = kubernetes.client.AppsV1Api(api)
    for deployment in apps.list_namespaced_deployment(namespace).items:
        apps.patch_namespaced_deployment_scale(deployment.metadata.name, namespace, {"spec": {"replicas": replicas}})


def deployment(name):
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def test_the_official_client(api, namespace, apply, kubectl):
    apply(deployment("one"), deployment("two"))
    scale_all(api, namespace, 1)
    kubectl("rollout", "status", "deployment/one", "deployment/two", "--timeout=60s")


def test_lightkube(kubeconfig, namespace, apply):
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.core_v1 import ConfigMap

    client = lightkube.Client(lightkube.KubeConfig.from_file(kubeconfig))
    client.create(ConfigMap(metadata=ObjectMeta(name="settings"), data={"colour": "blue"}))
    (found,) = client.list(ConfigMap, fields={"metadata.name": "settings"})
    assert (found.metadata.namespace, found.data) == (namespace, {"colour": "blue"})
