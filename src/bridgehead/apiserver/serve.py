"""The API server's process: opens files, sockets and the store, builds the server, serves until a signal, closes.

Called by `bridgehead apiserver`. A file, socket or store that can't be opened raises an OSError, a ValueError or a
StorageError with a one-line message.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import resource
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from bridgehead import heartbeat
from bridgehead.heap import collect_rarely
from bridgehead.objects.addresses import join_host_port
from bridgehead.signing_keys import SigningKey, read_verification_keys
from bridgehead.storage import Store, open_store
from bridgehead.storage.sealing import EncryptedStore, Encryption
from bridgehead.tls_offers import DEFAULT_OFFER, TlsOffer

from .access.request_headers import RequestHeaders
from .access.service_account_tokens import ISSUER, TokenSettings
from .access.static_tokens import read_token_file
from .bootstrap import ensure_system_objects, maintain_system_objects
from .build import ApiSettings, build_api
from .certificate_files import CertificateFiles, CertificateFollower
from .clock_skew import ClockSkew
from .handlers.issuer import JWKS_PATH
from .http.server import ApiServer, open_listeners, parse_address
from .kubernetes_service import KubernetesService, leave_in_time
from .proxying.aggregation.extension_authentication import publish_authentication
from .proxying.aggregation.server_transport import ProxyCertificate
from .registry.aggregated_roles import AggregatedRoles
from .registry.expiry import EVENT_SECONDS, expire_events
from .registry.ip_addresses import IpAddresses
from .registry.policy_status import PolicyStatus
from .registry.service_cidrs import ServiceCidrs
from .resources import build_table
from .server_identity import ServerIdentity
from .server_leases import OnlyServer, ServerLeases
from .stores import EtcdOptions, open_on_etcd
from .streams.kubelet_access import KubeletTls

if TYPE_CHECKING:
    from .audit.auditor import Auditor
    from .resource import Resource

log = logging.getLogger(__name__)

_LEAVE_SECONDS = 2.0  # until this server is no endpoint of the Service `kubernetes` any more


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The options of `bridgehead apiserver`. `etcd`: in place of `store`.

    `advertise` "": the first listening address that is not loopback.

    `service_account_keys` verify tokens. `signing_key` None: the first of them signs. `flags` are for /flagz.
    """

    listen: tuple[str, ...] = ()
    listen_fds: tuple[int, ...] = ()
    tls_certificate: Path
    tls_key: Path
    tls_offer: TlsOffer = DEFAULT_OFFER
    client_ca: Path | None = None
    token_file: Path | None = None
    authentication_config: Path | None = None
    service_account_keys: tuple[Path, ...]
    signing_key: Path | None = None
    issuers: tuple[str, ...] = (ISSUER,)
    audiences: tuple[str, ...] = ()
    admission_plugins: frozenset[str] = frozenset()
    jwks_uri: str = ""
    flags: Mapping[str, str] = field(default_factory=dict)
    store: str = "memory"
    etcd: EtcdOptions | None = None
    event_seconds: float = EVENT_SECONDS
    encryption: Path | None = None
    reloads_encryption: bool = False
    audit_policy: Path | None = None
    audit_log: str = ""
    audit_max_age_days: int = 0
    audit_max_backups: int = 0
    audit_max_size_mib: int = 0
    audit_max_event_bytes: int = 0
    service_cidrs: tuple[str, ...] = ("10.96.0.0/12",)
    node_ports: tuple[int, int] = (30000, 32767)
    advertise: str = ""
    kubelet_certificate: Path | None = None
    kubelet_key: Path | None = None
    kubelet_ca: Path | None = None
    proxy_certificate: Path | None = None
    proxy_key: Path | None = None
    request_headers: RequestHeaders | None = None


def serve(options: ServeOptions) -> None:
    """Serve until SIGTERM or SIGINT."""
    uvloop.run(_serve(options))


def _raise_descriptor_limit() -> None:
    """Allow as many open files as the process may: each client has a connection, often several."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _serve(options: ServeOptions) -> None:
    _raise_descriptor_limit()
    certificates = _certificates(options)
    follower, context = CertificateFollower(certificates), certificates.context()
    key = SigningKey.read(options.signing_key or options.service_account_keys[0])
    verification_keys = [one for path in options.service_account_keys for one in read_verification_keys(path)]
    users = read_token_file(options.token_file) if options.token_file else {}
    try:
        table = build_table(service_cidrs=options.service_cidrs, node_port_range=options.node_ports)
    except ValueError as error:
        raise ValueError(f"--service-cluster-ip-range: {error}") from error
    encryption, auditor = _encryption(options), _auditor(options)
    trusted = certificates.trusted()
    # The socket is opened before the store is read, so that clients of a restarting server wait instead of failing.
    # With a store that several servers share, they use another server until this one answers.
    listeners = [] if options.etcd else open_listeners(options.listen, options.listen_fds)
    store, leases = await _open_store(options, table, encryption)
    try:
        listeners = listeners or open_listeners(options.listen, options.listen_fds)
        service_ip = str(ip_network(options.service_cidrs[0])[1])
        advertise = _advertised(options, listeners)
        address = advertise or listeners[0].getsockname()[:2]
        settings = ApiSettings(
            key,
            certificates.kubelets,
            certificates.proxy,
            users=users,
            auditor=auditor,
            tokens=TokenSettings(options.issuers, options.audiences, verification_keys=tuple(verification_keys)),
            flags=options.flags,
            authentication_file=options.authentication_config,
            request_headers=options.request_headers,
            admission_plugins=options.admission_plugins,
            jwks_uri=options.jwks_uri or _jwks_uri(address),
            address=join_host_port(*address),
        )
        parts = build_api(table, store, settings)
        kubernetes = KubernetesService(parts.registry, service_ip, advertise, leases)
        await ensure_system_objects(parts.registry, kubernetes)
        await publish_authentication(parts.registry, trusted)
        collect_rarely()
        leave = functools.partial(leave_in_time, kubernetes, _LEAVE_SECONDS)
        server = ApiServer(parts.application, context, parts.watches.close, before_stop=leave)
        identity = ServerIdentity(parts.registry, socket.gethostname(), settings.address)
        addresses = ", ".join(join_host_port(*listener.getsockname()[:2]) for listener in listeners)
        log.info("serving on %s, revision %d", addresses, store.revision)
        try:
            async with asyncio.TaskGroup() as tasks:
                background = [
                    tasks.create_task(parts.definitions.run()),
                    tasks.create_task(follower.run(server, parts.registry, parts.kubelets, parts.transport)),
                    tasks.create_task(expire_events(parts.registry, options.event_seconds)),
                    tasks.create_task(parts.flow_control.run()),
                    tasks.create_task(ServiceCidrs(parts.registry).run()),
                    tasks.create_task(IpAddresses(parts.registry).run()),
                    tasks.create_task(AggregatedRoles(parts.registry).run()),
                    tasks.create_task(PolicyStatus(parts.registry, parts.schema).run()),
                    tasks.create_task(parts.quota_usage.run()),
                    tasks.create_task(parts.aggregator.run()),
                    tasks.create_task(maintain_system_objects(parts.registry, kubernetes)),
                    tasks.create_task(identity.run()),
                    tasks.create_task(ClockSkew(parts.registry, settings.address).run()),
                ]
                if options.reloads_encryption and options.encryption and isinstance(store, EncryptedStore):
                    from bridgehead.storage.encryption import follow_encryption

                    background.append(tasks.create_task(follow_encryption(options.encryption, store)))
                heartbeat.start(asyncio.get_running_loop().call_later)
                await server.serve(listeners)
                for task in background:
                    task.cancel()
        finally:
            await parts.close()
        log.info("stopped")
    finally:
        await store.close()
        for listener in listeners:
            listener.close()
        if auditor is not None:
            auditor.close()


async def _open_store(
    options: ServeOptions, table: Sequence[Resource], encryption: Encryption | None
) -> tuple[Store, ServerLeases]:
    """Open the store, and return it with the leases of the servers that have it open."""
    if options.etcd is None:
        return open_store(options.store, encryption), OnlyServer()
    store = await open_on_etcd(options.etcd, table, encryption, {"events": int(options.event_seconds)})
    return store, store.servers


def _certificates(options: ServeOptions) -> CertificateFiles:
    return CertificateFiles(
        certificate=options.tls_certificate,
        key=options.tls_key,
        client_ca=options.client_ca,
        request_headers=options.request_headers,
        kubelets=_kubelet_tls(options),
        proxy=_proxy_certificate(options),
        offer=options.tls_offer,
    )


def _encryption(options: ServeOptions) -> Encryption | None:
    if options.encryption is None:
        return None
    from bridgehead.storage.encryption import read_encryption

    return read_encryption(options.encryption)


def _auditor(options: ServeOptions) -> Auditor | None:
    """Return the auditor of the policy; None without a policy or without a log."""
    if options.audit_policy is None:
        return None
    from .audit.auditor import Auditor, read_policy
    from .audit.log_file import AuditSink, Rotation

    policy = read_policy(options.audit_policy)
    if not options.audit_log:
        return None
    rotation = Rotation(options.audit_max_age_days, options.audit_max_backups, options.audit_max_size_mib)
    sink = AuditSink(options.audit_log, rotation)
    return Auditor(policy, sink, max_event_bytes=options.audit_max_event_bytes)


def _jwks_uri(address: tuple[str, int]) -> str:
    return f"https://{join_host_port(*address)}{JWKS_PATH}"


def _kubelet_tls(options: ServeOptions) -> KubeletTls | None:
    given = (options.kubelet_certificate, options.kubelet_key, options.kubelet_ca)
    certificate, key, authority = given
    if certificate is None or key is None or authority is None:
        if any(given):
            raise ValueError("the kubelet options (certificate, key, certificate authority) must be given together")
        return None
    return KubeletTls(certificate, key, authority)


def _proxy_certificate(options: ServeOptions) -> ProxyCertificate | None:
    certificate, key = options.proxy_certificate, options.proxy_key
    if certificate is None or key is None:
        if certificate is not None or key is not None:
            raise ValueError("the proxy-client certificate and its key must be given together")
        return None
    return ProxyCertificate(certificate, key)


def _advertised(options: ServeOptions, listeners: list[socket.socket]) -> tuple[str, int] | None:
    """Return the address and port on which pods reach the server; None if no pod can reach it. Raises ValueError."""
    if options.advertise:
        host, port = parse_address(options.advertise)
        address = ip_address(host)
        if address.is_loopback or address.is_unspecified:
            raise ValueError(f"no pod can reach {host}: advertise an address of this machine's network")
        if address.version != ip_network(options.service_cidrs[0]).version:
            # This address is the endpoint of the Service `kubernetes`, whose ClusterIP is of the first range.
            raise ValueError(
                f'service IP family "{options.service_cidrs[0]}" must match public address family "{host}"'
            )
        return host, port
    for listener in listeners:
        host, port, *_ = listener.getsockname()
        address = ip_address(host)
        is_of_family = address.version == ip_network(options.service_cidrs[0]).version
        if is_of_family and not address.is_loopback and not address.is_unspecified:
            return host, port
    return None
