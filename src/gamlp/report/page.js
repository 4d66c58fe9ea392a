// Puts the page together.

(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const toggle = el("button", { type: "button", id: "theme", on: { click: () => {
    root.dataset.theme = dark() ? "light" : "dark";
    name();
  } } });
  const name = () => (toggle.textContent = dark() ? "☀ Light" : "☾ Dark");
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();

  const { nodes, edges, features, classes } = data.graph;
  const facts = [known(nodes) && plural(nodes, "node", "nodes"), known(edges) && plural(edges, "edge", "edges"),
    known(features) && plural(features, "feature", "features"), plural(classes, "class", "classes"), data.many && "many labels a node",
    data.agreement && `neighbours agree ${percent(data.agreement.agree, 0)} (chance ${percent(data.agreement.chance, 0)})`].filter(Boolean);
  const sections = [wordsSection(data), leaderboardSection(data), scoresSection(data), curvesSection(data), confusionSection(data), groupsSection(data),
    rankingSection(data), reliabilitySection(data), unlabelledSection(data), weightsSection(data), nodesSection(data), costsSection(data), recipeSection(data)].filter(Boolean);
  const links = { words: "In short", leaderboard: "Leaderboard", curves: "Curves", reliability: "Reliability", unlabelled: "Unlabelled", scores: "Scores", training: "Training", confusion: "Confusion", groups: "Classes, degrees", weights: "Hops", nodes: "Nodes", costs: "Time", recipe: "Recipe" };
  document.getElementById("top").append(
    el("div", { class: "head" }, el("div", {}, el("h1", {}, data.title), el("p", {}, el("b", {}, data.model), ` · ${facts.join(" · ")}`)), toggle),
    el("nav", { class: "scroll", "aria-label": "Sections" }, sections.map((one) => el("a", { href: `#${one.id}` }, links[one.id]))),
    data.notes.map((note) => el("p", { class: "note" }, note)));
  document.getElementById("main").append(...sections);
  document.getElementById("foot").append(`gamlp ${data.gamlp} · ${data.date} · nothing on this page was loaded from elsewhere`);
})();
