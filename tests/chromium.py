"""Headless Chromium, driven by the DevTools protocol. It resolves no names and opens no connection but to 127.0.0.1."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import re
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

_OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # root has no other way; the pages are our own
    "--disable-gpu",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-domain-reliability",
    "--disable-client-side-phishing-detection",
    "--metrics-recording-only",
    "--no-pings",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--disable-dev-shm-usage",
    "--force-device-scale-factor=1",
    "--remote-debugging-port=0",
)
SECONDS = 20.0

# The keys that tests press: DevTools' name, its code, the virtual key code, and the text that it enters.
_KEYS = {
    "Tab": ("Tab", 9, ""),
    "Enter": ("Enter", 13, "\r"),
    "Escape": ("Escape", 27, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
    "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "ArrowLeft": ("ArrowLeft", 37, ""),
    "End": ("End", 35, ""),
    "Home": ("Home", 36, ""),
}


class Page:
    """One tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.requests: list[str] = []  # addresses
        self.problems: list[str] = []  # errors on the console, exceptions, violations of the page's policy
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self._socket:
            event = json.loads(message.data)
            if "id" in event:
                answer = self._answers.pop(event["id"], None)
                if answer is not None and not answer.done():
                    answer.set_result(event)
                continue
            parameters = event.get("params", {})
            match event.get("method"):
                case "Network.requestWillBeSent":
                    self.requests.append(parameters["request"]["url"])
                case "Network.webSocketCreated":
                    self.requests.append(parameters["url"])
                case "Runtime.exceptionThrown":
                    details = parameters["exceptionDetails"]
                    self.problems.append(str(details.get("exception", {}).get("description") or details["text"]))
                case "Log.entryAdded" if parameters["entry"]["level"] == "error":
                    self.problems.append(parameters["entry"]["text"])
                case "Runtime.consoleAPICalled" if parameters["type"] == "error":
                    self.problems.append(json.dumps(parameters["args"]))

    async def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_str(json.dumps({"id": number, "method": method, "params": parameters}))
        async with asyncio.timeout(SECONDS):
            event = await answer
        if "error" in event:
            raise AssertionError(f"{method}: {event['error']['message']}")
        result: dict[str, Any] = event["result"]
        return result

    async def open(self, url: str) -> None:
        await self.send("Page.navigate", url=url)

    async def evaluate(self, expression: str) -> Any:
        """Return the JSON value of a JavaScript expression; a promise is awaited."""
        answer = await self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"].get("exception", {}).get("description", expression))
        return answer["result"].get("value")

    async def until(self, expression: str, seconds: float = SECONDS) -> None:
        """Wait until an expression is true."""
        try:
            async with asyncio.timeout(seconds):
                # An element may not be there yet.
                guarded = f"(() => {{ try {{ return Boolean({expression}) }} catch {{ return false }} }})()"
                while True:
                    with contextlib.suppress(AssertionError):  # of a document that is being replaced
                        if await self.evaluate(guarded):
                            return
                    await asyncio.sleep(0.02)
        except TimeoutError:
            text = await self.evaluate("document.body ? document.body.innerText : ''")
            raise AssertionError(f"not within {seconds:g} s: {expression}\n{text}\n{self.problems}") from None

    async def press(self, key: str) -> None:
        name, code, text = _KEYS[key] if key in _KEYS else (key, ord(key.upper()) if key.isalnum() else 0, key)
        common = {"key": key, "code": name, "windowsVirtualKeyCode": code}
        await self.send("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
        await self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    async def type(self, text: str) -> None:
        for character in text:
            await self.press(character)

    async def show(self, width: int, height: int, *, dark: bool = False, phone: bool = False) -> None:
        """Set the size of the window, in CSS pixels, and the preferred colours."""
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone
        )
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
        ]
        await self.send("Emulation.setEmulatedMedia", features=features)

    async def screenshot(self, path: Path) -> None:
        answer = await self.send("Page.captureScreenshot", format="png")
        await asyncio.to_thread(path.write_bytes, base64.b64decode(answer["data"]))

    async def close(self) -> None:
        self._reader.cancel()
        await self._socket.close()


class Chromium:
    def __init__(self, session: aiohttp.ClientSession, endpoint: str, pid: int) -> None:
        self._session = session
        self._endpoint = endpoint  # http://127.0.0.1:PORT
        self.pid = pid

    @contextlib.asynccontextmanager
    async def page(self, scripts: tuple[str, ...] = ()) -> AsyncIterator[Page]:
        """Open a tab. `scripts` run in every document before its own."""
        async with self._session.put(f"{self._endpoint}/json/new?about:blank") as answer:
            target = await answer.json(content_type=None)
        socket = await self._session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0)
        page = Page(socket)
        try:
            for domain in ("Page", "Runtime", "Network", "Log"):
                await page.send(f"{domain}.enable")
            for script in scripts:
                await page.send("Page.addScriptToEvaluateOnNewDocument", source=script)
            yield page
        finally:
            await page.close()
            async with self._session.get(f"{self._endpoint}/json/close/{target['id']}"):
                pass


@contextlib.asynccontextmanager
async def chromium(program: str = "chromium", *, proxy: str = "") -> AsyncIterator[Chromium]:
    """Run the browser with a profile of its own. A `proxy`, on 127.0.0.1, opens all its connections."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            program,
            f"--user-data-dir={profile}",
            *_OPTIONS,
            f"--proxy-server={proxy}" if proxy else "--no-proxy-server",
            "about:blank",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        draining = None
        try:
            async with asyncio.timeout(SECONDS):
                while not (found := re.search(rb"ws://(127\.0\.0\.1:\d+)/", await process.stderr.readline())):
                    assert process.returncode is None
            draining = asyncio.create_task(_drain(process.stderr))
            async with aiohttp.ClientSession() as session:
                yield Chromium(session, f"http://{found[1].decode()}", process.pid)
        finally:
            if process.returncode is None:
                process.terminate()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await process.wait()
            if process.returncode is None:
                process.kill()
                await process.wait()
            if draining is not None:
                draining.cancel()


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.read(1 << 16):
        pass
