"""Requests to a lab's API server from the tests' process: what waits for objects needs no kubectl."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import subprocess
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from .remote_command import execute

JSON = "application/json"
APPLY = "application/apply-patch+yaml"

Objects = dict[str, dict[str, Any]]


class Api:
    """The API server of a kubeconfig, with its credentials. `patience`: seconds for an answer. `close` it."""

    def __init__(self, kubeconfig: Path, patience: float) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._context = ssl.create_default_context(cadata=authority)
        with tempfile.NamedTemporaryFile() as pem:
            pem.write(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
            pem.flush()
            self._context.load_cert_chain(pem.name)
        self.host = cluster["server"].removeprefix("https://")
        self._patience = patience
        self._idle: list[http.client.HTTPSConnection] = []  # a list, because tests call from several threads
        self._resources: dict[tuple[str, str], dict[str, Any]] = {}  # by apiVersion and kind

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self.host, context=self._context, timeout=self._patience)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def call(
        self, method: str, path: str, body: Any = None, content_type: str = JSON, chunked: bool = False
    ) -> tuple[int, Any]:
        """Return the status and the object of the answer."""
        status, content = self.request(method, path, body, content_type, chunked)
        return status, json.loads(content)

    def request(
        self, method: str, path: str, body: Any = None, content_type: str = JSON, chunked: bool = False
    ) -> tuple[int, bytes]:
        """Return the status and the content of the answer."""
        headers = {"Content-Type": content_type} | ({"Transfer-Encoding": "chunked"} if chunked else {})
        while True:
            is_new = not self._idle
            connection = self.connect() if is_new else self._idle.pop()
            try:
                connection.request(method, path, body=body, headers=headers, encode_chunked=chunked)
                answer = connection.getresponse()
                status, content = answer.status, answer.read()
            except (http.client.RemoteDisconnected, ConnectionError, ssl.SSLEOFError):
                connection.close()
                if is_new:
                    raise
                continue  # the server closed it while it was idle
            except BaseException:
                connection.close()
                raise
            self._idle.append(connection)
            return status, content

    def get(self, path: str) -> Any:
        """The object at `path`, or None."""
        status, answer = self.call("GET", path)
        assert status in (200, 404), answer
        return answer if status == 200 else None

    def execute(self, pod: str, argv: Sequence[str], stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in the only container of the pod at this path."""
        return execute(self.host, self._context, pod, argv, stdin=stdin, seconds=2 * self._patience)

    def list(self, path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.get(path)["items"]
        return items

    def apply(self, namespace: str, manifest: str) -> None:
        """Do what `kubectl apply --server-side` does with a manifest, in `namespace` unless it names others."""
        for obj in _documents(manifest):
            metadata = obj["metadata"]
            path = self._path(obj["apiVersion"], obj["kind"], metadata.get("namespace", namespace))
            query = "fieldManager=e2e&force=true&fieldValidation=Strict"
            status, answer = self.call("PATCH", f"{path}/{metadata['name']}?{query}", json.dumps(obj), APPLY)
            assert status in (200, 201), answer

    def _path(self, version: str, kind: str, namespace: str) -> str:
        """Return the path of a kind's collection."""
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if (version, kind) not in self._resources:
            for resource in self.get(root)["resources"]:
                if "/" not in resource["name"]:
                    self._resources[version, resource["kind"]] = resource
        resource = self._resources[version, kind]
        where = f"{root}/namespaces/{namespace}" if resource["namespaced"] else root
        return f"{where}/{resource['name']}"

    def wait(self, path: str, is_done: Callable[[Objects], bool], message: str) -> Objects:
        """Return a collection's objects by name, once `is_done` is true of them; it is called after each change.

        Raises AssertionError after `patience`.
        """
        deadline = time.monotonic() + self._patience
        for objects in self._changes(path, deadline):
            if is_done(objects):
                return objects
        raise AssertionError(f"{message}; after {self._patience} s: {objects}")

    def _changes(self, path: str, deadline: float) -> Iterator[Objects]:
        """Yield a collection's objects by name: at once, after each change, and when the time is over."""
        join = "&" if "?" in path else "?"
        while True:
            found = self.get(path)
            objects = {item["metadata"]["name"]: item for item in found["items"]}
            yield objects
            seconds = deadline - time.monotonic()
            if seconds <= 0:
                return
            query = {"watch": "true", "resourceVersion": found["metadata"]["resourceVersion"]}
            query["timeoutSeconds"] = str(max(1, round(seconds)))
            connection = self.connect()
            try:
                connection.request("GET", f"{path}{join}{urllib.parse.urlencode(query)}")
                for line in connection.getresponse():
                    event = json.loads(line)
                    if event["type"] == "ERROR":  # the resourceVersion is too old
                        break
                    name = event["object"]["metadata"]["name"]
                    if event["type"] == "DELETED":
                        del objects[name]
                    else:
                        objects[name] = event["object"]
                    yield objects
            finally:
                connection.close()


def _documents(manifest: str) -> Iterator[dict[str, Any]]:
    """The objects of a manifest in YAML, or of JSON documents one after the other."""
    if manifest.lstrip().startswith("{"):
        documents, decoder = [], json.JSONDecoder()
        while manifest := manifest.lstrip():
            document, end = decoder.raw_decode(manifest)
            documents.append(document)
            manifest = manifest[end:]
    else:
        documents = [document for document in yaml.safe_load_all(manifest) if document]
    for document in documents:
        yield from document["items"] if document["kind"] == "List" else [document]
