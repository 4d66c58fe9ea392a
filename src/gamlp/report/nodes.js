// The list of nodes: searched, filtered, sorted, and shown fifty at a time.

const PAGE = 50;
const TITLES = { features: "feature hops", labels: "label hops" };

function nodeList(data) {
  const nodes = data.nodes;
  const names = data.classes;
  const all = nodes.id.map((_, index) => index);
  const wrong = data.many
    ? (index) => nodes.extra[index].length + nodes.missed[index].length > 0
    : (index) => nodes.true[index] !== nodes.chosen[index];
  const listed = (some) => some.map((one) => names[one]).join(", ");
  const text = all.map((index) => {
    const said = data.many
      ? `${listed(nodes.extra[index])} ${listed(nodes.missed[index])}`
      : `${names[nodes.true[index]]} ${names[nodes.chosen[index]]}`;
    return `${nodes.id[index]} ${said}`.toLowerCase();
  });
  const filters = {
    all: ["all listed nodes", () => true],
    worst: ["most confident mistakes", (index) => nodes.worst[index] >= 0],
    wrong: ["mistakes", wrong],
    right: ["right answers", (index) => !wrong(index)],
  };
  const byId = (a, b) => nodes.id[a].localeCompare(nodes.id[b], "en", { numeric: true });
  const orders = {
    chance: ["most certain first", (a, b) => nodes.chance[b] - nodes.chance[a] || byId(a, b)],
    unsure: ["least certain first", (a, b) => nodes.chance[a] - nodes.chance[b] || byId(a, b)],
    id: ["by id", byId],
  };
  if (nodes.degree) orders.degree = ["most neighbours first", (a, b) => nodes.degree[b] - nodes.degree[a] || byId(a, b)];
  const options = (some) => Object.entries(some).map(([value, [name]]) => el("option", { value }, name));
  const search = el("input", { type: "search", id: "search", placeholder: "id or class", autocomplete: "off", spellcheck: "false" });
  const filter = el("select", { id: "filter" }, options(filters));
  const order = el("select", { id: "order" }, options(orders));
  const body = el("tbody", { id: "nodes-body" });
  const told = el("p", { id: "nodes-count", class: "quiet", "aria-live": "polite" });
  const more = el("button", { type: "button", on: { click: () => show(shown + PAGE) } }, "Show more");
  // Flat weights are said above, not painted.
  const weighed = ["features", "labels"].filter((name) => nodes[name] && !(data.weights && data.weights.flat[name]));
  if (!all.some(wrong)) delete filters.worst, filter.replaceChildren(...options({ all: filters.all, right: filters.right }));
  else filter.value = "worst";
  let [found, shown] = [[], PAGE];

  function row(index) {
    const cell = (name, ...inside) => el("td", { "data-name": name }, ...inside);
    const bar = el("span", { class: wrong(index) ? "meter wrong" : "meter", css: { "--share": nodes.chance[index] } });
    const answer = data.many
      ? [cell("labels found", `${nodes.right[index]} of ${nodes.true[index]}`),
         cell("wrongly given", listed(nodes.extra[index]) || DASH), cell("missed", listed(nodes.missed[index]) || DASH)]
      : [cell("true class", names[nodes.true[index]]),
         cell("predicted", el("span", { class: wrong(index) ? "bad" : "good" }, wrong(index) ? "✗ " : "✓ "), names[nodes.chosen[index]])];
    const chance = [cell(data.many ? "certainty" : "probability", bar, exact(nodes.chance[index]))];
    if (!data.many) chance.push(cell("of true class", percent(nodes.own[index])));
    return el("tr", {}, cell("node", el("b", {}, nodes.id[index])), nodes.degree && cell("neighbours", count(nodes.degree[index])),
      ...answer, ...chance,
      ...weighed.map((name) => cell(TITLES[name], sparkBars(nodes[name][index], nodes[`${name}_hops`], name, `Weights of ${name}, node ${nodes.id[index]}`))));
  }

  function show(upTo) {
    shown = upTo;
    body.replaceChildren(...found.slice(0, shown).map(row));
    const on = Math.min(shown, found.length);
    told.textContent = found.length ? `${count(on)} of ${plural(found.length, "matching node", "matching nodes")}` : "No listed node matches.";
    more.hidden = shown >= found.length;
  }

  function seek() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = filters[filter.value][1];
    found = all.filter((index) => wanted(index) && words.every((word) => text[index].includes(word)));
    found.sort(orders[order.value][1]);
    show(PAGE);
  }

  for (const [control, event] of [[search, "input"], [filter, "change"], [order, "change"]]) control.addEventListener(event, seek);
  seek();
  const heads = ["node", nodes.degree && "neighbours",
    ...(data.many ? ["labels found", "wrongly given", "missed", "certainty"] : ["true class", "predicted", "probability", "of true class"]),
    ...weighed.map((name) => TITLES[name])].filter(Boolean);
  return el("div", {},
    el("div", { class: "controls" },
      el("label", { class: "wide" }, "Search", search), el("label", {}, "Show", filter), el("label", {}, "Order", order)),
    told,
    el("div", { class: "scroll" }, el("table", { class: "nodes" }, el("thead", {}, el("tr", {}, heads.map((name) => el("th", { scope: "col" }, name)))), body)),
    more);
}
