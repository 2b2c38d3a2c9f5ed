"""Bad input: each gets the API's own error, nobody else is hurt, and nothing that is stored is lost."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from bridgehead.lab import registry
from bridgehead.lab.plan import LabFiles

from .conftest import PATIENCE, Lab, Namespace

JSON, YAML = "application/json", "application/yaml"


class Api:
    """Bytes to the API server and back, with the administrator's certificate."""

    def __init__(self, lab: Lab) -> None:
        config = yaml.safe_load((lab.state_dir / "kubeconfig").read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._context = ssl.create_default_context(cadata=authority)
        with tempfile.NamedTemporaryFile() as pem:
            pem.write(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
            pem.flush()
            self._context.load_cert_chain(pem.name)
        self._host = cluster["server"].removeprefix("https://")

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, context=self._context, timeout=PATIENCE)

    def call(self, method: str, path: str, body: Any = None, content_type: str = JSON, chunked: bool = False):
        connection = self.connect()
        headers = {"Content-Type": content_type} | ({"Transfer-Encoding": "chunked"} if chunked else {})
        try:
            connection.request(method, path, body=body, headers=headers, encode_chunked=chunked)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()


@pytest.fixture
def api(lab: Lab) -> Api:
    return Api(lab)


@pytest.fixture(autouse=True)
def nothing_dies(lab: Lab) -> Iterator[None]:
    before = registry.read_parts(LabFiles(lab.state_dir))
    yield
    after = registry.read_parts(LabFiles(lab.state_dir))
    assert {p.name: p.restarts for p in after} == {p.name: p.restarts for p in before}


def config_maps(ns: Namespace) -> str:
    return f"/api/v1/namespaces/{ns.name}/configmaps"


def named(**more: Any) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}} | more).encode()


@pytest.mark.parametrize(
    ("body", "content_type", "status", "reason"),
    [
        (b'{"kind": ', JSON, 400, "BadRequest"),
        (b"[" * 100_000, JSON, 400, "BadRequest"),
        (b"a: [b", YAML, 400, "BadRequest"),
        (b"a: " + b"[" * 100_000, YAML, 400, "BadRequest"),
        (named(kind="Nope"), JSON, 400, "BadRequest"),
        (named(data={"a": 1}), JSON, 400, "BadRequest"),
        (named(), "text/plain", 415, "UnsupportedMediaType"),
        (named(metadata={"name": "No_Name"}), JSON, 422, "Invalid"),
        (b"x" * (3 * 1024 * 1024 + 1), JSON, 413, "RequestEntityTooLarge"),
    ],
    ids=["json", "deep-json", "yaml", "deep-yaml", "kind", "type", "content-type", "name", "size"],
)
def test_what_cannot_be_read(api: Api, ns: Namespace, body: bytes, content_type: str, status: int, reason: str) -> None:
    code, answer = api.call("POST", config_maps(ns), body, content_type)
    assert (code, answer["kind"], answer["reason"]) == (status, "Status", reason)
    assert ns.get("configmaps", "--field-selector=metadata.name!=kube-root-ca.crt")["items"] == []


def test_a_body_without_end(api: Api, ns: Namespace) -> None:
    """Sent in chunks, so that its length is not known before."""
    code, answer = api.call("POST", config_maps(ns), (b"x" * 65536 for _ in range(60)), chunked=True)
    assert (code, answer["reason"]) == (413, "RequestEntityTooLarge")


def test_conflicting_updates(api: Api, ns: Namespace) -> None:
    """Of two who changed the same version, the second is told, and the first one's change stays."""
    _, stored = api.call("POST", config_maps(ns), named(data={"by": "nobody"}))
    path = f"{config_maps(ns)}/one"
    assert api.call("PUT", path, json.dumps(stored | {"data": {"by": "first"}}))[0] == 200
    code, answer = api.call("PUT", path, json.dumps(stored | {"data": {"by": "second"}}))
    assert (code, answer["reason"]) == (409, "Conflict")
    assert "the object has been modified" in answer["message"]
    assert ns.get("configmap", "one")["data"] == {"by": "first"}


def test_watches_that_are_never_read(api: Api, ns: Namespace) -> None:
    """Much more is written than fits between the server and those who don't read; others don't notice."""
    connections = [api.connect() for _ in range(100)]
    try:
        for connection in connections:
            connection.request("GET", f"{config_maps(ns)}?watch=1")
        assert api.call("POST", config_maps(ns), named())[0] == 201
        for number in range(60):
            patch = json.dumps({"data": {"number": str(number), "much": "x" * 100_000}})
            assert api.call("PATCH", f"{config_maps(ns)}/one", patch, "application/merge-patch+json")[0] == 200
        assert ns.get("configmap", "one")["data"]["number"] == "59"
        ns.kubectl("run", "beside", "--image=busybox", "--restart=Never", "--", "true")
        ns.succeeded("beside")
    finally:
        for connection in connections:
            connection.close()
