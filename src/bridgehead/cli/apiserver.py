"""Serve the Kubernetes API over HTTPS.

Objects are stored in --store. Clients authenticate with a certificate (user: common name, groups: organizations), with
a token of --token-auth-file, or with a service account token that this server has issued.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bridgehead.heap import no_collection

from .etcd_options import (
    EtcdRows,
    compaction_seconds,
    etcd_options,
    event_seconds,
    event_ttl_row,
    media_type_row,
    storage_versions_row,
)
from .exit_codes import reporting_failures
from .groups import ADMISSION, AGGREGATION, AUDITING, AUTHENTICATION, ETCD, KUBELETS, SERVING, STORAGE
from .options import REQUIRED, option, verbosity_row
from .subcommand import as_flags


@dataclass(frozen=True, kw_only=True)
class Options(EtcdRows):
    tls_cert_file: Path = option(REQUIRED, SERVING, "Certificate to serve with (PEM).")
    tls_private_key_file: Path = option(REQUIRED, SERVING, "Private key of the serving certificate (PEM).")
    service_account_key_file: list[Path] = option(
        REQUIRED, AUTHENTICATION, "RSA or ECDSA keys that verify service account tokens (PEM); may be repeated."
    )
    service_account_signing_key_file: Path | None = option(
        None,
        AUTHENTICATION,
        "Key that signs service account tokens (PEM).  [default: the first --service-account-key-file]",
    )
    authentication_config: Path | None = option(
        None,
        AUTHENTICATION,
        "AuthenticationConfiguration: issuers of JWTs, anonymous requests. Read again when it changes.",
    )
    service_account_issuer: list[str] = option(
        (),
        AUTHENTICATION,
        "Issuer of service account tokens; of several, the first issues and all are accepted."
        " Default: https://kubernetes.default.svc.cluster.local.",
    )
    service_account_jwks_uri: str = option(
        "", AUTHENTICATION, "URL of the keys of service account tokens, in the issuer's discovery document."
    )
    api_audiences: str = option(
        "", AUTHENTICATION, "Audiences of the API server, separated by commas; none: the issuers."
    )
    tls_cipher_suites: str = option(
        "",
        SERVING,
        "Cipher suites of TLS 1.2, separated by commas, under Go's names."
        " Default: ECDHE with AES-GCM or ChaCha20-Poly1305.",
    )
    tls_min_version: str = option("", SERVING, "Oldest version of TLS: VersionTLS12 (default) or VersionTLS13.")
    listen: list[str] = option((), SERVING, "host:port to listen on; may be repeated.  [default: 127.0.0.1:6443]")
    listen_fd: list[int] = option((), SERVING, "Inherited listening socket; may be repeated.")
    client_ca_file: Path | None = option(None, AUTHENTICATION, "CA of client certificates (PEM).")
    token_auth_file: Path | None = option(None, AUTHENTICATION, 'CSV: token,user,uid,"group1,group2".')
    store: str = option("", STORAGE, "Store of the objects: memory (default), or sqlite:///PATH.")
    etcd_compaction_interval: str = option(
        "5m", ETCD, "Interval between compactions of etcd's history, as a duration; 0: never."
    )
    storage_media_type: str = media_type_row()
    storage_versions: str = storage_versions_row()
    event_ttl: str = event_ttl_row()
    encryption_provider_config: Path | None = option(None, STORAGE, "EncryptionConfiguration for the stored objects.")
    encryption_provider_config_automatic_reload: bool = option(
        False, STORAGE, "Read the EncryptionConfiguration again when it changes."
    )
    service_cluster_ip_range: str = option("10.96.0.0/12", STORAGE, "Range of ClusterIPs; two for dual-stack.")
    service_node_port_range: str = option("30000-32767", STORAGE, "Range of node ports, both included.")
    advertise_address: str = option("", SERVING, "host:port of this server for pods, for the Service kubernetes.")
    enable_admission_plugins: list[str] = option(
        (),
        ADMISSION,
        "Admission plug-ins to enable beside the default ones, separated by commas: DenyServiceExternalIPs.",
    )
    kubelet_client_certificate: Path | None = option(
        None, KUBELETS, "Client certificate for kubelets, for logs and exec."
    )
    kubelet_client_key: Path | None = option(None, KUBELETS, "Private key of the kubelet client certificate.")
    kubelet_certificate_authority: Path | None = option(None, KUBELETS, "CA of kubelets' certificates.")
    proxy_client_cert_file: Path | None = option(
        None, AGGREGATION, "Client certificate for the servers of aggregated APIs."
    )
    proxy_client_key_file: Path | None = option(None, AGGREGATION, "Private key of the proxy-client certificate.")
    requestheader_client_ca_file: Path | None = option(
        None,
        AUTHENTICATION,
        "CA of front proxies, whose headers name users; also for the servers of aggregated APIs (PEM).",
    )
    requestheader_allowed_names: str = option(
        "", AUTHENTICATION, "Names in the certificates of front proxies, separated by commas; none: any name."
    )
    requestheader_username_headers: str = option(
        "X-Remote-User",
        AUTHENTICATION,
        "Headers of a front proxy with the user's name; the first one with a value counts.",
    )
    requestheader_uid_headers: str = option(
        "X-Remote-Uid",
        AUTHENTICATION,
        "Headers of a front proxy with the user's uid; the first one with a value counts.",
    )
    requestheader_group_headers: str = option(
        "X-Remote-Group", AUTHENTICATION, "Headers of a front proxy with groups of the user."
    )
    requestheader_extra_headers_prefix: str = option(
        "X-Remote-Extra-", AUTHENTICATION, "Prefixes of a front proxy's headers with extra values of the user."
    )
    audit_policy_file: Path | None = option(None, AUDITING, "Policy (audit.k8s.io/v1) of the log.")
    audit_log_path: str = option("", AUDITING, "File of the log, one JSON event a line; -: standard output.")
    audit_log_maxage: int = option(0, AUDITING, "Days to keep full files; 0: without limit.", min=0)
    audit_log_maxbackup: int = option(0, AUDITING, "Number of full files to keep; 0: all.", min=0)
    audit_log_maxsize: int = option(0, AUDITING, "MiB at which a file is full; 0: 100.", min=0)
    audit_log_truncate_enabled: bool = option(False, AUDITING, "Bound the size of events.")
    audit_log_truncate_max_event_size: int = option(
        102400, AUDITING, "Bytes of the largest event; a larger one is written without bodies.", min=1
    )
    verbosity: int = verbosity_row()


def command(options: Options) -> None:
    with no_collection():
        from bridgehead.apiserver.access.request_headers import RequestHeaders
        from bridgehead.apiserver.access.service_account_tokens import ISSUER
        from bridgehead.apiserver.admission.enabled_plugins import select_plugins
        from bridgehead.apiserver.serve import ServeOptions, serve
        from bridgehead.storage import StorageError
        from bridgehead.tls_offers import parse_offer

        from .logs_setup import configure

    configure(options.verbosity)
    with reporting_failures("apiserver", OSError, ValueError, StorageError):
        settings = ServeOptions(
            listen=tuple(options.listen or ([] if options.listen_fd else ["127.0.0.1:6443"])),
            listen_fds=tuple(options.listen_fd),
            tls_certificate=options.tls_cert_file,
            tls_key=options.tls_private_key_file,
            tls_offer=parse_offer(options.tls_min_version, options.tls_cipher_suites),
            client_ca=options.client_ca_file,
            token_file=options.token_auth_file,
            service_account_keys=tuple(options.service_account_key_file),
            signing_key=options.service_account_signing_key_file,
            authentication_config=options.authentication_config,
            issuers=tuple(options.service_account_issuer or (ISSUER,)),
            audiences=_names(options.api_audiences),
            admission_plugins=select_plugins(_names(",".join(options.enable_admission_plugins))),
            jwks_uri=options.service_account_jwks_uri,
            flags=as_flags(vars(options)),
            store=options.store or "memory",
            etcd=etcd_options(
                options,
                options.store,
                compaction_seconds=compaction_seconds(options.etcd_compaction_interval),
                media_type=options.storage_media_type,
                storage_versions=options.storage_versions,
            ),
            event_seconds=event_seconds(options.event_ttl),
            encryption=options.encryption_provider_config,
            reloads_encryption=options.encryption_provider_config_automatic_reload,
            audit_policy=options.audit_policy_file,
            audit_log=options.audit_log_path,
            audit_max_age_days=options.audit_log_maxage,
            audit_max_backups=options.audit_log_maxbackup,
            audit_max_size_mib=options.audit_log_maxsize,
            audit_max_event_bytes=options.audit_log_truncate_max_event_size
            if options.audit_log_truncate_enabled
            else 0,
            service_cidrs=tuple(options.service_cluster_ip_range.split(",")),
            node_ports=_port_range(options.service_node_port_range),
            advertise=options.advertise_address,
            kubelet_certificate=options.kubelet_client_certificate,
            kubelet_key=options.kubelet_client_key,
            kubelet_ca=options.kubelet_certificate_authority,
            proxy_certificate=options.proxy_client_cert_file,
            proxy_key=options.proxy_client_key_file,
            request_headers=RequestHeaders(
                options.requestheader_client_ca_file,
                allowed_names=_names(options.requestheader_allowed_names),
                user_names=_names(options.requestheader_username_headers),
                uids=_names(options.requestheader_uid_headers),
                groups=_names(options.requestheader_group_headers),
                extra_prefixes=_names(options.requestheader_extra_headers_prefix),
            )
            if options.requestheader_client_ca_file
            else None,
        )
        serve(settings)


def _names(text: str) -> tuple[str, ...]:
    """Return names that are separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _port_range(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not dash or not first.isdigit() or not last.isdigit() or not 0 < int(first) <= int(last) < 65536:
        raise ValueError(f"--service-node-port-range {text!r} is not FIRST-LAST")
    return int(first), int(last)
