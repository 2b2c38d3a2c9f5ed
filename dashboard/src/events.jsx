import { useEffect, useState } from "preact/hooks";
import { lookAt, useStore } from "./feed.js";
import { age, t } from "./text.js";
import { Mark, nodeLink, podLink, serviceLink } from "./parts.jsx";
import { Filter } from "./services.jsx";

const LINKS = { Service: serviceLink, Pod: podLink, Node: nodeLink };

export function EventList({ events, empty, withObject }) {
  const now = Date.now() / 1000;
  if (!events.length) return <p class="quiet">{empty}</p>;
  return (
    <ol class="timeline">
      {events.map((event) => {
        const key = event.kind === "Node" ? event.name : `${event.namespace}/${event.name}`;
        const link = LINKS[event.kind];
        return (
          <li class={event.type === "Warning" ? "warning" : ""}>
            <Mark state={event.type === "Warning" ? "degraded" : "ok"} />
            <time dateTime={new Date(event.last * 1000).toISOString()}>{age(now - event.last)}</time>
            <div>
              <strong><bdi>{event.reason}</bdi></strong>
              {event.count > 1 && <span class="note"> ×{event.count}</span>}
              {withObject && (
                <span class="note">
                  {" "}
                  {link ? <a href={link(key)}><bdi>{event.kind} {key}</bdi></a> : <bdi>{event.kind} {key}</bdi>}
                </span>
              )}
              <p><bdi>{event.message}</bdi></p>
            </div>
          </li>
        );
      })}
    </ol>
  );
}

export function EventsView() {
  const { events } = useStore();
  const [filter, setFilter] = useState("");
  useEffect(() => lookAt("events"), []);
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = [...events.values()]
    .filter((event) => {
      const text = `${event.kind} ${event.namespace}/${event.name} ${event.reason} ${event.message}`.toLowerCase();
      return words.every((word) => text.includes(word));
    })
    .sort((a, b) => b.last - a.last)
    .slice(0, 200);
  return (
    <div class="page">
      <div class="bar">
        <h1>{t("events")}</h1>
        <Filter value={filter} onInput={setFilter} />
      </div>
      <EventList events={shown} empty={t("empty.events")} withObject />
    </div>
  );
}
