// The assembled reply as elements, while it arrives.

import { el, number } from "./dom.js";
import { Reply } from "./reply.js";

const SHOWN = 40_000;
const TITLES = { text: "Text", reasoning: "Reasoning", refusal: "Refusal", call: "Call of" };

export class ReplyView {
  #parts = new Map();
  #body = el("div", { class: "reply box", tabindex: "0", role: "region", "aria-label": "The reply" });
  #end = el("p", { class: "hint" });
  #room = SHOWN;
  #word = null;
  #usage = {};

  constructor() {
    this.element = el("div", {}, this.#body, this.#end);
    this.reply = new Reply((...piece) => this.#add(...piece), (...end) => this.#ended(...end));
  }

  #add(place, kind, name, text) {
    let part = this.#parts.get(place);
    if (part === undefined) {
      part = el("pre", { class: kind });
      this.#parts.set(place, part);
      this.#body.append(el("h4", {}, TITLES[kind], name ? " " : "", name ? el("code", {}, name) : null), part);
    }
    if (this.#room <= 0) return;
    part.append(text.slice(0, this.#room));
    this.#room -= text.length;
    if (this.#room <= 0) part.append("\n… more is not shown");
  }

  #ended(word, usage) {
    this.#word = word ?? this.#word;
    const sent = usage?.input_tokens ?? usage?.prompt_tokens;
    const written = usage?.output_tokens ?? usage?.completion_tokens;
    if (sent) this.#usage.sent = sent; // counts of the beginning may be 0 in those of the end
    if (written) this.#usage.written = written;
    const tokens = Object.keys(this.#usage).length ? `${number(this.#usage.sent ?? 0)} tokens in, ${number(this.#usage.written ?? 0)} out` : null;
    this.#end.textContent = [this.#word && `End: ${this.#word}`, tokens].filter(Boolean).join("; ");
  }
}
