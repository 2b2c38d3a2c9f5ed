"""Field numbers of messages.

`fields.txt` has those of the API's kinds; `scripts/extract-go-fields` writes it. The constants are those of
messages whose fields are not in the schema. Numbers never change once they are assigned.
Source: the generated.proto files of k8s.io/api and k8s.io/apimachinery.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

# Fields whose list is a message of its own (`Verbs`), by definition. Their shape is that of any other list.
LIST_MESSAGES = {"io.k8s.apimachinery.pkg.apis.meta.v1.APIResource": frozenset({"verbs"})}

# The first bytes of every body (runtime/serializer/protobuf).
MAGIC = b"k8s\x00"

# generated.proto of apimachinery and authentication/v1; map entries as in the protobuf encoding.
UNKNOWN_TYPE_META, UNKNOWN_RAW = 1, 2
TYPE_META_API_VERSION, TYPE_META_KIND = 1, 2
MAP_KEY, MAP_VALUE = 1, 2
LIST_ITEMS = 1  # of ExtraValue and Verbs, lists that are messages of their own
TIME_SECONDS, TIME_NANOS = 1, 2
INT_OR_STRING_TYPE, INT_OR_STRING_INT, INT_OR_STRING_STRING = 1, 2, 3
TYPE_INT, TYPE_STRING = 0, 1  # of intstr.Type
QUANTITY_STRING = 1
RAW = 1  # of FieldsV1 and RawExtension
METADATA, ITEMS = 1, 2  # of lists and of PartialObjectMetadata
SCHEMA_OR_BOOL_ALLOWS, SCHEMA_OR_BOOL_SCHEMA = 1, 2  # of JSONSchemaPropsOrBool
SCHEMA_OR_LIST_SCHEMA, SCHEMA_OR_LIST_ITEMS = 1, 2  # of JSONSchemaPropsOrArray and JSONSchemaPropsOrStringArray
EVENT_TYPE, EVENT_OBJECT = 1, 2  # of WatchEvent


class Fields:
    """The numbered fields of one message.

    `names` are JSON names by number; `embedded` are embedded messages, whose fields JSON has in the outer object.
    """

    __slots__ = ("embedded", "names")

    def __init__(self, entries: list[str]) -> None:
        self.names: dict[int, str] = {}
        self.embedded: dict[int, str] = {}
        for entry in entries:
            name, _, number = entry.rstrip("*").partition("=")
            if name.startswith("@"):
                self.embedded[int(number)] = name[1:]
            else:
                self.names[int(number)] = name


@lru_cache(maxsize=1)
def _lines() -> dict[str, str]:
    text = Path(__file__).with_name("fields.txt").read_text(encoding="utf-8")
    return dict(line.partition(" ")[::2] for line in text.splitlines())


@lru_cache(maxsize=1024)
def fields_of(message: str) -> Fields:
    """Return the fields of a message; none for one that is not listed.

    `message` is the name of a definition; `io.k8s.api.` may be left out.
    """
    return Fields(_lines().get(message.removeprefix("io.k8s.api."), "").split())


def has_fields(definition: str) -> bool:
    """Whether the field numbers of a definition are known."""
    return definition.removeprefix("io.k8s.api.") in _lines()


def plain_scalars(definition: str) -> frozenset[str]:
    """Return the fields whose zero value is equivalent to none: in Go no pointers, and omitted from JSON when zero.

    Fields of embedded messages are among them. Empty for a definition that is not listed.
    """
    entries = _lines().get(definition.removeprefix("io.k8s.api."), "").split()
    own = frozenset(entry.partition("=")[0] for entry in entries if not entry.endswith("*") and entry[0] != "@")
    return own.union(*map(plain_scalars, fields_of(definition).embedded.values()))
