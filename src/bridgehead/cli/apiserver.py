"""Serve the Kubernetes API over HTTPS.

Objects are stored in --store. Clients authenticate with a certificate (user: common name, groups: organizations), with
a token of --token-auth-file, or with a service account token that this server has issued.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bridgehead.heap import no_collection

from .failures import reporting_failures
from .flags import flags_of
from .groups import ADMISSION, AGGREGATION, AUDITING, AUTHENTICATION, KUBELETS, SERVING, STORAGE
from .parsing import path


def command(
    context: typer.Context,
    tls_cert_file: Annotated[
        Path, typer.Option(rich_help_panel=SERVING, parser=path, help="Certificate to serve with (PEM).")
    ],
    tls_private_key_file: Annotated[
        Path, typer.Option(rich_help_panel=SERVING, parser=path, help="Private key of the serving certificate (PEM).")
    ],
    service_account_key_file: Annotated[
        list[Path],
        typer.Option(
            rich_help_panel=AUTHENTICATION,
            parser=path,
            help="RSA or ECDSA keys that verify service account tokens (PEM); may be repeated.",
        ),
    ],
    service_account_signing_key_file: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=AUTHENTICATION,
            parser=path,
            help="Key that signs service account tokens (PEM).  [default: the first --service-account-key-file]",
        ),
    ] = None,
    authentication_config: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=AUTHENTICATION,
            parser=path,
            help="AuthenticationConfiguration: issuers of JWTs, anonymous requests. Read again when it changes.",
        ),
    ] = None,
    service_account_issuer: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel=AUTHENTICATION,
            help="Issuer of service account tokens; of several, the first issues and all are accepted."
            " Default: https://kubernetes.default.svc.cluster.local.",
        ),
    ] = None,
    service_account_jwks_uri: Annotated[
        str,
        typer.Option(
            rich_help_panel=AUTHENTICATION,
            help="URL of the keys of service account tokens, in the issuer's discovery document.",
        ),
    ] = "",
    api_audiences: Annotated[
        str,
        typer.Option(
            rich_help_panel=AUTHENTICATION, help="Audiences of the API server, separated by commas; none: the issuers."
        ),
    ] = "",
    tls_cipher_suites: Annotated[
        str,
        typer.Option(
            rich_help_panel=SERVING,
            help="Cipher suites of TLS 1.2, separated by commas, under Go's names."
            " Default: ECDHE with AES-GCM or ChaCha20-Poly1305.",
        ),
    ] = "",
    tls_min_version: Annotated[
        str,
        typer.Option(rich_help_panel=SERVING, help="Oldest version of TLS: VersionTLS12 (default) or VersionTLS13."),
    ] = "",
    listen: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel=SERVING, help="host:port to listen on; may be repeated.  [default: 127.0.0.1:6443]"
        ),
    ] = None,
    listen_fd: Annotated[
        list[int] | None, typer.Option(rich_help_panel=SERVING, help="Inherited listening socket; may be repeated.")
    ] = None,
    client_ca_file: Annotated[
        Path | None, typer.Option(rich_help_panel=AUTHENTICATION, parser=path, help="CA of client certificates (PEM).")
    ] = None,
    token_auth_file: Annotated[
        Path | None,
        typer.Option(rich_help_panel=AUTHENTICATION, parser=path, help='CSV: token,user,uid,"group1,group2".'),
    ] = None,
    store: Annotated[
        str, typer.Option(rich_help_panel=STORAGE, help="Store of the objects: memory, or sqlite:///PATH.")
    ] = "memory",
    encryption_provider_config: Annotated[
        Path | None,
        typer.Option(rich_help_panel=STORAGE, parser=path, help="EncryptionConfiguration for the store's file."),
    ] = None,
    encryption_provider_config_automatic_reload: Annotated[
        bool,
        typer.Option(
            "--encryption-provider-config-automatic-reload",
            rich_help_panel=STORAGE,
            help="Read the EncryptionConfiguration again when it changes.",
        ),
    ] = False,
    service_cluster_ip_range: Annotated[
        str, typer.Option(rich_help_panel=STORAGE, help="Range of ClusterIPs; two for dual-stack.")
    ] = ("10.96.0.0/12"),
    service_node_port_range: Annotated[
        str, typer.Option(rich_help_panel=STORAGE, help="Range of node ports, both included.")
    ] = "30000-32767",
    advertise_address: Annotated[
        str,
        typer.Option(rich_help_panel=SERVING, help="host:port of this server for pods, for the Service kubernetes."),
    ] = "",
    enable_admission_plugins: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel=ADMISSION,
            help="Admission plug-ins to enable beside the default ones, separated by commas: DenyServiceExternalIPs.",
        ),
    ] = None,
    kubelet_client_certificate: Annotated[
        Path | None,
        typer.Option(rich_help_panel=KUBELETS, parser=path, help="Client certificate for kubelets, for logs and exec."),
    ] = None,
    kubelet_client_key: Annotated[
        Path | None,
        typer.Option(rich_help_panel=KUBELETS, parser=path, help="Private key of the kubelet client certificate."),
    ] = None,
    kubelet_certificate_authority: Annotated[
        Path | None, typer.Option(rich_help_panel=KUBELETS, parser=path, help="CA of kubelets' certificates.")
    ] = None,
    proxy_client_cert_file: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=AGGREGATION, parser=path, help="Client certificate for the servers of aggregated APIs."
        ),
    ] = None,
    proxy_client_key_file: Annotated[
        Path | None,
        typer.Option(rich_help_panel=AGGREGATION, parser=path, help="Private key of the proxy-client certificate."),
    ] = None,
    requestheader_client_ca_file: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=AUTHENTICATION,
            parser=path,
            help="CA of front proxies, whose headers name users; also for the servers of aggregated APIs (PEM).",
        ),
    ] = None,
    requestheader_allowed_names: Annotated[
        str,
        typer.Option(
            rich_help_panel=AUTHENTICATION,
            help="Names in the certificates of front proxies, separated by commas; none: any name.",
        ),
    ] = "",
    requestheader_username_headers: Annotated[
        str,
        typer.Option(
            rich_help_panel=AUTHENTICATION,
            help="Headers of a front proxy with the user's name; the first one with a value counts.",
        ),
    ] = "X-Remote-User",
    requestheader_uid_headers: Annotated[
        str,
        typer.Option(
            rich_help_panel=AUTHENTICATION,
            help="Headers of a front proxy with the user's uid; the first one with a value counts.",
        ),
    ] = "X-Remote-Uid",
    requestheader_group_headers: Annotated[
        str, typer.Option(rich_help_panel=AUTHENTICATION, help="Headers of a front proxy with groups of the user.")
    ] = "X-Remote-Group",
    requestheader_extra_headers_prefix: Annotated[
        str,
        typer.Option(
            rich_help_panel=AUTHENTICATION, help="Prefixes of a front proxy's headers with extra values of the user."
        ),
    ] = "X-Remote-Extra-",
    audit_policy_file: Annotated[
        Path | None, typer.Option(rich_help_panel=AUDITING, parser=path, help="Policy (audit.k8s.io/v1) of the log.")
    ] = None,
    audit_log_path: Annotated[
        str, typer.Option(rich_help_panel=AUDITING, help="File of the log, one JSON event a line; -: standard output.")
    ] = "",
    audit_log_maxage: Annotated[
        int, typer.Option(rich_help_panel=AUDITING, min=0, help="Days to keep full files; 0: without limit.")
    ] = 0,
    audit_log_maxbackup: Annotated[
        int, typer.Option(rich_help_panel=AUDITING, min=0, help="Number of full files to keep; 0: all.")
    ] = 0,
    audit_log_maxsize: Annotated[
        int, typer.Option(rich_help_panel=AUDITING, min=0, help="MiB at which a file is full; 0: 100.")
    ] = 0,
    audit_log_truncate_enabled: Annotated[
        bool,
        typer.Option("--audit-log-truncate-enabled", rich_help_panel=AUDITING, help="Bound the size of events."),
    ] = False,
    audit_log_truncate_max_event_size: Annotated[
        int,
        typer.Option(
            rich_help_panel=AUDITING, min=1, help="Bytes of the largest event; a larger one is written without bodies."
        ),
    ] = 102400,
    verbosity: Annotated[int, typer.Option("-v", "--v", help="Verbosity: 0 for operators, 1 for developers.")] = 0,
) -> None:
    with no_collection():
        from bridgehead.apiserver.access.request_headers import RequestHeaders
        from bridgehead.apiserver.access.tokens import ISSUER
        from bridgehead.apiserver.admission.selection import select_plugins
        from bridgehead.apiserver.serve import ServeOptions, serve
        from bridgehead.cli.logs_setup import configure
        from bridgehead.storage import StorageError
        from bridgehead.tls_offers import parse_offer

    configure(verbosity)
    with reporting_failures("apiserver", OSError, ValueError, StorageError):
        options = ServeOptions(
            listen=tuple(listen or ([] if listen_fd else ["127.0.0.1:6443"])),
            listen_fds=tuple(listen_fd or ()),
            tls_certificate=tls_cert_file,
            tls_key=tls_private_key_file,
            tls_offer=parse_offer(tls_min_version, tls_cipher_suites),
            client_ca=client_ca_file,
            token_file=token_auth_file,
            service_account_keys=tuple(service_account_key_file),
            signing_key=service_account_signing_key_file,
            authentication_config=authentication_config,
            issuers=tuple(service_account_issuer or (ISSUER,)),
            audiences=_names(api_audiences),
            admission_plugins=select_plugins(_names(",".join(enable_admission_plugins or ()))),
            jwks_uri=service_account_jwks_uri,
            flags=flags_of(context),
            store=store,
            encryption=encryption_provider_config,
            reloads_encryption=encryption_provider_config_automatic_reload,
            audit_policy=audit_policy_file,
            audit_log=audit_log_path,
            audit_max_age_days=audit_log_maxage,
            audit_max_backups=audit_log_maxbackup,
            audit_max_size_mib=audit_log_maxsize,
            audit_max_event_bytes=audit_log_truncate_max_event_size if audit_log_truncate_enabled else 0,
            service_cidrs=tuple(service_cluster_ip_range.split(",")),
            node_ports=_port_range(service_node_port_range),
            advertise=advertise_address,
            kubelet_certificate=kubelet_client_certificate,
            kubelet_key=kubelet_client_key,
            kubelet_ca=kubelet_certificate_authority,
            proxy_certificate=proxy_client_cert_file,
            proxy_key=proxy_client_key_file,
            request_headers=RequestHeaders(
                requestheader_client_ca_file,
                allowed_names=_names(requestheader_allowed_names),
                user_names=_names(requestheader_username_headers),
                uids=_names(requestheader_uid_headers),
                groups=_names(requestheader_group_headers),
                extra_prefixes=_names(requestheader_extra_headers_prefix),
            )
            if requestheader_client_ca_file
            else None,
        )
        serve(options)


def _names(text: str) -> tuple[str, ...]:
    """Return names that are separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _port_range(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not dash or not first.isdigit() or not last.isdigit() or not 0 < int(first) <= int(last) < 65536:
        raise ValueError(f"--service-node-port-range {text!r} is not FIRST-LAST")
    return int(first), int(last)
