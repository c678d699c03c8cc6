// A text to copy into a terminal, and how shells quote.

import { el } from "./dom.js";

export const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// `copied` is what the button copies, if that is more than what is shown.
export function copyBox(label, text, copied = text) {
  const button = el("button", { type: "button", "aria-label": `Copy: ${label}`, onclick: async () => {
    try {
      await navigator.clipboard.writeText(copied);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select the text and copy it";
    }
  } }, "Copy");
  return el("div", { class: "copy" }, el("pre", { class: "box", tabindex: "0", "aria-label": label }, text), button);
}
