import { useEffect, useMemo, useState } from "preact/hooks";
import { lookAt, useAsk, useStore } from "./feed.js";
import { age, number, span, t } from "./text.js";
import { Failed, Mark, Panel, State, isDone, Name, VirtualList, Yaml, nodeLink, podLink, serviceLink } from "./parts.jsx";
import { EventList } from "./events.jsx";
import { Chart } from "./chart.jsx";

const nodeState = (node) => (node.isReady ? (node.proxyProblem ? "degraded" : "ok") : "broken");
const podState = (pod) => (pod.isReady ? "ok" : isDone(pod) ? "idle" : STARTING.test(pod.status) ? "degraded" : "broken");
const STARTING = /^(Pending|ContainerCreating|PodInitializing|Init:\d|Terminating|Running)/;

export function NodesView() {
  const { nodes, pods, syncs, state } = useStore();
  useEffect(() => lookAt("nodes"), []);
  const counts = new Map();
  for (const pod of pods.values()) counts.set(pod.node, (counts.get(pod.node) || 0) + 1);
  const names = [...nodes.keys()].sort((a, b) => nodes.get(a).isReady - nodes.get(b).isReady || (a < b ? -1 : 1));
  return (
    <div class="page fill">
      <div class="bar">
        <h1>{t("nodes")}</h1>
        <p class="totals">{t("total.nodes", { n: number(nodes.size) })}</p>
      </div>
      <div class="table-head nodes-grid" aria-hidden="true">
        <span>{t("status")}</span><span>{t("name")}</span><span>{t("address")}</span><span>{t("mode")}</span>
        <span class="num">{t("pods")}</span><span class="num">{t("sync")}</span>
      </div>
      <VirtualList
        keys={names}
        height={40}
        label={t("nodes")}
        onOpen={(name) => (location.hash = nodeLink(name))}
        empty={state === "live" ? t("empty.nodes") : "…"}
        row={(name) => {
          const node = nodes.get(name);
          if (!node) return null;
          return (
            <span class="nodes-grid">
              <State state={nodeState(node)} />
              <bdi class="name">{name}</bdi>
              <span class="mono address">{node.ip || "–"}</span>
              <span class="mode">{node.proxy === "-" ? "–" : node.proxy}</span>
              <span class="num">{counts.get(name) || 0}</span>
              <span class="num">{span(syncs.get(name)?.p50)}</span>
            </span>
          );
        }}
      />
    </div>
  );
}

export function NodeView({ route }) {
  const name = route[1];
  const { nodes, pods, syncs, events, questions } = useStore();
  useEffect(() => lookAt("node"), []);
  const node = nodes.get(name);
  const mine = [...pods].filter(([, pod]) => pod.node === name).map(([key]) => key).sort();
  if (!node) return <Gone to="#/nodes" />;
  return (
    <div class="page">
      <div class="bar">
        <a class="back" href="#/nodes">← {t("nodes")}</a>
        <h1><bdi>{name}</bdi></h1>
        <State state={nodeState(node)} />
        <p class="totals">
          {[node.ip, node.zone, node.version, node.proxy === "-" ? "" : node.proxy, syncs.get(name)?.p50 ? `${t("sync")} ${span(syncs.get(name).p50)}` : ""].filter(Boolean).join(" · ")}
        </p>
      </div>
      {node.proxyProblem && <p class="failed"><Mark state="degraded" /> <bdi>{node.proxyProblem}</bdi></p>}
      <div class="panels">
        {questions.has("rules") && <Rules node={name} />}
        {questions.has("series") && <NodeSeries name={name} />}
        <Panel title={t("node.pods")} note={number(mine.length)} id="node-pods">
          <PodList keys={mine} pods={pods} />
        </Panel>
        <Panel title={t("timeline")} id="node-events">
          <EventList
            events={[...events.values()].filter((event) => event.kind === "Node" && event.name === name).sort((a, b) => b.last - a.last)}
            empty={t("empty.events")}
          />
        </Panel>
        <Yaml kind="node" name={name} />
      </div>
    </div>
  );
}

function NodeSeries({ name }) {
  const { data } = useAsk("series", { node: name }, 5);
  if (!data?.series) return null;
  return (
    <Panel title={t("series.sync")} id="node-series">
      <Chart times={data.times} values={[data.series.sync, data.series.programmed]} labels={[t("series.sync"), t("series.programmed")]} format={span} />
    </Panel>
  );
}

function PodList({ keys, pods }) {
  if (!keys.length) return <p class="quiet">{t("empty.pods")}</p>;
  return (
    <VirtualList
      keys={keys}
      height={34}
      label={t("pods")}
      class="short" most={300}
      onOpen={(key) => (location.hash = podLink(key))}
      row={(key) => {
        const pod = pods.get(key);
        const [namespace, name] = key.split("/");
        return (
          pod && (
            <span class="pods-grid">
              <State state={podState(pod)} />
              <Name namespace={namespace} name={name} />
              <span class="mono address">{pod.ip || "–"}</span>
            </span>
          )
        );
      }}
    />
  );
}

// The ruleset of a node: lines with the Service that each is there for.
export function Rules({ node, service }) {
  const { data, error, loading } = useAsk("rules", service ? { node, service } : { node }, 6);
  const [filter, setFilter] = useState("");
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const lines = data?.lines || [];
  const shown = useMemo(
    () => lines.map((_, i) => i).filter((i) => {
      const text = lines[i].join(" ").toLowerCase(); // the line, its Service, its chain or map, its meaning
      return words.every((word) => text.includes(word));
    }),
    [data, filter],
  );
  return (
    <Panel title={t("rules")} note={data ? `${node} · ${data.mode || ""} · ${t("rules.lines", { shown: number(shown.length), total: number(data.total) })}` : node} wide id="rules">
      <input type="search" aria-label={t("rules.search")} placeholder={t("rules.search")} value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
      {error && <Failed why={error} />}
      {data?.unseen && <Failed why={data.unseen} />}
      {loading && <p class="quiet">…</p>}
      {data && (
        <VirtualList
          keys={shown}
          height={46}
          label={t("rules")}
          class="rules" most={330}
          onOpen={(i) => {
            const target = lines[i]?.[1];
            if (target) location.hash = serviceLink(target.split(":")[0]);
          }}
          empty={t("rules.none")}
          row={(i) => (
            <span class="rule">
              <code title={lines[i]?.[0]}><bdi>{lines[i]?.[0]}</bdi></code>
              <span class="note" title={lines[i]?.[2]}><bdi>{lines[i]?.[3] || lines[i]?.[2]}</bdi></span>
            </span>
          )}
        />
      )}
    </Panel>
  );
}

export function PodView({ route }) {
  const key = `${route[1]}/${route[2]}`;
  const { pods, endpoints, events } = useStore();
  useEffect(() => lookAt("pod"), []);
  const pod = pods.get(key);
  if (!pod) return <Gone to="#/" />;
  const services = new Set();
  for (const [service, row] of endpoints) if (row.all.some((each) => each[1] === key)) services.add(service);
  return (
    <div class="page">
      <div class="bar">
        <a class="back" href={nodeLink(pod.node)}>← {pod.node || t("nodes")}</a>
        <h1><Name namespace={route[1]} name={route[2]} /></h1>
        <State state={podState(pod)} />
        <p class="totals">{[pod.ip, pod.status, `${pod.ready}/${pod.total}`, age(Date.now() / 1000 - pod.created)].filter(Boolean).join(" · ")}</p>
      </div>
      <div class="panels">
        <Panel title={t("services")} id="pod-services">
          {services.size ? (
            <ul class="plain">{[...services].sort().map((each) => <li><a href={serviceLink(each)}><bdi>{each}</bdi></a></li>)}</ul>
          ) : <p class="quiet">–</p>}
        </Panel>
        <Panel title={t("timeline")} id="pod-events">
          <EventList
            events={[...events.values()].filter((event) => event.kind === "Pod" && `${event.namespace}/${event.name}` === key).sort((a, b) => b.last - a.last)}
            empty={t("empty.events")}
          />
        </Panel>
        <Yaml kind="pod" name={key} />
      </div>
    </div>
  );
}

export const Gone = ({ to }) => (
  <div class="page">
    <p class="empty">{t("gone")} <a href={to}>{t("back")}</a></p>
  </div>
);
