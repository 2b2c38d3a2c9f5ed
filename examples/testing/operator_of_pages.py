"""An operator made with kopf: a Page becomes a ConfigMap with its text."""

import kopf
from kubernetes import client


@kopf.on.startup()
def configure(settings, **_):
    settings.posting.enabled = False


@kopf.on.create("example.com", "v1", "pages")
@kopf.on.update("example.com", "v1", "pages")
def publish(spec, name, namespace, **_):
    body = {"metadata": {"name": name}, "data": {"index.html": f"<h1>{spec['title']}</h1>"}}
    kopf.adopt(body)
    api = client.CoreV1Api()
    try:
        api.create_namespaced_config_map(namespace, body)
    except client.exceptions.ApiException as error:
        if error.status != 409:
            raise
        api.patch_namespaced_config_map(name, namespace, body)
    return {"title": spec["title"]}
