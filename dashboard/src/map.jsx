// The live map: Services, their slices, pods on nodes, and a moving point for each new connection.
//
// Rows of Services and heads of nodes are elements, which a keyboard and a screen reader reach. Lines and pods are drawn
// on a canvas, and moving points on a second one, which is cleared and still while nothing moves.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { lookAt, onFlows, subscribe, useStore } from "./feed.js";
import { number, t } from "./text.js";
import { Mark, Name, VirtualList, isDone, nodeLink, podLink, serviceLink, useMeasured } from "./parts.jsx";
import { Filter, Totals, matching } from "./services.jsx";

const ROW = 34;
const TRAVEL = 900; // ms of a point on its way
const MOST_POINTS = 300; // at a time
const FRAME = 33; // ms between two pictures of moving points

const cellFor = (pods) => (pods <= 40 ? 16 : pods <= 300 ? 12 : pods <= 1500 ? 8 : 5);

function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return {
    line: of("--line"), strong: of("--accent"), ready: of("--ok"), serving: of("--warn"), bad: of("--bad"),
    other: of("--faint"), text: of("--quiet"), point: of("--point"), surface: of("--surface"),
  };
}

export function MapView() {
  const store = useStore();
  const [filter, setFilter] = useState("");
  const [picked, setPicked] = useState("");
  const area = useRef(null);
  const still = useRef(null);
  const moving = useRef(null);
  const view = useRef({ keys: [], first: 0, top: 0 });
  const scene = useRef(null);

  useEffect(() => {
    lookAt("map");
    return () => lookAt("");
  }, []);

  const keys = useMemo(() => matching(store.services, filter), [store.generation, filter]);
  const byNode = useMemo(() => {
    const found = new Map([...store.nodes.keys()].sort().map((name) => [name, []]));
    for (const [key, pod] of store.pods) {
      if (!found.has(pod.node)) found.set(pod.node, []);
      found.get(pod.node).push(key);
    }
    if (found.get("")?.length === 0) found.delete("");
    for (const pods of found.values()) pods.sort();
    return found;
  }, [store.generation]);
  const cell = cellFor(store.pods.size);
  // What is drawn reads the latest of these.
  scene.current = { store, byNode, cell, picked };

  // At most once for each frame, whatever asks for it.
  const frame = useRef(0);
  const draw = () => {
    frame.current ||= requestAnimationFrame(() => {
      frame.current = 0;
      drawScene(area.current, still.current, view.current, scene.current);
    });
  };
  useLayoutEffect(() => {
    draw();
  });
  useEffect(() => {
    const observer = new ResizeObserver(draw);
    observer.observe(area.current);
    const again = draw;
    addEventListener("themechange", again);
    const nodes = area.current.querySelector(".map-nodes");
    nodes.addEventListener("scroll", again, { passive: true });
    const stop = animate(area.current, moving.current, scene);
    return () => {
      observer.disconnect();
      removeEventListener("themechange", again);
      nodes.removeEventListener("scroll", again);
      stop();
      cancelAnimationFrame(frame.current);
      frame.current = 0;
    };
  }, []);

  const endpoints = store.endpoints.get(picked)?.all || [];
  const row = store.services.get(picked);
  const flows = store.flows;
  return (
    <div class="page fill map-page">
      <div class="bar">
        <h1>{t("map")}</h1>
        <Totals services={store.services} />
        <p class="totals">
          {t("total.pods", { n: number(store.pods.size) })} · {t("total.nodes", { n: number(store.nodes.size) })}
        </p>
        <Filter value={filter} onInput={setFilter} />
      </div>
      <div class="map" ref={area}>
        <canvas class="still" ref={still} aria-hidden="true" />
        <VirtualList
          keys={keys}
          height={ROW}
          label={t("map.list")}
          class="map-list"
          selected={picked}
          onSelect={setPicked}
          onOpen={(key) => (location.hash = serviceLink(key))}
          onView={(now) => {
            view.current = now;
            draw();
          }}
          empty={store.state !== "live" ? "…" : store.services.size ? t("empty.services") : t("empty.services.none")}
          row={(key) => {
            const service = store.services.get(key);
            if (!service) return null;
            const open = flows?.open?.[key];
            return (
              <span class="map-row" title={t(`state.${service.state}`)}>
                <Mark state={service.state} />
                <span class="hidden">{t(`state.${service.state}`)}</span>
                <Name namespace={service.ns} name={service.name} />
                <span class="num note">
                  {service.type === "ExternalName" ? "" : `${service.ready}/${service.total}`}
                  {open ? ` · ${open}` : ""}
                </span>
              </span>
            );
          }}
        />
        <div class="map-gap" aria-hidden="true" />
        <div class="map-nodes" tabIndex={0} role="region" aria-label={t("nodes")}>
          {byNode.size === 0 && <p class="empty">{store.state === "live" ? t("empty.nodes") : "…"}</p>}
          {[...byNode].map(([name, pods]) => (
            <NodeBox key={name} name={name} pods={pods} cell={cell} node={store.nodes.get(name)} store={store} onPick={setPicked} />
          ))}
        </div>
        <canvas class="moving" ref={moving} aria-hidden="true" />
      </div>
      <footer class="map-foot">
        <span aria-live="polite" class={row ? "picked" : "picked about"}>
          {row
            ? t("map.selected", {
                name: picked, ready: row.ready, total: row.total, nodes: new Set(endpoints.map((each) => each[2])).size,
              })
            : t("map.about")}
        </span>
        <span class="legend">
          <i class="cell ready" /> {t("map.legend.ready")} <i class="cell serving" /> {t("map.legend.terminating")}{" "}
          <i class="cell bad" /> {t("map.legend.bad")} <i class="cell" /> {t("map.legend.other")}
        </span>
        {flows?.unseen && <span class="note">{t("map.flows.none", { why: flows.unseen })}</span>}
      </footer>
    </div>
  );
}

function NodeBox({ name, pods, cell, node, store }) {
  const box = useRef(null);
  const width = useMeasured(box, "clientWidth", 300);
  const columns = Math.max(1, Math.floor(width / (cell + 2)));
  const rows = Math.max(1, Math.ceil(pods.length / columns));
  const open = (event) => {
    const bounds = box.current.getBoundingClientRect();
    const at = podAt(event.clientX - bounds.left, event.clientY - bounds.top, columns, cell, pods.length);
    if (at >= 0) location.hash = podLink(pods[at]);
  };
  const hover = (event) => {
    const bounds = box.current.getBoundingClientRect();
    const at = podAt(event.clientX - bounds.left, event.clientY - bounds.top, columns, cell, pods.length);
    const pod = store.pods.get(pods[at]);
    box.current.title = pod ? `${pods[at]}  ${pod.ip}  ${pod.state}` : "";
  };
  const state = name === "" ? "idle" : !node ? "unknown" : node.isReady ? "ok" : "broken";
  return (
    <section class="node-box">
      <h2>
        <Mark state={state} /> <span class="hidden">{t(`state.${state}`)}</span>
        {name ? <a href={nodeLink(name)}><bdi>{name}</bdi></a> : <span>–</span>}
        <span class="note">{t("total.pods", { n: number(pods.length) })}{node && node.proxy !== "-" ? ` · ${node.proxy}` : ""}</span>
      </h2>
      {/* The list of pods is on the node's page, too: this is a picture of it. */}
      <div
        ref={box}
        class="cells"
        data-node={name}
        style={{ height: `${rows * (cell + 2)}px` }}
        onClick={open}
        onMouseMove={hover}
      />
    </section>
  );
}

function podAt(x, y, columns, cell, count) {
  const column = Math.floor(x / (cell + 2));
  const at = Math.floor(y / (cell + 2)) * columns + column;
  return column >= 0 && column < columns && at >= 0 && at < count ? at : -1;
}

// Positions of all pods, relative to the map: pod's key -> [x, y] of its middle.
function place(area, { byNode, cell }) {
  const base = area.getBoundingClientRect();
  const places = new Map();
  for (const box of area.querySelectorAll(".cells")) {
    const bounds = box.getBoundingClientRect();
    const pods = byNode.get(box.dataset.node) || [];
    const columns = Math.max(1, Math.floor(box.clientWidth / (cell + 2)));
    pods.forEach((key, i) => {
      places.set(key, [
        bounds.left - base.left + (i % columns) * (cell + 2) + cell / 2,
        bounds.top - base.top + Math.floor(i / columns) * (cell + 2) + cell / 2,
      ]);
    });
    places.set(`node ${box.dataset.node}`, [bounds.left - base.left, bounds.top - base.top - 12]);
  }
  return places;
}

function sized(canvas, area) {
  const ratio = Math.min(2, devicePixelRatio || 1);
  const width = area.clientWidth;
  const height = area.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

function bezier([x1, y1], [x2, y2]) {
  const middle = (x1 + x2) / 2;
  return [x1, y1, middle, y1, middle, y2, x2, y2];
}

// The picture that stays: cells of pods, then lines of the Services in view. It is kept in `area.routes` for points.
function drawScene(area, canvas, view, scene) {
  if (!area || !canvas) return;
  const context = sized(canvas, area);
  const { store, cell, picked } = scene;
  const colour = colours();
  const places = place(area, scene);
  const list = area.querySelector(".map-list").getBoundingClientRect();
  const gap = area.querySelector(".map-gap").getBoundingClientRect();
  const base = area.getBoundingClientRect();
  const wide = gap.width > 40;
  const nodes = area.querySelector(".map-nodes").getBoundingClientRect();
  const clipTop = nodes.top - base.top;
  const clipBottom = nodes.bottom - base.top;
  const routes = new Map();
  area.routes = routes;
  area.places = places;
  const used = new Map(); // the state of a pod as an endpoint, the best one

  if (wide) {
    const xList = list.right - base.left;
    const xSlice = gap.left - base.left + gap.width * 0.45;
    const visible = view.keys.map((key, i) => [key, (view.first + i) * view.height - view.top + view.height / 2 + list.top - base.top]);
    for (const pass of [0, 1]) {
      for (const [key, y] of visible) {
        const emphasised = key === picked;
        if (emphasised !== (pass === 1)) continue;
        if (y < list.top - base.top || y > list.bottom - base.top) continue;
        const slices = store.endpoints.get(key)?.bySlice || [];
        const paths = new Map();
        slices.forEach((slice, i) => {
          const ySlice = y + (i - (slices.length - 1) / 2) * Math.min(7, ROW / Math.max(1, slices.length));
          const endpoints = slice.endpoints;
          context.strokeStyle = emphasised ? colour.strong : colour.line;
          context.globalAlpha = picked && !emphasised ? 0.25 : emphasised ? 0.9 : 0.65;
          context.lineWidth = emphasised ? 1.6 : 1;
          context.beginPath();
          context.moveTo(xList, y);
          context.lineTo(xSlice - 7, ySlice);
          context.stroke();
          // Large slices lead to their nodes, small ones to each pod.
          const targets = endpoints.length <= 24 || emphasised
            ? endpoints.slice(0, 400).map(([address, pod, node, state]) => [address, places.get(pod) || places.get(`node ${node}`), state])
            : [...new Set(endpoints.map((each) => each[2]))].map((node) => ["", places.get(`node ${node}`), 0]);
          for (const [address, to, state] of targets) {
            if (!to || to[1] < clipTop || to[1] > clipBottom) continue;
            const curve = bezier([xSlice + 7, ySlice], to);
            if (address) paths.set(address, { from: [xList, y], slice: [xSlice, ySlice], curve });
            context.strokeStyle = state === 2 ? colour.bad : state === 1 ? colour.serving : emphasised ? colour.strong : colour.line;
            context.setLineDash(state === 2 ? [3, 3] : []);
            context.beginPath();
            context.moveTo(curve[0], curve[1]);
            context.bezierCurveTo(...curve.slice(2));
            context.stroke();
          }
          context.setLineDash([]);
          context.globalAlpha = picked && !emphasised ? 0.4 : 1;
          context.fillStyle = endpoints.length ? (emphasised ? colour.strong : colour.text) : colour.bad;
          context.beginPath();
          context.roundRect(xSlice - 7, ySlice - 2.5, 14, 5, 2.5);
          context.fill();
        });
        routes.set(key, paths);
      }
    }
  }
  context.globalAlpha = 1;

  for (const [service, row] of store.endpoints) {
    const mine = service === picked;
    for (const [, pod, , state] of row.all) {
      if (!pod) continue;
      const before = used.get(pod);
      if (before === undefined || mine || state < before.state) used.set(pod, { state, mine: mine || before?.mine });
    }
  }
  context.save();
  context.beginPath();
  context.rect(nodes.left - base.left, clipTop, nodes.width, clipBottom - clipTop);
  context.clip();
  for (const [key, [x, y]] of places) {
    if (y < clipTop - cell || y > clipBottom + cell) continue;
    const pod = store.pods.get(key);
    if (!pod) continue;
    const use = used.get(key);
    const bad = use ? use.state === 2 : !pod.isReady && !isDone(pod);
    context.globalAlpha = picked && !use?.mine ? 0.35 : 1;
    context.fillStyle = bad ? colour.bad : use?.state === 1 ? colour.serving : use ? colour.ready : colour.other;
    const half = cell / 2;
    if (cell > 8) {
      context.beginPath();
      context.roundRect(x - half, y - half, cell, cell, 3);
      context.fill();
    } else context.fillRect(x - half, y - half, cell, cell);
    if (bad && cell >= 8) {
      // A shape beside the colour.
      context.strokeStyle = colour.surface;
      context.lineWidth = cell > 10 ? 2 : 1.4;
      const q = cell / 4;
      context.beginPath();
      context.moveTo(x - q, y - q);
      context.lineTo(x + q, y + q);
      context.moveTo(x + q, y - q);
      context.lineTo(x - q, y + q);
      context.stroke();
    }
  }
  context.restore();
}

// Points move from the Service over its slice to the pod. Without new connections nothing is drawn.
function animate(area, canvas, scene) {
  const points = [];
  let running = false;
  let last = 0;
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const frame = (now) => {
    if (!running) return;
    if (now - last >= FRAME) {
      last = now;
      const context = sized(canvas, area);
      context.fillStyle = colours().point;
      let alive = 0;
      for (const point of points) {
        const age = (now - point.start) / TRAVEL;
        if (age >= 1) continue;
        alive += 1;
        points[alive - 1] = point;
        if (age < 0) continue;
        const path = area.routes?.get(point.service)?.get(point.address);
        if (!path) continue;
        const [x, y] = along(path, age);
        context.beginPath();
        context.arc(x, y, 3, 0, 7);
        context.fill();
      }
      points.length = alive;
      if (!alive) {
        running = false;
        sized(canvas, area);
        return;
      }
    }
    requestAnimationFrame(frame);
  };
  const stop = onFlows((message) => {
    if (calm.matches || document.hidden) return;
    const now = performance.now();
    for (const [service, address, , fresh] of message.paths) {
      if (!fresh || !area.routes?.get(service)?.has(address)) continue;
      for (let i = 0; i < Math.min(fresh, 6) && points.length < MOST_POINTS; i++) {
        points.push({ service, address, start: now + Math.random() * 900 });
      }
    }
    area.dataset.moved = String(Number(area.dataset.moved || 0) + points.length);
    if (points.length && !running) {
      running = true;
      requestAnimationFrame(frame);
    }
  });
  return () => {
    running = false;
    stop();
  };
}

function along({ from, slice, curve }, age) {
  if (age < 0.25) {
    const s = age / 0.25;
    return [from[0] + (slice[0] - from[0]) * s, from[1] + (slice[1] - from[1]) * s];
  }
  const s = (age - 0.25) / 0.75;
  const r = 1 - s;
  const at = (a, b, c, d) => r * r * r * a + 3 * r * r * s * b + 3 * r * s * s * c + s * s * s * d;
  return [at(curve[0], curve[2], curve[4], curve[6]), at(curve[1], curve[3], curve[5], curve[7])];
}
