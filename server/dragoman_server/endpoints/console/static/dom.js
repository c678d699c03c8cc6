// Elements are made from text only: nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

// el("td", {class: "number"}, "text", child): attributes that are null or false are left out, true is an empty one.
export function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function facts(pairs) {
  const list = el("dl", { class: "facts" });
  for (const [name, value] of pairs) {
    if (value !== null && value !== undefined && value !== "") list.append(el("dt", {}, name), el("dd", {}, value));
  }
  return list;
}

export function table(heads, rows, caption) {
  const head = el("tr", {}, ...heads.map(([text, kind]) => el("th", { scope: "col", class: kind }, text)));
  const body = rows.map((cells) => el("tr", {}, ...cells.map((cell, at) => el("td", { class: heads[at][1] }, cell ?? ""))));
  const parts = [el("thead", {}, head), el("tbody", {}, ...body)];
  if (caption) parts.unshift(el("caption", { class: "hidden" }, caption));
  return parts;
}

export const scroller = (label, ...parts) =>
  el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, el("table", {}, ...parts));

export const notice = (...parts) => el("div", { class: "notice" }, ...parts);

export const failure = (error) => el("div", { class: "notice error", role: "alert" }, error.message);

export const number = (value, digits = 0) =>
  value === null || value === undefined ? "" : value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });

export function seconds(value) {
  if (value === null || value === undefined) return "";
  if (value < 0.1) return `${Math.round(value * 1000)} ms`;
  return `${value < 10 ? value.toFixed(2) : value.toFixed(1)} s`;
}
