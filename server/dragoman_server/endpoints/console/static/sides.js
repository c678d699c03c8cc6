// Both sides of a stream, aligned by batch: what arrived, and what was sent for it. Recordings have types and lengths,
// captures have texts.

import { el, notice, number, scroller, table } from "./dom.js";

export function sides(recording, upstream, client) {
  const pairs = [];
  for (const [side, at, size, frames] of recording.batches) {
    const last = pairs.at(-1);
    if (side === "received" || last === undefined || last.sent !== null) {
      pairs.push({ at, received: side === "received" ? { size, frames } : null, sent: side === "sent" ? { size, frames } : null });
    } else last.sent = { size, frames };
  }
  if (!pairs.length) return notice("No event was recorded: the reply is not streamed, or has not begun.");
  const lines = pairs.map((pair) => [pair.at.toFixed(3), batch(pair.received), batch(pair.sent)]);
  const heads = [["Second", "number"], [`From the upstream (${upstream})`, "wrap"], [`To the client (${client})`, "wrap"]];
  const parts = [scroller("Both sides of the stream", ...table(heads, lines))];
  if (recording.dropped) parts.push(el("p", { class: "hint" }, `${number(recording.dropped)} more events were not kept.`));
  return el("div", {}, ...parts);
}

function batch(part) {
  if (part === null) return el("span", { class: "dim" }, "–");
  return el("span", {}, ...part.frames.map((each) => (each.length === 2 ? captured(each) : shape(each))));
}

function captured([name, data]) {
  return el("div", {}, name ? el("code", {}, `${name} `) : "", el("code", { class: "dim" }, data));
}

function shape([name, detail, size, text]) {
  return el(
    "div",
    {},
    el("code", {}, name),
    detail ? ` ${detail}` : "",
    el("span", { class: "dim" }, text ? ` ${number(text)} characters, ${number(size)} bytes` : ` ${number(size)} bytes`),
  );
}
