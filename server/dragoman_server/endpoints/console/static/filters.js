// The filters of the table, as the page's form has them.

import { byId } from "./dom.js";

const NAMES = ["text", "state", "client", "upstream", "losses"];

// The query of the gateway's endpoints.
export function query() {
  const parts = new URLSearchParams();
  for (const name of NAMES) {
    const input = byId(`filter-${name}`);
    const value = input.type === "checkbox" ? (input.checked ? "1" : "") : input.value.trim();
    if (value) parts.set(name, value);
  }
  return parts;
}

// True if a row that the gateway did not filter belongs into the table.
export function selects(filters, row) {
  const state = filters.get("state");
  if (state && row.state !== state && (state !== "ended" || row.state === "open")) return false;
  for (const name of ["client", "upstream"]) if (filters.get(name) && filters.get(name) !== row[name]) return false;
  if (filters.get("losses") && !row.losses) return false;
  const text = filters.get("text")?.toLowerCase();
  const names = [row.id, row.model, row.provider, row.route, row.profile, row.key];
  return !text || names.some((each) => each?.toLowerCase().includes(text));
}
