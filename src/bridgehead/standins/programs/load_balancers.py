"""Stand-ins for the controllers and speakers of MetalLB and OpenELB: in a lab, the lab's own balancer has their work.

They answer probes, so that `kubectl rollout status` and `helm install --wait` end, and pass the calls of their webhooks
on to the lab's balancer. They give out and announce nothing. Like MetalLB's controller, its stand-in makes the Secret
that the manifest's speakers mount.

Source: the published manifests and charts of MetalLB 0.9 to 0.15 and OpenELB 0.4 to 0.6.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from typing import Final

from bridgehead.standins.standin import Launch

from .agnhost.flags import CommandLine, parse_command_line
from .announcing import announce
from .cluster_access import AccessFailed, ClusterAccess, Json
from .disclosures import Abilities
from .http_session import Handler, HttpRequest, HttpResponse, HttpSession
from .relay import Relay, listen, run_beside
from .stream_server import StreamServer, fail

# The lab's balancer: the Service of its webhook.
_BALANCER: Final = "bridgehead-balancer.kube-system.svc"
_BALANCER_PORT: Final = 9443
_METALLB_PORT: Final = 7472
_METALLB_HEALTH_PORT: Final = 17472
_METALLB_WEBHOOK: Final = "9443/TCP"  # has no flag
_FRR_METRICS: Final = 7473
_OPENELB_READY: Final = "/tmp/ready"
_OPENELB_METRICS: Final = 50052
_OPENELB_WEBHOOK: Final = 443
_SECRET_VARIABLES: Final = ("METALLB_ML_SECRET_NAME", "METALLB_DEPLOYMENT")
_KEY_BYTES: Final = 128  # as MetalLB's controller
_RETRY_SECONDS: Final = 2.0
_PAGES: Final = ("/metrics", "/healthz", "/readyz", "/livez")

CONTROLLER_ROLE: Final = (
    "a program that answers probes and passes the calls of its webhooks on. The lab's own balancer (kube-system) serves"
    " {product}'s objects: it gives out the addresses, and its speakers announce them"
)
_SPEAKER_ROLE: Final = (
    "a program that answers probes. The lab's own balancer (kube-system) serves {product}'s objects: its speakers"
    " announce the addresses"
)


def serve_metallb_controller(launch: Launch) -> int:
    line = parse_command_line(launch.argv[1:])
    beside: list[Callable[[], object]] = []
    if launch.environment.get(_SECRET_VARIABLES[0]):
        beside.append(functools.partial(_keep_trying, functools.partial(_make_secret, launch)))
    webhook = int(_METALLB_WEBHOOK.partition("/")[0]) if _METALLB_WEBHOOK in launch.setup.ports else 0
    return _serve(
        launch,
        line,
        CONTROLLER_ROLE.format(product="MetalLB"),
        pages=(_port(line.flags.get("port", ""), _METALLB_PORT), _METALLB_HEALTH_PORT),
        webhook=webhook,
        used=("port",),
        variables=_SECRET_VARIABLES,
        beside=beside,
    )


def serve_metallb_speaker(launch: Launch) -> int:
    line = parse_command_line(launch.argv[1:])
    pages = (_port(line.flags.get("port", ""), _METALLB_PORT), _METALLB_HEALTH_PORT)
    return _serve(launch, line, _SPEAKER_ROLE.format(product="MetalLB"), pages=pages, used=("port",))


def serve_openelb_controller(launch: Launch) -> int:
    """Run OpenELB's controller, or its manager before 0.6, which announces, too."""
    line = parse_command_line(launch.argv[1:])
    with contextlib.suppress(OSError), open(_OPENELB_READY, "w", encoding="ascii"):  # its readiness probe looks for it
        pass
    return _serve(
        launch,
        line,
        CONTROLLER_ROLE.format(product="OpenELB"),
        pages=(_port(line.flags.get("metrics-addr", ""), _OPENELB_METRICS),),
        webhook=_port(line.flags.get("webhook-port", ""), _OPENELB_WEBHOOK),
        used=("metrics-addr", "webhook-port"),
    )


def serve_openelb_speaker(launch: Launch) -> int:
    line = parse_command_line(launch.argv[1:])
    return _serve(launch, line, _SPEAKER_ROLE.format(product="OpenELB"))


def serve_frr_metrics(launch: Launch) -> int:
    """The exporter beside FRR, whose pages are what FRR's container is probed by."""
    line = parse_command_line(launch.argv[1:])
    pages = (_port(line.flags.get("metrics-port", ""), _FRR_METRICS),)
    return _serve(launch, line, _SPEAKER_ROLE.format(product="MetalLB"), pages=pages, used=("metrics-port",))


def serve_frr_reloader(launch: Launch) -> int:
    return _serve(launch, parse_command_line(launch.argv[1:]), _SPEAKER_ROLE.format(product="MetalLB"))


def copy_file(launch: Launch) -> int:
    """`cp-tool SOURCE TARGET`, by which MetalLB's init containers give FRR's containers their programs."""
    launch.started()
    try:
        source, target = launch.argv[1:]
        shutil.copy(source, target)
    except (OSError, ValueError) as error:
        return fail(f"cp-tool: {error}")
    return 0


def answer_gobgp(launch: Launch) -> int:
    """`gobgp global` is the readiness probe of OpenELB's speakers."""
    launch.started()
    sys.stdout.write("This is Bridgehead's stand-in: the BGP sessions are those of the lab's own speakers\n")
    return 0


def _serve(
    launch: Launch,
    line: CommandLine,
    role: str,
    *,
    pages: tuple[int, ...] = (),
    webhook: int = 0,
    used: tuple[str, ...] = (),
    variables: tuple[str, ...] = (),
    beside: Iterable[Callable[[], object]] = (),
) -> int:
    """Serve until a signal to end, with the works `beside` in processes of their own.

    `used` are the flags, `variables` the variables that have an effect.
    """
    works = list(beside)
    server = StreamServer()
    ports, taken = [], []
    for port in pages:
        try:
            server.listen(port, lambda peer: HttpSession(_answer_probe(role), peer, "bridgehead-stand-in", None))
            ports.append(port)
        except OSError as error:  # on a node, the lab's speaker has the port, and MetalLB's metrics
            taken.append(f"stand-in: port {port} is left to its owner: {error.strerror}\n")
    if webhook:
        try:
            works.append(Relay(listen(webhook), _BALANCER, _BALANCER_PORT).run)
            ports.append(webhook)
        except OSError as error:
            return fail(f"stand-in: cannot listen on port {webhook}: {error.strerror}")
    abilities = Abilities(
        role=role,
        ports=tuple(f"{port}/TCP" for port in ports),
        used_variables=variables,
        ignored_arguments=tuple(f"--{flag}" for flag in line.flags if flag not in used),
    )
    announce(launch.setup, abilities, server.watch)
    sys.stderr.writelines(taken)
    sys.stderr.flush()

    def started() -> None:
        launch.started()
        for work in works:
            run_beside(work)

    return server.serve(started)


def _answer_probe(role: str) -> Handler:
    page = HttpResponse(f"# Bridgehead's stand-in: {role}\n".encode(), content_type="text/plain; version=0.0.4")

    def answer(request: HttpRequest) -> HttpResponse:
        if request.path in _PAGES:
            return page
        return HttpResponse(b"404 page not found\n", 404, content_type="text/plain")

    return answer


def _port(text: str, default: int) -> int:
    """Return the port of a flag such as `7472` or `:50052`."""
    digits = text.rpartition(":")[2]
    return int(digits) if digits.isdecimal() and 0 < int(digits) <= 65535 else default


def _keep_trying(work: functools.partial[None]) -> None:
    """Call `work` until it succeeds; its failures are written into the log once each."""
    last = ""
    while True:
        try:
            work()
        except AccessFailed as error:
            if str(error) != last:
                last = str(error)
                sys.stderr.write(f"stand-in: cannot make the speakers' Secret, trying again: {error}\n")
                sys.stderr.flush()
            time.sleep(_RETRY_SECONDS)
        else:
            return


def _make_secret(launch: Launch) -> None:
    """Create the Secret of MetalLB's speakers, which belongs to the controller's Deployment. Raises AccessFailed."""
    name, deployment = (launch.environment.get(variable, "") for variable in _SECRET_VARIABLES)
    access = ClusterAccess(launch.environment)
    namespace = launch.environment.get("METALLB_NAMESPACE") or access.namespace
    metadata: Json = {"name": name, "namespace": namespace}
    if deployment:
        owner = access.call("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments/{deployment}")
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment, "uid": owner["metadata"]["uid"]}
        metadata["ownerReferences"] = [reference]
    key = base64.b64encode(base64.b64encode(secrets.token_bytes(_KEY_BYTES))).decode()
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"secretkey": key}}
    try:
        access.call("POST", f"/api/v1/namespaces/{namespace}/secrets", body)
    except AccessFailed as error:
        if error.status != 409:  # another replica was faster
            raise
    else:
        sys.stderr.write(f"stand-in: created the Secret {namespace}/{name}, which the speakers' pods mount\n")
        sys.stderr.flush()
