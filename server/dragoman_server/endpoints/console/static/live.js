// The view of the newest exchanges, from the gateway's snapshots, and of older ones.

import { getJson, readEvents, request } from "./api.js";
import { byId, el, failure, number, setText } from "./dom.js";
import { query } from "./filters.js";
import { Older } from "./older.js";
import * as record from "./record.js";
import { ExchangeTable, MOST } from "./table.js";
import { welcome } from "./welcome.js";

const RETRY = 1000;
const REFRESH = 5; // snapshots between two looks at open rows that no snapshot has
const REFRESHED = 3; // most of these rows at a time

let table = null;
let stop = null;
let paused = false;
let older = null;
let loading = false;
let count = 0;

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

async function connect() {
  close();
  const mine = (stop = new AbortController());
  while (!mine.signal.aborted) {
    try {
      const response = await request(`api/live?${query()}`, { signal: mine.signal });
      state("live");
      await readEvents(response, (name, data) => {
        if (name === "rows" && !mine.signal.aborted) draw(JSON.parse(data), mine.signal);
      });
    } catch (error) {
      if (mine.signal.aborted) return;
      state("not connected, trying again");
      if (error.status === 401) return;
      show("failure", failure(error));
      if (error.status === 403) return;
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY));
  }
}

// What is shown below the table in place of rows; it is made anew only if it is of another kind.
function show(kind, ...parts) {
  const empty = byId("live-empty");
  if (empty.dataset.kind === kind && kind !== "failure") return;
  empty.dataset.kind = kind;
  empty.replaceChildren(...parts);
  empty.hidden = parts.length === 0;
}

async function showEmpty() {
  if ([...query()].length) {
    show("filtered", "No exchange fits these filters. Clear them to see all.");
    return;
  }
  if (byId("live-empty").dataset.kind === "welcome") return;
  const parts = await welcome();
  if (table.size === 0) show("welcome", ...parts);
}

function draw(snapshot, signal) {
  if (!table.show(snapshot.rows, older !== null) && older !== null) older = null;
  record.show(snapshot.recording ?? 0);
  summarise(snapshot.open);
  if (snapshot.rows.length) show("rows");
  else showEmpty();
  if (++count % REFRESH === 0) refresh(snapshot.rows, signal);
}

function summarise(opened) {
  if (opened !== undefined) setText(byId("live-open"), `${number(opened)} open`);
  setText(byId("live-count"), table.size ? `, ${number(table.size)} shown` : "");
  byId("exchanges").hidden = table.size === 0;
  const full = table.size >= MOST;
  byId("older").hidden = table.size === 0 || full || older?.isDone === true;
  setText(byId("older-state"), full ? "No more rows are shown. Use the filters to find others." : older?.isDone ? "All that are kept are shown." : "");
}

async function refresh(rows, signal) {
  for (const id of table.openBelow(rows).slice(0, REFRESHED)) {
    try {
      table.update((await getJson(`api/exchanges/${encodeURIComponent(id)}`, { signal })).row);
    } catch { /* it is tried again later */ }
  }
}

async function loadOlder() {
  if (loading || table.size === 0 || stop === null) return;
  loading = true;
  const { signal } = stop;
  try {
    older ??= new Older(query());
    const mine = older;
    for (let added = 0; added === 0 && !mine.isDone; ) {
      const rows = await mine.next(table.oldest, signal);
      if (older !== mine || signal.aborted) return;
      added = table.append(rows);
    }
  } catch (error) {
    if (!signal.aborted) setText(byId("older-state"), error.message);
    return;
  } finally {
    loading = false;
  }
  summarise();
}

function listen() {
  if (table !== null) return;
  table = new ExchangeTable(byId("exchanges"));
  let pending = 0;
  const filters = byId("filters");
  filters.addEventListener("submit", (event) => event.preventDefault());
  filters.addEventListener("input", () => {
    clearTimeout(pending);
    pending = setTimeout(() => {
      if (paused) return;
      older = null;
      table.clear();
      connect();
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
  record.listen((error) => show("failure", failure(error)));
  byId("older").addEventListener("click", loadOlder);
  // The next page is loaded when its button comes near. It is observed anew after each page, as it may still be near.
  const observer = new IntersectionObserver(async ([entry]) => {
    if (!entry.isIntersecting) return;
    await loadOlder();
    observer.unobserve(byId("older"));
    if (!byId("older").hidden) setTimeout(() => observer.observe(byId("older")), RETRY);
  }, { rootMargin: "200px" });
  observer.observe(byId("older"));
}
