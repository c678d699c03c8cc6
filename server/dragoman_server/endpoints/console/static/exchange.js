// One exchange: its facts, its losses, its attempts, and the events of its stream if they were recorded.

import { getJson, hasKey } from "./api.js";
import { exact, time } from "./clock.js";
import { copyBox, quoted } from "./copybox.js";
import { diffTable, lossTable } from "./diff.js";
import { byId, el, facts, failure, notice, number, scroller, seconds, table } from "./dom.js";
import { sides } from "./sides.js";

const AGAIN = 1000;
let timer = null;

export function open(id) {
  byId("exchange-title").textContent = `Exchange ${id}`;
  byId("exchange").replaceChildren(el("p", { class: "hint" }, "Loading…"));
  byId("connection").textContent = "";
  load(id);
}

export function close() {
  clearTimeout(timer);
  timer = null;
}

async function load(id) {
  const mine = (timer = setTimeout(() => {}, 0));
  try {
    const view = await getJson(`api/exchanges/${encodeURIComponent(id)}`);
    if (timer !== mine) return;
    byId("exchange").replaceChildren(...parts(view));
    if (view.row.state === "open") timer = setTimeout(() => load(id), AGAIN);
  } catch (error) {
    if (timer === mine) byId("exchange").replaceChildren(failure(error));
  }
}

function parts({ row, receipt, cost, recording, capture }) {
  const usage = receipt.usage ?? {};
  const found = [
    facts([
      ["State", row.status ? `${row.state}, status ${row.status}` : row.state],
      ["Time", el("time", { datetime: exact(row.time), title: exact(row.time) }, time(row.time))],
      ["Host", row.host],
      ["Reason", row.reason],
      ["Direction", row.upstream === null ? row.client : `${row.client} → ${row.upstream}`],
      ["Model", row.upstream_model && row.upstream_model !== row.model ? `${row.model}, sent as ${row.upstream_model}` : row.model],
      ["Provider", row.provider],
      ["Route", row.route],
      ["Client", row.profile],
      ["Key", row.key],
      ["Duration", seconds(row.seconds)],
      ["First event", seconds(row.first)],
      ["Tokens", tokens(usage)],
      ["Cost", cost],
      ["Error", receipt.error ? Object.values(receipt.error).filter(Boolean).join(", ") : null],
    ]),
    el("h3", {}, "Losses"),
    row.state === "open" && !receipt.losses ? el("p", { class: "hint" }, "The losses are listed when the exchange has ended.") : lossTable(receipt.losses, receipt.losses_total),
  ];
  if (capture) found.push(...requests(row, capture, receipt.endpoint));
  const renames = Object.entries(receipt.renames ?? {});
  if (renames.length) found.push(el("h3", {}, "Renamed tools"), scroller("Renamed tools", ...table([["Sent as", "wrap"], ["The client's name", "wrap"]], renames)));
  if (receipt.attempts?.length) {
    const lines = receipt.attempts.map((each) => [each.provider, each.upstream_model, each.status ? `${each.outcome} (${each.status})` : each.outcome, seconds(each.seconds), seconds(each.waited)]);
    found.push(el("h3", {}, "Attempts"), scroller("Attempts", ...table([["Provider", ""], ["Model", "wrap"], ["Outcome", ""], ["Seconds", "number"], ["Waited", "number"]], lines)));
  }
  found.push(el("h3", {}, "The stream"));
  if (capture) found.push(sides(capture.recording, row.upstream, row.client));
  else if (recording !== null) found.push(sides(recording, row.upstream, row.client));
  else found.push(notice("It was neither captured nor recorded. Press “Record the next 5” above the table, then send the request again: types and lengths of the events on both sides are kept, and no texts."));
  found.push(el("h3", {}, "Receipt"), el("pre", { class: "box", tabindex: "0", "aria-label": "Receipt" }, JSON.stringify(receipt, null, 2)));
  return found;
}

function requests(row, capture, endpoint) {
  const found = [el("h3", {}, "The request")];
  if (!capture.texts) found.push(el("p", { class: "hint" }, "Texts are hidden in this capture: capture.texts is off."));
  if (capture.truncated) found.push(el("p", { class: "hint" }, "Parts of it were too long to be kept."));
  if (capture.sent === null) found.push(notice("Nothing was sent to an upstream."));
  else found.push(diffTable(capture.diff));
  found.push(body("As received", capture.received));
  if (capture.sent !== null) found.push(body("As sent", capture.sent));
  found.push(
    commands("As curl", curl(capture)),
    commands("Commands", [`dragoman capture show ${row.id}`, ...(endpoint ? [] : [`dragoman replay ${row.id}`, `dragoman replay ${row.id} --fixture DIR`])].join("\n")),
  );
  return found;
}

function body(title, part) {
  const text = part.body === null ? `${number(part.bytes)} bytes that are no text` : pretty(part.body);
  return el("details", {}, el("summary", {}, `${title}: ${part.head}, ${number(part.bytes)} bytes${part.cut ? ", cut" : ""}`), el("pre", { class: "box", tabindex: "0", "aria-label": title }, text));
}

const commands = (title, text) => el("details", {}, el("summary", {}, title), copyBox(title, text));

// Headers with a key are masked in a capture, and are left out here.
function curl({ received, headers }) {
  const [method, path] = received.head.split(" ");
  const kept = headers.filter(([name, value]) => value !== "***" && (name.startsWith("anthropic-") || name.startsWith("x-dragoman-")));
  const lines = [`curl -N -X ${quoted(method)} ${quoted(location.origin + path)}`, "  -H 'content-type: application/json'", ...kept.map(([name, value]) => `  -H ${quoted(`${name}: ${value}`)}`)];
  if (hasKey()) lines.push('  -H "x-api-key: $GATEWAY_KEY"');
  return [...lines, `  --data-raw ${quoted(received.body ?? "")}`].join(" \\\n");
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function tokens(usage) {
  const names = { input_total: "in", cache_read: "read from a cache", cache_write: "written to a cache", output_total: "out", reasoning: "reasoning" };
  return Object.entries(names).filter(([name]) => usage[name]).map(([name, word]) => `${number(usage[name])} ${word}`).join(", ");
}
