import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { language, number, t } from "./text.js";

// Whether there is nothing to draw: no line has two points in time and a value.
export const isEmpty = (times, values) => !times || times.length < 2 || values.every((each) => each.every((value) => value === null));

// Lines over time. `times`: epoch seconds; `values`: one list for each label, with null where nothing is known.
export function Chart({ times, values, labels, format = number, height = 130 }) {
  const box = useRef(null);
  const plot = useRef(null);
  const empty = isEmpty(times, values);
  const shape = `${labels.join()}|${empty}`;
  useEffect(() => {
    if (empty) return undefined;
    const make = () => {
      plot.current?.destroy();
      if (!box.current) return;
      const style = getComputedStyle(document.documentElement);
      const of = (name) => style.getPropertyValue(name).trim();
      const axis = { stroke: of("--quiet"), grid: { stroke: of("--line"), width: 0.5 }, ticks: { show: false }, font: "11px system-ui" };
      plot.current = new uPlot(
        {
          width: box.current.clientWidth || 300,
          height,
          legend: { show: false },
          cursor: { y: false, points: { size: 6 } },
          scales: { x: { range: (_, low, high) => [Math.min(low, high - 120), high] }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.15 : 1] } },
          axes: [{ ...axis, size: 24, space: 90, values: (_, ticks) => ticks.map((each) => new Date(each * 1000).toLocaleTimeString(language, { hour12: false })) }, { ...axis, size: 52, values: (_, ticks) => ticks.map((each) => format(each)) }],
          series: [
            {},
            ...labels.map((label, i) => ({
              label, stroke: of(["--accent", "--bad", "--warn"][i]), width: 1.5, dash: i ? [5, 3] : undefined, spanGaps: false,
              fill: i ? undefined : of("--wash"), points: { show: false },
            })),
          ],
        },
        [times, ...values],
        box.current,
      );
    };
    make();
    const observer = new ResizeObserver(() => box.current && plot.current?.setSize({ width: box.current.clientWidth, height }));
    observer.observe(box.current);
    addEventListener("themechange", make);
    return () => {
      observer.disconnect();
      removeEventListener("themechange", make);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => {
    if (!empty) plot.current?.setData([times, ...values]);
  });
  if (empty) return <p class="quiet">{t("series.none")}</p>;
  const last = (list) => list.findLast((value) => value !== null);
  return (
    <figure class="chart">
      <div ref={box} aria-hidden="true" />
      <figcaption>{labels.map((label, i) => <span class={`key key${i}`}>{label}: <b>{format(last(values[i]))}</b></span>)}</figcaption>
    </figure>
  );
}
