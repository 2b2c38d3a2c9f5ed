// The page of one Service: verdict, the path of a connection, backends, figures, DNS, Events, rules, YAML.

import { useEffect, useState } from "preact/hooks";
import { ask, lookAt, useAsk, useStore } from "./feed.js";
import { number, span, t } from "./text.js";
import { Breakable, Copy, Failed, Mark, Name, Panel, State, VirtualList, Yaml, nodeLink, podLink } from "./parts.jsx";
import { EventList } from "./events.jsx";
import { Chart, isEmpty } from "./chart.jsx";
import { Gone, Rules } from "./nodes.jsx";

const MARKS = ["ok", "notice", "broken"]; // by the state of an endpoint: ready, draining, not ready

export function ServiceView({ route }) {
  const key = `${route[1]}/${route[2]}`;
  const { services, endpoints, events, nodes, flows, questions, state } = useStore();
  const [worst, setWorst] = useState(""); // the severity of doctor's verdict, if that is broken or degraded
  useEffect(() => {
    lookAt("service");
    return () => lookAt("");
  }, [key]);
  const row = services.get(key);
  if (!row) return state === "live" ? <Gone to="#/services" /> : null;
  const found = endpoints.get(key) || { all: [], bySlice: [] };
  const revision = found.all.length ? found : row; // each change makes a new one
  const pods = new Set(found.all.map((each) => each[1]));
  const slices = new Set(found.bySlice.map((each) => each.name));
  const related = [...events.values()]
    .filter((event) => {
      const name = `${event.namespace}/${event.name}`;
      if (event.kind === "Service" || event.kind === "Endpoints") return name === key;
      return event.kind === "Pod" ? pods.has(name) : event.kind === "EndpointSlice" && (slices.has(event.name) || slices.has(name));
    })
    .sort((a, b) => b.last - a.last)
    .slice(0, 100);
  return (
    <div class="page">
      <div class="bar">
        <a class="back" href="#/services">← {t("services")}</a>
        <h1><Name namespace={row.ns} name={row.name} /></h1>
        <State state={worst || row.state} />
        <p class="totals">
          {[row.type, row.ips.join(", "), row.ports.join(" "), row.type === "ExternalName" ? "" : t("ready.of", { ready: row.ready, total: row.total })].filter(Boolean).join(" · ")}
        </p>
      </div>
      <div class="panels">
        {questions.has("findings") && <Verdict key={key} name={key} revision={revision} onWorst={setWorst} />}
        {questions.has("path") && row.type !== "ExternalName" && <Path name={key} nodes={nodes} revision={revision} canTrace={questions.has("trace")} />}
        <Spread all={found.all} counts={flows?.paths?.filter((each) => each[0] === key) || []} unseen={flows?.unseen} />
        {questions.has("series") && <Series name={key} />}
        {questions.has("dns") && <Dns name={key} revision={revision} />}
        <Panel title={t("timeline")} id="events">
          <EventList events={related} empty={t("timeline.none")} withObject />
        </Panel>
        {questions.has("rules") && row.type !== "ExternalName" && <ServiceRules name={key} nodes={nodes} />}
        <Yaml kind="service" name={key} />
      </div>
    </div>
  );
}

function Verdict({ name, revision, onWorst }) {
  const { data, error, loading } = useAsk("findings", { service: name }, 6, revision);
  const findings = data?.findings || [];
  const worst = ["broken", "degraded"].find((severity) => findings.some((finding) => finding.severity === severity)) || "";
  useEffect(() => {
    onWorst(worst);
    return () => onWorst("");
  }, [worst]);
  return (
    <Panel title={t("verdict")} wide id="verdict">
      <div aria-live="polite">
        {loading && <p class="quiet">{t("verdict.looking")}</p>}
        {error && <Failed why={error} />}
        {data && !findings.length && <p class="verdict"><Mark state="ok" /> {t("verdict.ok")}</p>}
        {findings.map((finding, i) => (
          <div class={i ? "finding further" : "finding"}>
            {i === 1 && <h3>{t("verdict.more")}</h3>}
            <p class="verdict">
              <Mark state={finding.severity} /> <strong><bdi>{finding.cause}</bdi></strong> <bdi>{finding.text}</bdi>
            </p>
            {finding.fix && (
              <div class="fix">
                <span class="note">{t("verdict.fix")}</span> <code><bdi>{finding.fix}</bdi></code> <Copy text={finding.fix} />
              </div>
            )}
            {finding.evidence.length > 0 && (
              <details>
                <summary>{t("verdict.evidence")}</summary>
                <ul class="evidence">{finding.evidence.map((line) => <li><bdi>{line}</bdi></li>)}</ul>
              </details>
            )}
          </div>
        ))}
        {data?.unseen?.length > 0 && (
          <details>
            <summary>{t("verdict.unseen")}: {data.unseen.length}</summary>
            <ul class="evidence">{data.unseen.map((line) => <li><bdi>{line}</bdi></li>)}</ul>
          </details>
        )}
      </div>
    </Panel>
  );
}

function NodeChoice({ nodes, value, onChange }) {
  return (
    <label class="choice">
      <span class="note">{t("path.from")}</span>{" "}
      <select value={value} onChange={(event) => onChange(event.target.value)}>
        {[...nodes.keys()].sort().slice(0, 500).map((name) => <option value={name}>{name}</option>)}
      </select>
    </label>
  );
}

const firstReady = (nodes) => [...nodes.values()].filter((node) => node.isReady).map((node) => node.key).sort()[0] || [...nodes.keys()][0] || "";

// The path of a connection, drawn: client, name, address, the rules of the node, then the backends with their chances.
function Path({ name, nodes, canTrace, revision }) {
  const [chosen, setNode] = useState("");
  const [port, setPort] = useState(0);
  const node = chosen || firstReady(nodes);
  const { data, error, loading } = useAsk("path", { service: name, node, port }, 6, revision);
  return (
    <Panel title={t("path")} wide id="path">
      <div class="choices">
        <NodeChoice nodes={nodes} value={node} onChange={setNode} />
        {data?.ports?.length > 1 && (
          <label class="choice">
            <span class="note">{t("path.port")}</span>{" "}
            <select value={port} onChange={(event) => setPort(Number(event.target.value))}>
              {data.ports.map((each, i) => <option value={i}>{each}</option>)}
            </select>
          </label>
        )}
      </div>
      {loading && <p class="quiet">…</p>}
      {error && <Failed why={error} />}
      {data && (
        <ol class="way">
          {data.steps.map((step) => (
            <li class={step.state}>
              <span class="note">{t(step.title)}</span>
              <b><Breakable text={step.title === "path.client" ? t("path.pod", { node: step.text }) : step.text} /></b>
              {step.lines.map((line) => <code><bdi>{line}</bdi></code>)}
            </li>
          ))}
          <li class={data.backends.length ? "ok fan" : "broken fan"}>
            <span class="note">{t("path.backends")}</span>
            {data.backends.length ? (
              <ul>
                {data.backends.slice(0, 12).map((each) => (
                  <li>
                    <span class="chance"><i style={{ width: `${Math.max(2, each.chance * 100)}%` }} /></span>
                    <span class="num">{t("path.chance", { percent: number(each.chance * 100, 1) })}</span>
                    <code><bdi>{each.address}</bdi></code>
                    <span class="note"><bdi>{[each.pod, each.node].filter(Boolean).join(" · ")}</bdi></span>
                  </li>
                ))}
                {data.backends.length > 12 && <li class="note">{t("path.more", { n: data.total - 12 })}</li>}
              </ul>
            ) : (
              <b>{t(`path.${data.outcome || "none"}`)}</b>
            )}
          </li>
        </ol>
      )}
      {data?.ports?.length > 0 && canTrace && <Trace key={`${node} ${port}`} node={node} port={data.ports[port] || data.ports[0]} />}
    </Panel>
  );
}

const STEP_MARKS = { ok: "ok", failed: "broken", unknown: "unknown" };

// One real connection from the node, followed through the kernel, on demand.
function Trace({ node, port }) {
  const [state, set] = useState({});
  const run = async () => {
    set({ running: true });
    try {
      set({ report: await ask("trace", { node, port }) });
    } catch (error) {
      set({ error: error.message });
    }
  };
  const { report } = state;
  return (
    <div class="trace" aria-live="polite">
      <button onClick={run} disabled={state.running}>{state.running ? t("trace.running") : t("trace.run")}</button>
      {state.error && <Failed why={state.error} />}
      {report && (
        <>
          <p class="verdict"><Mark state={report.works ? "ok" : report.works === null ? "unknown" : "broken"} /> <bdi>{report.verdict}</bdi></p>
          {report.differences.map((each) => <p class="failed"><Mark state="degraded" /> <bdi>{each}</bdi></p>)}
          <ol class="steps">
            {report.steps.map((step) => (
              <li>
                <Mark state={STEP_MARKS[step.state]} />
                <div>
                  <b><bdi>{step.name}</bdi></b> <bdi>{step.text}</bdi>
                  {step.evidence.length > 0 && (
                    <details>
                      <summary>{t("verdict.evidence")}</summary>
                      <ul class="evidence">{step.evidence.map((line) => <li><code><bdi>{line}</bdi></code></li>)}</ul>
                    </details>
                  )}
                </div>
              </li>
            ))}
          </ol>
          {report.unseen.map((each) => <Failed why={each} />)}
        </>
      )}
    </div>
  );
}

// Backends with the connections that each has now, as bars.
function Spread({ all, counts, unseen }) {
  const open = new Map();
  for (const [, address, , , known] of counts) open.set(address, (open.get(address) || 0) + known);
  const most = Math.max(1, ...open.values());
  const rows = [...all].sort((a, b) => (open.get(b[0]) || 0) - (open.get(a[0]) || 0) || a[3] - b[3] || (a[0] < b[0] ? -1 : 1));
  const byKey = new Map(rows.map((each, i) => [`${i}`, each]));
  return (
    <Panel title={t("spread")} note={counts.length ? t("spread.note") : ""} id="spread">
      {unseen && <Failed why={unseen} />}
      {!rows.length ? <p class="quiet">{t("spread.none")}</p> : (
        <VirtualList
          keys={[...byKey.keys()]}
          height={38}
          label={t("spread")}
          class="short" most={300}
          onOpen={(i) => {
            const [, pod, node] = byKey.get(i);
            location.hash = pod ? podLink(pod) : node ? nodeLink(node) : location.hash;
          }}
          row={(i) => {
            const each = byKey.get(i);
            if (!each) return null;
            const [address, pod, node, state] = each;
            const count = open.get(address) || 0;
            return (
              <span class="spread-row">
                <Mark state={MARKS[state]} />
                <span class="hidden">{t(["map.legend.ready", "map.legend.terminating", "map.legend.bad"][state])}</span>
                <span class="who"><code><bdi>{address}</bdi></code> <bdi class="note">{[pod.split("/").pop(), node].filter(Boolean).join(" · ")}</bdi></span>
                <span class="bar-box" aria-hidden="true"><i style={{ width: `${(count / most) * 100}%` }} /></span>
                <span class="num">{counts.length ? number(count) : "–"}</span>
              </span>
            );
          }}
        />
      )}
    </Panel>
  );
}

function Series({ name }) {
  const { data, error } = useAsk("series", { service: name }, 3);
  const minutes = data?.times?.length ? Math.max(1, Math.round((data.times.at(-1) - data.times[0]) / 60)) : 0;
  return (
    <Panel title={t("series")} note={minutes ? t("series.range", { minutes }) : ""} id="series">
      {error && <Failed why={error} />}
      {data && isEmpty(data.times, Object.values(data.series)) && <p class="quiet">{t("series.none")}</p>}
      {data && !isEmpty(data.times, Object.values(data.series)) && (
        <>
          <Chart times={data.times} values={[data.series.connections, data.series.errors]} labels={[t("series.connections"), t("series.errors")]} />
          <Chart times={data.times} values={[data.series.sync, data.series.programmed]} labels={[t("series.sync"), t("series.programmed")]} format={span} />
        </>
      )}
    </Panel>
  );
}

function Dns({ name, revision }) {
  const { data, error, loading } = useAsk("dns", { service: name }, 10, revision);
  return (
    <Panel title={t("dns")} note={data ? (data.server ? t("dns.asked", { server: data.server }) : t("dns.derived")) : ""} id="dns">
      {loading && <p class="quiet">…</p>}
      {error && <Failed why={error} />}
      {data && (
        <dl class="dns">
          {data.answers.map((each) => (
            <>
              <dt><code><bdi>{each.name}</bdi></code></dt>
              <dd>
                {each.records.length
                  ? each.records.map((record) => <div><code><bdi>{record}</bdi></code></div>)
                  : <span class="quiet"><bdi>{each.rcode}</bdi> {t("dns.none")}</span>}
                {each.answered && (
                  <div class={each.is_different ? "failed" : "note"}>
                    <Mark state={each.is_different ? "degraded" : "ok"} /> {t("dns.answered")}: <bdi>{each.answered}</bdi>
                  </div>
                )}
                {each.note && <span class="note"><bdi>{each.note}</bdi></span>}
              </dd>
            </>
          ))}
        </dl>
      )}
    </Panel>
  );
}

function ServiceRules({ name, nodes }) {
  const node = firstReady(nodes);
  return node ? <Rules node={node} service={name} /> : null;
}
