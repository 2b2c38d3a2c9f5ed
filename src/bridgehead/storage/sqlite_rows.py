"""Objects as rows of a SQLite store, perhaps encrypted. There is no I/O here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from .errors import StoreBroken
from .records import Facts, Key, Record
from .sealing import ENCRYPTED, Encryption, Unreadable
from .sqlite_file import corrupt

SELECT = "SELECT resource, namespace, name, revision, value, facts FROM objects"
INSERT = "INSERT INTO objects (resource, namespace, name, revision, value, facts) VALUES (?, ?, ?, ?, ?, ?)"
VALUE, FACTS = "value", "facts"


class _StoredMetadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _Stored(msgspec.Struct):
    """The part of a value that is checked when it is loaded: complete JSON with the revision of its row."""

    metadata: _StoredMetadata


_decode_stored = msgspec.json.Decoder(_Stored).decode
_encode_facts = msgspec.json.Encoder().encode
_decode_facts = msgspec.json.Decoder(Facts).decode


class Rows:
    """Conversion of the rows of the file `path`. `stale` are objects with another form than `row` gives them."""

    def __init__(self, path: Path, encryption: Encryption | None, stale: set[Key] | None = None) -> None:
        self.encryption = encryption
        self.stale: set[Key] = stale or set()
        self._path = path

    def record(self, *row: Any) -> Record:
        """Decode a row of `SELECT`. Raises `StoreBroken` for one that `row` cannot have made."""
        resource, namespace, name, revision, value, facts = row
        try:
            key = msgspec.convert((resource, namespace, name), Key)
            if self.encryption is not None or value[:1] == ENCRYPTED[:1]:
                value, facts = self._unsealed(key, value, facts)
            stored, version = _decode_facts(facts), _decode_stored(value).metadata.resource_version
        except (msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:
            raise corrupt(self._path, f"{resource} {namespace}/{name}: {error}") from error
        if type(value) is not bytes or version != str(revision):
            raise corrupt(self._path, f"{resource} {namespace}/{name} is not of revision {revision}")
        return Record(key, revision, value, stored)

    def _unsealed(self, key: Key, value: bytes, facts: bytes) -> tuple[bytes, bytes]:
        """Return a stored value and its facts in plain form, and remember whether they are stale."""
        if self.encryption is None:
            if not value.startswith(ENCRYPTED):
                return value, facts
            raise StoreBroken(
                f"the store {self._path} has encrypted objects ({key.resource}): "
                "name the file of the keys with --encryption-provider-config"
            )
        sealing = self.encryption.of(key.resource)
        if not sealing.is_current(value):
            self.stale.add(key)
        try:
            return sealing.unseal(about(key, VALUE), value), sealing.unseal(about(key, FACTS), facts)
        except Unreadable as error:
            raise StoreBroken(
                f"can't decrypt {key.resource} {key.namespace}/{key.name} in the store {self._path}: {error}: "
                "add the key with which it was written to the encryption configuration"
            ) from error

    def row(self, record: Record) -> tuple[str, str, str, int, bytes, bytes]:
        """Return the values for `INSERT`."""
        key, value, stored = record.key, record.value, _encode_facts(record.facts)
        if self.encryption is not None:
            sealing = self.encryption.of(key.resource)
            value, stored = sealing.seal(about(key, VALUE), value), sealing.seal(about(key, FACTS), stored)
        return (*key, record.revision, value, stored)


def about(key: Key, part: str) -> bytes:
    """Return what is authenticated with one of the two encrypted blobs of an object: `VALUE` or `FACTS`."""
    return f"/registry/{key.resource}/{key.namespace}/{key.name}#{part}".encode()
