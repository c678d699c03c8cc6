// One line of the table of exchanges. It is changed in place, so that focus and selection stay.

import { sparkline } from "./spark.js";
import { exact, time } from "./clock.js";
import { cells } from "./columns.js";
import { el, number, seconds, setText } from "./dom.js";

const HISTORY = 30;
const STATES = { open: "", completed: "good", failed: "bad", refused: "bad", rejected: "warn", abandoned: "dim" };

export class Line {
  #cells = cells();
  #link;
  #stamp = el("time");
  #mark = el("span", { class: "mark", hidden: true }, "recorded");
  #word = el("div", { class: "word" });
  #reason = el("div", { class: "reason" });
  #model = el("div");
  #provider = el("div", { class: "dim" });
  #rates = [];
  #characters = null;
  #arrived = 0;

  constructor(id, isNew) {
    this.row = { id };
    this.#link = el("a", { href: `#exchange/${encodeURIComponent(id)}` }, this.#stamp);
    this.#cells.time.append(this.#link, " ", this.#mark);
    this.#cells.state.append(this.#word, this.#reason);
    this.#cells.model.append(this.#model, this.#provider);
    this.element = el("tr", { role: "row", class: isNew ? "new" : null, "data-id": id }, ...Object.values(this.#cells));
  }

  // Of a row that is known, a snapshot has only what changes.
  update(changes) {
    if ("state" in changes) this.#arrived = performance.now();
    const row = (this.row = { ...this.row, ...changes });
    this.#measure();
    setText(this.#stamp, time(row.time));
    this.#stamp.dateTime = this.#stamp.title = exact(row.time);
    this.#mark.hidden = !row.recorded;
    this.element.classList.toggle("recorded", Boolean(row.recorded));
    setText(this.#word, row.status && row.state !== "completed" ? `${row.state} (${row.status})` : row.state);
    this.#word.className = `word ${STATES[row.state] ?? ""}`;
    setText(this.#reason, row.reason ?? "");
    setText(this.#model, row.model ?? "");
    const other = row.upstream_model && row.upstream_model !== row.model ? ` as ${row.upstream_model}` : "";
    setText(this.#provider, row.provider ? `${row.provider}${other}` : "");
    this.#set("direction", row.upstream === null ? row.client : `${row.client} → ${row.upstream}`);
    this.#set("client", [row.profile, row.key].filter(Boolean).join(", "));
    this.#set("seconds", seconds(this.#seconds()));
    this.#set("first", seconds(row.first));
    this.#set("tokens", tokens(row));
    this.#set("losses", row.losses ? number(row.losses) : "");
    this.#set("attempts", row.attempts > 1 ? number(row.attempts) : "");
    if (this.#rates.length > 1 && row.state === "open") {
      this.#cells.rate.replaceChildren(sparkline(this.#rates, `${number(this.#rates.at(-1))} characters per second`));
    }
  }

  // The host is shown only if there are several, which the table knows.
  showHost(isShown) {
    this.#set("host", isShown ? (this.row.host ?? "") : "");
  }

  #set(name, text) {
    setText(this.#cells[name], text);
  }

  #seconds() {
    const { state, seconds: value } = this.row;
    return state === "open" && value !== null ? value + (performance.now() - this.#arrived) / 1000 : value;
  }

  #measure() {
    const { characters, state } = this.row;
    if (characters === null || characters === undefined || state !== "open") return;
    if (this.#characters !== null) this.#rates.push(Math.max(0, characters - this.#characters));
    if (this.#rates.length > HISTORY) this.#rates.shift();
    this.#characters = characters;
  }
}

function tokens(row) {
  const known = (value) => value !== null && value !== undefined;
  if (known(row.tokens_out) || known(row.tokens_in)) return `${number(row.tokens_in) || "?"} → ${number(row.tokens_out) || "?"}`;
  return known(row.characters) ? `~${number(Math.ceil(row.characters / 4))}` : "";
}
