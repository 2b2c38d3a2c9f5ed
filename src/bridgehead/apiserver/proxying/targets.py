"""The address that `scheme:name:port` stands for: of a pod, of a Service's endpoint, of a node.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `ResourceLocation` of pkg/registry/core/pod and service, apimachinery `SplitSchemeNamePort`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from bridgehead.apiserver.errors import bad_request, unavailable
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.service_endpoints import ready_endpoints, slice_port
from bridgehead.objects.addresses import join_host_port
from bridgehead.objects.integers import parse_integer

_SCHEMES = ("", "http", "https")
_DEFAULT_PORTS = {"http": 80, "https": 443}
# The port names that Go's resolver knows by itself and that HTTP uses.
_NAMED_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Target:
    """The server that a request goes to. `scheme` is http or https, `host` an address or a DNS name."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """`host:port`, as a URL has it."""
        return join_host_port(self.host, self.port)


@dataclass(frozen=True, slots=True)
class ProxyName:
    """The name in a proxy request. `scheme` and `port` are "" where the request leaves them out."""

    scheme: str
    name: str
    port: str


def parse_name(text: str) -> ProxyName | None:
    """Parse `name`, `name:port` or `scheme:name:port`; None for anything else."""
    match text.split(":"):
        case [name]:
            parsed = ProxyName("", name, "")
        case [name, port]:
            parsed = ProxyName("", name, port)
        case [scheme, name, port]:
            parsed = ProxyName(scheme, name, port)
        case _:
            return None
    return parsed if parsed.name and parsed.scheme in _SCHEMES else None


def is_proxyable(address: str) -> bool:
    """Whether requests may go to an address: not to loopback, link-local, multicast or unspecified ones."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return not (
        parsed.is_loopback
        or parsed.is_link_local
        or parsed.is_multicast
        or parsed.is_unspecified
        or str(parsed) == "255.255.255.255"
    )


def pod_target(wanted: ProxyName, pod: JsonObject) -> Target:
    """Return the target of a pod's proxy: its first address, and the wanted port or the first that it declares.

    Raises a 400 for an address that may not be reached, a 503 for a port that is not a number.
    """
    addresses = pod.get("status", {}).get("podIPs") or [{}]
    address = addresses[0].get("ip", "")
    if not is_proxyable(address):
        raise bad_request("address not allowed")
    containers = pod.get("spec", {}).get("containers", ())
    declared = (str(c["ports"][0]["containerPort"]) for c in containers if c.get("ports"))
    return make_target(wanted.scheme, address, wanted.port or next(declared, ""))


def make_target(scheme: str, address: str, port: str) -> Target:
    """Return the target at an address. Raises a 503 for a port that is not a number."""
    scheme = scheme or "http"
    if not port:
        return Target(scheme, address, _DEFAULT_PORTS[scheme])
    is_number = port.isascii() and port.isdigit()
    number = parse_integer(port) if is_number else _NAMED_PORTS.get(port)
    if number is None and not is_number:
        raise unavailable(f"error trying to reach service: dial tcp: lookup tcp/{port}: unknown port")
    if number is None or number > 65535:
        raise unavailable(f"error trying to reach service: dial tcp: address {port}: invalid port")
    return Target(scheme, address, number)


def service_port_name(service: JsonObject, port: str) -> str:
    """Return the name of a Service's port; `port` is its number or already its name. Raises a 503."""
    number = parse_integer(port) if port.isascii() and port.isdigit() else None
    if number is None:
        return port
    for entry in service.get("spec", {}).get("ports", ()):
        if entry["port"] == number:
            return str(entry.get("name", ""))
    name = service["metadata"]["name"]
    raise unavailable(f'no service port {number} found for service "{name}"')


def service_target(
    wanted: ProxyName,
    text: str,
    port_name: str,
    slices: Sequence[JsonObject],
    pod_of: Callable[[Mapping[str, str]], JsonObject | None],
    start: Callable[[int], int],
) -> Target:
    """Return the target of a Service's proxy: a ready address of its EndpointSlices that is the address of a pod.

    `slices` are in the order of preference. `text` is the name as requested, for the error; `pod_of` returns the pod
    of a targetRef; `start(n)` is a number below `n`, from which endpoints are tried in order.
    Raises a 503 when no address is usable.
    """
    if not slices:
        raise unavailable(f'no endpoints available for service "{wanted.name}"')
    for one in slices:
        number = slice_port(one, port_name)
        for endpoint in _rotated(ready_endpoints(one), start) if number else ():
            address = endpoint["addresses"][0]
            if _is_of_pod(endpoint, one["metadata"]["namespace"], pod_of) and is_proxyable(address):
                return Target(wanted.scheme or "http", address, number)
    raise unavailable(f'no endpoints available for service "{text}"')


def _rotated(items: Sequence[JsonObject], start: Callable[[int], int]) -> Iterator[JsonObject]:
    if items:
        first = start(len(items))
        yield from items[first:]
        yield from items[:first]


def _is_of_pod(endpoint: JsonObject, namespace: str, pod_of: Callable[[Mapping[str, str]], JsonObject | None]) -> bool:
    """Whether an endpoint is the pod that it names: users who write slices must not reach other addresses."""
    reference = endpoint.get("targetRef")
    if reference is None or reference.get("namespace") != namespace:
        return False
    pod = pod_of(reference)
    if pod is None:
        return False
    return any(address.get("ip") == endpoint["addresses"][0] for address in pod.get("status", {}).get("podIPs") or ())
