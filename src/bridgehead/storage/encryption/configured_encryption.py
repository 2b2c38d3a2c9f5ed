"""The providers of each resource.

New values are encrypted by the first provider; a value is read by the one whose prefix it has. The first rule that
matches a resource counts. Resources without a rule are plain.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.storage.sealing import Unreadable

from .encryption_configuration import Rule
from .providers import Cipher, Identity, cipher_of


class Providers:
    """A `sealing.Sealing`: ciphers in their order."""

    def __init__(self, ciphers: Sequence[Cipher]) -> None:
        self._ciphers = ciphers

    def is_current(self, stored: bytes) -> bool:
        current = _reader(self._ciphers, stored)
        return bool(current) and current[0] is self._ciphers[0]

    def seal(self, about: bytes, plain: bytes) -> bytes:
        first = self._ciphers[0]
        return first.prefix + first.encrypt(plain, about)

    def unseal(self, about: bytes, stored: bytes) -> bytes:
        failure = Unreadable("no matching prefix found")
        for cipher in _reader(self._ciphers, stored):
            try:
                return cipher.decrypt(stored[len(cipher.prefix) :], about)
            except Unreadable as error:
                failure = error
        raise failure


class ConfiguredEncryption:
    """A `sealing.Encryption` by the rules of an EncryptionConfiguration."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = [(rule.resources, Providers([cipher_of(key) for key in rule.keys])) for rule in rules]
        self._plain = Providers([Identity()])
        self._known: dict[str, Providers] = {}

    def of(self, resource: str) -> Providers:
        found = self._known.get(resource)
        if found is None:
            found = self._known[resource] = self._find(resource)
        return found

    def _find(self, resource: str) -> Providers:
        name, _, group = resource.partition(".")
        wanted = {(group, name), (group, "*"), ("*", "*")}
        return next((providers for covered, providers in self._rules if wanted.intersection(covered)), self._plain)


def _reader(ciphers: Sequence[Cipher], stored: bytes) -> list[Cipher]:
    """Return the ciphers that a value's prefix names. Several keys may have one name; a longer prefix is not plain."""
    named = [cipher for cipher in ciphers if cipher.prefix and stored.startswith(cipher.prefix)]
    return named or [cipher for cipher in ciphers if not cipher.prefix]
