"""The file of an EncryptionConfiguration: reading it, and following it while the server runs.

A changed file counts when it is valid and its keys decrypt every object of the store; otherwise the earlier one stays
in force, and the log has the reason. Source: apiserver/pkg/server/options/encryptionconfig/controller.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from bridgehead.storage.errors import StorageError
from bridgehead.storage.sealing import EncryptedStore

from .configuration import InvalidConfiguration, parse_configuration
from .providers import ConfiguredEncryption

log = logging.getLogger(__name__)

_POLL_SECONDS = 1.0


def read_encryption(path: Path) -> ConfiguredEncryption:
    """Read an EncryptionConfiguration. Raises OSError, or `InvalidConfiguration` with one line that names the file."""
    return _parse(path, path.read_bytes())


async def follow_encryption(path: Path, store: EncryptedStore, *, poll_seconds: float = _POLL_SECONDS) -> None:
    """Give the store the configuration of each new content of the file, until cancelled."""
    content = _content(path)
    while True:
        await asyncio.sleep(poll_seconds)
        before, content = content, _content(path) or content
        if content == before:
            continue
        try:
            await store.change_encryption(_parse(path, content))
            log.info("%s: the encryption configuration is in force", path)
        except (InvalidConfiguration, StorageError) as error:
            log.error("the encryption configuration stays as it was: %s", error)


def _content(path: Path) -> bytes:
    """Return the file's content; b"" if it cannot be read, as while it is being replaced."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _parse(path: Path, content: bytes) -> ConfiguredEncryption:
    import yaml

    from bridgehead.yaml_loader import Loader

    try:
        return ConfiguredEncryption(parse_configuration(yaml.load(content, Loader)))
    except yaml.YAMLError as error:
        raise InvalidConfiguration(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{path}: {error}") from error
