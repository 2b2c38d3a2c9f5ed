"""Encryption at rest: EncryptionConfiguration (apiserver.config.k8s.io/v1) and its ciphers.

    configuration   parses and checks the file
    providers       the providers of a resource, in their order: the first writes, all read
    ciphers         aesgcm, aescbc, secretbox, identity; the formats are those of kube-apiserver

Imported only when an encryption configuration is given.
Source: Kubernetes "Encrypting Confidential Data at Rest", apiserver/pkg/storage/value.
"""

from __future__ import annotations

from pathlib import Path

from .configuration import InvalidConfiguration, parse_configuration
from .providers import ConfiguredEncryption

__all__ = ["ConfiguredEncryption", "InvalidConfiguration", "read_encryption"]


def read_encryption(path: Path) -> ConfiguredEncryption:
    """Read an EncryptionConfiguration. Raises OSError, or `InvalidConfiguration` with one line that names the file."""
    import yaml

    from bridgehead.yaml_loader import Loader

    try:
        return ConfiguredEncryption(parse_configuration(yaml.load(path.read_bytes(), Loader)))
    except yaml.YAMLError as error:
        raise InvalidConfiguration(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{path}: {error}") from error
