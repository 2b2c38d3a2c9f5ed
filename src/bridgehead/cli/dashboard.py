"""Show a cluster in the browser: a live map, and for each Service why it works or does not.

The page is served on this machine's loopback only, to those who have the address with its token, and changes nothing.
Ctrl-C ends it; the dashboard of a lab ends with the lab.

Docs: docs/dashboard.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .cluster_access import Cluster, Kubeconfig, choose_cluster
from .exit_codes import reporting_failures
from .foreground import has_desktop, port_option, until_end
from .lab_options import Name, StateDir

if TYPE_CHECKING:
    from bridgehead.insight.dashboard.server import Server

_FIRST_PORT = 6480
_SYNC_SECONDS = 10.0  # the page is served before the API server has answered, if that takes longer
_LANGUAGES = ("en", "zh")


def _language(text: str) -> str:
    """Return the page's language for `zh`, `zh-CN`, `zh_CN.UTF-8`, `en-GB` ..."""
    found = text.lower().replace("_", "-").partition("-")[0]
    if found not in _LANGUAGES:
        raise typer.BadParameter(f"the page has these languages: {', '.join(_LANGUAGES)}")
    return found


def command(
    port: Annotated[int | None, port_option(_FIRST_PORT)] = None,
    lang: Annotated[
        str | None,
        typer.Option(parser=_language, show_default=False, help="Language: en or zh. Default: the browser's."),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in this desktop's browser.")
    ] = True,
    kubeconfig: Kubeconfig = None,
    name: Name = None,
    state_dir: StateDir = None,
) -> None:
    cluster = choose_cluster("dashboard", kubeconfig, name, state_dir)
    with reporting_failures("dashboard", OSError):
        _run(cluster, port, lang or "", browser)


def _run(cluster: Cluster, port: int | None, language: str, browser: bool) -> None:
    import uvloop

    with contextlib.suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(cluster, port, language, browser))


async def _serve(cluster: Cluster, port: int | None, language: str, browser: bool) -> None:
    from bridgehead.insight.dashboard.flow_watch import FlowWatch
    from bridgehead.insight.dashboard.history import History
    from bridgehead.insight.dashboard.questions import Questions
    from bridgehead.insight.dashboard.server import Dashboard, Server
    from bridgehead.insight.live.cluster import LiveCluster

    token = secrets.token_urlsafe(24)
    async with contextlib.AsyncExitStack() as stack:
        ended = stack.enter_context(until_end(cluster.lab))
        client, namespaces = await stack.enter_async_context(cluster.connect("bridgehead-dashboard"))
        live = await stack.enter_async_context(LiveCluster(client))
        history = History()
        questions = Questions(client, namespaces, live, history)
        dashboard = Dashboard(
            name=cluster.lab.config.name if cluster.lab is not None else cluster.config.server,
            live=live,
            questions=questions.by_name,
            flows=FlowWatch(questions.count, history),
            history=history,
            language=language,
        )
        bound = await _start(stack, Server(dashboard, token), port)
        await live.synced(_SYNC_SECONDS)
        address = f"http://127.0.0.1:{bound}/#token={token}"
        sys.stdout.write(f"Dashboard of {dashboard.name}: {address}\n")
        sys.stdout.flush()
        if browser and has_desktop():
            stack.enter_context(_opened(address))
        await ended.wait()


async def _start(stack: contextlib.AsyncExitStack, server: Server, port: int | None) -> int:
    """Serve until the end of `stack`, and return the port. Raises OSError if the wanted port is taken."""
    if port is None:
        with contextlib.suppress(OSError):
            return await stack.enter_async_context(server.running(_FIRST_PORT))
    return await stack.enter_async_context(server.running(port or 0))


@contextlib.contextmanager
def _opened(address: str) -> Iterator[None]:
    """Open the page in the browser by a file that leads to it: other users can read the arguments of a process."""
    import webbrowser

    with tempfile.TemporaryDirectory(prefix="bridgehead-") as directory:
        page = Path(directory) / "dashboard.html"
        page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={address}">')
        webbrowser.open(page.as_uri())
        yield
