// The columns of the table of exchanges. A column without any value is hidden.

import { el } from "./dom.js";

// The name, which is the class of its cells; the head; true for numbers; true if it is always shown.
const COLUMNS = [
  ["time", "Time", false, true],
  ["state", "State", false, true],
  ["host", "Host", false, false],
  ["direction", "Direction", false, true],
  ["model", "Model", false, true],
  ["client", "Client, key", false, false],
  ["seconds", "Duration", true, false],
  ["first", "First event", true, false],
  ["tokens", "Tokens", true, false],
  ["rate", "Rate", false, false],
  ["losses", "Losses", true, false],
  ["attempts", "Attempts", true, false],
];

const kind = ([name, , isNumber]) => (isNumber ? `${name} number` : name);

export function head() {
  return el("tr", { role: "row" }, ...COLUMNS.map((each) => el("th", { scope: "col", role: "columnheader", class: kind(each) }, each[1])));
}

// The cells of a line, by the names of their columns. On a phone a cell has its head before it.
export function cells() {
  return Object.fromEntries(COLUMNS.map((each) => [each[0], el("td", { role: "cell", class: kind(each), "data-head": each[1] })]));
}

export function hideUnused(table) {
  for (const [name, , , always] of COLUMNS) {
    if (always) continue;
    const used = [...table.querySelectorAll(`td.${name}`)].some((cell) => cell.hasChildNodes());
    table.classList.toggle(`no-${name}`, !used);
  }
}
