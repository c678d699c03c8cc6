// The table of the newest exchanges, from the gateway's snapshots.

import { readEvents, request } from "./api.js";
import { sparkline } from "./chart.js";
import { byId, el, failure, number, seconds, time } from "./dom.js";

const RETRY = 1000;
const HISTORY = 30;
const FILTERS = ["text", "state", "client", "upstream", "losses"];
const STATES = { open: "", completed: "good", failed: "bad", refused: "bad", rejected: "warn", abandoned: "dim" };

let stop = null;
let paused = false;
let listening = false;
const rates = new Map(); // id → the characters at the last snapshot, and the rates of the last ones
const shown = new Map(); // id → its line in the table
const hosts = new Set(); // the names of all hosts, which are shown if there are several
const known = new Map(); // id → the row; of a row that is known, a snapshot has only what changes

export function open() {
  listen();
  if (!paused) connect();
  else state("paused");
}

export function close() {
  stop?.abort();
  stop = null;
}

function state(text) {
  byId("connection").textContent = text;
}

function query() {
  const parts = new URLSearchParams();
  for (const name of FILTERS) {
    const input = byId(`filter-${name}`);
    const value = input.type === "checkbox" ? (input.checked ? "1" : "") : input.value.trim();
    if (value) parts.set(name, value);
  }
  return parts;
}

async function connect() {
  close();
  const mine = (stop = new AbortController());
  while (!mine.signal.aborted) {
    try {
      const response = await request(`api/live?${query()}`, { signal: mine.signal });
      state("live");
      await readEvents(response, (name, data) => {
        if (name === "rows" && !mine.signal.aborted) draw(JSON.parse(data));
      });
    } catch (error) {
      if (mine.signal.aborted) return;
      state("not connected, trying again");
      if (error.status === 401) return;
      show(failure(error));
      if (error.status === 403) return;
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY));
  }
}

function show(...parts) {
  const empty = byId("live-empty");
  empty.replaceChildren(...parts);
  empty.hidden = parts.length === 0;
}

function draw(snapshot) {
  const body = byId("exchanges").tBodies[0];
  const present = new Set(snapshot.rows.map((row) => row.id));
  for (const [id, line] of shown) {
    if (!present.has(id)) {
      line.remove();
      shown.delete(id);
      rates.delete(id);
      known.delete(id);
    }
  }
  for (const row of snapshot.rows) if (row.host) hosts.add(row.host);
  // Lines that exist are changed in place, so that focus and selection stay.
  let after = null;
  for (const changes of snapshot.rows) {
    const row = { arrived: performance.now(), ...known.get(changes.id), ...changes };
    if ("state" in changes) row.arrived = performance.now();
    known.set(row.id, row);
    measure(row);
    let line = shown.get(row.id);
    if (line === undefined) {
      line = lineOf(row);
      shown.set(row.id, line);
    }
    update(line, row);
    const next = after === null ? body.firstElementChild : after.nextElementSibling;
    if (next !== line) body.insertBefore(line, next);
    after = line;
  }
  byId("live-summary").textContent = `${number(snapshot.open)} open; the newest ${snapshot.rows.length} are shown.`;
  if (snapshot.rows.length) show();
  else if ([...query()].length) show("No exchange fits these filters. Clear them to see all.");
  else {
    show(
      el("p", {}, "No request has arrived yet. Send one to this gateway, for example from the ", el("a", { href: "#playground" }, "playground"), "."),
    );
  }
}

function measure(row) {
  if (row.characters === null || row.state !== "open") return;
  const known = rates.get(row.id);
  if (known === undefined) {
    rates.set(row.id, { characters: row.characters, rates: [] });
    return;
  }
  known.rates.push(Math.max(0, row.characters - known.characters));
  if (known.rates.length > HISTORY) known.rates.shift();
  known.characters = row.characters;
}

function lineOf(row) {
  const link = el("a", { href: `#exchange/${encodeURIComponent(row.id)}` }, time(row.time));
  const names = ["", "", "", "wrap model", "", "number", "number", "number", "", "number", "number"];
  const line = el("tr", { class: "new", "data-id": row.id }, ...names.map((name) => el("td", { class: name || null })));
  line.cells[0].append(link);
  line.cells[3].append(el("div"), el("div", { class: "dim" }));
  return line;
}

function update(line, row) {
  const [model, provider] = line.cells[3].children;
  model.textContent = row.model ?? "";
  const other = row.upstream_model && row.upstream_model !== row.model ? ` as ${row.upstream_model}` : "";
  provider.textContent = row.provider ? `${row.provider}${other}` : "";
  const texts = {
    2: row.upstream === null ? row.client : `${row.client} → ${row.upstream}`,
    4: [row.profile, row.key, hosts.size > 1 ? `at ${row.host}` : ""].filter(Boolean).join(", "),
    5: seconds(row.state === "open" ? row.seconds + (performance.now() - row.arrived) / 1000 : row.seconds),
    6: seconds(row.first),
    7: tokens(row),
    9: row.losses ? number(row.losses) : "",
    10: row.attempts > 1 ? number(row.attempts) : "",
  };
  for (const [at, text] of Object.entries(texts)) {
    if (line.cells[at].textContent !== text) line.cells[at].textContent = text;
  }
  const word = row.status && row.state !== "completed" ? `${row.state} (${row.status})` : row.state;
  if (line.cells[1].textContent !== word) {
    line.cells[1].textContent = word;
    line.cells[1].className = STATES[row.state] ?? "";
  }
  line.cells[9].className = row.losses ? "number warn" : "number";
  const values = rates.get(row.id)?.rates ?? [];
  if (values.length > 1 && row.state === "open") {
    line.cells[8].replaceChildren(sparkline(values, `${number(values.at(-1))} characters per second`));
  }
}

function tokens(row) {
  if (row.tokens_out !== null || row.tokens_in !== null) return `${number(row.tokens_in)} → ${number(row.tokens_out)}`;
  return row.characters === null ? "" : `~${number(Math.ceil(row.characters / 4))}`;
}

function listen() {
  if (listening) return;
  listening = true;
  let pending = 0;
  const filters = byId("filters");
  filters.addEventListener("submit", (event) => event.preventDefault());
  filters.addEventListener("input", () => {
    clearTimeout(pending);
    pending = setTimeout(() => {
      if (!paused) connect();
    }, 250);
  });
  byId("pause").addEventListener("click", () => {
    paused = !paused;
    byId("pause").setAttribute("aria-pressed", String(paused));
    byId("pause").textContent = paused ? "Continue" : "Pause";
    if (paused) {
      close();
      state("paused");
    } else connect();
  });
  byId("record").addEventListener("click", async () => {
    try {
      const answer = await (await request("api/record?count=5", { method: "POST" })).json();
      byId("live-summary").textContent = `The events of the next ${answer.count} streams are recorded: open one when it has ended.`;
    } catch (error) {
      show(failure(error));
    }
  });
}
