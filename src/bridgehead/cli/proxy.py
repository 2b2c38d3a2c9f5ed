"""Program this node's kernel with the Services of a cluster, in the place of kube-proxy.

The proxy runs on a node of any cluster, in the node's network namespace, with CAP_NET_ADMIN. The file of --config is a
KubeProxyConfiguration; options have the names of kube-proxy's and override it. Without --kubeconfig the proxy uses the
service account of its pod.

Further options of kube-proxy are accepted without effect, or rejected with advice; this list omits them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bridgehead.client import ClientConfig, load_config, load_kubeconfig
from bridgehead.client.errors import ConfigError
from bridgehead.client.server_choice import parse_servers
from bridgehead.proxy.config import DEFAULTS, parse_config, require_mode
from bridgehead.proxy.config_reader import parse_cidrs
from bridgehead.proxy.errors import ConfigInvalid, ProxyError
from bridgehead.proxy.process import clean_up, clean_up_leftovers, run
from bridgehead.proxy.sysctls import apply_sysctls, plan_sysctls

from . import logs_setup
from .exit_codes import reporting_failures
from .options import unused
from .proxy_options import Options, refuse, with_options, without_disabled
from .subcommand import as_flags

log = logging.getLogger("bridgehead.proxy")

# As with Kubernetes' own programs, `--proxy_mode` is `--proxy-mode`.
CONTEXT = {"token_normalize_func": lambda token: token.replace("_", "-")}


def command(options: Options) -> None:
    if options.version:
        from bridgehead import __version__

        sys.stdout.write(f"bridgehead {__version__}\n")
        return
    logs_setup.configure(options.verbosity)
    with reporting_failures("proxy", ProxyError, ConfigError):
        refuse(options)
        require_mode(options.proxy_mode)
        document = with_options(_read_document(options.config, options.proxy_mode), options)
        settings = parse_config(document)
        logs_setup.configure(max(options.verbosity, settings.verbosity))
        name = (settings.hostname_override or socket.gethostname()).strip().lower()
        settings = without_disabled(replace(settings, hostname_override=name, host_ports=options.host_ports), options)
        service_cidrs = parse_cidrs("--service-cidr", options.service_cidr)
        for warning in settings.warnings:
            log.warning("%s: %s", options.config or "options", warning)
        for warning in unused(options):
            log.warning("%s", warning)
        if options.write_config_to is not None:
            _write_document(document, options.write_config_to)
        elif options.cleanup:
            asyncio.run(clean_up())
        elif options.cleanup_leftovers:
            asyncio.run(clean_up_leftovers(settings))
        elif options.init_only:
            apply_sysctls(plan_sysctls(settings, os.cpu_count() or 1), refused=logging.WARNING)
        else:
            server = client_config(settings.kubeconfig, options.master)
            asyncio.run(run(settings, document, server, service_cidrs, options.dry_run, as_flags(vars(options))))


def client_config(kubeconfig: str, master: str) -> ClientConfig:
    """Return the access to the API server; `master` overrides the kubeconfig's addresses. Raises ConfigError."""
    if not master:
        return load_config(kubeconfig or None)
    config = load_kubeconfig(kubeconfig) if kubeconfig else ClientConfig("")
    has_tls = config.insecure or config.ca is not None or config.client_certificate is not None
    scheme = "https" if has_tls else "http"
    urls = [url if "://" in url else f"{scheme}://{url}" for url in master.split(",")]
    try:
        server, *others = parse_servers(urls)
    except ValueError as error:
        raise ConfigError(f"--master: {error}") from error
    if server.startswith("http:"):  # credentials are for https only
        config = ClientConfig("", impersonation=config.impersonation, proxy_url=config.proxy_url)
    return replace(config, server=server, other_servers=tuple(others))


def _read_document(path: Path | None, mode: str) -> Mapping[str, Any]:
    if path is None:
        return DEFAULTS
    from bridgehead.yaml_loader import UnusableYaml, load

    try:
        document = load(path.read_bytes())
        parse_config(document, mode)  # here, so that the error names the file
    except OSError as error:
        raise ConfigInvalid(f"{path}: {error.strerror}") from error
    except UnusableYaml as error:
        raise ConfigInvalid(f"{path}: not YAML: {error}") from error
    except ConfigInvalid as error:
        raise ConfigInvalid(f"{path}: {error}") from error
    result: Mapping[str, Any] = document
    return result


def _write_document(document: Mapping[str, Any], path: Path) -> None:
    import yaml

    try:
        path.write_text(yaml.safe_dump(dict(document)))
    except OSError as error:
        raise ConfigInvalid(f"{path}: {error.strerror}") from error
    log.info("wrote the configuration to %s", path)
