// The sections of the page, each from its part of the data; where there is nothing to show, a sentence says why.

const METRICS = { score: null, balanced_accuracy: "balanced accuracy", macro_f1: "macro-F1", roc_auc: "ROC-AUC", average_precision: "average precision", loss: "loss", ece: "calibration error", metric: "metric" };
const PARTS = { valid: "validation" };

function told(name, value, digits = 2) {
  return name === "loss" ? small(value) : percent(value, digits);
}

function scoresSection(data) {
  const several = data.seeds.length > 1;
  const cards = [];
  for (const part of [data.part, "valid"]) {
    const scores = data.scores[part];
    if (!scores || (part === "valid" && data.part === "valid" && cards.length)) continue;
    for (const [name, title] of Object.entries(METRICS)) {
      if (!scores[name] || (part === "valid" && data.part !== "valid" && !["score", "metric"].includes(name))) continue;
      const { mean, deviation } = scores[name];
      const value = name === "loss" ? small(mean) : (100 * mean).toFixed(2);
      const spread = name === "loss" ? Number(deviation.toPrecision(2)) : (100 * deviation).toFixed(2);
      cards.push(el("div", { class: cards.length ? "card" : "card first" },
        el("div", { class: "quiet" }, titled(`${PARTS[part] || part} ${name === "metric" ? data.metric_name : title || data.score_name}`)),
        el("div", { class: "figure" }, value, name === "loss" ? "" : el("small", {}, " %")),
        several && el("div", { class: "quiet" }, `± ${spread}`),
        part === data.part && known(data.base[name]) && el("div", { class: "quiet" }, `one answer for all: ${told(name, data.base[name])}`)));
    }
  }
  const names = Object.keys(METRICS).filter((name) => data.seeds.some((one) => known(one.test[name])));
  const heads = ["seed", `validation ${data.score_name}`, ...names.map((name) => `${PARTS[data.part] || data.part} ${METRICS[name] || data.score_name}`), "best epoch", "epochs", "training"];
  const rows = data.seeds.map((one) => [one.seed === data.best ? "best" : "", [
    [one.seed, one.seed === data.best && several ? " ★" : ""], percent(one.valid.score, 2), ...names.map((name) => told(name, one.test[name])),
    one.epoch ? count(one.epoch) : DASH, one.epochs ? count(one.epochs) : DASH, seconds(one.seconds)]]);
  const table = stackedTable("numbers", heads, rows);
  const about = `${data.rows ? `${plural(data.rows, "row", "rows")} scored. ` : ""}${several ? `Mean ± sample deviation over ${data.seeds.length} seeds; ★ marks the best by validation, whose confusion matrix and nodes are shown below.` : "One seed: train several to see how much its draw matters."}`;
  return section("scores", "Scores", about, cards.length ? el("div", { class: "cards" }, cards) : empty("There are no labelled rows to score."), table);
}

function curvesSection(data) {
  const curves = data.curves;
  if (!curves) return section("training", "Training", null, empty("No epochs were recorded: this method does not train in epochs."));
  const one = curves.seeds.length === 1;
  const hidden = new Set();
  const called = (run) => `seed ${run.seed}${run.member === undefined ? "" : `, model ${run.member + 1}`}`;
  const lines = (names) => curves.seeds.flatMap((run, index) => hidden.has(run) ? [] : Object.entries(names)
    .filter(([name]) => run[name])
    .map(([name, [title, dashed]], place) => ({ name: one ? title : `${called(run)}, ${title}`, dashed, x: run.epoch, y: run[name], colour: colour(one ? place : index) })));
  let logarithmic = false;
  const holders = el("div", { class: "pair-of-charts" });
  const button = el("button", { type: "button", "aria-pressed": "false", on: { click: () => {
    logarithmic = !logarithmic;
    button.setAttribute("aria-pressed", String(logarithmic));
    draw();
  } } }, "Logarithmic loss");
  function draw() {
    const loss = lines({ loss: ["training loss", false], valid_loss: ["validation loss", true] });
    const score = lines({ valid_score: [`validation ${data.score_name}`, false], ...(data.metric_name ? { valid_metric: [`validation ${data.metric_name}`, true] } : {}) });
    const none = empty("All seeds are hidden.");
    holders.replaceChildren(
      figure("Loss", loss.length ? lineChart({ lines: loss, xTitle: "epoch", yTitle: "loss", label: "Loss by epoch", format: small, logarithmic }) : none,
        el("div", { class: "legend" }, el("span", {}, el("i", { class: "stroke", css: { "border-color": one ? colour(0) : "currentcolor" } }), "training"),
          el("span", {}, el("i", { class: "stroke dashed", css: { "border-color": one ? colour(1) : "currentcolor" } }), "validation"))),
      figure(`Validation ${data.score_name}${data.metric_name ? ` and ${data.metric_name} (dashed), which chose` : ""}`, score.length
        ? lineChart({ lines: score, xTitle: "epoch", yTitle: data.score_name, label: `Validation ${data.score_name} by epoch`, format: (value) => percent(value, 2), tickFormat: roundPercent, bounded: true })
        : hidden.size ? none.cloneNode(true) : empty("No validation rows.")));
  }
  const chips = one ? [] : curves.seeds.map((run, index) => {
    const chip = el("button", { type: "button", class: "chip", "aria-pressed": "true", on: { click: () => {
      hidden.has(run) ? hidden.delete(run) : hidden.add(run);
      chip.setAttribute("aria-pressed", String(!hidden.has(run)));
      draw();
    } } }, el("i", { class: "mark", css: { background: colour(index) } }), called(run));
    return chip;
  });
  draw();
  const about = curves.step > 1 ? `One epoch in ${curves.step} is drawn.` : null;
  return section("training", "Training", about, el("div", { class: "controls" }, chips, button), holders);
}

function confusionSection(data) {
  const title = "Confusion matrix";
  if (data.many) return section("confusion", title, null, empty("A node may have many labels here, so no class is taken for another: see the F1 of each class below."));
  if (!data.confusion) return section("confusion", title, null, empty("There are no labelled rows to compare with."));
  const { counts, others } = data.confusion;
  const names = data.confusion.classes.map((one) => data.classes[one]);
  if (others) names.push(`${others} others`);
  const sums = counts.map((row) => row.reduce((a, b) => a + b, 0));
  const share = (r, c) => (sums[r] ? counts[r][c] / sums[r] : 0);
  const least = Math.max(22, 4 + 7 * Math.max(...counts.flat().map((number) => String(number).length))); // every count is written whole
  const about = `${titled(PARTS[data.part] || data.part)} rows${data.seeds.length > 1 ? ` of seed ${data.best}` : ""}: each row is a true class, its colours are shares of that class.` +
    (others ? ` The ${names.length - 1} largest of ${data.classes.length} classes; the others are one row and one column.` : "");
  return section("confusion", title, about,
    el("div", { class: names.length * least > 500 ? "beside broad" : "beside" }, el("div", {}, heatMap({ rows: names, columns: names, share, told: (r, c) => (counts[r][c] ? String(counts[r][c]) : ""), square: true, least, most: 56,
      rowTitle: "true class", columnTitle: "predicted class", label: "Confusion matrix: rows are true classes, columns predicted ones",
      tipFor: (r, c) => [`${count(counts[r][c])} of ${plural(sums[r], "row", "rows")} (${exact(share(r, c))})`, ["true", names[r]], ["predicted", names[c]]] }),
      heatLegend("0 %", "100 %", "share of the true class")), confusions(counts, sums, names, others)));
}

function confusions(counts, sums, names, others) {
  const last = others ? names.length - 1 : -1; // 'others' is no class to be confused with
  const pairs = counts.flatMap((row, r) => row.map((number, c) => [number, r, c])).filter(([number, r, c]) => number && r !== c && r !== last && c !== last);
  pairs.sort((a, b) => b[0] - a[0] || a[1] - b[1] || a[2] - b[2]);
  if (!pairs.length) return figure("Most frequent confusions", empty(others ? "None between the classes shown." : "None: every row was classified rightly."));
  const rows = pairs.slice(0, 10).map(([number, r, c]) => ["", [names[r], names[c], count(number), exact(number / sums[r])]]);
  return figure("Most frequent confusions", stackedTable("confusions", ["true", "predicted", "rows", "of class"], rows));
}

function groupsSection(data) {
  const what = data.many ? "F1" : "accuracy";
  const several = data.seeds.length > 1 && data.by_class.some((bar) => known(bar.least));
  const about = several ? "Bars are means over seeds, lines reach from the least seed to the greatest." : null;
  if (!data.by_class.length) return section("groups", "By class and by degree", null, empty("There are no labelled rows to score."));
  const orders = {
    rows: ["largest first", (a, b) => b.rows - a.rows],
    worst: ["worst first", (a, b) => (a.mean ?? 2) - (b.mean ?? 2)],
    name: ["by name", (a, b) => a.name.localeCompare(b.name, "en", { numeric: true })],
  };
  const bars = data.by_class.map((bar) => ({ ...bar, name: data.classes[bar.class] }));
  const [holder, table] = [el("div"), el("div", { class: "tall" })];
  const draw = () => {
    const ordered = [...bars].sort(orders[select.value][1]);
    holder.replaceChildren(rowChart({ bars: ordered, xTitle: what, label: `${what} of each class` }));
    table.replaceChildren(stackedTable("numbers", ["class", "precision", "recall", "F1", "rows"],
      ordered.map((bar) => ["", [bar.name, exact(bar.precision), exact(bar.recall), exact(bar.f1), count(bar.rows)]])));
  };
  const select = el("select", { id: "class-order", on: { change: draw } }, Object.entries(orders).map(([value, [name]]) => el("option", { value }, name)));
  draw();
  const degrees = data.by_degree.map((bar) => {
    const name = bar.low === bar.high ? count(bar.low) : `${bar.low}–${bar.high}`;
    const short = (value) => (value < 10000 ? String(value) : compact(value)); // ticks of a phone are narrow
    return { ...bar, name: bar.low === bar.high ? short(bar.low) : `${short(bar.low)}–${short(bar.high)}`, heading: `${name} neighbours` };
  });
  const score = data.many ? "micro-F1" : "accuracy";
  return section("groups", "By class and by degree", about, el("div", { class: "pair-of-charts" },
    figure(`${titled(what)} of each class`, el("div", { class: "controls" }, el("label", {}, "Order", select)), holder,
      data.by_class_left_out ? el("p", { class: "quiet" }, `${count(data.by_class_left_out)} smaller classes are not drawn.`) : null),
    figure(`${titled(score)} by number of neighbours`, degrees.length
      ? columnChart({ bars: degrees, xTitle: "neighbours", yTitle: score, label: `${score} by number of neighbours` })
      : empty("Degrees are unknown: the graph was not at hand, or has several relations."),
      degrees.length ? el("p", { class: "quiet" }, "Ranges hold about equally many rows.") : null),
    figure(`Precision, recall and F1 of each class${data.seeds.length > 1 ? `, seed ${data.best}` : ""}`, table)));
}

function weightsSection(data) {
  const title = "How far the model listens";
  const weights = data.weights;
  if (!weights) return section("weights", title, null, empty(`No hop weights: the model '${data.model}' does not weigh hops, or its graph was not at hand.`));
  const maps = [["features", 0], ["labels", weights.first_label_hop]].filter(([name]) => weights.ranges[0][name]).map(([name, first]) => {
    if (weights.flat[name]) return figure(`Weights of ${name}`, empty(`${titled(weights.flat[name])}. There is nothing to read from them.`));
    const ranges = weights.ranges;
    const all = ranges.flatMap((range) => range[name]);
    const most = Math.max(...all);
    const low = Math.max(0, Math.min(Math.min(...all), 0.75 * most)); // weights that are nearly alike look alike
    return figure(`Weights of ${name}`,
      heatMap({ rows: ranges.map((range) => range.told), columns: ranges[0][name].map((_, hop) => String(first + hop)),
        share: (r, c) => 0.08 + (0.92 * (ranges[r][name][c] - low)) / (most - low || 1), told: (r, c) => (100 * ranges[r][name][c]).toFixed(1), least: 34,
        rowTitle: "neighbours", columnTitle: "hop", label: `Mean weight of each hop of ${name} by number of neighbours`,
        tipFor: (r, c) => [`hop ${first + c} of ${name}`, ["weight", percent(ranges[r][name][c], 2)], ["neighbours", ranges[r].told], ["nodes", count(ranges[r].rows)]] }),
      heatLegend(percent(low), percent(most), "mean weight"));
  });
  const nodes = weights.ranges.reduce((sum, range) => sum + range.rows, 0);
  const about = `Mean weight, in per cent, that nodes give to each hop of their neighbourhood; a row adds up to 100 %. Of ${plural(nodes, "node", "nodes")}${weights.sampled ? " drawn at random" : ""}.`;
  return section("weights", title, about, el("div", { class: "pair-of-charts" }, maps));
}

function nodesSection(data) {
  const title = "Nodes";
  const nodes = data.nodes;
  if (!nodes) return section("nodes", title, null, empty("There are no labelled rows to list."));
  const rows = `${PARTS[data.part] || data.part} rows`;
  const worst = nodes.worst.filter((one) => one >= 0).length;
  const sure = worst ? ` and the ${count(worst)} most confident of ${plural(nodes.mistakes, "mistake", "mistakes")}` : " (there are no mistakes)";
  const drawn = nodes.id.length < nodes.rows ? `Of ${count(nodes.rows)} ${rows}, a random draw${sure}: ${count(nodes.id.length)} nodes are in this file.` : `All ${count(nodes.rows)} ${rows}; ${plural(nodes.mistakes, "mistake", "mistakes")}.`;
  return section("nodes", title, `${drawn}${data.seeds.length > 1 ? ` Answers of seed ${data.best}.` : ""}`, nodeList(data));
}

function costsSection(data) {
  const { preparation, training, evaluation, peak_memory } = data.timings;
  const parts = [["preparation (hops)", preparation], [`training (${plural(data.seeds.length, "seed", "seeds")})`, training], ["evaluation", evaluation]];
  const most = Math.max(...parts.map(([, value]) => value || 0)) || 1;
  const rows = parts.map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, name),
    el("td", { class: "bar-cell" }, el("span", { class: "meter", css: { "--share": (value || 0) / most } })), el("td", {}, known(value) ? seconds(value) : "not measured")));
  rows.push(el("tr", {}, el("th", { scope: "row" }, "peak memory"), el("td"), el("td", {}, known(peak_memory) ? bytes(peak_memory) : "not measured")));
  if (known(data.parameters)) rows.push(el("tr", {}, el("th", { scope: "row" }, "parameters"), el("td"), el("td", {}, count(data.parameters))));
  return section("costs", "Time and memory", "Seconds on the machine that ran it; memory is what preparation and training took at their most, above what the process held before.",
    el("table", { class: "costs" }, el("tbody", {}, rows)));
}

function recipeSection(data) {
  return section("recipe", "Recipe", data.about || null,
    el("details", {}, el("summary", {}, "Every setting, defaults included"), el("pre", { tabindex: 0 }, data.recipe)));
}
