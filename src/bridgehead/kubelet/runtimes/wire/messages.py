"""Messages between a kubelet and its runtime on the runtime's Unix socket.

Pure: no I/O, no clock, no randomness. A frame is four bytes of length (big endian) and a msgpack-encoded value:
`Request` from the kubelet, `Reply` or a notification from the runtime. Replies have their request's id and come in any
order. File descriptors are attached to the first byte of the reply that counts them (SCM_RIGHTS).
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from bridgehead.kubelet.runtimes.runtime import ContainerInfo, ContainerSpec, Limits, SandboxSpec

MAX_FRAME = 16 << 20  # bytes
_LENGTH = struct.Struct(">I")


class BadFrame(Exception):
    """The other side doesn't use this protocol."""


class FindFeatures(msgspec.Struct, frozen=True, tag=True):
    pass


class FindImage(msgspec.Struct, frozen=True, tag=True):
    name: str


class RunSandbox(msgspec.Struct, frozen=True, tag=True):
    spec: SandboxSpec


class UpdateSandbox(msgspec.Struct, frozen=True, tag=True):
    pod_uid: str
    limits: Limits


class RemoveSandbox(msgspec.Struct, frozen=True, tag=True):
    pod_uid: str


class ListSandboxes(msgspec.Struct, frozen=True, tag=True):
    pass


class StartContainer(msgspec.Struct, frozen=True, tag=True):
    spec: ContainerSpec


class UpdateContainer(msgspec.Struct, frozen=True, tag=True):
    container_id: str
    limits: Limits


class SignalContainer(msgspec.Struct, frozen=True, tag=True):
    container_id: str
    signal: int


class MeasureLayers(msgspec.Struct, frozen=True, tag=True):
    pod_uid: str


class ListContainers(msgspec.Struct, frozen=True, tag=True):
    pass


class Exec(msgspec.Struct, frozen=True, tag=True):
    container_id: str
    argv: tuple[str, ...]
    timeout: float  # seconds; 0: no limit


class OpenExec(msgspec.Struct, frozen=True, tag=True):
    """The reply's result is the session's id; its descriptors are stdin (if asked for), stdout, stderr (if
    separate)."""

    container_id: str
    argv: tuple[str, ...]
    stdin: bool
    tty: bool
    stderr: bool


class Attach(msgspec.Struct, frozen=True, tag=True):
    """The reply's result is the session's id and whether there is a terminal; its descriptors are the terminal's master
    or else stdin (if asked for), then stdout, then stderr (if separate)."""

    container_id: str
    stdin: bool
    stderr: bool


class CloseExec(msgspec.Struct, frozen=True, tag=True):
    session: int


class OpenPort(msgspec.Struct, frozen=True, tag=True):
    """The reply's descriptor is a stream connected (or connecting) to that port on the pod's own loopback.

    `address` is 127.0.0.1 or ::1.
    """

    pod_uid: str
    port: int
    address: str = "127.0.0.1"


Call = (
    FindFeatures
    | FindImage
    | RunSandbox
    | UpdateSandbox
    | RemoveSandbox
    | ListSandboxes
    | StartContainer
    | UpdateContainer
    | SignalContainer
    | MeasureLayers
    | ListContainers
    | Exec
    | OpenExec
    | Attach
    | CloseExec
    | OpenPort
)


class Request(msgspec.Struct, frozen=True):
    id: int
    call: Call


class Reply(msgspec.Struct, frozen=True, tag=True):
    """`failure` is "" or the name of the exception to raise, one of those in `client`; `result` is then its message."""

    id: int
    result: msgspec.Raw = msgspec.Raw(b"\xc0")  # msgpack's nil
    failure: str = ""
    descriptors: int = 0


class Exited(msgspec.Struct, frozen=True, tag=True):
    container: ContainerInfo


class ExecEnded(msgspec.Struct, frozen=True, tag=True):
    session: int
    exit_code: int


FromRuntime = Reply | Exited | ExecEnded

_encoder = msgspec.msgpack.Encoder()


def encode_frame(message: Request | FromRuntime) -> bytes:
    body = _encoder.encode(message)
    return _LENGTH.pack(len(body)) + body


def encode_result(value: Any) -> msgspec.Raw:
    return msgspec.Raw(_encoder.encode(value))


class FrameBuffer:
    """Splits a stream of bytes into the bodies of frames."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add received data; returns the bodies that are complete now. Raises `BadFrame`."""
        self._data += data
        bodies = []
        start = 0
        while len(self._data) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._data, start)
            if length > MAX_FRAME:
                raise BadFrame(f"a frame of {length} bytes")
            end = start + _LENGTH.size + length
            if len(self._data) < end:
                break
            bodies.append(bytes(self._data[start + _LENGTH.size : end]))
            start = end
        del self._data[:start]
        return bodies
