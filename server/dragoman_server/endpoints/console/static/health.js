// Charts of the gateway's metrics. Each is drawn from the differences between two answers.

import { getJson } from "./api.js";
import { chart } from "./chart.js";
import { byId, el, failure, number, table } from "./dom.js";

const INTERVAL = 2000;
const KEEP = 150;
const STATES = { working: "good", unused: "dim", cooling: "warn", paused: "bad", down: "bad" };

let timer = null;
let samples = [];

export function open() {
  timer = setTimeout(() => {}, 0);
  load(timer);
}

export function close() {
  clearTimeout(timer);
  timer = null;
}

async function load(mine) {
  try {
    const sample = await getJson("api/health");
    if (timer !== mine) return;
    sample.at = performance.now() / 1000;
    samples.push(sample);
    if (samples.length > KEEP) samples = samples.slice(-KEEP);
    draw();
    byId("connection").textContent = "live";
  } catch (error) {
    if (timer !== mine) return;
    byId("connection").textContent = "not connected";
    byId("charts").replaceChildren(failure(error));
    if (error.status === 401 || error.status === 403) return;
  }
  const next = (timer = setTimeout(() => load(next), INTERVAL));
}

// One number for each pair of neighbours.
const between = (value) => samples.slice(1).map((sample, at) => value(samples[at], sample, sample.at - samples[at].at));

const total = (numbers) => Object.values(numbers).reduce((sum, each) => sum + each, 0);

const rate = (name) => between((one, two, gap) => Math.max(0, total(two[name]) - total(one[name])) / gap);

// The upper end of the bucket that holds a share of the new values; 0 if there are none.
function percentile(one, two, buckets, share) {
  const counts = two.slice(0, -1).map((count, at) => Math.max(0, count - one[at]));
  const wanted = counts.reduce((sum, each) => sum + each, 0) * share;
  if (wanted === 0) return 0;
  let seen = 0;
  for (const [at, count] of counts.entries()) {
    seen += count;
    if (seen >= wanted) return buckets[Math.min(at, buckets.length - 1)];
  }
  return buckets.at(-1);
}

const perSecond = (value) => `${number(value, value < 10 ? 1 : 0)}/s`;
const span = (value) => (value === 0 ? "–" : value < 1 ? `≤ ${number(value * 1000)} ms` : `≤ ${number(value, 1)} s`);

function draw() {
  const last = samples.at(-1);
  const long = last.buckets.seconds;
  const short = last.buckets.short;
  const at = (name, buckets, share) => between((one, two) => percentile(one[name], two[name], buckets, share));
  byId("charts").replaceChildren(
    chart("Open requests", samples.map((each) => each.open_requests), number, `${number(last.open_streams)} of them stream`),
    chart("Requests", rate("requests"), perSecond, breakdown(last.requests)),
    chart("First event, half of them", at("first_event", long, 0.5), span, `95 %: ${span(at("first_event", long, 0.95).at(-1) ?? 0)}`),
    chart("Between tokens, half of them", at("token_time", short, 0.5), span, `95 %: ${span(at("token_time", short, 0.95).at(-1) ?? 0)}`),
    chart("Lag of the event loop, 99 %", at("lag", short, 0.99), span, `longest lately ${number(last.lag_max * 1000)} ms`),
    chart("Errors", rate("errors"), perSecond, breakdown(last.errors)),
    chart("Losses", rate("losses"), perSecond, breakdown(last.losses)),
    chart("Tokens", rate("tokens"), perSecond, breakdown(last.tokens)),
    chart("Processor", between((one, two, gap) => Math.max(0, two.cpu - one.cpu) / gap), (value) => `${number(value * 100)} %`, `${number(last.workers)} processes`),
    chart("Memory", samples.map((each) => each.memory / 1e6), (value) => `${number(value)} MB`),
  );
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
  byId("health-summary").textContent = samples.length < 2 ? "The charts begin when this view is opened." : `The last ${number(last.at - samples[0].at)} seconds.`;
}

function stateOf(provider) {
  const again = provider.again ? `, again in ${number(provider.again)} s` : "";
  const cooling = provider.state === "cooling" ? ` (${provider.cooling})` : "";
  return el("span", { class: STATES[provider.state] }, `${provider.state}${cooling}${again}`);
}

function breakdown(numbers) {
  const parts = Object.entries(numbers).filter(([, value]) => value > 0).sort((one, other) => other[1] - one[1]);
  if (!parts.length) return "none since the start";
  return parts.slice(0, 6).map(([name, value]) => `${name} ${number(value)}`).join(", ");
}
