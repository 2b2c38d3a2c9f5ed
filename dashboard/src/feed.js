// The connection to the server, and the copy of the cluster's rows that all views read.
//
// The server sends a snapshot of all rows first, then changes of rows (`insight/live/updates.py`); between them, messages
// with a type: "hello" (the cluster) and "flows" (connections by Service).

import { useEffect, useReducer, useRef } from "preact/hooks";

const TOKEN = "bridgehead-token";
const TABLES = ["services", "endpoints", "pods", "nodes", "events", "syncs", "dns", "api"];
const STATES = { "": "ok", NoPods: "idle", NoEndpoints: "idle", NotReady: "broken", Pending: "degraded", Rejected: "degraded" };
const ENDPOINT_STATES = { ready: 0, draining: 1 };

export const store = {
  cluster: {},
  state: "connecting", // connecting, live, lost, refused, full
  flows: null, // the last count of connections: { open: {service: n}, paths: [[service, address, open, new]], unseen }
  problem: "", // why the API server does not answer
  unseen: [],
  questions: new Set(), // that this server answers
  generation: 0,
};
for (const table of TABLES) store[table] = new Map();

// What views need of a row, made once when it arrives.
const prepare = {
  services(row) {
    row.state = row.type === "ExternalName" ? "external" : (STATES[row.problem] ?? "degraded");
    row.ns = row.namespace;
    row.ips = [...row.clusterIps, ...row.external];
  },
  // Endpoints by slice: [address, key of the pod or "", node, state].
  endpoints(row) {
    const namespace = row.key.split("/")[0];
    const slices = row.slices.map((name) => ({ name, endpoints: [] }));
    for (const [address, state, pod, node, , slice] of row.endpoints) {
      slices[slice]?.endpoints.push([
        address, pod ? `${namespace}/${pod}` : "", node, ENDPOINT_STATES[state] ?? 2,
      ]);
    }
    row.bySlice = slices;
    row.all = slices.flatMap((each) => each.endpoints);
  },
  pods(row) {
    row.state = row.status;
    row.isReady = row.isReady === true;
  },
  events(row) {
    const [kind, name] = [row.object.split("/")[0], row.object.split("/").slice(1).join("/")];
    row.kind = kind;
    row.name = name;
  },
};

const listeners = new Set();
const flowListeners = new Set();
let scheduled = false;

function changed() {
  if (scheduled) return;
  scheduled = true;
  const run = () => {
    scheduled = false;
    for (const listener of [...listeners]) listener();
  };
  // A hidden page has no frames; it is brought up to date at the next one.
  if (document.hidden) setTimeout(run, 500);
  else requestAnimationFrame(run);
}

export function subscribe(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function onFlows(listener) {
  flowListeners.add(listener);
  return () => flowListeners.delete(listener);
}

// Render the component again after each change of the store, at most once for each frame.
export function useStore() {
  const [, render] = useReducer((n) => n + 1, 0);
  useEffect(() => subscribe(render), []);
  return store;
}

// The token comes in the address's fragment, which no server and no log sees. It is kept for this origin only.
export function takeToken() {
  const match = /[#&]token=([A-Za-z0-9_-]+)/.exec(location.hash);
  if (match) {
    localStorage.setItem(TOKEN, match[1]);
    history.replaceState(null, "", location.pathname + "#/");
  }
  return localStorage.getItem(TOKEN) || "";
}

export function setToken(token) {
  localStorage.setItem(TOKEN, token);
  connect();
}

export async function ask(path, parameters = {}, signal) {
  const query = new URLSearchParams(parameters);
  let response;
  try {
    response = await fetch(`/api/${path}?${query}`, {
      headers: { Authorization: `Bearer ${localStorage.getItem(TOKEN) || ""}` },
      cache: "no-store",
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("unreachable");
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(body.error || `HTTP ${response.status}`);
  return body;
}

// `useAsk` repeats a question every `seconds` while its component is shown and the page is visible; 0: asks once. When
// `revision` changes (a row that the answer depends on), it asks at once, and shows the last answer until then.
export function useAsk(path, parameters, seconds = 0, revision = null) {
  const [answer, set] = useReducer((_, next) => next, { loading: true });
  const key = path + JSON.stringify(parameters);
  const last = useRef({});
  useEffect(() => {
    const controller = new AbortController();
    let timer = 0;
    if (last.current.key !== key) {
      last.current = { key };
      set({ loading: true, key });
    }
    const run = async () => {
      if (!document.hidden || !last.current.data) {
        try {
          last.current.data = await ask(path, parameters, controller.signal);
          set({ data: last.current.data, key });
        } catch (error) {
          if (controller.signal.aborted) return;
          set({ data: last.current.data, error: error.message, key });
        }
      }
      if (seconds) timer = setTimeout(run, seconds * 1000);
    };
    run();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [key, seconds, revision]);
  return answer.key === key ? answer : { loading: true };
}

let socket = null;
let look = "";
let delay = 250;
let timer = 0;

// The view that is looked at: connections are counted only while somebody looks at the map.
export function lookAt(view) {
  look = view;
  sendLook();
}

function sendLook() {
  if (socket && socket.readyState === WebSocket.OPEN) {
    socket.send(JSON.stringify({ look: document.hidden ? "" : look }));
  }
}
document.addEventListener("visibilitychange", sendLook);

export function connect() {
  clearTimeout(timer);
  if (socket) {
    socket.onclose = null;
    socket.close();
  }
  const token = localStorage.getItem(TOKEN) || "";
  if (!token) {
    store.state = "refused";
    changed();
    return;
  }
  let opened = false;
  socket = new WebSocket(`ws://${location.host}/feed`, ["bridgehead.dashboard.v1", `bearer.${token}`]);
  socket.onopen = () => {
    opened = true;
    delay = 250;
    sendLook();
  };
  socket.onmessage = (event) => receive(JSON.parse(event.data));
  socket.onclose = async () => {
    socket = null;
    store.state = "lost";
    if (!opened) {
      try {
        await ask("session");
      } catch (error) {
        if (error.message === "token") store.state = "refused";
        if (error.message === "full") store.state = "full";
      }
    }
    changed();
    timer = setTimeout(connect, delay);
    delay = Math.min(delay * 2, 5000);
  };
}

function put(table, row) {
  prepare[table]?.(row);
  store[table].set(row.key, row);
}

function receive(message) {
  if (message.type === "flows") {
    store.flows = message;
    for (const listener of flowListeners) listener(message);
  } else if (message.type === "hello") {
    store.cluster = message.cluster;
    store.questions = new Set(message.questions);
  } else {
    if (message.isSnapshot) {
      for (const table of TABLES) store[table] = new Map();
      for (const [table, rows] of Object.entries(message.rows)) for (const row of rows) put(table, row);
      store.state = "live";
    }
    for (const { table, key, row } of message.changes || []) {
      if (row === null) store[table].delete(key);
      else put(table, row);
    }
    if (message.status) {
      store.problem = message.status.problem;
      store.unseen = message.status.unseen.map((each) => `${each.what}: ${each.why}`);
      store.synced = message.status.isSynced;
    }
  }
  store.generation += 1;
  changed();
}
