"""Headers of tar archives: ustar, PAX and GNU, with sparse files.

Pure: no I/O, no clock, no randomness. Source: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Extended Header";
GNU tar manual, "Basic Tar Format" and "Storing Sparse Files". Python's `tarfile` is not used for layers: numbers of
records, maps of sparse files and patterns that are matched in a header of a hostile archive have no bound there.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from bridgehead.images.errors import BadImage

BLOCK: Final = 512  # bytes
# The type flags.
FILE: Final = b"0"
HARD_LINK: Final = b"1"
SYMBOLIC_LINK: Final = b"2"
CHARACTER_DEVICE: Final = b"3"
BLOCK_DEVICE: Final = b"4"
DIRECTORY: Final = b"5"
FIFO: Final = b"6"
PAX: Final = b"x"
PAX_GLOBAL: Final = b"g"
LONG_NAME: Final = b"L"
LONG_LINK: Final = b"K"
SPARSE: Final = b"S"
_OLD_FILES: Final = (b"\0", b"7")  # of version 7, and the contiguous files of POSIX, which are read alike
_WITHOUT_DATA: Final = frozenset((HARD_LINK, SYMBOLIC_LINK, CHARACTER_DEVICE, BLOCK_DEVICE, DIRECTORY, FIFO))
_KNOWN: Final = frozenset((*_WITHOUT_DATA, FILE, PAX, PAX_GLOBAL, LONG_NAME, LONG_LINK, SPARSE))

_HEADER: Final = struct.Struct("100s8s8s8s12s12s8sc100s8s64s16s155s12x")
_GNU_MAGIC: Final = b"ustar  \0"
_CHECKSUM_FIELD: Final = slice(148, 156)
_PAIR: Final = struct.Struct("12s12s")
_SPARSE_IN_HEADER: Final = (386, 4)  # offset, and number of pairs
_SPARSE_IN_EXTENSION: Final = (0, 21)
_MAX_SIZE: Final = (1 << 63) - 1  # bytes; off_t
_TIME: Final = re.compile(r"(-?\d{1,15})(?:\.(\d*))?", re.ASCII)
_LENGTH_DIGITS: Final = 20

Regions = tuple[tuple[int, int], ...]


class Header(msgspec.Struct, kw_only=True):
    """One header block. `size` is that of the data behind it, in bytes; `kind` a type flag, times are nanoseconds.

    `is_continued`: a block with more of the sparse map follows. `real_size` is that of a sparse file with its holes.
    """

    name: str
    kind: bytes
    mode: int
    uid: int
    gid: int
    size: int
    mtime: int
    link: str
    sparse: Regions | None = None
    is_continued: bool = False
    real_size: int = 0


def parse_header(block: bytes) -> Header | None:
    """Parse a header; None for a block of zeros, which ends the archive. Raises `BadImage`."""
    (name, mode, uid, gid, size, mtime, checksum, kind, link, magic, _, _, prefix) = _HEADER.unpack(block)
    if not block[0] and not any(block):
        return None
    _check_sum(block, _number(checksum))
    path = _text(name)
    if magic != _GNU_MAGIC and magic.startswith(b"ustar") and (before := _text(prefix)):
        path = f"{before}/{path}"
    if kind in _OLD_FILES:
        kind = DIRECTORY if path.endswith("/") and kind == b"\0" else FILE
    if kind not in _KNOWN:
        raise BadImage(f"the layer has an entry of the unsupported type {kind!r}: {path[:200]!r}")
    header = Header(
        name=path,
        kind=kind,
        mode=_number(mode) & 0o7777,
        uid=_number(uid),
        gid=_number(gid),
        size=0 if kind in _WITHOUT_DATA else check_size(_number(size)),
        mtime=_number(mtime) * 1_000_000_000,
        link=_text(link),
    )
    if kind == SPARSE:
        header.sparse = _sparse_pairs(block, *_SPARSE_IN_HEADER)
        header.is_continued = block[482] != 0
        header.real_size = check_size(_number(block[483:495]))
    return header


def parse_sparse_extension(block: bytes) -> tuple[Regions, bool]:
    """Parse a block that continues a GNU sparse map; returns its regions, and whether another block follows."""
    return _sparse_pairs(block, *_SPARSE_IN_EXTENSION), block[504] != 0


def parse_pax(content: bytes) -> list[tuple[str, str]]:
    """Parse the records of a PAX header, in their order. Raises `BadImage`."""
    records = []
    position = 0
    while position < len(content):
        space = content.find(b" ", position, position + _LENGTH_DIGITS)
        digits = content[position:space] if space > 0 else b""
        end = position + int(digits) if digits.isdigit() else 0
        record = content[space + 1 : end]
        key, equals, value = record.partition(b"=")
        if end > len(content) or not equals or not value.endswith(b"\n"):
            raise BadImage("the layer has an invalid PAX header")
        records.append((_decode(key), _decode(value[:-1])))
        position = end
    return records


def apply_pax(header: Header, records: Mapping[str, str]) -> None:
    """Let the records of a PAX header outweigh the fields of a header. Raises `BadImage`."""
    for key, value in records.items():
        if not value:  # an empty value deletes a record of a global header
            continue
        if key == "path":
            header.name = value
        elif key == "linkpath":
            header.link = value
        elif key == "size" and header.kind not in _WITHOUT_DATA:
            header.size = check_size(parse_decimal(value))
        elif key == "uid":
            header.uid = parse_decimal(value)
        elif key == "gid":
            header.gid = parse_decimal(value)
        elif key == "mtime":
            header.mtime = _nanoseconds(value)


def sparse_of_pax(records: Sequence[tuple[str, str]]) -> tuple[Regions | None, int, str] | None:
    """Return the map of a sparse file, its size with its holes and its name, from the records of a PAX header.

    None for other files. The map is None where it precedes the data (version 1.0). Raises `BadImage`.
    """
    last = dict(records)
    name = last.get("GNU.sparse.name", "")
    if (last.get("GNU.sparse.major"), last.get("GNU.sparse.minor")) == ("1", "0"):
        return None, check_size(parse_decimal(last.get("GNU.sparse.realsize", ""))), name
    if "GNU.sparse.size" not in last:
        return None
    real_size = check_size(parse_decimal(last["GNU.sparse.size"]))
    if "GNU.sparse.map" in last:
        numbers = [parse_decimal(text) for text in last["GNU.sparse.map"].split(",") if text]
    else:
        numbers = [
            parse_decimal(value) for key, value in records if key in ("GNU.sparse.offset", "GNU.sparse.numbytes")
        ]
    if len(numbers) % 2:
        raise BadImage("the layer has an invalid map of a sparse file")
    return tuple(zip(numbers[::2], numbers[1::2], strict=True)), real_size, name


def check_regions(regions: Regions, size: int, real_size: int) -> None:
    """Raises `BadImage` when the regions of a sparse file overlap or do not have its data of `size` bytes."""
    end = 0
    for offset, length in regions:
        if length < 0 or offset < end:
            raise BadImage("the layer has an invalid map of a sparse file")
        end = offset + length
    if end > real_size or sum(length for _, length in regions) != size:
        raise BadImage("the layer has an invalid map of a sparse file")


def check_size(size: int) -> int:
    """Raises `BadImage` for a size that no file can have."""
    if not 0 <= size <= _MAX_SIZE:
        raise BadImage(f"the layer has an invalid entry: a size of {size} bytes")
    return size


def parse_decimal(text: str) -> int:
    """Raises `BadImage`."""
    if not (text.isascii() and text.isdecimal()) or len(text) > _LENGTH_DIGITS:
        raise BadImage(f"the layer has an invalid entry: {text[:100]!r} is not a number")
    return int(text)


def _nanoseconds(text: str) -> int:
    match = _TIME.fullmatch(text[:64])
    if match is None:
        raise BadImage(f"the layer has an invalid entry: {text[:100]!r} is not a time")
    fraction = int((match[2] or "")[:9].ljust(9, "0"))
    return int(match[1]) * 1_000_000_000 + (-fraction if text.startswith("-") else fraction)


def _check_sum(block: bytes, wanted: int) -> None:
    """Some old programs added the bytes as signed numbers."""
    blank = sum(block) - sum(block[_CHECKSUM_FIELD]) + 8 * ord(" ")
    if blank != wanted:
        text = block[: _CHECKSUM_FIELD.start] + block[_CHECKSUM_FIELD.stop :]
        if blank - 256 * sum(byte > 127 for byte in text) != wanted:
            raise BadImage("the layer is not a tar archive: a header has a wrong checksum")


def _number(field: bytes) -> int:
    """Parse an octal number, or one in base 256, which GNU tar writes for numbers that do not fit."""
    if field[0] & 0x80:
        value = int.from_bytes(field)
        bits = 8 * len(field)
        return value - (1 << bits) if field[0] == 0xFF else value & ~(1 << (bits - 1))
    digits = field.split(b"\0", 1)[0].strip()
    if not digits:
        return 0
    try:
        return int(digits, 8)
    except ValueError:
        raise BadImage(f"the layer is not a tar archive: a header has the number {digits!r}") from None


def _sparse_pairs(block: bytes, offset: int, count: int) -> Regions:
    pairs = (_PAIR.unpack_from(block, offset + index * _PAIR.size) for index in range(count))
    return tuple((_number(start), _number(length)) for start, length in pairs if start[0])


def _text(field: bytes) -> str:
    return _decode(field.split(b"\0", 1)[0])


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")
