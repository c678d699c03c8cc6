// Charts as SVG. Each has a text for readers that do not see it.

import { el, svg } from "./dom.js";

const HEIGHT = 40;

function points(values, width, highest) {
  const step = width / Math.max(1, values.length - 1);
  return values.map((value, at) => `${(at * step).toFixed(1)},${(HEIGHT - 2 - (value / highest) * (HEIGHT - 4)).toFixed(1)}`);
}

function drawing(values, width, attributes) {
  const highest = Math.max(...values, Number.MIN_VALUE);
  const line = points(values, width, highest);
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${HEIGHT}`, preserveAspectRatio: "none", ...attributes },
    svg("polygon", { class: "area", points: [`0,${HEIGHT}`, ...line, `${width},${HEIGHT}`].join(" ") }),
    svg("polyline", { class: "line", points: line.join(" ") }),
  );
}

export function sparkline(values, label) {
  return drawing(values, 120, { class: "spark", role: "img", "aria-label": label });
}

export function chart(title, values, shown, legend) {
  const label = `${title}: now ${shown(values.at(-1) ?? 0)}, highest ${shown(Math.max(0, ...values))}`;
  return el(
    "figure",
    {},
    el("figcaption", {}, el("span", {}, title), el("strong", {}, shown(values.at(-1) ?? 0))),
    drawing(values.length > 1 ? values : [0, 0], 300, { role: "img", "aria-label": label }),
    legend ? el("p", { class: "legend" }, legend) : null,
  );
}
