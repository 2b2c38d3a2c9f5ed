// Parts that the views share.

import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { t } from "./text.js";
import { useAsk } from "./feed.js";

// A state is always shown by a shape and a word, too: colours alone are not for everybody.
const SHAPES = {
  ok: <circle cx="6" cy="6" r="4.5" />,
  degraded: <path d="M6 1 11.5 11H.5z" />,
  broken: <path d="m1.5 3 1.5-1.5 3 3 3-3L10.5 3l-3 3 3 3L9 10.5l-3-3-3 3L1.5 9l3-3z" />,
  idle: <circle cx="6" cy="6" r="4" fill="none" stroke="currentColor" stroke-width="1.6" />,
  external: <path d="M4 1h7v7H9V4.4L2.4 11 1 9.6 7.6 3H4z" />,
  notice: <path d="M6 .5 11.5 6 6 11.5.5 6z" />,
  unknown: <path d="M1 5h10v2H1z" />,
};

export function Mark({ state }) {
  return (
    <svg class={`mark ${state}`} viewBox="0 0 12 12" width="12" height="12" aria-hidden="true" fill="currentColor">
      {SHAPES[state] || SHAPES.unknown}
    </svg>
  );
}

export function State({ state }) {
  return (
    <span class={`state ${state}`}>
      <Mark state={state} /> {t(`state.${state}`)}
    </span>
  );
}

export const stateOrder = { broken: 0, degraded: 1, idle: 2, unknown: 3, notice: 4, ok: 5, external: 6 };

export const Name = ({ namespace, name }) => (
  <span class="name">
    <bdi class="ns">{namespace}</bdi>
    <span class="slash">/</span>
    <bdi>{name}</bdi>
  </span>
);

// A name or an address, which is broken after a dot or a colon if it has to be.
export const Breakable = ({ text }) => <bdi>{text.split(/(?<=[.:])/).map((part, i) => (i ? [<wbr />, part] : part))}</bdi>;

export const isDone = (pod) => pod.status === "Completed" || pod.status === "Succeeded";

export const serviceLink = (key) => `#/services/${key.split("/").map(encodeURIComponent).join("/")}`;
export const nodeLink = (name) => `#/nodes/${encodeURIComponent(name)}`;
export const podLink = (key) => `#/pods/${key.split("/").map(encodeURIComponent).join("/")}`;

// A measure of an element (clientWidth, clientHeight), now and whenever its size changes; `first` before it is drawn.
export function useMeasured(box, measure, first) {
  const [value, setValue] = useState(first);
  useLayoutEffect(() => {
    const update = () => box.current && setValue(box.current[measure]);
    update();
    const observer = new ResizeObserver(update);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return value;
}

// A list of rows of one height, of which only those in view exist. Arrow keys select a row, Enter opens it.
export function VirtualList({ keys, height, row, label, onOpen, onSelect, onView, empty, most, selected: wanted, class: name = "" }) {
  const box = useRef(null);
  const prefix = useId();
  const [top, setTop] = useState(0);
  const size = useMeasured(box, "clientHeight", 600);
  const [active, setActive] = useState(wanted || "");
  const first = Math.max(0, Math.floor(top / height) - 4);
  const last = Math.min(keys.length, Math.ceil((top + size) / height) + 4);
  const shown = keys.slice(first, last);
  useEffect(() => onView && onView({ first, last, top, keys: shown, height }));
  const select = (index) => {
    const next = Math.max(0, Math.min(keys.length - 1, index));
    const key = keys[next];
    if (key === undefined) return;
    setActive(key);
    onSelect && onSelect(key);
    const element = box.current;
    if (next * height < element.scrollTop) element.scrollTop = next * height;
    else if ((next + 1) * height > element.scrollTop + element.clientHeight)
      element.scrollTop = (next + 1) * height - element.clientHeight;
  };
  const onKeyDown = (event) => {
    const page = Math.max(1, Math.floor(size / height) - 1);
    const at = keys.indexOf(active);
    const to = {
      ArrowDown: at + 1, ArrowUp: at < 0 ? 0 : at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: keys.length - 1,
    }[event.key];
    if (to !== undefined) select(to);
    else if (event.key === "Enter" && at >= 0) onOpen(active);
    else return;
    event.preventDefault();
  };
  return (
    <div
      class={`virtual ${name}`}
      style={most ? { height: `${Math.min(most, Math.max(1, keys.length) * height + 2)}px` } : undefined}
      ref={box}
      role="listbox"
      tabIndex={0}
      aria-label={label}
      aria-activedescendant={shown.includes(active) ? `${prefix}-${keys.indexOf(active)}` : undefined}
      onKeyDown={onKeyDown}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
    >
      {keys.length === 0 ? (
        <p class="empty" role="option" aria-selected="false">{empty}</p>
      ) : (
        <div role="presentation" style={{ height: `${keys.length * height}px`, position: "relative" }}>
          {shown.map((key, i) => (
            <div
              key={key}
              id={`${prefix}-${first + i}`}
              role="option"
              aria-selected={key === active}
              aria-setsize={keys.length}
              aria-posinset={first + i + 1}
              class={key === active ? "row active" : "row"}
              style={{ top: `${(first + i) * height}px`, height: `${height}px` }}
              onClick={() => onOpen(key)}
              onMouseEnter={() => onSelect && onSelect(key, true)}
              onMouseLeave={() => onSelect && onSelect(active, true)}
            >
              {row(key)}
            </div>
          ))}
        </div>
      )}
    </div>
  );
}

export function Copy({ text }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <button class="small" onClick={copy} aria-live="polite">
      {done ? t("copied") : t("copy")}
    </button>
  );
}

export const Panel = ({ title, note, children, wide, id }) => (
  <section class={wide ? "panel wide" : "panel"} aria-labelledby={id}>
    <header>
      <h2 id={id}>{title}</h2>
      {note && <span class="note">{note}</span>}
    </header>
    {children}
  </section>
);

export const Failed = ({ why }) => (
  <p class="failed">
    <Mark state="degraded" /> {t("failed", { why: why === "unreachable" ? t("unreachable") : why })}
  </p>
);

// The object as YAML, asked for when it is opened and again when it changes.
export function Yaml({ kind, name }) {
  const [open, setOpen] = useState(false);
  return (
    <Panel title={t("yaml")} wide id="yaml">
      {open ? <YamlText kind={kind} name={name} /> : <button onClick={() => setOpen(true)}>{t("yaml.show")}</button>}
    </Panel>
  );
}

function YamlText({ kind, name }) {
  const { data, error, loading } = useAsk("yaml", { kind, name }, 2);
  if (loading) return <p class="quiet">…</p>;
  if (error && !data) return <Failed why={error} />;
  return (
    <div class="code-box">
      <Copy text={data.yaml} />
      <pre tabIndex={0} role="region" aria-label={t("yaml")}>{data.yaml}</pre>
    </div>
  );
}
