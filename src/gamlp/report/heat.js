// Heat maps: a cell for every pair, its colour by a share from zero to one.

function shade(cell, share, text) {
  cell.style.setProperty("fill", `color-mix(in oklab, var(--heat) ${(100 * share).toFixed(1)}%, var(--cold))`);
  if (text) text.classList.add(share > 0.6 ? "on-heat" : "on-cold");
}

// share(r, c) from 0 to 1; told(r, c) the text in a cell or nothing; tipFor(r, c) lines of the tooltip.
function heatMap({ rows, columns, share, told, tipFor, rowTitle, columnTitle, label, square, least = 22, most = 64 }) {
  return fitted((width) => {
    const letters = (names) => Math.max(...names.map((name) => name.length));
    const nameWidth = Math.min(12 + 7 * letters(rows), Math.max(64, width * 0.28));
    const left = nameWidth + 22;
    const cell = Math.max(least, Math.min(most, Math.floor((width - left - 8) / columns.length)));
    const slanted = square && 7.5 * letters(columns) + 4 > cell;
    const high = square ? Math.min(cell, 44) : Math.min(Math.max(cell, 26), 34);
    const room = slanted ? Math.min(7 * letters(columns) + 12, 96) : 20;
    const top = 20 + room;
    const full = Math.max(width, left + cell * columns.length + 8);
    const height = top + high * rows.length + 4;
    const chart = svg("svg", { width: full, height, role: "img", tabindex: 0, "aria-label": label });
    chart.append(svg("text", { x: left, y: 13, class: "axis" }, `${columnTitle} →`));
    chart.append(svg("text", { transform: `translate(12,${top + (high * rows.length) / 2}) rotate(-90)`, class: "axis middle" }, rowTitle));
    const every = square ? 1 : Math.ceil((7.5 * letters(columns) + 6) / cell);
    columns.forEach((name, index) => {
      if (index % every) return;
      const x = left + cell * (index + 0.5);
      const where = slanted ? { transform: `translate(${x + 4},${top - 6}) rotate(-90)` } : { x, y: top - 7 };
      chart.append(svg("text", { ...where, class: slanted ? "tick" : "tick middle" }, slanted ? shortened(name, 12) : name));
    });
    const cells = [];
    rows.forEach((name, r) => {
      const y = top + high * r;
      chart.append(svg("text", { x: left - 8, y: y + high / 2, dy: "0.32em", class: "tick end" },
        shortened(name, Math.floor(nameWidth / 7))));
      columns.forEach((_, c) => {
        const rect = svg("rect", { x: left + cell * c, y, width: cell - 1, height: high - 1, class: "cell" });
        const said = told(r, c);
        const text = said && cell >= 7 * said.length + 4
          ? svg("text", { x: left + cell * (c + 0.5), y: y + high / 2, dy: "0.35em", class: "inside middle" }, said) : null;
        shade(rect, share(r, c), text);
        cells.push(rect);
        chart.append(rect);
        if (text) chart.append(text);
      });
    });
    const ring = svg("rect", { class: "ring", width: cell - 1, height: high - 1, visibility: "hidden" });
    chart.append(ring);
    pointed(chart, {
      total: cells.length,
      across: columns.length,
      find: (px, py) => {
        const [c, r] = [Math.floor((px - left) / cell), Math.floor((py - top) / high)];
        return c < 0 || r < 0 || c >= columns.length || r >= rows.length ? null : r * columns.length + c;
      },
      leave: () => ring.setAttribute("visibility", "hidden"),
      point: (index, px, py) => {
        const [r, c] = [Math.floor(index / columns.length), index % columns.length];
        ring.setAttribute("x", left + cell * c);
        ring.setAttribute("y", top + high * r);
        ring.setAttribute("visibility", "visible");
        const rect = cells[index].getBoundingClientRect();
        tip.show(tipFor(r, c), px ?? rect.right, py ?? rect.top);
      },
    });
    // What is wider than a page is moved sideways: nobody should take its first columns for all of them.
    return full > width ? el("div", {}, el("p", { class: "quiet aside" }, `${count(columns.length)} columns: move sideways →`), chart) : chart;
  }, { class: "chart scroll" });
}

function heatLegend(low, high, title) {
  return el("div", { class: "legend" }, el("span", {}, title), el("span", {}, low), el("i", { class: "ramp" }), el("span", {}, high));
}

// Weights of one node, a bar for each hop; too small for axes, so its tip says every number.
// Far hops come together ('9–14'): their bar is as broad as they are many, and as high as their mean.
function sparkBars(weights, hops, className, title) {
  const many = hops.map((name) => name.split("–").map(Number)).map(([from, to = from]) => to - from + 1);
  const total = many.reduce((a, b) => a + b, 0);
  const [width, height] = [Math.min(128, Math.max(36, total * 8)), 24];
  const means = weights.map((one, index) => one / many[index]);
  const [most, unit] = [Math.max(...means, 1e-9), width / total];
  const chart = svg("svg", { width, height, class: `spark ${className}`, role: "img", tabindex: 0,
    "aria-label": `${title}: ${weights.map((one, index) => `hop ${hops[index]} ${(one / 10).toFixed(1)} %`).join(", ")}` });
  let x = 0;
  means.forEach((one, index) => {
    const tall = Math.max(1, (one / most) * (height - 2));
    chart.append(svg("rect", { x, y: height - tall, width: many[index] * unit - (unit > 3 || many[index] > 1 ? 1 : 0), height: tall }));
    x += many[index] * unit;
  });
  const show = (event) => {
    const rect = chart.getBoundingClientRect();
    tip.show([title, ...weights.map((one, index) => [`hop ${hops[index]}`, `${(one / 10).toFixed(1)} %`])],
      event.clientX ?? rect.right, event.clientY ?? rect.top);
  };
  for (const event of ["pointermove", "pointerdown", "focus"]) chart.addEventListener(event, show);
  for (const event of ["pointerleave", "blur"]) chart.addEventListener(event, (gone) => lifted(gone) || tip.hide());
  return chart;
}
