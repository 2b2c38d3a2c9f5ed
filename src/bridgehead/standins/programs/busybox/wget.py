"""`wget` as BusyBox has it, for machines without BusyBox. HTTP and HTTPS only; it continues no downloads (-c).

Source: BusyBox' networking/wget.c; the tests compare with BusyBox 1.35.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterator
from typing import IO, Final

from bridgehead.standins.standin import Launch

from .command import report, use_default_signals
from .options import BadNumber, BadOption
from .targets import Target, UnknownHost, find_target
from .web_requests import (
    BadUrl,
    Malformed,
    Options,
    Url,
    format_progress,
    format_request,
    parse_arguments,
    parse_chunk_length,
    parse_field,
    parse_length,
    parse_status,
    parse_url,
    sanitize_line,
)

_USAGE: Final = """\
Usage: wget [-cqS] [--spider] [-O FILE] [-o LOGFILE] [--header STR]
	[--post-data STR | --post-file FILE] [-Y on/off]
	[--no-check-certificate] [-P DIR] [-U AGENT] [-T SEC] URL...

Retrieve files via HTTP or FTP

	--spider	Only check URL existence: $? is 0 if exists
	--header STR	Add STR (of form 'header: value') to headers
	--post-data STR	Send STR using POST method
	--post-file FILE	Send FILE using POST method
	--no-check-certificate	Don't validate the server's certificate
	-c		Continue retrieval of aborted transfer
	-q		Quiet
	-P DIR		Save to DIR (default .)
	-S    		Show server response
	-T SEC		Network read timeout is SEC seconds
	-O FILE		Save to FILE ('-' for stdout)
	-o LOGFILE	Log messages to FILE
	-U STR		Use STR for User-Agent header
	-Y on/off	Use proxy
"""
_REDIRECTIONS: Final = 15
_LONGEST_LINE: Final = 4096  # bytes
_MOST_LINES: Final = 1000  # of a response's header
_BLOCK: Final = 1 << 16  # bytes
_GOOD: Final = (200, 201, 202, 203, 204, 300, 301, 302, 303, 307, 308)


class _Failure(Exception):
    """The message is BusyBox's."""


def run(launch: Launch) -> int:
    """Retrieve all URLs; returns 1 after the first failure."""
    use_default_signals()
    try:
        options = parse_arguments(launch.argv[1:])
    except BadOption as error:
        return report("", (f"wget: {error}\n" if str(error) else "") + _USAGE)
    except BadNumber as error:
        return report("wget", str(error))
    try:
        if options.log and options.log != "-":
            descriptor = _open(options.log, os.O_TRUNC)
            os.dup2(descriptor, sys.stderr.fileno())
        with contextlib.closing(_Output(options)) as output:
            for url in options.urls:
                _Retrieval(options, output).run(url)
    except TimeoutError:
        return report("wget", "download timed out")
    except (_Failure, BadUrl, Malformed, UnknownHost) as error:
        return report("wget", str(error))
    return 0


def _open(path: str, flags: int) -> int:
    """Open a file for writing. Raises `_Failure`."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o666)
    except OSError as error:
        raise _Failure(f"can't open '{path}': {error.strerror}") from None


class _Output:
    """The file of -O, standard output, or a new file for each URL."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._descriptor = 1 if options.output == "-" else -1

    def open(self, url: Url) -> tuple[str, int]:
        """The name and the descriptor of the file for a URL. Raises `_Failure`."""
        name = self._options.output or os.path.join(self._options.directory, url.file_name)
        if self._descriptor < 0:
            self._descriptor = _open(name, os.O_TRUNC if self._options.output else os.O_EXCL)
        return name, self._descriptor

    def end(self) -> None:
        """The URL has been retrieved."""
        if not self._options.output:
            self.close()

    def close(self) -> None:
        if self._descriptor > 1:
            os.close(self._descriptor)
        self._descriptor = -1


class _Retrieval:
    """One URL, with those to which it leads."""

    def __init__(self, options: Options, output: _Output) -> None:
        self._options = options
        self._output = output
        self._lines = 0  # of all headers

    def run(self, text: str) -> None:
        """Raises `_Failure`, `BadUrl`, `UnknownHost` and TimeoutError."""
        first = url = parse_url(text)
        target = self._resolve(url)
        for _ in range(_REDIRECTIONS + 1):
            with contextlib.closing(self._send(url, target)) as response:
                headers = self._read_header(response)
                location = headers.get("location", "")
                if not location:
                    self._save(first, response, headers)
                    return
            if location.startswith("/"):
                url = parse_url(f"{url.scheme}://{url.host}{location}", url.user)
            else:
                url = parse_url(location, url.user)
                target = self._resolve(url)
        raise _Failure("too many redirections")

    def _log(self, line: str) -> None:
        if not self._options.is_quiet:
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    def _resolve(self, url: Url) -> Target:
        target = find_target(url.host, url.port)
        self._log(f"Connecting to {url.host} ({target})")
        return target

    def _send(self, url: Url, target: Target) -> IO[bytes]:
        """Send the request; the response. Raises `_Failure` and TimeoutError."""
        body = None if self._options.post_data is None else self._options.post_data.encode("utf-8", "surrogateescape")
        if self._options.post_file:
            body = _read_file(self._options.post_file)
        connection = socket.socket(target.family, socket.SOCK_STREAM)
        connection.settimeout(self._options.timeout or None)
        try:
            connection.connect(target.address)
        except TimeoutError:
            raise
        except OSError as error:
            raise _Failure(target.describe_failure(error)) from None
        try:
            if url.scheme == "https":
                connection = self._encrypt(connection, url)
            connection.sendall(format_request(url, self._options, body))
        except TimeoutError:
            raise
        except OSError as error:
            raise _Failure(f"error getting response: {error.strerror}") from None
        response = connection.makefile("rb")
        connection.close()  # the response keeps it open
        return response

    def _encrypt(self, connection: socket.socket, url: Url) -> socket.socket:
        """Raises OSError. BusyBox does not check certificates either."""
        import ssl

        if self._options.checks_certificates:
            report("wget", "note: TLS certificate validation not implemented")
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context.wrap_socket(connection, server_hostname=url.host.partition(":")[0])

    def _read_line(self, response: IO[bytes], shown: str = "") -> str:
        """Raises `_Failure` and TimeoutError. `shown` is put before a line that -S shows."""
        try:
            line = rest = response.readline(_LONGEST_LINE)
            while rest and not rest.endswith(b"\n") and self._lines <= _MOST_LINES:
                rest = response.readline(_LONGEST_LINE)  # BusyBox drops the rest of a long line
                self._lines += 1
        except TimeoutError:
            raise
        except OSError as error:
            raise _Failure(f"error getting response: {error.strerror}") from None
        self._lines += 1
        if not line or self._lines > _MOST_LINES:
            raise _Failure("error getting response")
        text = sanitize_line(line)
        if shown and self._options.shows_response:
            sys.stderr.write(f"{shown}{text}\n")
            sys.stderr.flush()
        return text

    def _read_header(self, response: IO[bytes]) -> dict[str, str]:
        """The fields in lower case, up to the location of a redirection. Raises `_Failure` and TimeoutError."""
        while True:
            line = self._read_line(response, "  ")
            status = parse_status(line)
            if status not in (0, 100, *_GOOD):
                raise _Failure(f"server returned error: {line}")
            fields = self._read_fields(response, until="location" if status >= 300 else "")
            if status not in (0, 100):
                return fields if status >= 300 else {name: fields[name] for name in fields if name != "location"}

    def _read_fields(self, response: IO[bytes], until: str) -> dict[str, str]:
        fields: dict[str, str] = {}
        while line := self._read_line(response, "  "):
            name, value = parse_field(line)
            fields[name] = value
            if name == until:
                break
        return fields

    def _save(self, url: Url, response: IO[bytes], headers: dict[str, str]) -> None:
        """Raises `Malformed`, `_Failure` and TimeoutError."""
        length = parse_length(headers)
        if self._options.is_spider:
            self._log("remote file exists")
            return
        name, descriptor = self._output.open(url)
        is_stdout = descriptor == 1
        self._log("writing to stdout" if is_stdout else f"saving to '{name}'")
        blocks = self._read_chunks(response) if "transfer-encoding" in headers else self._read_blocks(response, length)
        size = 0
        for block in blocks:
            size += len(block)
            _write(descriptor, block)
        if size:
            self._log_progress(name.rpartition("/")[2], size)
        self._log("written to stdout" if is_stdout else f"'{name}' saved")
        self._output.end()

    def _read_blocks(self, response: IO[bytes], length: int | None) -> Iterator[bytes]:
        """Data up to a length, None: all. Raises `_Failure` and TimeoutError."""
        while length is None or length > 0:
            try:
                block = response.read1(min(length or _BLOCK, _BLOCK))  # type: ignore[attr-defined]
            except TimeoutError:
                raise
            except OSError as error:
                raise _Failure(f"read error: {error.strerror}") from None
            if not block:
                break
            length = None if length is None else length - len(block)
            yield block
        if length:
            raise _Failure("connection closed prematurely")

    def _read_chunks(self, response: IO[bytes]) -> Iterator[bytes]:
        """Raises `Malformed`, `_Failure` and TimeoutError."""
        while True:
            self._lines = 0
            length = parse_chunk_length(self._read_line(response))
            if not length:
                return
            yield from self._read_blocks(response, length)
            self._read_line(response)

    def _log_progress(self, name: str, size: int) -> None:
        """BusyBox has no such line in the file of -o."""
        if self._options.log and self._options.log != "-":
            return
        columns = 80
        with contextlib.suppress(OSError):
            columns = os.get_terminal_size(sys.stderr.fileno()).columns or columns
        self._log(format_progress(name, size, columns))


def _read_file(path: str) -> bytes:
    """Raises `_Failure`."""
    try:
        with open(0 if path == "-" else path, "rb") as file:
            return file.read()
    except OSError as error:
        raise _Failure(f"can't open '{path}': {error.strerror}") from None


def _write(descriptor: int, block: bytes) -> None:
    """Raises `_Failure`."""
    try:
        while block:
            block = block[os.write(descriptor, block) :]
    except OSError as error:
        raise _Failure(f"write error: {error.strerror}") from None
