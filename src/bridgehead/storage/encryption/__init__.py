"""Encryption at rest: EncryptionConfiguration (apiserver.config.k8s.io/v1) and its ciphers.

    files                     reads the file, and follows it while the server runs
    encryption_configuration  parses and checks its content
    configured_encryption     the providers of a resource, in their order: the first writes, all read
    providers                 aesgcm, aescbc, secretbox, identity; the formats are those of kube-apiserver

Imported only when an encryption configuration is given.
Source: Kubernetes "Encrypting Confidential Data at Rest", apiserver/pkg/storage/value.
"""

from __future__ import annotations

from .configured_encryption import ConfiguredEncryption
from .encryption_configuration import InvalidConfiguration
from .files import follow_encryption, read_encryption

__all__ = ["ConfiguredEncryption", "InvalidConfiguration", "follow_encryption", "read_encryption"]
