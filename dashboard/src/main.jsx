import { render } from "preact";
import { useEffect, useLayoutEffect, useErrorBoundary, useRef, useState } from "preact/hooks";
import { connect, setToken, store, takeToken, useStore } from "./feed.js";
import { chooseLanguage, language, t } from "./text.js";
import { Failed, Mark } from "./parts.jsx";
import { MapView } from "./map.jsx";
import { ServicesView } from "./services.jsx";
import { ServiceView } from "./service.jsx";
import { NodesView, NodeView, PodView } from "./nodes.jsx";
import { EventsView } from "./events.jsx";

const THEME = "bridgehead-theme";
const VIEWS = { "": MapView, services: ServicesView, nodes: NodesView, events: EventsView };
const SHORTCUTS = { m: "#/", s: "#/services", n: "#/nodes", e: "#/events" };

function useRoute() {
  const read = () =>
    location.hash.replace(/^#\/?/, "").split("/").map((part) => {
      try {
        return decodeURIComponent(part);
      } catch {
        return part;
      }
    });
  const [route, set] = useState(read);
  useEffect(() => {
    const change = () => {
      takeToken();
      set(read());
    };
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  return route;
}

function applyTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  dispatchEvent(new Event("themechange"));
}

function useShortcuts(setHelp) {
  useEffect(() => {
    let afterG = 0;
    const onKey = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
      if (event.key === "Escape") {
        if (typing) event.target.blur();
        else if (document.querySelector("dialog[open]")) setHelp(false);
        else if (location.hash.split("/").length > 2) location.hash = location.hash.split("/").slice(0, 2).join("/");
        return;
      }
      if (typing) return;
      if (event.key === "/") {
        const field = document.querySelector("input[type=search]");
        if (field) {
          field.focus();
          field.select();
          event.preventDefault();
        }
      } else if (event.key === "?") setHelp(true);
      else if (event.key === "g") afterG = event.timeStamp;
      else if (SHORTCUTS[event.key] && event.timeStamp - afterG < 1500) {
        location.hash = SHORTCUTS[event.key];
        event.preventDefault();
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}

function App() {
  const { state, cluster, problem, unseen } = useStore();
  const [, again] = useState(language);
  const [theme, setTheme] = useState(localStorage.getItem(THEME) || "auto");
  const [help, setHelp] = useState(false);
  const route = useRoute();
  const main = useRef(null);
  useShortcuts(setHelp);
  useEffect(() => applyTheme(theme), [theme]);
  const before = useRef(route.join("/"));
  // With the view: a key that is pressed right after it has been drawn must not lose its element.
  useLayoutEffect(() => {
    document.title = [route[2] || route[1] || t(route[0] || "map"), cluster.name, t("title")].filter(Boolean).join(" · ");
    if (before.current !== route.join("/")) main.current?.focus();
    before.current = route.join("/");
  }, [route.join("/"), cluster.name, language]);
  if (state === "refused") return <Refused />;
  const View =
    route[0] === "services" && route.length > 2 ? ServiceView
    : route[0] === "nodes" && route.length > 1 ? NodeView
    : route[0] === "pods" && route.length > 2 ? PodView
    : VIEWS[route[0]] || MapView;
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current.focus(); }}>{t("skip")}</a>
      <header class="top">
        <a class="brand" href="#/" aria-label={t("title")}>
          <img src="/icon.svg" alt="" width="22" height="22" /> <span>{t("title")}</span>
        </a>
        <bdi class="cluster">{cluster.name}</bdi>
        <nav aria-label={t("title")}>
          {Object.keys(VIEWS).map((view) => (
            <a href={`#/${view}`} aria-current={(route[0] || "") === view ? "page" : undefined}>{t(view || "map")}</a>
          ))}
        </nav>
        <span class={`live ${state}`} role="status">{t(state)}</span>
        <label class="choice">
          <span class="hidden">{t("language")}</span>
          <select
            value={language}
            onChange={(event) => { chooseLanguage(event.target.value); again(event.target.value); }}
          >
            <option value="en" lang="en">English</option>
            <option value="zh" lang="zh-CN">中文</option>
          </select>
        </label>
        <label class="choice">
          <span class="hidden">{t("theme")}</span>
          <select
            value={theme}
            onChange={(event) => { localStorage.setItem(THEME, event.target.value); setTheme(event.target.value); }}
          >
            {["auto", "light", "dark"].map((each) => <option value={each}>{t(`theme.${each}`)}</option>)}
          </select>
        </label>
        <button class="small help" aria-label={t("keys")} onClick={() => setHelp(true)}>?</button>
      </header>
      {problem && <p class="notice" role="status"><Mark state="degraded" /> {t("problem", { why: problem })}</p>}
      {!problem && unseen.length > 0 && (
        <details class="notice"><summary>{t("verdict.unseen")}: {unseen.length}</summary>
          <ul class="evidence">{unseen.slice(0, 30).map((each) => <li><bdi>{each}</bdi></li>)}</ul>
        </details>
      )}
      <main id="main" tabIndex={-1} ref={main}>
        <Guarded key={route.join("/")}>
          <View route={route} />
        </Guarded>
      </main>
      {help && <Help onClose={() => setHelp(false)} />}
    </>
  );
}

// An error of one view leaves the others usable.
function Guarded({ children }) {
  const [error] = useErrorBoundary((caught) => console.error(caught));
  return error ? <div class="page"><Failed why={String(error.message || error)} /></div> : children;
}

function Help({ onClose }) {
  const dialog = useRef(null);
  useEffect(() => dialog.current.showModal(), []);
  return (
    <dialog ref={dialog} onClose={onClose} aria-label={t("keys")}>
      <h2>{t("keys")}</h2>
      <ul>{t("keys.text").split(" · ").map((line) => <li>{line}</li>)}</ul>
      <button onClick={onClose}>{t("close")}</button>
    </dialog>
  );
}

function Refused() {
  const [text, setText] = useState("");
  const open = (event) => {
    event.preventDefault();
    const match = /token=([A-Za-z0-9_-]+)/.exec(text);
    store.state = "connecting";
    setToken((match ? match[1] : text).trim());
  };
  return (
    <main class="refused" id="main">
      <img src="/icon.svg" alt="" width="48" height="48" />
      <h1>{t("refused.title")}</h1>
      <p>{t("refused.text")}</p>
      <form onSubmit={open}>
        <label>
          {t("refused.label")}
          <input type="password" autocomplete="off" value={text} onInput={(event) => setText(event.target.value)} />
        </label>
        <button>{t("refused.open")}</button>
      </form>
    </main>
  );
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("themechange")));
takeToken();
connect();
render(<App />, document.getElementById("app"));
