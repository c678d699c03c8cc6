// A small curve in a line of the table.

import { svg } from "./dom.js";

const WIDTH = 120;
const HEIGHT = 40;

export function sparkline(values, label) {
  const highest = Math.max(...values, Number.MIN_VALUE);
  const step = WIDTH / Math.max(1, values.length - 1);
  const line = values.map((value, at) => `${(at * step).toFixed(1)},${(HEIGHT - 2 - (value / highest) * (HEIGHT - 4)).toFixed(1)}`);
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", class: "spark", role: "img", "aria-label": label },
    svg("polygon", { class: "area", points: [`0,${HEIGHT}`, ...line, `${WIDTH},${HEIGHT}`].join(" ") }),
    svg("polyline", { class: "line", points: line.join(" ") }),
  );
}
