// A chart over time, with scales. The values at a moment are shown where the pointer is, or with the arrow keys.

import { clock, minute } from "./clock.js";
import { el, setText, svg } from "./dom.js";
import { roundUp, ticks } from "./scale.js";

const HEIGHT = 130;
const MARGIN = { left: 52, right: 8, top: 8, bottom: 18 };
const TICK = 120; // seconds between two times at the axis

export class Chart {
  #title;
  #format;
  #names;
  #value = el("strong");
  #legend = el("p", { class: "legend" });
  #plot = el("div", { class: "plot", role: "slider", tabindex: "0", "aria-valuemin": "0" });
  #points = []; // {from, to, values}: Unix seconds, and a value or null for each name
  #span = [0, 1];
  #chosen = null; // the place of the point that is shown; null for the last one
  #marks = null;

  // `format` makes the text of a value. `names` are those of the values of a point; the second one has a dashed line.
  constructor(title, format, names) {
    this.#title = title;
    this.#format = format;
    this.#names = names;
    this.element = el("figure", {}, el("figcaption", {}, el("span", {}, title), this.#value), this.#plot, this.#legend);
    this.#plot.addEventListener("pointermove", (event) => this.#choose(this.#at(event)));
    this.#plot.addEventListener("pointerleave", () => this.#choose(null));
    this.#plot.addEventListener("blur", () => this.#choose(null));
    this.#plot.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.#draw()).observe(this.#plot);
  }

  update(points, span, legend = "") {
    const gone = this.#points.findIndex((point) => point.from === points[0]?.from);
    if (this.#chosen !== null && gone > 0) this.#chosen = Math.max(0, this.#chosen - gone);
    this.#points = points;
    this.#span = span;
    setText(this.#legend, legend);
    this.#plot.setAttribute("aria-valuemax", String(Math.max(0, points.length - 1)));
    this.#draw();
  }

  #key(event) {
    const last = this.#points.length - 1;
    const at = this.#chosen ?? last;
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last, Escape: null }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.#choose(next === null ? null : Math.min(last, Math.max(0, next)));
  }

  #at(event) {
    const box = this.#plot.getBoundingClientRect();
    const time = this.#time(event.clientX - box.left, box.width);
    const found = this.#points.findIndex((point) => time < point.to);
    return found < 0 ? this.#points.length - 1 : found;
  }

  #time(x, width) {
    const [from, to] = this.#span;
    return from + ((x - MARGIN.left) / (width - MARGIN.left - MARGIN.right)) * (to - from);
  }

  #choose(place) {
    this.#chosen = place;
    this.#mark();
  }

  #draw() {
    const width = this.#plot.clientWidth;
    if (!width) return;
    const [from, to] = this.#span;
    const top = roundUp(Math.max(0, ...this.#points.flatMap((point) => point.values)));
    const x = (time) => MARGIN.left + ((time - from) / (to - from)) * (width - MARGIN.left - MARGIN.right);
    const y = (value) => HEIGHT - MARGIN.bottom - (value / top) * (HEIGHT - MARGIN.top - MARGIN.bottom);
    const parts = [0, top / 2, top].flatMap((value) => [
      svg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) }),
      svg("text", { class: "axis", x: MARGIN.left - 5, y: y(value) + 4, "text-anchor": "end" }, this.#format(value)),
    ]);
    for (const time of ticks(from, to, TICK)) {
      if (x(time) < MARGIN.left + 14 || x(time) > width - 18) continue;
      parts.push(svg("text", { class: "axis", x: x(time), y: HEIGHT - 4, "text-anchor": "middle" }, minute(new Date(time * 1000))));
    }
    this.#names.forEach((_, at) => parts.push(...this.#curve(at, x, y)));
    this.#marks = svg("g");
    this.#plot.replaceChildren(svg("svg", { width, height: HEIGHT, "aria-hidden": "true" }, ...parts, this.#marks));
    this.#marks.scale = { x, y };
    this.#mark();
  }

  // A line through the ends of the points, with gaps where there is no value; a value alone is a dot.
  #curve(at, x, y) {
    const kind = at ? "second" : "first";
    const runs = [];
    let run = null;
    for (const point of this.#points) {
      const value = point.values[at];
      if (value === null) run = null;
      else if (run === null) runs.push((run = [[x(point.to), y(value)]]));
      else run.push([x(point.to), y(value)]);
    }
    return runs.map((each) =>
      each.length === 1
        ? svg("circle", { class: `dot ${kind}`, cx: each[0][0], cy: each[0][1], r: 2 })
        : svg("polyline", { class: `line ${kind}`, points: each.map((pair) => pair.map((one) => one.toFixed(1)).join(",")).join(" ") }),
    );
  }

  #mark() {
    if (this.#marks === null || !this.#points.length) return;
    const last = this.#points.length - 1;
    const known = this.#points.findLastIndex((each) => each.values.some((value) => value !== null));
    const at = Math.min(this.#chosen ?? (known < 0 ? last : known), last);
    const point = this.#points[at];
    const named = point.values.map((value, place) => {
      const text = value === null ? "–" : this.#format(value);
      return this.#names.length > 1 ? `${this.#names[place]} ${text}` : text;
    });
    const moment = clock(new Date(point.to * 1000));
    setText(this.#value, `${at === last && this.#chosen === null ? "" : `${moment}  `}${named.join(", ")}`);
    this.#plot.setAttribute("aria-label", this.#title);
    this.#plot.setAttribute("aria-valuenow", String(at));
    this.#plot.setAttribute("aria-valuetext", `${moment}: ${named.join(", ")}`);
    const { x, y } = this.#marks.scale;
    const dots = point.values.flatMap((value, place) => (value === null ? [] : [svg("circle", { class: `dot ${place ? "second" : "first"}`, cx: x(point.to), cy: y(value), r: 3 })]));
    this.#marks.replaceChildren(
      ...(this.#chosen === null ? [] : [svg("line", { class: "cursor", x1: x(point.to), x2: x(point.to), y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }), ...dots]),
    );
  }
}
