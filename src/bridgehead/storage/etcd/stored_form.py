"""The bytes of an object in etcd: encoded, and encrypted if its resource is."""

from __future__ import annotations

from bridgehead.storage.records import Facts, JsonObject, Key
from bridgehead.storage.sealing import ENCRYPTED, Encryption, Unreadable

from .codec import ObjectCodec, Undecodable, Undecryptable
from .layout import Layout


class StoredForm:
    """The stored form of all objects. `stale` are the objects that are not encrypted as they would be now."""

    def __init__(self, layout: Layout, codec: ObjectCodec, encryption: Encryption | None) -> None:
        self._layout = layout
        self._codec = codec
        self._encryption = encryption
        self.stale: set[Key] = set()

    def encode(self, key: Key, obj: JsonObject) -> bytes:
        plain = self._codec.encode(key, obj)
        if self._encryption is None:
            return plain
        return self._encryption.of(key.resource).seal(self._layout.etcd_key(key), plain)

    def decode(self, key: Key, stored: bytes) -> tuple[JsonObject, Facts]:
        """Return an object without resourceVersion, and its facts. Raises `Undecodable`."""
        obj, facts = self._codec.decode(key, self.unseal(key, stored))
        metadata = obj["metadata"]
        named = (metadata.get("namespace") or "", metadata["name"])
        if named != (key.namespace, key.name):
            raise Undecodable(f"it is the object {'/'.join(filter(None, named))!r} by its metadata")
        return obj, facts

    def unseal(self, key: Key, stored: bytes) -> bytes:
        """Return the plain bytes of a stored value, and remember whether it is to be encrypted otherwise."""
        if self._encryption is None:
            if stored.startswith(ENCRYPTED):
                raise Undecryptable("it is encrypted: name the file of the keys with --encryption-provider-config")
            return stored
        sealing = self._encryption.of(key.resource)
        try:
            plain = sealing.unseal(self._layout.etcd_key(key), stored)
        except Unreadable as error:
            raise Undecryptable(f"it can't be decrypted: {error}") from error
        if sealing.is_current(stored):
            self.stale.discard(key)
        else:
            self.stale.add(key)
        return plain
