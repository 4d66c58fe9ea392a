// Whether to trust the result: words, the leaderboard, curves, reliability, predictions of unlabelled nodes.

function wordsSection(data) {
  const { said, doubts, better } = data.words;
  const kind = better === false ? "verdict against" : doubts.length ? "verdict doubted" : "verdict";
  const about = el("div", { class: kind }, el("p", {}, said.join(" ")),
    doubts.length ? [el("h3", {}, "What to doubt"), el("ul", {}, doubts.map((one) => el("li", {}, one)))]
      : el("p", { class: "quiet" }, "Nothing was found that speaks against it: losses, hop weights, classes and neighbours were looked at."));
  return section("words", "In short", null, about);
}

function leaderboardSection(data) {
  const board = data.leaderboard;
  if (!board) return null;
  const value = (one) => (board.metric === "log_loss" ? small(one) : percent(one, 2));
  const heads = ["model", `validation ${board.title}`, `test ${board.title}`, "seconds", "parameters", "size", ""];
  const rows = board.rows.map((one) => [one.name === board.chosen ? "best" : "", [
    [one.title, one.name === board.chosen ? " ★" : ""],
    known(one.valid) ? [value(one.valid), known(one.error) ? el("span", { class: "quiet" }, ` ± ${board.metric === "log_loss" ? small(one.error) : (100 * one.error).toFixed(2)}`) : ""] : DASH,
    value(one.test), seconds(one.seconds), one.parameters ? count(one.parameters) : DASH, one.bytes ? bytes(one.bytes) : DASH,
    [one.simple ? "simple answer" : "", one.state && one.state !== "finished" ? `${one.simple ? ", " : ""}${one.state}${one.why ? `: ${one.why}` : ""}` : ""]]]);
  return section("leaderboard", "Leaderboard", `★ was chosen by validation rows alone; ± is one standard error. Test rows were read once, after the choice.${board.rows.some((one) => one.state === "dropped") ? " Dropped ones were not trained to the end: others were ahead." : ""}`,
    stackedTable("numbers board", heads, rows));
}

// ROC and precision-recall: the largest classes together, or one.
function rankingSection(data) {
  const numbers = Object.keys(data.ranking).map(Number);
  const title = "Curves";
  if (!numbers.length) return section("curves", title, null, empty("There are no scored rows of which some have a class and some have not."));
  const size = (number) => data.ranking[number].positive;
  const ordered = numbers.sort((a, b) => size(b) - size(a) || a - b);
  const holders = el("div", { class: "pair-of-charts" });
  const chosen = el("select", { id: "curve-class", on: { change: draw } },
    ordered.length > 1 ? el("option", { value: "" }, ordered.length > COLOURS ? `the ${COLOURS} largest classes` : "all classes") : null,
    ordered.map((number) => el("option", { value: number }, shortened(data.classes[number], 60))));
  function draw() {
    const shown = chosen.value === "" ? ordered.slice(0, COLOURS) : [Number(chosen.value)];
    const lines = (name, area) => shown.map((number, index) => {
      const [x, y] = data.ranking[number][name];
      return { name: `${shortened(data.classes[number], 24)} (${percent(data.ranking[number][area])})`, colour: colour(index), x, y };
    });
    const base = { name: "chance", colour: "var(--quiet)", dashed: true, quiet: true, x: [0, 1], y: [0, 1] };
    const rare = shown.length === 1 ? [{ ...base, y: Array(2).fill(size(shown[0]) / data.ranking[shown[0]].rows) }] : [];
    const legend = (some) => el("div", { class: "legend" }, some.map((line) => el("span", {}, el("i", { class: "stroke", css: { "border-color": line.colour } }), line.name)));
    const [roc, precision] = [lines("roc", "roc_auc"), lines("precision", "average_precision")];
    const share = (value) => percent(value);
    holders.replaceChildren(
      figure("ROC", lineChart({ lines: [...roc, base], shares: true, xTitle: "false positive rate", yTitle: "true positive rate", label: "ROC curves", format: share, tickFormat: (value) => percent(value, 0) }), legend(roc)),
      figure("Precision and recall", lineChart({ lines: [...precision, ...rare], shares: true, xTitle: "recall", yTitle: "precision", label: "Precision by recall", format: share, tickFormat: (value) => percent(value, 0) }), legend(precision)));
  }
  draw();
  const about = `Each class against all others${data.seeds.length > 1 ? `, of seed ${data.best}` : ""}; dashed is what chance has. In brackets: ROC-AUC, average precision. From counts in 2,000 steps of probability, equally wide in log-odds.`;
  return section("curves", title, about, ordered.length > 1 ? el("div", { class: "controls" }, el("label", {}, "Class", chosen)) : null, holders);
}

function reliabilitySection(data) {
  const bins = data.reliability;
  if (!bins || !bins.length) return null;
  const rows = bins.reduce((sum, bin) => sum + bin.rows, 0);
  const gap = bins.reduce((sum, bin) => sum + bin.rows * Math.abs(bin.said - bin.true), 0) / rows;
  const line = { name: "came true", colour: colour(0), dots: true, x: bins.map((bin) => bin.said), y: bins.map((bin) => bin.true), more: (index) => [["rows", count(bins[index].rows)]] };
  const perfect = { name: "as said", colour: "var(--quiet)", dashed: true, quiet: true, x: [0, 1], y: [0, 1] };
  const what = data.many ? "every label of every row" : data.positive ? `the probability of '${data.positive}'` : "the probability of each answer";
  const about = `Do probabilities mean what they say? Of ${what}: what was said, and how often it came true, in bins of equally many. On the dashed line they agree; expected calibration error ${percent(gap)}.`;
  return section("reliability", "Reliability", about,
    figure("Said and true", lineChart({ lines: [line, perfect], shares: true, xTitle: "said", yTitle: "came true", label: "Reliability: probability said, and share that came true", format: (value) => percent(value), tickFormat: (value) => percent(value, 0) })));
}

function unlabelledSection(data) {
  const found = data.unlabelled;
  if (!found || !found.rows) return null;
  const levels = found.levels.map((one) => `${Number((100 * one).toPrecision(4))}`);
  const names = data.many ? [] : [`below ${levels[0]} %`, ...levels.slice(1).map((one, index) => `${levels[index]}–${one} %`), `${levels[levels.length - 1]} % or more`];
  const heads = ["class", "nodes", "share", ...(data.many ? [] : ["mean probability"]), ...names];
  const rows = found.classes.map((one) => ["", [data.classes[one.class], count(one.rows),
    [el("span", { class: "meter", css: { "--share": one.rows / found.rows } }), percent(one.rows / found.rows)],
    ...(data.many ? [] : [percent(one.mean), ...one.levels.map((number) => (number ? count(number) : DASH))])]]);
  const nothing = found.nothing ? ` ${plural(found.nothing, "node", "nodes")} got no label.` : "";
  const sure = data.many ? "" : " The last columns count them by how probable the answer is.";
  const most = 100;
  const more = rows.length > most ? ` The ${most} most frequent of ${count(rows.length)} classes.` : "";
  return section("unlabelled", "Nodes without a known label", `What was predicted for ${plural(found.rows, "node", "nodes")} whose label is not known.${sure}${nothing}${more}`,
    stackedTable("numbers", heads, rows.slice(0, most)));
}
