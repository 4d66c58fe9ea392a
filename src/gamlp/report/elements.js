"use strict";
// Elements, numbers as people read them, and the one tooltip. Data becomes text nodes, never HTML.

const SVG = "http://www.w3.org/2000/svg";

function make(space, tag, attributes, children) {
  const made = space ? document.createElementNS(space, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else if (name === "css") for (const [key, said] of Object.entries(value)) made.style.setProperty(key, said);
    else made.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    made.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return made;
}

const el = (tag, attributes, ...children) => make(null, tag, attributes, children);
const svg = (tag, attributes, ...children) => make(SVG, tag, attributes, children);

const compact = (value) => (value < 1000 ? String(value) : value < 1e6 ? `${Number((value / 1e3).toPrecision(2))}k` : `${Number((value / 1e6).toPrecision(2))}M`);
const DASH = "–";
const known = (value) => value !== null && value !== undefined && Number.isFinite(value);
const count = (value) => (known(value) ? value.toLocaleString("en-GB") : DASH);
const percent = (value, digits = 1) => (known(value) ? `${(100 * value).toFixed(digits)} %` : DASH);
const roundPercent = (value) => `${Number((100 * value).toFixed(2))} %`;
const plural = (number, one, many) => `${count(number)} ${number === 1 ? one : many}`;
// A score just below 1 is not 100 %: another digit shows it.
const exact = (value) => percent(value, value < 1 && value >= 0.9995 ? 2 : 1);

function small(value) {
  if (!known(value)) return DASH;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-4) return value.toExponential(1).replace("e+", "e");
  return String(Number(value.toPrecision(size >= 100 ? 4 : 3)));
}

function seconds(value) {
  if (!known(value)) return DASH;
  if (value < 0.0995) return `${(1000 * value).toFixed(value < 0.01 ? 1 : 0)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
  const whole = Math.round(value);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
}

function bytes(value) {
  if (!known(value)) return DASH;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let step = 0;
  while (value >= 1000 && step < units.length - 1) [value, step] = [value / 1000, step + 1];
  return `${value.toFixed(step && value < 100 ? 1 : 0)} ${units[step]}`;
}

// Names often differ at their ends: the middle goes first.
function shortened(text, letters) {
  if (text.length <= letters) return text;
  const kept = Math.max(2, letters - 1);
  return `${text.slice(0, Math.ceil(kept / 2))}…${text.slice(text.length - Math.floor(kept / 2))}`;
}

const tip = {
  box: null,
  // lines: [text] or [name, value] or [name, value, colour]; the first is the heading.
  show(lines, x, y) {
    const rows = lines.map((line, index) => {
      const [name, value, colour] = Array.isArray(line) ? line : [line];
      const mark = colour ? el("i", { class: "mark", css: { background: colour } }) : null;
      if (value === undefined) return el("div", { class: index ? "" : "heading" }, mark, name);
      return el("div", { class: "pair" }, el("span", {}, mark, name), el("b", {}, value));
    });
    this.box = this.box || document.getElementById("tip");
    this.box.replaceChildren(...rows);
    this.box.hidden = false;
    const { width, height } = this.box.getBoundingClientRect();
    const left = x + 14 + width > innerWidth ? x - 14 - width : x + 14;
    const top = y - height - 12 < 4 ? y + 18 : y - height - 12;
    this.box.style.left = `${Math.max(4, Math.min(left, innerWidth - width - 4))}px`;
    this.box.style.top = `${Math.max(4, Math.min(top, innerHeight - height - 4))}px`;
  },
  hide() {
    if (this.box) this.box.hidden = true;
  },
};

// A lifted finger leaves the tip to be read; the next touch elsewhere takes it away.
const lifted = (event) => event.type === "pointerleave" && event.pointerType === "touch";
addEventListener("pointerdown", () => tip.hide(), { capture: true });
addEventListener("keydown", (event) => event.key === "Escape" && tip.hide());
addEventListener("scroll", () => tip.hide(), { passive: true, capture: true });

// A chart draws itself for the width it has, and again when that changes.
function fitted(draw, attributes) {
  const holder = el("div", { class: "chart", ...attributes });
  let before = 0;
  new ResizeObserver(() => {
    const width = Math.floor(holder.clientWidth);
    if (width && width !== before) holder.replaceChildren(draw((before = width)));
  }).observe(holder);
  holder.redraw = () => before && holder.replaceChildren(draw(before));
  return holder;
}

// Parts of the page that sections share.
const section = (id, title, about, ...inside) =>
  el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), about && el("p", { class: "quiet" }, about), ...inside);
const empty = (text) => el("p", { class: "empty" }, text);
const figure = (title, ...inside) => el("figure", {}, el("figcaption", {}, title), ...inside);
const titled = (text) => text[0].toUpperCase() + text.slice(1);

// rows: [[class, [cells]]]. On a phone each row is a card whose cells have the names of their columns: none is lost.
function stackedTable(kind, heads, rows) {
  return el("div", { class: "scroll" }, el("table", { class: `${kind} stacked` },
    el("thead", {}, el("tr", {}, heads.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, rows.map(([style, cells]) => el("tr", { class: style }, cells.map((cell, index) => el("td", { "data-name": heads[index] }, cell)))))));
}
