"""kube-webhook-certgen: makes a webhook's certificate in a Secret, and lets webhook configurations trust it.

Its two commands do what the image does. Source: kubernetes/ingress-nginx, images/kube-webhook-certgen.
"""

from __future__ import annotations

import base64
import sys
from typing import Final

from bridgehead.standins.standin import Launch
from bridgehead.tls_certificates import issue_certificate

from .agnhost.flags import CommandLine, parse_command_line
from .announcing import announce
from .cluster_access import AccessFailed, ClusterAccess, Json
from .disclosures import Abilities
from .stream_server import fail

_DAYS: Final = 36500
_CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1"
_POLICIES: Final = ("Fail", "Ignore")
_USED: Final = frozenset(
    {
        *("host", "namespace", "secret-name", "ca-name", "cert-name", "key-name"),
        *("webhook-name", "patch-mutating", "patch-validating", "patch-failure-policy", "apiservice-name"),
        *("kubeconfig", "log-format", "log-level"),
    }
)


def run(launch: Launch) -> int:
    line = parse_command_line(launch.argv[1:])
    launch.started()
    access = ClusterAccess(launch.environment)
    ignored = tuple(f"--{flag}" for flag in line.flags if flag not in _USED)
    abilities = Abilities(
        role="a program with its commands create and patch",
        ignored_arguments=ignored,
        used_variables=launch.setup.variables,  # in arguments
    )
    announce(launch.setup, abilities)
    try:
        if line.subcommand == "create":
            _create(line, access)
        elif line.subcommand == "patch":
            _patch(line, access)
        else:
            return fail(f'unknown command "{line.subcommand}" for "kube-webhook-certgen"')
    except AccessFailed as error:
        return fail(f"error: {error}")
    except ValueError as error:
        return fail(f"Error: {error}")
    return 0


def _create(line: CommandLine, access: ClusterAccess) -> None:
    """Make the Secret with CA, certificate and key, unless it exists. Raises AccessFailed, ValueError."""
    hosts = [host for host in _required(line, "host").split(",") if host]
    namespace = _namespace(line, access)
    if _authority(line, access, namespace) is not None:
        _log("the Secret exists")
        return
    ca, certificate, key = issue_certificate(hosts, name=hosts[0], ca_name="nil1", days=_DAYS)
    contents = zip(_names(line), (ca, certificate, key), strict=True)
    data = {name: base64.b64encode(content).decode() for name, content in contents}
    name = _required(line, "secret-name")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "data": data}
    access.call("POST", f"/api/v1/namespaces/{namespace}/secrets", secret)
    _log(f"created the Secret {namespace}/{name}")


def _patch(line: CommandLine, access: ClusterAccess) -> None:
    """Write the Secret's CA into the configurations and the APIService. Raises AccessFailed, ValueError."""
    policy = line.flags.get("patch-failure-policy", "")
    if policy and policy not in _POLICIES:
        raise ValueError(f"patch-failure-policy {policy} is not valid")
    namespace, webhook = _namespace(line, access), line.flags.get("webhook-name", "")
    service = line.flags.get("apiservice-name", "")
    if not webhook and not service:
        raise ValueError("at least one of --webhook-name and --apiservice-name is required")
    bundle = _authority(line, access, namespace)
    if bundle is None:
        raise AccessFailed(f"no secret with '{_required(line, 'secret-name')}' in '{namespace}'")
    kinds = ("mutating", "validating") if webhook else ()
    for kind in kinds:
        if line.flags.get(f"patch-{kind}", "true") == "true":
            _write(access, f"{_CONFIGURATIONS}/{kind}webhookconfigurations/{webhook}", bundle, policy)
    if service:
        path = f"/apis/apiregistration.k8s.io/v1/apiservices/{service}"
        found = access.call("GET", path)
        found["spec"]["caBundle"] = bundle
        found["spec"].pop("insecureSkipTLSVerify", None)
        access.call("PUT", path, found)
        _log(f"wrote the CA into {path}")


def _write(access: ClusterAccess, path: str, bundle: str, policy: str) -> None:
    found = access.call("GET", path)
    for webhook in found.get("webhooks") or ():
        webhook["clientConfig"]["caBundle"] = bundle
        if policy:
            webhook["failurePolicy"] = policy
    access.call("PUT", path, found)
    _log(f"wrote the CA into {path}")


def _authority(line: CommandLine, access: ClusterAccess, namespace: str) -> str | None:
    """Return the CA in the Secret, in base64; None without a Secret. Raises AccessFailed, ValueError."""
    try:
        secret: Json = access.call("GET", f"/api/v1/namespaces/{namespace}/secrets/{_required(line, 'secret-name')}")
    except AccessFailed as error:
        if error.status == 404:
            return None
        raise
    name = _names(line)[0]
    bundle = (secret.get("data") or {}).get(name)
    if bundle is None:
        raise AccessFailed(f"the Secret has no '{name}'")
    return str(bundle)


def _names(line: CommandLine) -> tuple[str, str, str]:
    """Return the names of CA, certificate and key in the Secret."""
    ca, certificate, key = (line.flags.get(f"{name}-name", name) for name in ("ca", "cert", "key"))
    return ca, certificate, key


def _namespace(line: CommandLine, access: ClusterAccess) -> str:
    return line.flags.get("namespace") or access.namespace


def _required(line: CommandLine, flag: str) -> str:
    value = line.flags.get(flag, "")
    if not value:
        raise ValueError(f'required flag(s) "{flag}" not set')
    return value


def _log(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
