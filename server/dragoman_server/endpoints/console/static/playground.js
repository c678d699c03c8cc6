// The playground: a request is explained while it is written, and sent as a client would send it.

import { getJson, readEvents, request } from "./api.js";
import { diffTable } from "./diff.js";
import { byId, el, facts, failure, notice } from "./dom.js";
import { EXAMPLES, PATHS } from "./examples.js";
import { ReplyView } from "./replyview.js";
import { sides } from "./sides.js";

const PAUSE = 300;
const SHOWN = 40_000;

let listening = false;
let pending = 0;
let explaining = null;
let sending = null;

export function open() {
  byId("connection").textContent = "";
  listen();
  if (!byId("play-body").value) fill();
  loadModels();
  explain();
}

export function close() {
  clearTimeout(pending);
  explaining?.abort();
  sending?.abort();
}

function listen() {
  if (listening) return;
  listening = true;
  byId("play-dialect").addEventListener("change", () => { fill(); explain(); });
  byId("play-example").addEventListener("change", () => { fill(); explain(); });
  byId("play-model").addEventListener("change", setModel);
  byId("play-body").addEventListener("input", () => {
    clearTimeout(pending);
    pending = setTimeout(explain, PAUSE);
  });
  byId("play").addEventListener("submit", (event) => { event.preventDefault(); send(); });
  byId("play-stop").addEventListener("click", () => sending?.abort());
}

async function loadModels() {
  try {
    const list = await getJson("../v1/models");
    byId("play-models").replaceChildren(...list.data.slice(0, 300).map((model) => el("option", { value: model.id })));
    if (!byId("play-model").value && list.data.length) {
      byId("play-model").value = list.data[0].id;
      setModel();
    }
  } catch { /* the list is a help only: a model can be typed */ }
}

function fill() {
  const body = { model: byId("play-model").value || "sim-text", ...EXAMPLES[byId("play-dialect").value][byId("play-example").value] };
  byId("play-body").value = JSON.stringify(body, null, 2);
}

function setModel() {
  try {
    const body = JSON.parse(byId("play-body").value);
    body.model = byId("play-model").value;
    byId("play-body").value = JSON.stringify(body, null, 2);
  } catch { /* what is being written is not JSON: it stays */ }
  explain();
}

async function explain() {
  explaining?.abort();
  const mine = (explaining = new AbortController());
  const place = byId("play-explain");
  const text = byId("play-body").value;
  try {
    JSON.parse(text);
  } catch (error) {
    place.replaceChildren(notice(`This is not JSON yet: ${error.message}`));
    return;
  }
  try {
    const from = byId("play-dialect").value;
    const response = await request(`api/explain?from=${from}`, { method: "POST", body: text, signal: mine.signal });
    place.replaceChildren(...explained(await response.json()));
  } catch (error) {
    if (!mine.signal.aborted) place.replaceChildren(failure(error));
  }
}

function explained(answer) {
  const parts = [
    facts([
      ["Direction", `${answer.client} → ${answer.upstream}${answer.passthrough ? ", bytes pass through" : ""}`],
      ["Provider", answer.provider],
      ["Sent to", answer.url],
      ["Model", answer.upstream_model],
      ["Losses", answer.losses_total ? String(answer.losses_total) : "none"],
      ["Warning", answer.warning],
    ]),
    diffTable(answer.diff),
  ];
  const body = el("pre", { class: "box", tabindex: "0", "aria-label": "The body that would be sent" }, JSON.stringify(answer.body, null, 2));
  parts.push(el("details", {}, el("summary", {}, "The whole body"), body));
  return parts;
}

async function send() {
  sending?.abort();
  const mine = (sending = new AbortController());
  const place = byId("play-stream");
  const output = el("pre", { class: "box", tabindex: "0", "aria-label": "What the client gets" });
  const view = new ReplyView();
  place.replaceChildren(el("div", { class: "sides" }, el("div", {}, el("h4", {}, "The reply"), view.element), el("div", {}, el("h4", {}, "What the client gets"), output)));
  byId("play-stop").disabled = false;
  byId("play-state").textContent = "sending";
  let id = null;
  try {
    const path = PATHS[byId("play-dialect").value];
    const headers = byId("play-capture").checked ? { "x-dragoman-capture": "1" } : {};
    const response = await request(`api/send/${path}`, { method: "POST", headers, body: byId("play-body").value, signal: mine.signal });
    id = response.headers.get("x-dragoman-request-id");
    byId("play-state").textContent = "receiving";
    if (response.headers.get("content-type")?.startsWith("text/event-stream")) {
      await readEvents(response, (name, data) => {
        append(output, `${name ? `event: ${name}\n` : ""}data: ${data}\n\n`);
        view.reply.event(data);
      });
    } else {
      const whole = await response.json();
      append(output, JSON.stringify(whole, null, 2));
      view.reply.whole(whole);
    }
    byId("play-state").textContent = "complete";
  } catch (error) {
    byId("play-state").textContent = mine.signal.aborted ? "stopped" : "failed";
    if (!mine.signal.aborted) append(output, error.message);
  }
  if (sending !== mine) return;
  byId("play-stop").disabled = true;
  if (id !== null) await showSides(place, id);
}

function append(output, text) {
  const room = SHOWN - output.textContent.length;
  if (room > 0) output.append(text.length > room ? `${text.slice(0, room)}\n… more is not shown` : text);
}

async function showSides(place, id) {
  try {
    const view = await getJson(`api/exchanges/${encodeURIComponent(id)}`);
    place.append(el("p", {}, el("a", { href: `#exchange/${encodeURIComponent(id)}` }, "Open this exchange")));
    if (view.recording !== null) place.append(el("h4", {}, "Both sides, with times"), sides(view.recording, view.row.upstream, view.row.client));
  } catch (error) {
    place.append(failure(error));
  }
}
