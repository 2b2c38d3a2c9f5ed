"""The file of an EncryptionConfiguration: reading it, and following it while the server runs.

A changed file counts when it is valid and its keys decrypt every object of the store; otherwise the earlier one stays
in force, and the log has the reason. Source: apiserver/pkg/server/options/encryptionconfig/controller.
"""

from __future__ import annotations

from pathlib import Path

from bridgehead.file_changes import FollowedFiles, follow
from bridgehead.storage.errors import StorageError
from bridgehead.storage.sealing import EncryptedStore

from .configured_encryption import ConfiguredEncryption
from .encryption_configuration import InvalidConfiguration, parse_configuration


def read_encryption(path: Path) -> ConfiguredEncryption:
    """Read an EncryptionConfiguration. Raises OSError, or `InvalidConfiguration` with one line that names the file."""
    content = path.read_bytes()
    from bridgehead.yaml_loader import UnusableYaml, load

    try:
        return ConfiguredEncryption(parse_configuration(load(content)))
    except UnusableYaml as error:
        raise InvalidConfiguration(f"{path}: not YAML: {error}") from error
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{path}: {error}") from error


async def follow_encryption(path: Path, store: EncryptedStore, *, poll_seconds: float = 1.0) -> None:
    """Give the store the configuration of each new content of the file, until cancelled. Raises OSError."""

    async def reload() -> None:
        try:
            await store.change_encryption(read_encryption(path))
        except StorageError as error:
            raise ValueError(str(error)) from error

    await follow([(FollowedFiles([path]), reload)], poll_seconds=poll_seconds)
