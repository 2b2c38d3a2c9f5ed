"""An APIService that points to a Service, and whether it is available, as values.

Pure: no I/O, no clock, no randomness.
Source: kube-aggregator `remote_available_controller.go`, apiserver `pkg/util/proxy/proxy.go`.
"""

from __future__ import annotations

import base64
from typing import NamedTuple

from bridgehead.apiserver.proxying.targets import Target
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.apiservices import AVAILABLE, DEFAULT_PORT
from bridgehead.apiserver.resources.shared.conditions import find_condition
from bridgehead.apiserver.service_endpoints import NoEndpoint, ServiceEndpoints

GroupVersion = tuple[str, str]


class RemoteApi(NamedTuple):
    """An aggregated API. `authority` is PEM, b"" for the system's certificate authorities."""

    name: str
    group: str
    version: str
    namespace: str
    service: str
    port: int
    authority: bytes
    is_insecure: bool
    group_priority: int
    version_priority: int
    is_available: bool

    @property
    def path(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def server_name(self) -> str:
        """The name in the certificate of the Service's pods."""
        return f"{self.service}.{self.namespace}.svc"


class Availability(NamedTuple):
    """The condition Available without its time."""

    status: str
    reason: str
    message: str


PASSED = Availability("True", "Passed", "all checks passed")


def parse_remote(obj: JsonObject) -> RemoteApi | None:
    """Return the aggregated API of an APIService, None for a local one."""
    spec = obj.get("spec", {})
    service = spec.get("service")
    if service is None:
        return None
    condition = find_condition(obj.get("status", {}).get("conditions"), AVAILABLE)
    return RemoteApi(
        name=obj["metadata"]["name"],
        group=spec.get("group", ""),
        version=spec.get("version", ""),
        namespace=service.get("namespace", ""),
        service=service.get("name", ""),
        port=service.get("port", DEFAULT_PORT),
        authority=base64.b64decode(spec.get("caBundle", "")),
        is_insecure=spec.get("insecureSkipTLSVerify", False),
        group_priority=spec.get("groupPriorityMinimum", 0),
        version_priority=spec.get("versionPriority", 0),
        is_available=condition is not None and condition.get("status") == "True",
    )


def check_service(api: RemoteApi, behind: ServiceEndpoints) -> Availability | None:
    """Return why no request can be sent to the Service's endpoints; None if one can be tried."""
    service, subject = behind.service, f'service/{api.service} in "{api.namespace}"'
    if service is None:
        return Availability("False", "ServiceNotFound", f"{subject} is not present")
    if service["spec"].get("type", "ClusterIP") != "ClusterIP":
        return None
    port = behind.port(api.port)
    if port is None:
        return Availability("False", "ServicePortError", f"{subject} is not listening on port {api.port}")
    if not behind.slices:
        return Availability("False", "EndpointsNotFound", f"cannot find endpointslices for {subject}")
    try:
        behind.addresses(api.port)
    except NoEndpoint:
        message = f'endpointslices for {subject} have no addresses with port name "{port.get("name", "")}"'
        return Availability("False", "MissingEndpoints", message)
    return None


def find_targets(api: RemoteApi, behind: ServiceEndpoints) -> list[Target]:
    """Return the servers behind an API. Raises `NoEndpoint`."""
    spec = {} if behind.service is None else behind.service["spec"]
    if spec.get("type") == "ExternalName":
        return [Target("https", spec.get("externalName", ""), api.port)]
    return [Target("https", address, number) for address, number in behind.addresses(api.port)]
