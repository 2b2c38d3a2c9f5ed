"""A GET of a small document from the server of an aggregated API, in the name of this server."""

from __future__ import annotations

from bridgehead.apiserver.proxying.connections import Connections, describe
from bridgehead.apiserver.proxying.targets import Target

from .api_service_status import RemoteApi
from .server_transport import AGGREGATOR, Transport, user_headers

_SECONDS = 5.0
MAX_BYTES = 16 * 1024 * 1024


class FetchFailed(Exception):
    """The server did not answer. The text is that of Go's HTTP client."""


class Fetcher:
    def __init__(self, connections: Connections, transport: Transport) -> None:
        self._connections = connections
        self._transport = transport

    async def get(
        self, api: RemoteApi, target: Target, path: str, *, accept: str = "application/json", verifies: bool = True
    ) -> tuple[int, bytes]:
        """Return the status and the body of a path, escaped. Raises `FetchFailed`."""
        import aiohttp
        from yarl import URL

        url = f"https://{target.authority}{path}"
        headers = [(name.decode(), value.decode()) for name, value in user_headers(AGGREGATOR)]
        try:
            async with self._connections.session().get(
                URL(url, encoded=True),
                headers=[*headers, ("accept", accept)],
                allow_redirects=False,
                ssl=self._transport.tls(api, verifies=verifies),
                server_hostname=api.server_name,
                timeout=aiohttp.ClientTimeout(total=_SECONDS),
            ) as response:
                body = await response.content.read(MAX_BYTES + 1)
                while len(body) <= MAX_BYTES and (piece := await response.content.read(MAX_BYTES + 1 - len(body))):
                    body += piece
        except TimeoutError:
            why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            raise FetchFailed(f'Get "{url}": {why}') from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            text = str(error) if isinstance(error, ValueError) else describe(error, target)
            raise FetchFailed(f'Get "{url}": {text}') from error
        if len(body) > MAX_BYTES:
            raise FetchFailed(f'Get "{url}": the answer is larger than {MAX_BYTES} bytes')
        return response.status, body
