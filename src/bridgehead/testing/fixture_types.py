"""Values of the plugin's fixtures, for annotations of tests: `from bridgehead.testing.fixture_types import Connect`."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bridgehead.objects.meta import ObjectKey

from . import applying, responses, targets, waiting
from .cluster import Cluster
from .kubectl import Kubectl, KubectlFailed
from .labs import Lab
from .manifests import Json, UnusableManifest, flatten, parse_text
from .responses import Response

__all__ = ["Apply", "Connect", "Kill", "Kubectl", "KubectlFailed", "Lab", "Partition", "Resolve", "Response", "Wait"]

_WAIT_SECONDS = 60.0
_CONNECT_SECONDS = 10.0


class Resolve(Protocol):
    """Returns the addresses of a name, once there are any. Raises `Unresolved`, which is an AssertionError."""

    def __call__(self, name: str, seconds: float = ...) -> tuple[str, ...]: ...


Partition = Callable[[str], contextlib.AbstractContextManager[None]]
Kill = Callable[[str], None]


@dataclass(frozen=True)
class Connect:
    """Opens connections from beside the nodes, as a client on their network, or from a node."""

    lab: Lab
    resolve: Resolve

    def __call__(self, target: str, *, node: str | None = None, seconds: float = _CONNECT_SECONDS) -> socket.socket:
        """Return a connected socket for `HOST:PORT`; a host may be a node's name, too.

        Raises OSError as connect(2) does, `Unresolved`, ValueError.
        """
        host, port = targets.parse_address(target)
        return self._connect(host, port, node, seconds)

    def http(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | str | None = None,
        node: str | None = None,
        seconds: float = _CONNECT_SECONDS,
        tls: ssl.SSLContext | None = None,
    ) -> Response:
        """Return the response to one request. Raises as `__call__`, and http.client.HTTPException."""
        parsed = targets.parse_url(url)
        connected = self._connect(parsed.hostname, parsed.port, node, seconds)
        return responses.request(connected, parsed, method, headers or {}, body, tls)

    def _connect(self, host: str, port: int, node: str | None, seconds: float) -> socket.socket:
        *others, last = (self.lab.nodes[host],) if host in self.lab.nodes else self.resolve(host, seconds)
        for address in others:
            with contextlib.suppress(OSError):
                return self.lab.connect(address, port, seconds, node)
        return self.lab.connect(last, port, seconds, node)


@dataclass(frozen=True)
class Wait:
    """Waits until a Service of the test's namespace has endpoints, and every node's kernel has them."""

    cluster: Cluster
    namespace: str

    def __call__(
        self, service: str, *, ready: int = 1, namespace: str | None = None, seconds: float = _WAIT_SECONDS
    ) -> str:
        """Wait for `ready` endpoints, and return a line about the Service. Raises `NotProgrammed`, ClientError."""
        key = ObjectKey(namespace or self.namespace, service.removeprefix("service/"))
        # The wait has its own bound and a better text than the call's.
        return self.cluster.call(
            lambda client: waiting.wait_programmed(client, key, ready, seconds), 2 * seconds + _WAIT_SECONDS
        )


@dataclass(frozen=True)
class Apply:
    """Applies manifests in the test's namespace."""

    cluster: Cluster
    namespace: str
    directory: Path  # of the test's file
    known: applying.Resources

    def __call__(self, *manifests: str | Path | Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> list[Json]:
        """Apply YAML or JSON, files, directories, or values; return the objects as the API server has them.

        A str without a line break is a path, relative to the test's file or to the working directory. Raises
        `UnusableManifest`, ClientError, OSError.
        """
        objects = [found for each in manifests for found in self._load(each)]
        return self.cluster.call(
            lambda client: applying.apply_all(client, objects, self.namespace, self.known), _WAIT_SECONDS
        )

    def _load(self, manifests: str | Path | Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> list[Json]:
        if isinstance(manifests, Mapping):
            return flatten([manifests])
        if isinstance(manifests, Path):
            return self._load_path(manifests)
        if not isinstance(manifests, str):
            return flatten(manifests)
        return parse_text(manifests) if "\n" in manifests else self._load_path(Path(manifests))

    def _load_path(self, path: Path) -> list[Json]:
        beside = self.directory / path
        path = beside if beside.exists() else path
        if not path.is_dir():
            return self._load_file(path)
        files = [file for file in sorted(path.iterdir()) if file.suffix in (".yaml", ".yml", ".json")]
        return [found for file in files for found in self._load_file(file)]

    def _load_file(self, path: Path) -> list[Json]:
        try:
            return parse_text(path.read_bytes())
        except UnusableManifest as error:
            raise UnusableManifest(f"{path}: {error}") from None
