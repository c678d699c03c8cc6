// The table of exchanges: the lines of the newest snapshot, then those of older rows that were loaded.

import { head, hideUnused } from "./columns.js";
import { Line } from "./line.js";

export const MOST = 2000;

export class ExchangeTable {
  #table;
  #body;
  #lines = new Map(); // by id, in the order of the table
  #begun = false; // lines of later snapshots are new

  constructor(table) {
    this.#table = table;
    this.#body = table.tBodies[0];
    table.tHead.replaceChildren(head());
  }

  get size() {
    return this.#lines.size;
  }

  // The oldest row, which is the last one.
  get oldest() {
    return [...this.#lines.values()].at(-1).row;
  }

  has(id) {
    return this.#lines.has(id);
  }

  clear() {
    this.#lines.clear();
    this.#body.replaceChildren();
    this.#begun = false;
  }

  // Shows the rows of a snapshot. Other lines stay below them only with `keep`, and if no row between was missed.
  show(rows, keep) {
    const before = this.#lines;
    const connected = rows.some((row) => before.has(row.id));
    this.#lines = new Map();
    for (const row of rows) this.#put(row, before.get(row.id));
    for (const [id, line] of before) {
      if (this.#lines.has(id)) continue;
      if (keep && connected && this.size < MOST) this.#lines.set(id, line);
      else line.element.remove();
    }
    this.#begun = true;
    this.#arrange();
    return connected;
  }

  // Adds older rows below the others. Returns the number of those that were not in the table.
  append(rows) {
    const added = rows.filter((row) => !this.#lines.has(row.id));
    for (const row of added.slice(0, MOST - this.size)) this.#put(row);
    this.#arrange();
    return added.length;
  }

  // Changes a row that is in the table.
  update(row) {
    this.#lines.get(row.id)?.update(row);
  }

  // The ids of open rows that no snapshot has, so that nothing reports their ends.
  openBelow(snapshot) {
    const above = new Set(snapshot.map((row) => row.id));
    return [...this.#lines.values()].filter(({ row }) => row.state === "open" && !above.has(row.id)).map(({ row }) => row.id);
  }

  #put(row, known) {
    const line = known ?? new Line(row.id, this.#begun && !this.#lines.has(row.id));
    line.update(row);
    this.#lines.set(row.id, line);
  }

  #arrange() {
    let next = this.#body.firstElementChild;
    for (const { element } of this.#lines.values()) {
      if (element === next) next = next.nextElementSibling;
      else this.#body.insertBefore(element, next);
    }
    const hosts = new Set([...this.#lines.values()].map((line) => line.row.host).filter(Boolean));
    for (const line of this.#lines.values()) line.showHost(hosts.size > 1);
    hideUnused(this.#table);
  }
}
