"""The directory of the node's logs (/var/log) as pages of the kubelet's server.

Symbolic links are not followed: a pod with a hostPath volume may make one in this directory.
Source: kubelet `ServeLogs`, Go's `http.FileServer`.
"""

from __future__ import annotations

import asyncio
import html
import os
import stat
from pathlib import Path
from urllib.parse import quote

from aiohttp import web

from bridgehead.go_http import NOT_FOUND
from bridgehead.kubelet.nofollow import open_directory, open_file

_CHUNK_BYTES = 64 * 1024


async def serve_log(request: web.Request, directory: Path, name: str) -> web.StreamResponse:
    """Answer with a file of `directory`, or with a list of the names in a directory. `name` is a path below it."""
    parts = [part for part in name.split("/") if part]
    if ".." in parts:
        return web.Response(status=400, text="invalid URL path\n")
    path = directory.joinpath(*parts)
    try:
        if not name or name.endswith("/"):
            return await _list(path)
        return await _send(request, path)
    except IsADirectoryError:
        return web.Response(status=301, headers={"Location": f"{quote(parts[-1])}/"})
    except OSError:
        return web.Response(status=404, text=NOT_FOUND)


async def _list(path: Path) -> web.Response:
    names = await asyncio.to_thread(_names, path)
    lines = "".join(f'<a href="{quote(name)}">{html.escape(name)}</a>\n' for name in names)
    page = f'<!doctype html>\n<meta name="viewport" content="width=device-width">\n<pre>\n{lines}</pre>\n'
    return web.Response(text=page, content_type="text/html")


def _names(path: Path) -> list[str]:
    """Return the names in a directory, those of directories with a slash. Raises OSError."""
    with open_directory(path) as descriptor, os.scandir(descriptor) as entries:
        return sorted(entry.name + ("/" if entry.is_dir(follow_symlinks=False) else "") for entry in entries)


async def _send(request: web.Request, path: Path) -> web.StreamResponse:
    if stat.S_ISDIR(os.stat(path, follow_symlinks=False).st_mode):
        raise IsADirectoryError
    with open_file(path) as file:
        response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
        await response.prepare(request)
        while data := await asyncio.to_thread(file.read, _CHUNK_BYTES):
            await response.write(data)
        await response.write_eof()
    return response
