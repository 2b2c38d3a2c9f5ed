import { useEffect, useState } from "preact/hooks";
import { lookAt, useStore } from "./feed.js";
import { number, t } from "./text.js";
import { Name, State, VirtualList, serviceLink, stateOrder } from "./parts.jsx";

// The keys of the Services that match, those with a problem first.
export function matching(services, filter) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  for (const [key, row] of services) {
    if (words.length) {
      const text = `${key} ${row.ips.join(" ")} ${row.ports.join(" ")} ${row.type} ${t(`state.${row.state}`)}`.toLowerCase();
      if (!words.every((word) => text.includes(word))) continue;
    }
    found.push(key);
  }
  return found.sort(
    (a, b) => stateOrder[services.get(a).state] - stateOrder[services.get(b).state] || (a < b ? -1 : 1),
  );
}

export function Filter({ value, onInput }) {
  return (
    <input
      type="search"
      aria-label={t("filter")}
      placeholder={`${t("filter")}   /`}
      value={value}
      onInput={(event) => onInput(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key !== "ArrowDown" && event.key !== "Enter") return;
        document.querySelector(".virtual")?.focus();
        event.preventDefault();
      }}
    />
  );
}

export function Totals({ services }) {
  let bad = 0;
  for (const row of services.values()) if (row.problem) bad += 1;
  return (
    <p class="totals">
      {t("total.services", { n: number(services.size) })}
      {" · "}
      <span class={bad ? "bad" : ""}>{bad ? t("problems", { n: bad }) : t("problems.none")}</span>
    </p>
  );
}

export function ServicesView() {
  const { services, flows, state } = useStore();
  const [filter, setFilter] = useState("");
  useEffect(() => lookAt("services"), []);
  const keys = matching(services, filter);
  return (
    <div class="page fill">
      <div class="bar">
        <h1>{t("services")}</h1>
        <Totals services={services} />
        <Filter value={filter} onInput={setFilter} />
      </div>
      <div class="table-head services-grid" aria-hidden="true">
        <span>{t("status")}</span><span>{t("name")}</span><span>{t("type")}</span><span>{t("address")}</span>
        <span>{t("ports")}</span><span class="num">{t("ready")}</span><span class="num">{t("open")}</span>
      </div>
      <VirtualList
        keys={keys}
        height={40}
        label={t("services")}
        class="services-list"
        onOpen={(key) => (location.hash = serviceLink(key))}
        empty={state !== "live" ? "…" : services.size ? t("empty.services") : t("empty.services.none")}
        row={(key) => {
          const row = services.get(key);
          if (!row) return null;
          return (
            <span class="services-grid">
              <State state={row.state} />
              <Name namespace={row.ns} name={row.name} />
              <span class="type">{row.type}</span>
              <span class="mono address">{row.ips[0] || "–"}</span>
              <span class="mono ports">{row.ports.join(" ")}</span>
              <span class="num ready">{row.type === "ExternalName" ? "–" : `${row.ready}/${row.total}`}</span>
              <span class="num rate">{number(flows?.open?.[key])}</span>
            </span>
          );
        }}
      />
    </div>
  );
}
