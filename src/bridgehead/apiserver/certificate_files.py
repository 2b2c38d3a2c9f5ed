"""The certificate files of a running server: loading them, and reloading those that change.

As with kube-apiserver, a new serving certificate, new CAs of clients and new client certificates of this server count
without a restart. Static tokens and the keys of service account tokens are read at the start only.
Source: apiserver/pkg/server/dynamiccertificates, client-go/transport/cert_rotation.go.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bridgehead.file_changes import FollowedFiles, follow
from bridgehead.tls_offers import DEFAULT_OFFER, TlsOffer

from .access.request_headers import RequestHeaders
from .errors import ApiStatus
from .http.server import ApiServer, server_context
from .proxying.aggregation.extension_authentication import (
    authentication_data,
    publish_authentication,
)
from .proxying.aggregation.server_transport import ProxyCertificate, Transport
from .registry.registry import Registry
from .streams.kubelet_access import KubeletAccess, KubeletTls


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFiles:
    """PEM files: the server's certificate, the CAs of clients, and certificates for kubelets and aggregated APIs."""

    certificate: Path
    key: Path
    client_ca: Path | None = None
    request_headers: RequestHeaders | None = None
    kubelets: KubeletTls | None = None
    proxy: ProxyCertificate | None = None
    offer: TlsOffer = DEFAULT_OFFER

    def context(self) -> ssl.SSLContext:
        """Return the server's TLS settings. Raises OSError, and ValueError with a line that names the files."""
        front_proxy_ca = None if self.request_headers is None else self.request_headers.authority
        paths = _present(self.certificate, self.key, self.client_ca, front_proxy_ca)
        for path in paths:
            path.read_bytes()  # raises an error that names the file; ssl's errors do not
        try:
            return server_context(self.certificate, self.key, self.client_ca, front_proxy_ca, self.offer)
        except ValueError as error:
            files = ", ".join(str(path) for path in paths)
            reason = error.reason if isinstance(error, ssl.SSLError) and error.reason else error
            why = f"not PEM, or not the certificate's key ({reason})"
            raise ValueError(f"can't use the certificates ({files}): {why}") from error

    def trusted(self) -> dict[str, str]:
        """Return what the servers of aggregated APIs have to trust. Raises OSError."""
        return authentication_data(self.client_ca, self.request_headers)


class CertificateFollower:
    """Reloads files that change. Construct it before the first load, so that no change is missed."""

    def __init__(self, files: CertificateFiles) -> None:
        """Read the files. Raises OSError."""
        self._files = files
        headers, kubelets, proxy = files.request_headers, files.kubelets, files.proxy
        self._pair = FollowedFiles((files.certificate, files.key))
        authorities = _present(files.client_ca, None if headers is None else headers.authority)
        self._verified = FollowedFiles(authorities)
        self._published = FollowedFiles(authorities)
        self._kubelets = FollowedFiles(() if kubelets is None else (kubelets.certificate, kubelets.key))
        self._proxy = FollowedFiles(() if proxy is None else (proxy.certificate, proxy.key))

    async def run(self, server: ApiServer, registry: Registry, kubelets: KubeletAccess, transport: Transport) -> None:
        """Follow the files until cancelled."""

        async def serve(*, verifies_anew: bool) -> None:
            server.change_tls(self._files.context(), verifies_anew=verifies_anew)

        async def publish() -> None:
            try:
                await publish_authentication(registry, self._files.trusted())
            except ApiStatus as status:
                raise ValueError(status.message) from status

        async def reload_kubelets() -> None:
            kubelets.reload_certificate()

        async def reload_proxy() -> None:
            transport.reload_certificate()

        await follow(
            [
                (self._pair, partial(serve, verifies_anew=False)),
                (self._verified, partial(serve, verifies_anew=True)),
                (self._published, publish),
                (self._kubelets, reload_kubelets),
                (self._proxy, reload_proxy),
            ]
        )


def _present(*paths: Path | None) -> tuple[Path, ...]:
    return tuple(path for path in paths if path is not None)
