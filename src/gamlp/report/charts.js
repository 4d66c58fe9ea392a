// Line and bar charts: axes with ticks and titles, values under the pointer, the finger and the arrow keys.

const COLOURS = 8;
const colour = (index) => `var(--line-${index % COLOURS})`;

// About `wanted` round numbers from low to high.
function ticks(low, high, wanted) {
  const rough = (high - low) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough * 0.999);
  const found = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + step * 1e-6; index++)
    found.push(Number((index * step).toPrecision(12)));
  return found;
}

function logTicks(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
    for (const one of high / low > 100 ? [1] : [1, 2, 5]) {
      const value = Number((one * 10 ** power).toPrecision(12));
      if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
    }
  return found.length > 1 ? found : [low, high];
}

function scale(low, high, from, to, logarithmic) {
  const by = logarithmic ? Math.log : (value) => value;
  const span = by(high) - by(low) || 1;
  return (value) => from + ((by(value) - by(low)) / span) * (to - from);
}

function frame(width, height, box, label) {
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: 0, "aria-label": label },
    svg("rect", { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top, class: "plot" }));
}

function leftAxis(chart, box, marks, y, format, title) {
  for (const mark of marks) {
    chart.append(svg("line", { x1: box.left, x2: box.right, y1: y(mark), y2: y(mark), class: "grid" }));
    chart.append(svg("text", { x: box.left - 8, y: y(mark), dy: "0.32em", class: "tick end" }, format(mark)));
  }
  chart.append(svg("text", { x: 4, y: 14, class: "axis" }, title));
}

// `low`: every other tick stands below its neighbours, where they would run into each other.
function bottomAxis(chart, box, marks, x, format, title, low = 0) {
  marks.forEach((mark, index) => {
    const down = low && index % 2 ? low : 0;
    chart.append(svg("line", { x1: x(mark), x2: x(mark), y1: box.bottom, y2: box.bottom + 5 + down, class: "stub" }));
    chart.append(svg("text", { x: x(mark), y: box.bottom + 18 + down, class: "tick middle" }, format(mark)));
  });
  chart.append(svg("line", { x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom, class: "base" }));
  chart.append(svg("text", { x: (box.left + box.right) / 2, y: box.bottom + 36 + low, class: "axis middle" }, title));
}

// Calls point(index) for what is pointed at, or for the next by arrow keys; place(index) is where the tip goes.
function pointed(chart, { find, total, point, leave, across = 1 }) {
  let at = -1;
  const move = (index, x, y) => {
    if (index < 0 || index >= total) return;
    point((at = index), x, y);
  };
  const seek = (event) => {
    const rect = chart.getBoundingClientRect();
    const index = find(event.clientX - rect.left, event.clientY - rect.top);
    if (index === null) return void (leave(), tip.hide());
    move(index, event.clientX, event.clientY);
  };
  chart.addEventListener("pointermove", seek);
  chart.addEventListener("pointerdown", seek);
  for (const gone of ["pointerleave", "blur"]) chart.addEventListener(gone, (event) => lifted(event) || (leave(), tip.hide()));
  chart.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
    const target = event.key === "Home" ? 0 : event.key === "End" ? total - 1 : step && at + step;
    if (target === undefined) return;
    event.preventDefault();
    move(at < 0 ? 0 : target);
  });
}

// lines: [{name, colour, dashed, dots, x: [], y: []}]; x ascending. `shares`: both axes go from 0 to 1, and every line
// tells its value nearest to what is pointed at; a line with `quiet` is not told.
function lineChart({ lines, xTitle, yTitle, label, format, tickFormat, logarithmic, height = 280, bounded, shares }) {
  return fitted((width) => {
    const values = lines.flatMap((line) => line.y).filter((value) => known(value) && (!logarithmic || value > 0));
    if (!values.length) return el("p", { class: "empty" }, "No finite values to draw.");
    let [low, high] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
    if (low === high) [low, high] = [low - (Math.abs(low) / 10 || 0.1), high + (Math.abs(high) / 10 || 0.1)];
    if (!logarithmic) {
      const room = (high - low) * 0.05;
      [low, high] = [low >= 0 ? Math.max(0, low - room) : low - room, high + room];
      if (bounded) high = Math.min(1, high);
    }
    if (shares) [low, high] = [0, 1];
    const last = shares ? 1 : Math.max(...lines.map((line) => line.x[line.x.length - 1]));
    const first = shares ? 0 : Math.min(...lines.map((line) => line.x[0]));
    const box = { left: 62, right: width - (shares ? 24 : 12), top: 26, bottom: height - 44 };
    const x = scale(first, last === first ? first + 1 : last, box.left, box.right);
    const y = scale(low, high, box.bottom, box.top, logarithmic);
    const chart = frame(width, height, box, label);
    leftAxis(chart, box, logarithmic ? logTicks(low, high) : ticks(low, high, 5), y, tickFormat || format, yTitle);
    const whole = ticks(first, last, width / 90).filter((one) => shares || Number.isInteger(one));
    const across = shares ? (value) => percent(value, 0) : count;
    bottomAxis(chart, box, whole.length ? whole : [first], x, across, xTitle);
    for (const line of lines) {
      let path = "";
      line.x.forEach((at, index) => {
        const value = line.y[index];
        const drawn = known(value) && (!logarithmic || value > 0);
        path += drawn ? `${path && !path.endsWith(" ") ? "L" : "M"}${x(at).toFixed(1)},${y(value).toFixed(1)}` : " ";
      });
      chart.append(svg("path", { d: path.trim(), class: line.dashed ? "line dashed" : "line", css: { stroke: line.colour } }));
      if (line.dots || (line.x.length === 1 && known(line.y[0])))
        line.x.forEach((at, index) => chart.append(svg("circle", { cx: x(at), cy: y(line.y[index]), r: 3.5, css: { fill: line.colour } })));
    }
    const cursor = svg("g", { class: "cursor" });
    chart.append(cursor);
    const stops = [...new Set(lines.filter((line) => !line.quiet).flatMap((line) => line.x))].sort((a, b) => a - b);
    const near = (line, at) => line.x.reduce((best, one, index) => (Math.abs(one - at) < Math.abs(line.x[best] - at) ? index : best), 0);
    pointed(chart, {
      total: stops.length,
      find: (px) => stops.reduce((best, at, index) => (Math.abs(x(at) - px) < Math.abs(x(stops[best]) - px) ? index : best), 0),
      leave: () => cursor.replaceChildren(),
      point: (index, px, py) => {
        const at = stops[index];
        cursor.replaceChildren(svg("line", { x1: x(at), x2: x(at), y1: box.top, y2: box.bottom }));
        const told = [`${xTitle} ${shares ? percent(at) : count(at)}`];
        for (const line of lines) {
          if (line.quiet) continue;
          const place = shares ? near(line, at) : line.x.indexOf(at);
          const value = line.y[place];
          if (!known(value) || (logarithmic && value <= 0)) continue;
          cursor.append(svg("circle", { cx: x(line.x[place]), cy: y(value), r: 3.5, css: { fill: line.colour } }));
          if (told.length < 13) told.push([line.name, format(value), line.colour], ...(line.more ? line.more(place) : []));
        }
        const rect = chart.getBoundingClientRect();
        tip.show(told, px ?? rect.left + x(at), py ?? rect.top + box.top + 40);
      },
    });
    return chart;
  });
}

// Upright bars from zero to one: [{name, rows, mean, least, greatest}].
function columnChart({ bars, xTitle, yTitle, label, height = 280 }) {
  return fitted((width) => {
    const band = (width - 12 - 62) / bars.length;
    const low = Math.max(...bars.map((bar) => 7 * bar.name.length + 6)) > band ? 14 : 0;
    const box = { left: 62, right: width - 12, top: 34, bottom: height - 44 - low };
    const y = scale(0, 1, box.bottom, box.top);
    const chart = frame(width, height, box, label);
    leftAxis(chart, box, [0, 0.25, 0.5, 0.75, 1], y, (value) => percent(value, 0), yTitle);
    const middle = (index) => box.left + band * (index + 0.5);
    const broad = Math.min(56, band * 0.7);
    const drawn = bars.map((bar, index) => {
      const top = y(known(bar.mean) ? bar.mean : 0);
      const part = svg("g", { class: "bar" },
        svg("rect", { x: middle(index) - broad / 2, y: top, width: broad, height: box.bottom - top, rx: 2 }));
      const whisker = known(bar.least) && bar.greatest > bar.least;
      if (whisker)
        part.append(svg("path", { class: "whisker", d: `M${middle(index)},${y(bar.least)}V${y(bar.greatest)}` }));
      const above = Math.min(top, whisker ? y(bar.greatest) : top);
      part.append(svg("text", { x: middle(index), y: above - 6, class: "value middle" },
        known(bar.mean) ? (100 * bar.mean).toFixed(band > 44 ? 1 : 0) : DASH));
      chart.append(part);
      return part;
    });
    bottomAxis(chart, box, bars.map((_, index) => index), middle, (index) => bars[index].name, xTitle, low);
    const clear = () => drawn.forEach((part) => part.classList.remove("now"));
    pointed(chart, {
      total: bars.length,
      find: (px) => (px < box.left || px > box.right ? null : Math.min(bars.length - 1, Math.floor((px - box.left) / band))),
      leave: clear,
      point: (index, px, py) => {
        clear();
        drawn[index].classList.add("now");
        const rect = chart.getBoundingClientRect();
        tip.show(barTip(bars[index], yTitle), px ?? rect.left + middle(index), py ?? rect.top + box.top + 30);
      },
    });
    return chart;
  });
}

function barTip(bar, what) {
  const told = [bar.heading || bar.name, [what, exact(bar.mean)]];
  if (known(bar.least)) told.push(["over seeds", `${exact(bar.least)} to ${exact(bar.greatest)}`]);
  return [...told, ["rows", count(bar.rows)]];
}

// Lying bars with names, as many as there are: the axis stays while they scroll.
function rowChart({ bars, xTitle, label }) {
  const line = 26;
  return fitted((width) => {
    const names = Math.min(Math.max(70, width * 0.28), 12 + 7.2 * Math.max(...bars.map((bar) => bar.name.length)));
    const box = { left: Math.max(60, names), right: width - 60, top: 0, bottom: bars.length * line };
    const x = scale(0, 1, box.left, box.right);
    const marks = box.right - box.left > 260 ? [0, 0.25, 0.5, 0.75, 1] : [0, 0.5, 1];
    const axis = svg("svg", { width, height: 44, class: "sticky", "aria-hidden": "true" },
      svg("text", { x: (box.left + box.right) / 2, y: 14, class: "axis middle" }, xTitle));
    const chart = svg("svg", { width, height: box.bottom + 4, role: "img", tabindex: 0, "aria-label": label });
    for (const mark of marks) {
      axis.append(svg("text", { x: x(mark), y: 36, class: "tick middle" }, percent(mark, 0)));
      chart.append(svg("line", { x1: x(mark), x2: x(mark), y1: 0, y2: box.bottom, class: "grid" }));
    }
    const letters = Math.floor((box.left - 12) / 7.4);
    const drawn = bars.map((bar, index) => {
      const middle = (index + 0.5) * line;
      const part = svg("g", { class: "bar" },
        svg("text", { x: box.left - 8, y: middle, dy: "0.32em", class: "tick end" }, shortened(bar.name, letters)),
        svg("rect", { x: box.left, y: middle - 8, width: Math.max(0, x(bar.mean || 0) - box.left), height: 16, rx: 2 }));
      if (known(bar.least) && bar.greatest > bar.least)
        part.append(svg("path", { class: "whisker", d: `M${x(bar.least)},${middle}H${x(bar.greatest)}` }));
      part.append(svg("text", { x: box.right + 54, y: middle, dy: "0.32em", class: "value end" }, exact(bar.mean)));
      chart.append(part);
      return part;
    });
    const clear = () => drawn.forEach((part) => part.classList.remove("now"));
    pointed(chart, {
      total: bars.length,
      find: (_, py) => Math.max(0, Math.min(bars.length - 1, Math.floor(py / line))),
      leave: clear,
      point: (index, px, py) => {
        clear();
        drawn[index].classList.add("now");
        if (py === undefined) drawn[index].scrollIntoView({ block: "nearest" });
        const rect = drawn[index].getBoundingClientRect();
        tip.show(barTip(bars[index], xTitle), px ?? rect.left + 120, py ?? rect.top);
      },
    });
    return el("div", {}, axis, chart);
  }, { class: "chart scroll tall", tabindex: -1 });
}
