// What the table shows before the first request: where clients send theirs, and a first one.

import { getJson, presentedKey } from "./api.js";
import { copyBox, quoted } from "./copybox.js";
import { el, facts } from "./dom.js";

const SHOWN_KEY = "YOUR_KEY";

// The page is at <base>/ui/, also behind a proxy that adds a path.
const base = () => new URL("..", location.href).href.replace(/\/$/, "");

function command(model, key) {
  const body = JSON.stringify({ model, messages: [{ role: "user", content: "Hello!" }] });
  const lines = [`curl ${quoted(`${base()}/v1/chat/completions`)}`, "  -H 'content-type: application/json'"];
  if (key !== null) lines.push(`  -H ${quoted(`x-api-key: ${key}`)}`);
  return [...lines, `  -d ${quoted(body)}`].join(" \\\n");
}

async function firstModel() {
  try {
    return (await getJson("../v1/models")).data[0]?.id ?? "MODEL";
  } catch {
    return "MODEL";
  }
}

export async function welcome() {
  const model = await firstModel();
  const key = presentedKey();
  const shown = command(model, key === null ? null : SHOWN_KEY);
  return [
    el("h3", {}, "No request has arrived yet"),
    el("p", {}, "Point a client at this gateway:"),
    facts([
      ["OpenAI's SDKs, Codex", el("code", {}, `${base()}/v1`)],
      ["Anthropic's SDKs, Claude Code", el("code", {}, base())],
    ]),
    el("p", {}, "Or paste this into a terminal", key === null ? ":" : ". The button copies it with your key:"),
    copyBox("A first request", shown, command(model, key)),
    el("p", {}, "Or send one from the ", el("a", { href: "#playground" }, "playground"), "."),
  ];
}
