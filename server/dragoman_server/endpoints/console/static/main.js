// The console's page: it shows one view at a time, and asks for a key when the gateway does.

import { forgetKey, getJson, hasKey, setKey, whenKeyNeeded } from "./api.js";
import { byId } from "./dom.js";
import * as exchange from "./exchange.js";
import * as health from "./health.js";
import * as live from "./live.js";
import * as playground from "./playground.js";

const VIEWS = { live, health, playground, exchange };
let current = null;

function show(name, argument, focus) {
  if (current !== null) VIEWS[current].close();
  current = name;
  for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== `view-${name}`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === (name === "exchange" ? "live" : name)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  byId("forget").hidden = !hasKey();
  VIEWS[name].open(argument);
  if (focus) byId("main").focus();
}

function route(focus = true) {
  const [name, argument] = location.hash.slice(1).split("/");
  const known = name in VIEWS && (name !== "exchange" || argument) ? name : "live";
  document.title = `${known[0].toUpperCase()}${known.slice(1)} – Dragoman console`;
  show(known, argument && decodeURIComponent(argument), focus);
}

// Shows the form for a key. `reason` is null if none was entered yet; without `canEnter` no key would help.
function askForKey(reason, canEnter = true) {
  if (current !== null) VIEWS[current].close();
  current = null;
  if (canEnter) forgetKey();
  byId("forget").hidden = !hasKey();
  for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== "view-key";
  byId("key-reason").textContent = reason ?? "This gateway has keys: enter one to see its traffic.";
  byId("key-form").hidden = !canEnter;
  byId("connection").textContent = "";
  if (canEnter) byId("key").focus();
}

// The first request, before any view has sent one: it shows whether a key is needed, and what runs.
async function begin() {
  try {
    const { version, revision } = await getJson("api/about");
    byId("about").textContent = `Dragoman ${version}, revision ${revision}`;
    return true;
  } catch (error) {
    if (error.status === 403) askForKey(error.message, hasKey());
    else if (error.status !== 401) askForKey(error.message, false);
    return false;
  }
}

whenKeyNeeded(() => askForKey(hasKey() ? "This is not a key of this gateway." : null));
addEventListener("hashchange", () => {
  if (byId("view-key").hidden) route();
});
byId("forget").addEventListener("click", () => {
  forgetKey();
  location.reload();
});
byId("key-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  setKey(byId("key").value.trim());
  byId("key").value = "";
  if (await begin()) route();
});
if (await begin()) route(false);
