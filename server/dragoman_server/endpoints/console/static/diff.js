// The difference between the request received and the request sent, and the losses at their places.

import { el, notice, scroller, table } from "./dom.js";

const ORDER = ["dropped", "loss", "changed", "moved", "renamed", "added"];
const KINDS = { dropped: "bad", loss: "warn", changed: "warn", moved: "", renamed: "", added: "good" };

export function diffTable(rows) {
  if (rows === null) return notice("The bodies are too long to be compared.");
  if (!rows.length) return notice("Nothing is changed.");
  const sorted = rows.toSorted((one, other) => ORDER.indexOf(one.change) - ORDER.indexOf(other.change));
  const lines = sorted.map((row) => [
    el("span", { class: `change ${KINDS[row.change]}` }, row.change),
    pathAndValue(row.path, row.before),
    pathAndValue(row.to, row.after),
    el("span", {}, ...row.losses.map((loss) => el("span", { title: loss.meaning }, el("strong", { class: "warn" }, loss.code), `: ${loss.done} (${loss.meaning}) `))),
  ]);
  return scroller("Changes to the request", ...table([["Change", ""], ["Received", "wrap"], ["Sent", "wrap"], ["Loss", "wrap"]], lines));
}

function pathAndValue(path, value) {
  if (path === null) return "";
  return el("span", {}, el("code", {}, path), value === null ? "" : el("pre", { class: "dim" }, value));
}

export function lossTable(losses, total) {
  if (!losses?.length) return el("p", {}, "Nothing was lost.");
  const lines = losses.map((loss) => [el("strong", { class: "warn" }, loss.code), el("code", {}, loss.path), loss.done, loss.meaning]);
  if (total > losses.length) lines.push([`and ${total - losses.length} more`, "", "", ""]);
  return scroller("Losses", ...table([["Loss", ""], ["Field of the client's request", "wrap"], ["Done", "wrap"], ["Meaning", "wrap"]], lines));
}
