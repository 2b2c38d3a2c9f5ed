"""Replacement of names and addresses in objects, for a recording that its reader may not attribute to anybody.

Everything that does not belong to the API's vocabulary is replaced: names, namespaces, labels, host names, images,
uids; equal texts by equal ones within a recording. Sentences become "redacted". Annotations of unknown keys and the
data of ConfigMaps are left out. Numbers, times and ports stay. Addresses: `redacted_addresses`.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from .redacted_addresses import AddressRedaction
from .vocabulary import known_fields, known_values

Json = dict[str, Any]

_LABELS = frozenset(("labels", "matchLabels", "nodeSelector", "annotations"))
_QUANTITIES = frozenset(("capacity", "allocatable", "limits", "requests", "overhead"))
_SENTENCES = frozenset(("message", "note"))
_NUMBERS = frozenset(("resourceVersion", "maxSurge", "maxUnavailable"))
_DROPPED = frozenset(("data", "binaryData", "volumes", "volumeMounts", "env", "envFrom", "imageID", "containerID"))
_KNOWN_LABELS = frozenset(
    (
        "app",
        "k8s-app",
        "pod-template-hash",
        "controller-revision-hash",
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "app.kubernetes.io/name",
        "app.kubernetes.io/instance",
        "app.kubernetes.io/component",
        "kubernetes.io/service-name",
        "kubernetes.io/metadata.name",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "node-role.kubernetes.io/control-plane",
        "node.kubernetes.io/exclude-from-external-load-balancers",
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "endpointslice.kubernetes.io/managed-by",
        "endpointslice.kubernetes.io/skip-mirror",
        "service.kubernetes.io/headless",
        "service.kubernetes.io/service-proxy-name",
        "service.kubernetes.io/topology-mode",
        "endpoints.kubernetes.io/last-change-trigger-time",
        "endpoints.kubernetes.io/over-capacity",
        "pod-deletion-cost",
        "ingressclass.kubernetes.io/is-default-class",
    )
)
_OWN = re.compile(r"bridgehead/[a-z-]{1,40}", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", re.ASCII)
_NUMBER = re.compile(r"\d{1,20}(\.\d{1,6})?(m|k|M|G|T|Ki|Mi|Gi|Ti|%)?", re.ASCII)
_SEPARATORS = re.compile(r"([/,:])")


class Redaction:
    """The replacements of one recording. `key`: random bytes. `prefix`: of all new names, lower-case and random."""

    def __init__(self, key: bytes, prefix: str) -> None:
        self._addresses = AddressRedaction(key)
        self._prefix = prefix
        self._names: dict[str, str] = {}

    def object(self, obj: Json) -> Json:
        """Return an object without the original names."""
        result: Json = self._value(obj, "")
        return result

    def text(self, text: str) -> str:
        """Return the replacement of one text."""
        if not text or text in known_values() or _TIME.fullmatch(text):
            return text
        if any(character.isspace() for character in text):
            return "redacted"
        if (address := self._address(text)) is not None:
            return address
        parts = _SEPARATORS.split(text)
        if len(parts) > 1:
            return "".join(part if _SEPARATORS.fullmatch(part) else self.text(part) for part in parts)
        return self._name(text)

    def _name(self, text: str) -> str:
        if (name := self._names.get(text)) is None:
            name = self._names[text] = f"{self._prefix}-{len(self._names) + 1}"
        return name

    def _address(self, text: str) -> str | None:
        """Replace an address, a network, or a range `first-last`; None: the text is none of these."""
        try:
            if "/" in text:
                return self._addresses.network(ipaddress.ip_network(text, strict=False))
            first, dash, last = text.partition("-")
            if dash:
                bounds = (ipaddress.ip_address(first), ipaddress.ip_address(last))
                return "-".join(sorted(map(self._addresses.address, bounds), key=ipaddress.ip_address))
            return self._addresses.address(ipaddress.ip_address(text))
        except (ValueError, TypeError):
            return None

    def _value(self, value: Any, field: str) -> Any:
        if isinstance(value, dict):
            return self._map(value, field)
        if isinstance(value, list):
            return [self._value(each, field) for each in value]
        if not isinstance(value, str):
            return value
        if field in _SENTENCES:
            return "redacted" if value else value
        if field in _NUMBERS and _NUMBER.fullmatch(value):
            return value
        return self.text(value)

    def _map(self, value: Json, field: str) -> Json:
        is_selector = field == "selector" and all(isinstance(each, str) for each in value.values())
        if field in _LABELS or is_selector:
            return {
                self._label(key): self._label_value(key, each)
                for key, each in value.items()
                if isinstance(each, str) and (field != "annotations" or self._is_known_label(key))
            }
        if field in _QUANTITIES:
            return {
                self.text(key): each
                for key, each in value.items()
                if isinstance(each, str) and _NUMBER.fullmatch(each) is not None
            }
        fields = known_fields()
        return {
            key if key in fields else self.text(key): self._value(each, key)
            for key, each in value.items()
            if key not in _DROPPED
        }

    def _label_value(self, key: str, value: str) -> str:
        if key.startswith("bridgehead/") and _NUMBER.fullmatch(value):
            return value
        return self.text(value)

    def _label(self, key: str) -> str:
        return key if self._is_known_label(key) else self.text(key)

    def _is_known_label(self, key: str) -> bool:
        return key in _KNOWN_LABELS or _OWN.fullmatch(key) is not None
