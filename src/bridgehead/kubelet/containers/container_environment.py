"""A container's environment: its variables in order, Services as variables.

Pure: no I/O, no clock, no randomness. Called when a container is about to start. Sources: Kubernetes "Define
Environment Variables", kubelet's `makeEnvironmentVariables` (precedence: env over envFrom over Services) and
`envvars.FromServices`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping

import msgspec

from bridgehead.kubelet.errors import ConfigNotReady
from bridgehead.kubelet.volumes.downward_api import Addresses, field_value, resource_value
from bridgehead.objects.addresses import join_host_port
from bridgehead.objects.core import ConfigMap, Container, EnvVarSource, FileKeySelector, Pod, Secret, Service

from .argument_list import ArgumentList

_VARIABLE_NAME = re.compile(r"[ -<>-~]+")  # printable ASCII except "="
_VARIABLE = re.compile(r"[ \t]*(?P<name>[!-<>-~]+)[ \t]*=[ \t]*'(?P<value>[^']*)'[ \t]*(?:\n|\Z)")
_IGNORED = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|\Z)")


class EnvironmentSources(msgspec.Struct, frozen=True):
    """The objects and facts that an environment may refer to. The getters return None for a missing object.

    `env_file` returns the text of a file, by the name of its volume and its path there; None if there is no such file.
    It raises OSError.
    """

    services: tuple[Service, ...]
    config_map: Callable[[str], ConfigMap | None]
    secret: Callable[[str], Secret | None]
    env_file: Callable[[str, str], str | None]
    addresses: Addresses
    allocatable: Mapping[str, str | int | float]


def service_variables(services: Iterable[Service], namespace: str, *, links: bool) -> dict[str, str]:
    """Return the variables of every Service that a pod of `namespace` sees, and of default/kubernetes.

    `links` is the pod's enableServiceLinks; without it only `kubernetes` has variables.
    """
    seen: dict[str, Service] = {}
    for service in services:
        if service.spec.cluster_ip in ("", "None") or not service.spec.ports:
            continue
        name = service.metadata.name
        if name == "kubernetes" and service.metadata.namespace == "default":
            seen.setdefault(name, service)
        elif service.metadata.namespace == namespace and links:
            seen[name] = service
    variables: dict[str, str] = {}
    for name in sorted(seen):
        variables |= _variables_of(seen[name])
    return variables


def _variables_of(service: Service) -> dict[str, str]:
    prefix = _variable_name(service.metadata.name)
    address = service.spec.cluster_ip
    ports = service.spec.ports
    variables = {f"{prefix}_SERVICE_HOST": address, f"{prefix}_SERVICE_PORT": str(ports[0].port)}
    for port in ports:
        if port.name:
            variables[f"{prefix}_SERVICE_PORT_{_variable_name(port.name)}"] = str(port.port)
    for index, port in enumerate(ports):
        url = f"{port.protocol.lower()}://{join_host_port(address, port.port)}"
        if index == 0:
            variables[f"{prefix}_PORT"] = url
        link = f"{prefix}_PORT_{port.port}_{port.protocol.upper()}"
        variables[link] = url
        variables[f"{link}_PROTO"] = port.protocol.lower()
        variables[f"{link}_PORT"] = str(port.port)
        variables[f"{link}_ADDR"] = address
    return variables


def _variable_name(name: str) -> str:
    return name.upper().replace("-", "_")


def container_environment(
    pod: Pod, container: Container, sources: EnvironmentSources, arguments: ArgumentList | None = None
) -> dict[str, str]:
    """Return all variables of `container`, counted in `arguments`.

    Raises `ConfigNotReady` while an object that they refer to is missing, and `ArgumentListTooLong`.
    """
    arguments = arguments if arguments is not None else ArgumentList()
    inherited = service_variables(sources.services, pod.metadata.namespace, links=pod.spec.enable_service_links)
    for name, text in inherited.items():
        arguments.set_variable(name, text)
    own = _imported(pod, container, sources, arguments)
    value: str | None
    for variable in container.env:
        if variable.value_from is not None and not variable.value:
            value = _from_source(variable.value_from, pod, container, sources)
            if value is not None:
                arguments.set_variable(variable.name, value)
        else:
            value = arguments.expand_variable(variable.name, variable.value, own, inherited)
        if value is not None:
            inherited.pop(variable.name, None)
            own[variable.name] = value
    return inherited | own


def declared_variables(pod: Pod, container: Container, sources: EnvironmentSources) -> tuple[str, ...]:
    """Return the names of the variables that the pod itself sets. Raises `ConfigNotReady` as above."""
    imported = _imported(pod, container, sources, ArgumentList())
    return tuple(dict.fromkeys((*imported, *(variable.name for variable in container.env))))


def _imported(pod: Pod, container: Container, sources: EnvironmentSources, arguments: ArgumentList) -> dict[str, str]:
    """Return the variables that `envFrom` imports, counted in `arguments`."""
    variables: dict[str, str] = {}
    for source in container.env_from:
        if source.config_map_ref is not None:
            config_map = sources.config_map(source.config_map_ref.name)
            if config_map is None and not source.config_map_ref.optional:
                raise ConfigNotReady(f'configmap "{source.config_map_ref.name}" not found')
            data = config_map.data if config_map is not None else {}
        elif source.secret_ref is not None:
            secret = sources.secret(source.secret_ref.name)
            if secret is None and not source.secret_ref.optional:
                raise ConfigNotReady(f'secret "{source.secret_ref.name}" not found')
            data = {k: decode_secret(v) for k, v in secret.data.items()} if secret is not None else {}
        else:
            continue
        for key, value in data.items():
            name = source.prefix + key
            if _VARIABLE_NAME.fullmatch(name):
                arguments.set_variable(name, value)
                variables[name] = value
    return variables


def _from_source(source: EnvVarSource, pod: Pod, container: Container, sources: EnvironmentSources) -> str | None:
    """Return the value of `valueFrom`; None when an optional one is missing."""
    try:
        if source.field_ref is not None:
            return field_value(source.field_ref.field_path, pod, sources.addresses)
        if source.resource_field_ref is not None:
            name = source.resource_field_ref.container_name
            others = pod.spec.containers + pod.spec.init_containers
            target = next((c for c in others if c.name == name), container) if name else container
            return resource_value(source.resource_field_ref, pod, target, sources.allocatable)
    except ValueError as error:
        raise ConfigNotReady(str(error)) from error
    if (key := source.config_map_key_ref) is not None:
        config_map = sources.config_map(key.name)
        if config_map is not None and key.key in config_map.data:
            return config_map.data[key.key]
        if key.optional:
            return None
        if config_map is None:
            raise ConfigNotReady(f'configmap "{key.name}" not found')
        raise ConfigNotReady(f"couldn't find key {key.key} in ConfigMap {pod.metadata.namespace}/{key.name}")
    if (key := source.secret_key_ref) is not None:
        secret = sources.secret(key.name)
        if secret is not None and key.key in secret.data:
            return decode_secret(secret.data[key.key])
        if key.optional:
            return None
        if secret is None:
            raise ConfigNotReady(f'secret "{key.name}" not found')
        raise ConfigNotReady(f"couldn't find key {key.key} in Secret {pod.metadata.namespace}/{key.name}")
    if (reference := source.file_key_ref) is not None:
        return _from_file(reference, sources)
    return None


def _from_file(reference: FileKeySelector, sources: EnvironmentSources) -> str | None:
    """Return a variable of an env file; None when an optional one is missing."""
    try:
        text = sources.env_file(reference.volume_name, reference.path)
        variables = parse_env_file(text) if text is not None else {}
    except (OSError, ValueError) as error:
        raise ConfigNotReady(f"couldn't parse env file: {error}") from error
    if reference.key in variables or reference.optional:
        return variables.get(reference.key)
    raise ConfigNotReady(f'environment variable key "{reference.key}" not found in file "{reference.path}"')


def decode_secret(value: str) -> str:
    return base64.b64decode(value).decode("utf-8", "replace")


def parse_env_file(text: str) -> dict[str, str]:
    """Return the variables of a file; the last one of a name counts.

    A variable is `NAME='value'`; the value is taken as it is and may have several lines. Empty lines and those that
    begin with # are ignored. Raises ValueError.
    """
    text = text.replace("\r\n", "\n")
    variables: dict[str, str] = {}
    at = 0
    while at < len(text):
        if found := _IGNORED.match(text, at):
            at = found.end()
        elif found := _VARIABLE.match(text, at):
            variables[found["name"]] = found["value"]
            at = found.end()
        else:
            raise ValueError(f"invalid environment variable format at line {text.count(chr(10), 0, at) + 1}")
    return variables
