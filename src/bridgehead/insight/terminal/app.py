"""The application: a stack of pages (tables and texts), keys, and refreshes that are bounded in number.

Updates of the cluster are taken as they arrive; the screen is drawn at most every REFRESH_SECONDS.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from typing import Any, cast

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding

from bridgehead.client.errors import ClientError
from bridgehead.insight.findings import printable
from bridgehead.insight.live.rows import EventRow, NodeRow, PodRow, Row, ServiceRow
from bridgehead.insight.live.updates import Table, Update
from bridgehead.objects.meta import ObjectKey

from .bars import head_pieces, prompt_pieces, status_pieces, table_title_pieces, text_title_pieces
from .commands import parse_command
from .grid import Grid
from .line import Line
from .listing import Listing, Store
from .pages import LogSource, TablePage, TextPage
from .pane import TextPane
from .prompt import LONGEST, Mode, Prompt
from .sources import Cluster, ObjectReader
from .streaming import lines_of
from .tables import (
    ALWAYS,
    BY_ALIAS,
    KEYS,
    NAMESPACES,
    PODS,
    SERVICES,
    VIEWS,
    View,
    namespace_rows,
)
from .texts import container_names, describe_lines, safe_lines, yaml_lines

REFRESH_SECONDS = 0.2
_AGE_SECONDS = 1.0  # between two drawings of ages
_FLASH_SECONDS = 4.0  # of a message
_MOST_NUMBERED = 9  # namespaces that have a digit


class TopApp(App[None]):
    """`bridgehead top`. `name`: of the cluster, for the first line."""

    CSS = """
    Screen { layout: vertical; }
    #prompt { display: none; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [Binding("ctrl+c", "quit", show=False, priority=True)]  # noqa: RUF012
    AUTO_FOCUS = None

    def __init__(
        self,
        live: Cluster,
        inspector: ObjectReader,
        name: str,
        *,
        view: View = SERVICES,
        namespace: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"  # the terminal's own colours, dark or light
        self._live, self._inspector, self._cluster_name, self._clock = live, inspector, name, clock
        self._store = Store()
        self._namespace = namespace
        self._pages: list[TablePage | TextPage] = [TablePage(self._listing(view))]
        self._status = live.status
        self._extra: asyncio.Task[None] | None = None  # follows the tables of the present view only
        self._reading: asyncio.Task[None] | None = None  # of the text page on top
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stale = True  # the order of the present listing
        self._drawn = 0.0  # monotonic seconds
        self._drawing: asyncio.TimerHandle | None = None
        self._message, self._message_until = "", 0.0
        self._prompt: Prompt | None = None  # while it is open
        self._namespaces: list[str] = []
        self._actions = self._keys()

    def compose(self) -> ComposeResult:
        self._head, self._title, self._bottom = Line("head"), Line("title"), Line("status")
        self._prompt_line = Line("prompt")
        yield self._head
        yield self._title
        self._grid = Grid(self._clock)
        yield self._grid
        self._pane = TextPane()
        self._pane.display = False
        yield self._pane
        yield self._prompt_line
        yield self._bottom

    def on_mount(self) -> None:
        self._start(self._follow(ALWAYS))
        self.set_interval(_AGE_SECONDS, self._tick)
        self._open_top()

    async def on_unmount(self) -> None:
        for task in (*self._tasks, self._extra, self._reading):
            if task is not None:
                task.cancel()

    def _start(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Updates

    async def _follow(self, tables: Collection[Table]) -> None:
        with self._live.subscribe(tables) as feed:
            async for update in feed:
                self._take(update)

    def _take(self, update: Update) -> None:
        if update.status is not None:
            self._status = update.status
        for table, changes in self._store.apply(update).items():
            page = self._pages[-1]
            if not isinstance(page, TablePage):
                continue
            listing = page.listing
            if listing.view.table is table:
                self._is_stale = self._is_stale or update.is_snapshot or listing.needs_update(changes)
                if not update.is_snapshot:
                    self._grid.mark(list(changes))
            elif listing.view.table is None or listing.scope is not None:
                self._is_stale = True
        self._draw_soon()

    def _draw_soon(self) -> None:
        if self._drawing is None:
            loop = asyncio.get_running_loop()
            self._drawing = loop.call_at(max(loop.time(), self._drawn + REFRESH_SECONDS), self._draw)

    def _draw(self) -> None:
        self._drawing = None
        self._drawn = asyncio.get_running_loop().time()
        if self.is_running:
            self._show_page()

    def _tick(self) -> None:
        """Draw ages again, and counts that change all the time."""
        if isinstance(self._pages[-1], TablePage):
            self._grid.refresh()
        self._show_head()
        self._show_status()

    # Pages

    def _listing(self, view: View, scope: Callable[[], Collection[str]] | None = None) -> Listing:
        listing = Listing(view, scope)
        listing.namespace = "" if scope is not None else self._namespace
        return listing

    @property
    def _listing_on_top(self) -> Listing | None:
        page = self._pages[-1]
        return page.listing if isinstance(page, TablePage) else None

    def _rows(self, view: View) -> Mapping[str, Row]:
        tables = self._store.tables
        if view.table is not None:
            return tables[view.table]
        return namespace_rows(
            cast(Iterable[ServiceRow], tables[Table.SERVICES].values()),
            cast(Iterable[PodRow], tables[Table.PODS].values()),
        )

    def _push(self, page: TablePage | TextPage) -> None:
        before = self._pages[-1]
        if isinstance(before, TablePage):
            before.key = self._grid.key
        elif isinstance(page, TextPage):
            self._pages.pop()  # a text replaces a text
        self._pages.append(page)
        self._open_top()

    def _switch(self, view: View) -> None:
        """Show a table; the way back ends here, as in command mode of k9s."""
        self._pages = [TablePage(self._listing(view))]
        self._open_top()

    def _open_top(self) -> None:
        """Show the page on top, and read what it needs."""
        page = self._pages[-1]
        is_table = isinstance(page, TablePage)
        self._grid.display, self._pane.display = is_table, not is_table
        if self._reading is not None and is_table:
            self._reading.cancel()
            self._reading = None
        wanted = page.listing.view.tables if isinstance(page, TablePage) else frozenset()
        if self._extra is not None and is_table:
            self._extra.cancel()
            self._extra = None
        if wanted:
            self._extra = self._start(self._follow(wanted))
        self._is_stale = True
        self._show_page()
        if isinstance(page, TablePage):
            self._grid.select(page.key)

    def _show_page(self) -> None:
        page = self._pages[-1]
        if isinstance(page, TablePage):
            rows = self._rows(page.listing.view)
            if self._is_stale:
                page.listing.update(rows, self._clock())
                self._is_stale = False
            self._grid.show(page.listing, rows)
        self._show_head()
        self._show_title()
        self._show_status()

    # Lines around the page

    def _show_head(self) -> None:
        self._head.show(*head_pieces(self._cluster_name, self._store.tables))

    def _show_title(self) -> None:
        page = self._pages[-1]
        if isinstance(page, TextPage):
            pieces = text_title_pieces(page.title, self._pane.filter)
        else:
            self._number_namespaces()
            pieces = table_title_pieces(page.listing, page.about, self._namespace, self._namespaces)
        self._title.show(*pieces)

    def _number_namespaces(self) -> None:
        """Give digits to namespaces; one that has a digit keeps it as long as it exists."""
        tables = self._store.tables
        services = cast(Iterable[ServiceRow], tables[Table.SERVICES].values())
        names = dict.fromkeys(row.namespace for row in services)
        kept = [name for name in self._namespaces if name in names]
        self._namespaces = (kept + sorted(names.keys() - set(kept)))[:_MOST_NUMBERED]

    def _show_status(self) -> None:
        message = self._message if time.monotonic() < self._message_until else ""
        self._bottom.show(*status_pieces(self._status, message, self._listing_on_top))

    def _flash(self, text: str) -> None:
        self._message, self._message_until = printable(text, 200), time.monotonic() + _FLASH_SECONDS
        self._show_status()

    # Prompt

    def _open_prompt(self, prompt: Prompt | None) -> None:
        self._prompt = prompt
        self._prompt_line.display = prompt is not None
        self._show_prompt()

    def _show_prompt(self) -> None:
        if self._prompt is not None:
            self._prompt_line.show(*prompt_pieces(self._prompt))

    def _key_of_prompt(self, prompt: Prompt, key: str, character: str | None) -> None:
        if key == "escape":
            self._open_prompt(None)
            if prompt.mode is Mode.FILTER:
                self._set_filter("")
        elif key == "enter":
            self._open_prompt(None)
            if prompt.mode is Mode.COMMAND:
                self._run_command(prompt.text)
        elif prompt.edit(key, character):
            self._prompt_changed(prompt)

    def _prompt_changed(self, prompt: Prompt) -> None:
        self._show_prompt()
        if prompt.mode is Mode.FILTER:
            self._set_filter(prompt.text)

    def on_paste(self, event: events.Paste) -> None:
        if self._prompt is not None:
            self._prompt.insert(event.text[:LONGEST])
            self._prompt_changed(self._prompt)

    def _set_filter(self, text: str) -> None:
        listing = self._listing_on_top
        if listing is None:
            self._pane.set_filter(text)
        elif text != listing.filter:
            listing.set_filter(text)
            self._is_stale = True
        key = self._grid.key
        self._show_page()
        if listing is not None and self._grid.key != key:
            self._grid.move_to_edge(0)  # the row under the cursor has been filtered out

    def _run_command(self, text: str) -> None:
        command = parse_command(text)
        if command.is_quit:
            self.exit()
        elif command.is_help:
            self._help()
        elif command.error:
            self._flash(command.error)
        else:
            if command.namespace is not None:
                self._namespace = command.namespace
            listing = self._listing_on_top
            view = command.view or (listing.view if listing is not None else None)
            if command.view is not None or command.namespace is not None:
                namespaced = view if view is not None and (command.view or view.is_namespaced) else SERVICES
                self._switch(namespaced)

    # Keys

    def on_key(self, event: events.Key) -> None:
        """Handle every key here: no widget has the focus, so that keys that are typed ahead keep their order."""
        event.stop()
        event.prevent_default()
        if self._prompt is not None:
            self._key_of_prompt(self._prompt, event.key, event.character)
            return
        action = self._actions.get(event.key)
        if action is not None:
            action()
        elif (listing := self._listing_on_top) is not None and (event.character or "").isascii():
            self._key_of_table(listing, event.character or "")

    def _key_of_table(self, listing: Listing, character: str) -> None:
        """Choose a namespace by its digit, or a column to sort by."""
        if character.isdigit():
            names = ["", *self._namespaces]
            if int(character) < len(names):
                self._namespace = names[int(character)]
                self._switch(listing.view if listing.view.is_namespaced else SERVICES)
        elif character.isupper() and listing.sort_by(character):
            self._is_stale = True
            self._show_page()

    def _keys(self) -> dict[str, Callable[[], None]]:
        """Return the actions by the names of keys in Textual."""
        found: dict[str, Callable[[], None]] = {}
        actions: tuple[tuple[str, Callable[[], None]], ...] = (
            ("up k", lambda: self._top_widget.move_by(-1)),
            ("down j", lambda: self._top_widget.move_by(1)),
            ("pageup ctrl+b", lambda: self._top_widget.page_by(-1)),
            ("pagedown ctrl+f space", lambda: self._top_widget.page_by(1)),
            ("home g", lambda: self._top_widget.move_to_edge(0)),
            ("end G upper_g", lambda: self._top_widget.move_to_edge(1)),
            ("left h", lambda: self._pane.shift_by(-1)),
            ("right", lambda: self._pane.shift_by(1)),
            ("slash", self._begin_filter),
            ("colon", lambda: self._open_prompt(Prompt(Mode.COMMAND, completions=BY_ALIAS))),
            ("question_mark", self._help),
            ("enter", self._choose),
            ("escape", self._go_back),
            ("q", self._leave),
            ("d", lambda: self._show_object("describe")),
            ("y", lambda: self._show_object("yaml")),
            ("l", self._show_log),
            ("c", self._next_container),
            ("p", self._previous_run),
            ("w", self._pane_wrap),
            ("x", self._doctor),
            ("t", self._trace),
        )
        for keys, action in actions:
            found |= dict.fromkeys(keys.split(), action)
        return found

    def _pane_wrap(self) -> None:
        if self._listing_on_top is None:
            self._pane.toggle_wrap()

    @property
    def _top_widget(self) -> Grid | TextPane:
        return self._grid if self._listing_on_top is not None else self._pane

    def _begin_filter(self) -> None:
        listing = self._listing_on_top
        text = listing.filter if listing is not None else self._pane.filter
        self._open_prompt(Prompt(Mode.FILTER, text))

    def _leave(self) -> None:
        """Quit; from a text, go back, as in a pager."""
        if isinstance(self._pages[-1], TextPage):
            self._go_back()
        else:
            self.exit()

    def _go_back(self) -> None:
        """Clear the filter, or go back to the page before."""
        listing = self._listing_on_top
        if (listing.filter if listing is not None else self._pane.filter) != "":
            self._set_filter("")
        elif len(self._pages) > 1:
            self._pages.pop()
            self._open_top()

    def _choose(self) -> None:
        """Drill down."""
        listing, row = self._listing_on_top, self._grid.row
        if listing is None or row is None:
            return
        if isinstance(row, ServiceRow):
            key = ObjectKey(row.namespace, row.name)
            self._drill(f"of service {key}", lambda: self._live.pods_of(key))
        elif isinstance(row, NodeRow):
            name = row.key
            self._drill(f"on node {name}", lambda: self._live.pods_on(name))
        elif isinstance(row, PodRow):
            self._show_log()
        elif listing.view is NAMESPACES:
            self._namespace = row.key
            self._push(TablePage(self._listing(SERVICES)))
        elif listing.view.kind:
            self._show_object("describe")

    def _drill(self, about: str, scope: Callable[[], Collection[str]]) -> None:
        self._push(TablePage(self._listing(PODS, scope), about))

    # Texts

    def _object_key(self) -> tuple[str, ObjectKey] | None:
        """Return the kind and the key of the object under the cursor; None: there is none, and the user is notified."""
        listing, key = self._listing_on_top, self._grid.key
        if listing is None:
            return None
        if key is None or not listing.view.kind:
            self._flash("no object is selected")
            return None
        namespace, slash, name = key.partition("/")
        return listing.view.kind, ObjectKey(namespace, name) if slash else ObjectKey("", key)

    def _show_object(self, form: str) -> None:
        found = self._object_key()
        if found is None:
            return
        kind, key = found

        async def read() -> None:
            obj = await self._inspector.read_object(kind, key)
            lines = (
                yaml_lines(obj) if form == "yaml" else describe_lines(obj, self._events_of(kind, key), self._clock())
            )
            self._pane.show(lines)

        self._show_text(TextPage(f"{form} {kind.lower()} {key}"), read())

    def _events_of(self, kind: str, key: ObjectKey) -> list[EventRow]:
        rows = cast(Iterable[EventRow], self._store.tables[Table.EVENTS].values())
        wanted = f"{kind}/{key.name}"
        return [row for row in rows if row.object == wanted and key.namespace in ("", row.namespace)]

    def _show_text(self, page: TextPage, work: Any, *, follows: bool = False) -> None:
        self._pane.show(["reading ..."], follows=follows)
        self._push(page)
        if self._reading is not None:
            self._reading.cancel()
        self._reading = self._start(self._read(work))

    async def _read(self, work: Any) -> None:
        """Wait for the text of a page; an error becomes the text."""
        try:
            await work
        except (ClientError, OSError) as error:
            self._pane.show(safe_lines(f"error: {error}"))

    def _show_log(self) -> None:
        listing, row = self._listing_on_top, self._grid.row
        if listing is None:
            return
        if listing.view.kind != "Pod" or row is None:
            self._flash("only pods have logs: choose one, for example by enter on a Service")
            return
        namespace, _, name = row.key.partition("/")
        self._open_log(LogSource(ObjectKey(namespace, name)))

    def _next_container(self) -> None:
        page = self._pages[-1]
        if isinstance(page, TextPage) and page.log is not None and page.log.containers:
            log = page.log
            self._open_log(LogSource(log.pod, log.containers, (log.index + 1) % len(log.containers)))

    def _previous_run(self) -> None:
        page = self._pages[-1]
        if isinstance(page, TextPage) and page.log is not None:
            log = page.log
            self._open_log(LogSource(log.pod, log.containers, log.index, not log.is_previous))

    def _open_log(self, source: LogSource) -> None:
        page = TextPage(f"log of pod {source.pod}", source)
        self._show_text(page, self._follow_log(page, source), follows=True)

    async def _follow_log(self, page: TextPage, source: LogSource) -> None:
        if not source.containers:
            pod = await self._inspector.read_object("Pod", source.pod)
            source.containers += container_names(pod)
        if not source.containers:
            self._pane.show(["the pod has no containers"])
            return
        name = source.containers[source.index]
        count = len(source.containers)
        which = f" ({source.index + 1} of {count}, c: next)" if count > 1 else ""
        before = ", previous run" if source.is_previous else ""
        page.title = printable(f"log of pod {source.pod}, container {name}{which}{before}", 200)
        self._show_title()
        chunks = self._inspector.follow_log(source.pod, name, is_previous=source.is_previous)
        await self._show_chunks(chunks, "the log is empty", follows=True)

    def _doctor(self) -> None:
        row = self._grid.row
        if self._listing_on_top is None:
            return
        if isinstance(row, ServiceRow):
            self._show_command(["doctor", f"service/{row.name}", "-n", row.namespace])
        else:
            self._show_command(["doctor"])

    def _trace(self) -> None:
        row = self._grid.row
        if self._listing_on_top is None:
            return
        if isinstance(row, ServiceRow):
            self._show_command(["trace", f"service/{row.name}", "-n", row.namespace])
        elif isinstance(row, PodRow):
            self._show_command(["trace", f"pod/{row.name}", "-n", row.namespace])
        else:
            self._flash("trace follows a connection to a Service or a pod: choose one")

    def _show_command(self, arguments: list[str]) -> None:
        chunks = self._inspector.run(arguments)
        self._show_text(
            TextPage(f"bridgehead {' '.join(arguments)}"), self._show_chunks(chunks, "no output", wraps=True)
        )

    async def _show_chunks(
        self, chunks: AsyncGenerator[bytes, None], empty: str, *, follows: bool = False, wraps: bool = False
    ) -> None:
        """Show a text that grows, drawn at most every REFRESH_SECONDS."""
        is_first = True
        async for lines in lines_of(chunks, REFRESH_SECONDS):
            if is_first:
                self._pane.show(lines, follows=follows, wraps=wraps)
                is_first = False
            else:
                self._pane.append(lines)
        if is_first:
            self._pane.show([empty])

    def _help(self) -> None:
        width = max(len(each.key) for each in KEYS) + 2
        lines = [f"{each.key:<{width}}{each.text}" for each in KEYS]
        for view in VIEWS:
            letters = ", ".join(f"{each.letter} {each.title}" for each in view.columns if each.letter)
            lines.append(f"{'':<{width}}{view.name}: {letters}")
        if self._reading is not None:  # a log would go on below the help
            self._reading.cancel()
        self._pane.show(lines)
        self._push(TextPage("Help"))
