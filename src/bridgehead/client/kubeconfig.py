"""Address and credentials for the API server, from a kubeconfig file or a pod's service account.

Features that are not supported (auth providers, passwords, other proxies than HTTP) are rejected: ignoring them
would mean to act as another user than the file states, or to connect past the proxy. As in client-go, credentials
are for https servers only; `kubectl proxy`, for example, adds its own.

A kubeconfig has one server for each cluster. Further servers of the same objects are in an extension of the cluster,
which kubectl ignores: its name is `bridgehead.io/servers`, its content `{"servers": ["https://HOST:PORT", ...]}`.
Source: Kubernetes "Organizing Cluster Access Using kubeconfig Files" and "Accessing the API from a Pod".
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import msgspec

from bridgehead.objects.addresses import join_host_port

from .errors import ConfigError
from .server_choice import SERVERS_EXTENSION, parse_servers

if TYPE_CHECKING:
    from .exec_plugin import ExecPlugin

SERVICE_ACCOUNT_DIRECTORY = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_NOT_SUPPORTED = ("auth-provider", "username", "password")


@dataclass(frozen=True)
class Impersonation:
    """The user as whom requests are sent. `extra` are pairs of a key and a value."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, str], ...] = ()

    def headers(self) -> Iterator[tuple[str, str]]:
        """Yield the headers of each request."""
        yield "Impersonate-User", self.user
        if self.uid:
            yield "Impersonate-Uid", self.uid
        for group in self.groups:
            yield "Impersonate-Group", group
        for key, value in self.extra:
            yield f"Impersonate-Extra-{quote(key, safe='')}", value


@dataclass(frozen=True)
class ClientConfig:
    """Configuration of an API client. `server`: URL without a trailing slash; certificates and keys: PEM.

    `other_servers`: URLs of further API servers with the same objects, of which the client uses any.
    """

    server: str
    other_servers: tuple[str, ...] = ()
    ca: bytes | None = None
    ca_file: Path | None = None  # the file that `ca` is from, if it is from a file
    insecure: bool = False
    tls_server_name: str | None = None
    client_certificate: bytes | None = None
    client_key: bytes | None = None
    # The files that these two are from, if both are from files.
    certificate_files: tuple[Path, Path] | None = None
    token: str | None = None
    token_file: Path | None = None
    namespace: str = "default"
    exec_plugin: ExecPlugin | None = None
    impersonation: Impersonation | None = None
    proxy_url: str | None = None

    @property
    def servers(self) -> tuple[str, ...]:
        """All servers, that of the kubeconfig first."""
        return (self.server, *self.other_servers)


def load_config(kubeconfig: str | Path | None) -> ClientConfig:
    """Read the kubeconfig, or the pod's own configuration without one. Raises ConfigError."""
    return load_kubeconfig(kubeconfig) if kubeconfig else in_cluster_config()


def load_kubeconfig(path: str | Path, context: str | None = None) -> ClientConfig:
    """Read a kubeconfig. `context` overrides its current-context. Raises ConfigError."""
    path = Path(path).expanduser()
    document = _read_document(path)
    wanted = context or document.get("current-context")
    if not wanted:
        raise ConfigError(f"{path}: no current-context")
    chosen = _named(document, "contexts", "context", wanted, path)
    cluster = _named(document, "clusters", "cluster", chosen.get("cluster"), path)
    user = _named(document, "users", "user", chosen["user"], path) if chosen.get("user") else {}
    try:
        server, *others = parse_servers([cluster.get("server"), *_further_servers(cluster)])
    except ValueError as error:
        raise ConfigError(f"{path}: cluster {chosen['cluster']!r}: {error}") from error
    if server.startswith("http://"):
        user = {field: value for field, value in user.items() if field.startswith("as")}
    for field in _NOT_SUPPORTED:
        if user.get(field):
            raise ConfigError(f"{path}: user {chosen['user']!r}: {field!r} is not supported")
    certificate = _bytes(user, "client-certificate", path)
    key = _bytes(user, "client-key", path)
    if (certificate is None) != (key is None):
        raise ConfigError(f"{path}: user {chosen['user']!r}: client-certificate and client-key belong together")
    token_file = user.get("tokenFile")
    ca = _bytes(cluster, "certificate-authority", path)
    try:
        proxy_url = _proxy_url(cluster.get("proxy-url"))
    except ValueError as error:
        raise ConfigError(f"{path}: cluster {chosen['cluster']!r}: {error}") from error
    try:
        impersonation = _impersonation(user)
        has_token = user.get("token") or token_file
        exec_plugin = None if has_token else _exec_plugin(user.get("exec"), cluster, ca, path)
    except ValueError as error:
        raise ConfigError(f"{path}: user {chosen['user']!r}: {error}") from error
    return ClientConfig(
        server=server,
        other_servers=tuple(others),
        ca=ca,
        ca_file=_file(cluster, "certificate-authority", path),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        tls_server_name=cluster.get("tls-server-name"),
        client_certificate=certificate,
        client_key=key,
        certificate_files=_certificate_files(user, path),
        token=None if token_file else user.get("token"),
        token_file=_beside(path, token_file) if token_file else None,
        namespace=chosen.get("namespace") or "default",
        exec_plugin=exec_plugin,
        impersonation=impersonation,
        proxy_url=proxy_url,
    )


def _further_servers(cluster: dict[str, Any]) -> list[object]:
    """Return the content of the cluster's extension. Raises ValueError."""
    extensions = cluster.get("extensions") or []
    for entry in extensions if isinstance(extensions, list) else []:
        if isinstance(entry, dict) and entry.get("name") == SERVERS_EXTENSION:
            content = entry.get("extension")
            servers = content.get("servers") if isinstance(content, dict) else None
            if not isinstance(servers, list):
                raise ValueError(f'the extension {SERVERS_EXTENSION} is not {{"servers": ["https://HOST:PORT", ...]}}')
            return servers
    return []


def _exec_plugin(entry: object, cluster: dict[str, Any], ca: bytes | None, path: Path) -> ExecPlugin | None:
    """Parse the field `exec` of a user. Raises ValueError."""
    if not entry:
        return None
    if not isinstance(entry, dict):
        raise ValueError("'exec' is not an object")
    from .exec_plugin import parse_exec_plugin  # only here, so that parts inside a cluster never load it

    try:
        return parse_exec_plugin(entry, cluster, ca, str(path.parent.absolute()))
    except ValueError as error:
        raise ValueError(f"'exec': {error}") from None


def _impersonation(user: dict[str, Any]) -> Impersonation | None:
    """Parse the fields `as...` of a user. Raises ValueError."""
    name, uid, groups, extra = (user.get(field) for field in ("as", "as-uid", "as-groups", "as-user-extra"))
    if not name:
        if uid or groups or extra:
            raise ValueError("'as-uid', 'as-groups' and 'as-user-extra' need 'as'")
        return None
    lists = extra or {}
    is_map = isinstance(lists, dict) and all(isinstance(values or [], list) for values in lists.values())
    if not isinstance(groups or [], list) or not is_map:
        raise ValueError("'as-groups' is not a list, or 'as-user-extra' not a map of lists")
    pairs = tuple((str(key), str(value)) for key, values in lists.items() for value in values or ())
    found = Impersonation(str(name), str(uid or ""), tuple(map(str, groups or ())), pairs)
    if not all(value.isprintable() for _, value in found.headers()):
        raise ValueError("'as' and the fields that belong to it have characters that no header may have")
    return found


def _proxy_url(url: object) -> str | None:
    """Return the URL of a cluster's HTTP proxy. Raises ValueError."""
    if not url:
        return None
    # No text of urllib's: its errors have parts of the URL, which may have a password.
    try:
        parts = urlsplit(str(url))
        port = parts.port
    except ValueError:
        raise ValueError("proxy-url is not a URL such as http://HOST:PORT") from None
    if parts.scheme != "http" or not parts.hostname or port == 0:
        raise ValueError(f"proxy-url {parts.scheme}://{parts.hostname or ''} is not supported, only http://HOST:PORT")
    return str(url)


def in_cluster_config(
    directory: Path = SERVICE_ACCOUNT_DIRECTORY, environment: Mapping[str, str] | None = None
) -> ClientConfig:
    """Read the configuration that every pod has. Raises ConfigError outside of a pod."""
    environment = os.environ if environment is None else environment
    host = environment.get("KUBERNETES_SERVICE_HOST")
    port = environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConfigError(
            "no kubeconfig given, and not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set"
        )
    token_file = directory / "token"
    _read_bytes(token_file)  # report a missing token now, not at the first request
    namespace = directory / "namespace"
    return ClientConfig(
        server=f"https://{join_host_port(host, port)}",
        ca=_read_bytes(directory / "ca.crt"),
        ca_file=directory / "ca.crt",
        token_file=token_file,
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
    )


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error


def _read_document(path: Path) -> dict[str, Any]:
    content = _read_bytes(path)
    try:  # JSON is YAML, and takes a process no other code than it needs for objects
        document = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        document = _parse_yaml(content, path)
    if not isinstance(document, dict) or document.get("kind", "Config") != "Config":
        raise ConfigError(f"{path}: not a kubeconfig")
    return document


def _parse_yaml(content: bytes, path: Path) -> Any:
    # Imported here, so that parts inside a cluster never load PyYAML.
    from bridgehead.yaml_loader import UnusableYaml, load

    try:
        return load(content)
    except UnusableYaml as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error


def _named(document: dict[str, Any], listed: str, field: str, name: object, path: Path) -> dict[str, Any]:
    entries = document.get(listed) or []
    if isinstance(entries, list):
        for entry in entries:
            if isinstance(entry, dict) and entry.get("name") == name:
                value = entry.get(field) or {}
                if isinstance(value, dict):
                    return value
    raise ConfigError(f"{path}: no {field} named {name!r}")


def _bytes(entry: dict[str, Any], field: str, path: Path) -> bytes | None:
    """Return the bytes of `FIELD-data` (base64) or else of the file that `FIELD` names; None without both."""
    data = entry.get(f"{field}-data")
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError, TypeError) as error:
            raise ConfigError(f"{path}: {field}-data is not base64") from error
    file = _file(entry, field, path)
    return _read_bytes(file) if file else None


def _certificate_files(user: dict[str, Any], path: Path) -> tuple[Path, Path] | None:
    certificate, key = (_file(user, field, path) for field in ("client-certificate", "client-key"))
    return (certificate, key) if certificate and key else None


def _file(entry: dict[str, Any], field: str, path: Path) -> Path | None:
    """Return the file that `FIELD` names; None without one, or if `FIELD-data` takes precedence."""
    file = entry.get(field)
    return None if not file or entry.get(f"{field}-data") else _beside(path, file)


def _beside(kubeconfig: Path, file: str) -> Path:
    """Resolve a path in a kubeconfig: relative ones start at the directory of the kubeconfig."""
    return kubeconfig.parent / Path(file).expanduser()
