"""Objects of the API as YAML. Only the kinds that the page shows, so never a Secret."""

from __future__ import annotations

import asyncio
import re
from typing import Any
from urllib.parse import quote

from bridgehead.client import ApiClient
from bridgehead.yaml_dumper import dump_yaml

MOST_CHARACTERS = 60_000
MOST_VALUES = 5_000
LONGEST = 8_000  # characters of one text
_CUT = "..."

_PATHS = {
    "service": "/api/v1/namespaces/{namespace}/services/{name}",
    "endpoints": "/api/v1/namespaces/{namespace}/endpoints/{name}",
    "endpointslice": "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{name}",
    "pod": "/api/v1/namespaces/{namespace}/pods/{name}",
    "node": "/api/v1/nodes/{name}",
}
# Values that YAML would carry as they are, and that change how a text is shown.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class NoManifest(Exception):
    """An object of a kind that is not shown, or a name that no object has. The text is one line."""


def path_of(kind: str, name: str) -> str:
    """Return the path of an object in the API. `name`: NAMESPACE/NAME, or the name of a node. Raises NoManifest."""
    template = _PATHS.get(kind)
    if template is None:
        raise NoManifest(f"objects of this kind are not shown; these are: {', '.join(_PATHS)}")
    namespace, _, rest = name.rpartition("/")
    is_odd = "/" in namespace or {namespace, rest} & {".", ".."}
    if bool(namespace) is (kind == "node") or not rest or is_odd or (kind == "node" and "/" in name):
        raise NoManifest("this is no name of an object")
    return template.format(namespace=quote(namespace, safe=""), name=quote(rest, safe=""))


def manifest_text(found: dict[str, Any]) -> str:
    """Return an object as YAML, without managedFields and control characters; what exceeds the bounds is "..."."""
    metadata = found.get("metadata")
    if isinstance(metadata, dict):
        found = {**found, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}
    return _CONTROLS.sub("\ufffd", dump_yaml(_Bounded().copy(found)).decode())


class _Bounded:
    """Copies JSON up to a number of values and characters: dumping YAML takes a second for each 100 KiB."""

    def __init__(self) -> None:
        self._values = MOST_VALUES
        self._characters = MOST_CHARACTERS

    def copy(self, value: Any) -> Any:
        self._values -= 1
        if self._values < 0 or self._characters < 0:
            return _CUT
        if isinstance(value, dict):
            found = {}
            for key, each in value.items():
                if self._values < 0 or self._characters < 0:
                    found[_CUT] = _CUT
                    break
                found[self.copy(key)] = self.copy(each)
            return found
        if isinstance(value, list):
            found_items = []
            for each in value:
                found_items.append(self.copy(each))
                if self._values < 0 or self._characters < 0:
                    break
            return found_items
        if isinstance(value, str):
            kept = value if len(value) <= LONGEST else f"{value[:LONGEST]}{_CUT}"
            self._characters -= len(kept)
            return kept
        return value


async def read_manifest(client: ApiClient, kind: str, name: str) -> str:
    """Return an object's YAML. Raises NoManifest and ClientError."""
    path = path_of(kind, name)
    return await asyncio.to_thread(manifest_text, await client.request("GET", path))
