"""Addresses of webhooks. Pure: no I/O, no clock, no randomness.

Source: admissionregistration/v1 and apiextensions/v1 `WebhookClientConfig`, apiserver/pkg/util/webhook/client.go.
"""

from __future__ import annotations

import base64
import binascii
import math
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from bridgehead.apiserver.resource import JsonObject

from .errors import NotConfigured

_DEFAULT_PORT = 443


@dataclass(frozen=True, slots=True)
class ServiceReference:
    """A port of a Service. The certificate is for `NAME.NAMESPACE.svc`."""

    namespace: str
    name: str
    port: int

    @property
    def server_name(self) -> str:
        return f"{self.name}.{self.namespace}.svc"


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """A webhook's address. `url` has no query; `service` is None for a URL that a user configured.

    `ca_bundle` is PEM; empty: the system's authorities.
    """

    url: str
    service: ServiceReference | None = None
    ca_bundle: bytes = b""

    def url_with_timeout(self, seconds: float) -> str:
        """Return the URL with the time that the webhook has, in whole seconds."""
        return f"{self.url}?timeout={math.ceil(seconds)}s"


def parse_client_config(config: JsonObject) -> ClientConfig:
    """Parse a validated `clientConfig`. Raises `NotConfigured`."""
    try:
        bundle = base64.b64decode(config.get("caBundle") or "")
    except binascii.Error as error:
        raise NotConfigured(f"unable to load root certificates: {error}") from None
    service = config.get("service")
    if service is not None:
        port = service.get("port") or _DEFAULT_PORT
        reference = ServiceReference(service.get("namespace", ""), service.get("name", ""), port)
        path = quote(service.get("path") or "/", safe="/~:@!$&'()*+,;=%")
        return ClientConfig(f"https://{reference.server_name}:{port}/{path.removeprefix('/')}", reference, bundle)
    url = config.get("url") or ""
    if not url:
        raise NotConfigured("webhook configuration must have either service or URL")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise NotConfigured(f"Unparsable URL: {error}") from None
    return ClientConfig(f"{parts.scheme}://{parts.netloc}{parts.path or '/'}", None, bundle)
