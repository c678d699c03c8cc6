// One exchange: its facts, its losses, its attempts, and the events of its stream if they were recorded.

import { getJson } from "./api.js";
import { lossTable } from "./diff.js";
import { byId, el, facts, failure, notice, number, scroller, seconds, table, time } from "./dom.js";
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

function parts({ row, receipt, cost, recording }) {
  const usage = receipt.usage ?? {};
  const found = [
    facts([
      ["State", row.status ? `${row.state}, status ${row.status}` : row.state],
      ["Time", time(row.time)],
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
  const renames = Object.entries(receipt.renames ?? {});
  if (renames.length) found.push(el("h3", {}, "Renamed tools"), scroller("Renamed tools", ...table([["Sent as", "wrap"], ["The client's name", "wrap"]], renames)));
  if (receipt.attempts?.length) {
    const lines = receipt.attempts.map((each) => [each.provider, each.upstream_model, each.status ? `${each.outcome} (${each.status})` : each.outcome, seconds(each.seconds), seconds(each.waited)]);
    found.push(el("h3", {}, "Attempts"), scroller("Attempts", ...table([["Provider", ""], ["Model", "wrap"], ["Outcome", ""], ["Seconds", "number"], ["Waited", "number"]], lines)));
  }
  found.push(el("h3", {}, "The stream"));
  if (recording !== null) found.push(sides(recording, row.upstream, row.client));
  else found.push(notice("Its events were not recorded. Press “Record the next 5” above the table, then send the request again: types and lengths of the events on both sides are kept, and no texts."));
  found.push(el("h3", {}, "Receipt"), el("pre", { class: "box", tabindex: "0", "aria-label": "Receipt" }, JSON.stringify(receipt, null, 2)));
  return found;
}

function tokens(usage) {
  const names = { input_total: "in", cache_read: "read from a cache", cache_write: "written to a cache", output_total: "out", reasoning: "reasoning" };
  return Object.entries(names).filter(([name]) => usage[name]).map(([name, word]) => `${number(usage[name])} ${word}`).join(", ");
}
