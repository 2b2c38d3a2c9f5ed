"""The credentials of requests: a token, and the certificates of connections. Used by `transport` only.

They come from the configuration, from files that are read again every `FILE_SECONDS`, or from a plugin. Connections
with earlier certificates stay as long as their requests, and are not used for others.
"""

from __future__ import annotations

import contextlib
import ssl
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .errors import ConfigError
from .kubeconfig import ClientConfig
from .tls import client_context

if TYPE_CHECKING:
    from .exec_plugin import PluginAnswer
    from .plugin_process import PluginProcess

FILE_SECONDS = 60.0  # between two reads of a file; kubelets renew tokens and certificates long before they expire


@dataclass(frozen=True, slots=True, eq=False)
class Credentials:
    """The credentials of one request. `context` None: its connection has no TLS."""

    token: str | None
    context: ssl.SSLContext | None


class CredentialSource:
    """The current credentials of a client. Raises ConfigError for a damaged certificate."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._plugin: PluginProcess | None = None
        self._answer: PluginAnswer | None = None
        context = client_context(config) if config.server.startswith("https:") else None
        self._current = Credentials(config.token, context)
        self._has_files = any((config.token_file, config.certificate_files, config.ca_file))
        self._read_at = float("-inf")
        if config.exec_plugin is not None:
            from .plugin_process import PluginProcess  # only here, so that parts inside a cluster never load it

            self._plugin = PluginProcess(config.exec_plugin)

    async def get(self) -> Credentials:
        """Return the credentials for a request. Raises ConfigError, CredentialsFailed."""
        if self._has_files and time.monotonic() - self._read_at > FILE_SECONDS:
            self._read_files()
        if self._plugin is not None:
            return self._take(await self._plugin.get())
        return self._current

    async def renew(self, refused: Credentials) -> bool:
        """Return whether there are others than those that the server has refused. Raises as `get`."""
        if self._plugin is not None:
            if self._current is refused and self._answer is not None:
                self._take(await self._plugin.renew(self._answer))
        elif self._current is refused and self._has_files:
            self._read_files()
        return self._current is not refused

    def _read_files(self) -> None:
        """Read the files again. Unreadable ones change nothing, nor does a certificate before its key is written."""
        self._read_at = time.monotonic()
        token, context = self._current.token, self._current.context
        if self._config.token_file is not None:
            with contextlib.suppress(OSError):
                token = self._config.token_file.read_text().strip()
        if context is not None:
            with contextlib.suppress(OSError, ConfigError):
                config = _with_files(self._config)
                if config != self._config:
                    context = _context(config, self._answer)
                    self._config = config
        if token != self._current.token or context is not self._current.context:
            self._current = Credentials(token, context)

    def _take(self, answer: PluginAnswer) -> Credentials:
        before = self._answer
        if answer is before:
            return self._current
        context = self._current.context
        pair = (answer.certificate, answer.key)
        has_changed = pair != ((before.certificate, before.key) if before is not None else (None, None))
        if context is not None and has_changed:
            context = _context(self._config, answer)
        self._answer = answer
        self._current = Credentials(answer.token, context)
        return self._current


def _with_files(config: ClientConfig) -> ClientConfig:
    """Return the configuration with what its files for TLS have now. Raises OSError."""
    if config.ca_file is not None:
        config = replace(config, ca=config.ca_file.read_bytes())
    if config.certificate_files is not None:
        certificate, key = (file.read_bytes() for file in config.certificate_files)
        config = replace(config, client_certificate=certificate, client_key=key)
    return config


def _context(config: ClientConfig, answer: PluginAnswer | None) -> ssl.SSLContext:
    """Return the TLS settings of the configuration, with the certificate of a plugin's answer. Raises ConfigError."""
    if answer is not None and answer.certificate is not None:
        config = replace(config, client_certificate=answer.certificate, client_key=answer.key)
    return client_context(config)
