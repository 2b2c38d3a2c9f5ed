"""The providers, which encrypt and decrypt in kube-apiserver's formats.

    aesgcm      k8s:enc:aesgcm:v1:NAME:     nonce (12 bytes), AES-GCM, authenticated with the object's name
    aescbc      k8s:enc:aescbc:v1:NAME:     initialization vector (16 bytes), AES-CBC, PKCS #7 padding
    secretbox   k8s:enc:secretbox:v1:NAME:  nonce (24 bytes), XSalsa20 and Poly1305
    identity    the value as it is

Source: apiserver/pkg/storage/value/encrypt.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher as BlockCipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

from bridgehead.storage.sealing import ENCRYPTED, Unreadable

from .encryption_configuration import CipherKey

_GCM_NONCE, _BLOCK = 12, 16


class Cipher(Protocol):
    """One key. `prefix` is what its values begin with; `about` names the object and its part."""

    prefix: bytes

    def encrypt(self, plain: bytes, about: bytes) -> bytes: ...

    def decrypt(self, sealed: bytes, about: bytes) -> bytes:
        """Decrypt a value without its prefix. Raises `Unreadable`."""
        ...


class AesGcm:
    def __init__(self, prefix: bytes, secret: bytes) -> None:
        self.prefix = prefix
        self._cipher = AESGCM(secret)

    def encrypt(self, plain: bytes, about: bytes) -> bytes:
        nonce = os.urandom(_GCM_NONCE)
        return nonce + self._cipher.encrypt(nonce, plain, about)

    def decrypt(self, sealed: bytes, about: bytes) -> bytes:
        try:
            return self._cipher.decrypt(sealed[:_GCM_NONCE], sealed[_GCM_NONCE:], about)
        except (InvalidTag, ValueError) as error:
            raise Unreadable("cipher: message authentication failed") from error


class AesCbc:
    """This mode does not authenticate: a wrong key is noticed by its padding, or by what it gives."""

    def __init__(self, prefix: bytes, secret: bytes) -> None:
        self.prefix = prefix
        self._secret = secret

    def encrypt(self, plain: bytes, about: bytes) -> bytes:
        vector = os.urandom(_BLOCK)
        padder = PKCS7(8 * _BLOCK).padder()
        encryptor = BlockCipher(AES(self._secret), CBC(vector)).encryptor()
        return vector + encryptor.update(padder.update(plain) + padder.finalize()) + encryptor.finalize()

    def decrypt(self, sealed: bytes, about: bytes) -> bytes:
        try:
            decryptor = BlockCipher(AES(self._secret), CBC(sealed[:_BLOCK])).decryptor()
            padded = decryptor.update(sealed[_BLOCK:]) + decryptor.finalize()
            unpadder = PKCS7(8 * _BLOCK).unpadder()
            return unpadder.update(padded) + unpadder.finalize()
        except ValueError as error:
            raise Unreadable("invalid padding on input") from error


class SecretBox:
    def __init__(self, prefix: bytes, secret: bytes) -> None:
        import nacl.exceptions
        import nacl.secret

        self.prefix = prefix
        self._box = nacl.secret.SecretBox(secret)
        self._refused: tuple[type[Exception], ...] = (nacl.exceptions.CryptoError, ValueError)

    def encrypt(self, plain: bytes, about: bytes) -> bytes:
        return bytes(self._box.encrypt(plain))

    def decrypt(self, sealed: bytes, about: bytes) -> bytes:
        try:
            return bytes(self._box.decrypt(sealed))
        except self._refused as error:
            raise Unreadable("message authentication failed") from error


class Identity:
    prefix = b""

    def encrypt(self, plain: bytes, about: bytes) -> bytes:
        return plain

    def decrypt(self, sealed: bytes, about: bytes) -> bytes:
        if sealed.startswith(ENCRYPTED):
            raise Unreadable("identity transformer tried to read encrypted data")
        return sealed


_CIPHERS: dict[str, Callable[[bytes, bytes], Cipher]] = {"aesgcm": AesGcm, "aescbc": AesCbc, "secretbox": SecretBox}


def cipher_of(key: CipherKey) -> Cipher:
    if key.provider == "identity":
        return Identity()
    prefix = f"k8s:enc:{key.provider}:v1:{key.name}:".encode()
    return _CIPHERS[key.provider](prefix, key.secret)
