"""Attributes of a request, for admission plug-ins.

Pure: no I/O, no clock, no randomness. Source: apiserver/pkg/admission/attributes.go.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bridgehead.apiserver.http.user import User
from bridgehead.apiserver.resource import JsonObject, Resource

CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"


class Reinvocation(msgspec.Struct):
    """State of the two passes that mutating plug-ins may make over one object.

    A plug-in that called out to a program sets `is_wanted` when a second pass is due; in this pass, `is_second` is
    True. `kept` is for what a plug-in remembers between the passes, under a key of its own. `deadline` is when webhooks
    must have answered, all together and for all attempts of the write (time of the event loop); 0: none was asked yet.
    """

    is_second: bool = False
    is_wanted: bool = False
    kept: dict[str, Any] = {}
    deadline: float = 0.0


class Attributes(msgspec.Struct, eq=False):  # each write makes one
    """A request, without its object. Plug-ins do not change its fields.

    `operation` is CREATE, UPDATE, DELETE or CONNECT. `resource` is the requested one, which may differ from the stored
    one. `name` is "" for a create with generateName and for the deletion of a collection. `options` are the
    CreateOptions, UpdateOptions or DeleteOptions without kind and apiVersion, with the fields that the client gave.
    `kind` is (group, version, kind) of an object that is not the resource's own, such as a Scale.

    `verb` is that of the request, such as `patch`; "" for a DELETE and a CONNECT.

    Plug-ins append texts for the client to `warnings`, and set `annotations` of the request's audit event.
    """

    operation: str
    resource: Resource
    subresource: str
    namespace: str
    name: str
    user: User
    dry_run: bool = False
    options: JsonObject = {}
    kind: tuple[str, str, str] | None = None
    warnings: list[str] = []
    annotations: dict[str, str] = {}
    reinvocation: Reinvocation = msgspec.field(default_factory=Reinvocation)
    verb: str = ""

    @property
    def object_kind(self) -> tuple[str, str, str]:
        """(group, version, kind) of the request's object."""
        return self.kind or (self.resource.group, self.resource.version, self.resource.kind)


def shown_name(obj: JsonObject) -> str:
    """Return the name of an object in refusals: a new one may have only the beginning of a name."""
    metadata = obj.get("metadata", {})
    name: str = metadata.get("name") or metadata.get("generateName", "")
    return name
