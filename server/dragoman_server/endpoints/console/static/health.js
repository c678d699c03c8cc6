// The providers' states, and charts of the gateway's numbers: the last minutes from receipts, then from its metrics.

import { getJson } from "./api.js";
import { Chart } from "./chart.js";
import { byId, el, failure, number, setText, table } from "./dom.js";
import { short } from "./scale.js";
import { quantile, Series } from "./series.js";

const INTERVAL = 2000;
const STATES = { working: "good", unused: "dim", cooling: "warn", paused: "bad", down: "bad" };

let timer = null;
let series = null;
let charts = null;

const rate = (value) => `${short(value)}/s`;
const bytes = (value) => `${short(value / 1e6)} MB`;
const percent = (value) => `${short(value * 100)} %`;
const span = (value) => (value < 1 ? `${short(value * 1000)} ms` : `${short(value)} s`);

const perSecond = (...names) => (bin, gap) => names.map((name) => (bin.isKnown ? bin[name] / gap : null));
const times = (name, buckets) => (bin, _, ends) => [0.5, 0.99].map((share) => quantile(bin[name], ends[buckets], share));
const MEDIAN = ["median", "99 %"];

// Each chart: its title, the text of a value, the names of its values, its values of a bin, and its legend.
const CHARTS = [
  ["Requests", rate, [""], perSecond("ended"), (last) => breakdown(last.requests)],
  ["Open requests", short, [""], (bin) => [bin.open], (last) => `${number(last.open_streams)} of them stream`],
  ["First event", span, MEDIAN, times("first_event", "seconds"), () => "from the request to the first event of its stream"],
  ["Between tokens", span, MEDIAN, times("token_time", "short"), () => "the mean gap of each stream"],
  ["Errors", rate, [""], perSecond("failed"), (last) => breakdown(last.errors)],
  ["Losses", rate, [""], perSecond("losses"), (last) => breakdown(last.losses)],
  ["Tokens", rate, ["in", "out"], perSecond("tokens_in", "tokens_out"), (last) => breakdown(last.tokens)],
  ["Lag of the event loop", span, MEDIAN, times("lag", "short"), (last) => `longest lately ${span(last.lag_max)}`],
  ["Processor", percent, [""], (bin) => [bin.cpuSeconds ? bin.cpu / bin.cpuSeconds : null], (last) => `${number(last.workers)} ${last.workers === 1 ? "process" : "processes"}`],
  ["Memory", bytes, [""], (bin) => [bin.memory], () => "of all processes"],
];

export function open() {
  timer = setTimeout(() => {}, 0);
  begin(timer);
}

export function close() {
  clearTimeout(timer);
  timer = null;
}

async function begin(mine) {
  try {
    const history = await getJson("api/history");
    if (timer !== mine) return;
    series = new Series(history, Date.now() / 1000, series);
    await load(mine);
  } catch (error) {
    if (timer === mine) lost(error, begin);
  }
}

async function load(mine) {
  try {
    const sample = await getJson("api/health");
    if (timer !== mine) return;
    series.add(sample, Date.now() / 1000);
    draw(sample);
    byId("connection").textContent = "live";
  } catch (error) {
    if (timer === mine) lost(error, begin);
    return;
  }
  const next = (timer = setTimeout(() => load(next), INTERVAL));
}

function lost(error, again) {
  byId("connection").textContent = "not connected";
  byId("health-failure").replaceChildren(failure(error));
  if (error.status === 401 || error.status === 403) return;
  const next = (timer = setTimeout(() => again(next), INTERVAL));
}

function draw(last) {
  byId("health-failure").replaceChildren();
  if (charts === null) {
    charts = CHARTS.map(([title, format, names]) => new Chart(title, format, names));
    byId("charts").replaceChildren(...charts.map((chart) => chart.element));
  }
  CHARTS.forEach(([, , , values, legend], at) => {
    charts[at].update(series.points((bin, gap) => values(bin, gap, last.buckets)), series.span, legend(last));
  });
  byId("providers").replaceChildren(
    ...table(
      [["Provider", ""], ["API", ""], ["State", ""], ["Requests", "number"], ["Errors", "number"], ["Waiting", "number"]],
      last.providers.map((each) => [each.name, each.dialect, stateOf(each), number(each.requests), number(each.errors), number(each.queued)]),
    ),
  );
  byId("keys").replaceChildren(
    ...table(
      [["Key", "wrap"], ["Requests", "number"], ["Tokens in", "number"], ["Tokens out", "number"], ["Cost", "number"]],
      last.keys.map((each) => [each.name || "without a name", number(each.requests), number(each.input), number(each.output), each.cost ?? "no price"]),
    ),
  );
  const [from, to] = series.span;
  setText(byId("health-summary"), `The last ${number((to - from) / 60)} minutes, in steps of ten seconds.`);
}

function stateOf(provider) {
  const again = provider.again ? `, again in ${number(provider.again)} s` : "";
  const cooling = provider.state === "cooling" ? ` (${provider.cooling})` : "";
  return el("span", { class: STATES[provider.state] }, `${provider.state}${cooling}${again}`);
}

function breakdown(numbers) {
  const parts = Object.entries(numbers).filter(([, value]) => value > 0).sort((one, other) => other[1] - one[1]);
  if (!parts.length) return "none since the start";
  return `since the start: ${parts.slice(0, 6).map(([name, value]) => `${name} ${number(value)}`).join(", ")}`;
}
