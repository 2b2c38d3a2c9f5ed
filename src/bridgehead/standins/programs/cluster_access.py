"""Requests of a stand-in to the cluster's API server, with the rights of its pod's service account."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from bridgehead.tls_certificates import verifying_context

_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_SECONDS: Final = 10.0  # of one request
_LARGEST: Final = 8 << 20  # bytes of an answer

Json = dict[str, Any]


class AccessFailed(Exception):
    """The request was not answered, or refused. `status` is 0 without an answer."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class ClusterAccess:
    """The API server, as a container's environment names it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._host = environment.get("KUBERNETES_SERVICE_HOST", "")
        self._port = environment.get("KUBERNETES_SERVICE_PORT", "443")

    @property
    def namespace(self) -> str:
        """The namespace of the pod. Raises AccessFailed."""
        return _read("namespace").strip()

    def call(self, method: str, path: str, body: Json | None = None) -> Json:
        """Send a request and return the answer. Raises AccessFailed."""
        headers = {"Authorization": f"Bearer {_read('token').strip()}", "Content-Type": "application/json"}
        data = None if body is None else msgspec.json.encode(body)
        try:
            context = verifying_context(cafile=f"{_ACCOUNT}/ca.crt")
            connection = http.client.HTTPSConnection(self._host, int(self._port), timeout=_SECONDS, context=context)
            try:
                connection.request(method, path, data, headers)
                answer = connection.getresponse()
                text = answer.read(_LARGEST)
            finally:
                connection.close()
            document = msgspec.json.decode(text, type=dict[str, Any])
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise AccessFailed(f"{method} {path}: {error}") from error
        if answer.status >= 400:
            raise AccessFailed(str(document.get("message") or answer.reason), answer.status)
        return document


def _read(name: str) -> str:
    try:
        with open(f"{_ACCOUNT}/{name}", encoding="ascii") as file:
            return file.read()
    except OSError as error:
        raise AccessFailed(f"the pod has no service account token: {error}") from error
