"""Connections to kubelets: certificates, and the address of a node's kubelet."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.resource import JsonObject
from bridgehead.tls_certificates import check_certificate, verifying_context

if TYPE_CHECKING:
    import aiohttp

_KUBELET_PORT = 10250
CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class KubeletTls:
    """The API server's client certificate for kubelets, and the CA of kubelets' certificates (PEM files)."""

    certificate: Path
    key: Path
    authority: Path


class KubeletAccess:
    """Connections to kubelets; plain HTTP without `tls`. The owner must call `close`."""

    def __init__(self, tls: KubeletTls | None) -> None:
        """Load certificates. Raises OSError, ssl.SSLError."""
        self._tls = tls
        self.scheme = "https" if tls is not None else "http"
        self.context: ssl.SSLContext | None = None
        self._session: aiohttp.ClientSession | None = None
        if tls is not None:
            self.context = verifying_context(cafile=tls.authority)
            self.context.load_cert_chain(tls.certificate, tls.key)

    def reload_certificate(self) -> None:
        """Use the client certificate that the files have now, for new connections. Raises OSError."""
        if self._tls is not None and self.context is not None:
            # A certificate and a key that do not belong together would spoil the context that is in use.
            check_certificate(self._tls.certificate, self._tls.key)
            self.context.load_cert_chain(self._tls.certificate, self._tls.key)

    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp  # takes a third of the server's start

            connector = aiohttp.TCPConnector(ssl=self.context if self.context is not None else True, limit=0)
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def kubelet_address(node: JsonObject) -> tuple[str, int]:
    """Return the address and port of a node's kubelet. Raises a 500 for a node without an address."""
    status = node.get("status", {})
    address = next((a["address"] for a in status.get("addresses", ()) if a.get("type") == "InternalIP"), None)
    if address is None:
        name = node["metadata"]["name"]
        raise ApiStatus(500, "InternalError", f"no preferred addresses found; node {name} has no InternalIP", {})
    port = status.get("daemonEndpoints", {}).get("kubeletEndpoint", {}).get("Port", _KUBELET_PORT)
    return address, int(port)
