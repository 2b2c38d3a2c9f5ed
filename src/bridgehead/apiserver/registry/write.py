"""One write: the value that goes from its handler to the store.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from bridgehead.apiserver.admission.attributes import Attributes
from bridgehead.apiserver.fieldmanagement.applying import Applied
from bridgehead.apiserver.fieldmanagement.managers import SERVER, Entries, Writer
from bridgehead.apiserver.resource import JsonObject, Resource

# Makes the object of a server-side apply and its managedFields from the stored object and its managedFields; {} and []
# stand for an object that does not exist. Does not change its arguments; called again after a lost race.
Merge = Callable[[JsonObject, Entries], Applied]


@dataclass(frozen=True, slots=True)
class View:
    """The object that a subresource shows instead of the stored one, such as a Scale. Admission gets this object.

    `show` makes it from a stored object; `write_back` returns the stored object with the changes that were made to it.
    """

    show: Callable[[JsonObject], JsonObject]
    write_back: Callable[[JsonObject, JsonObject], JsonObject]


class Write(msgspec.Struct, frozen=True, eq=False):  # made for each write; a dataclass takes ten times as long
    """One write: the object, the client and the options. The new object or the change are an argument of their own.

    `resource` is the requested one, which may differ from the stored one. `namespace` and `name` are those of the path;
    `name` is "" for a create. `subresource` is "" for the object itself.
    `writer` becomes the manager of the fields that change; None: their managers stay.
    `attributes` describe the request to admission; None: the server writes, and admission is not asked.
    `view` is what the subresource shows instead of the object; None: the object.
    `dry_run`: everything is done but for the commit. `size` is that of the request's body in bytes.
    """

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    writer: Writer | None = SERVER
    attributes: Attributes | None = None
    view: View | None = None
    dry_run: bool = False
    size: int = 0
