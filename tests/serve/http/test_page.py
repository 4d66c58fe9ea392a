"""The page of a served run in a real browser, before a server that answers by heart."""

from __future__ import annotations

import copy
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from gamlp.serve.http.page import page
from tests.browser import opened, requested, visit, wait

in_a_browser = pytest.mark.slow
DESK, PHONE = 1200, 360
SCRIPT = "</script><script>window.ran = 1</script>"
IMAGE = "<img src=x onerror='window.ran = 2'>"
LONG = 2**60 + 1  # JavaScript has no such number: it would show another id
CLASSES = [f"class {index}" for index in range(12)]


def column(name: str, kind: str, values: list[Any] | None = None, width: int = 1) -> dict[str, Any]:
    return {"name": name, "type": kind, "values": values, "width": width}


def relation(name: str, source: str, target: str, *, directed: bool = False, weighted: bool = False) -> dict[str, Any]:
    return {"name": name, "source": source, "target": target, "directed": directed, "weighted": weighted}


def one_type(columns: list[dict[str, Any]] | None, features: int | None = None, refused: str | None = None) -> Any:
    return {"columns": columns, "features": features, "refused": refused}


COLUMNS = [
    column("age", "standard"), column("country", "category", ["AT", "CH", "DE"]), column("joined", "date"),
    column("paying", "boolean"), column("level", "category", [1, 2]), column("about", "text"),
    column("picture", "vector", width=3),
]  # fmt: skip
ABOUT = {
    "run": "runs/customers", "graph": "customers", "nodes": 2_449_029, "newcomers": 3, "classes": CLASSES,
    "multi_label": False, "hops": 3, "target": "node", "types": {"node": one_type(COLUMNS)},
    "relations": [relation("knows", "node", "node", weighted=True)], "generation": 4, "dtype": "float16",
    "model": "gamlp", "notes": [],
}  # fmt: skip
PAPERS = {
    **ABOUT, "target": "paper",
    "types": {
        "author": one_type([column("age", "robust")]), "paper": one_type(None, 2),
        "venue": one_type(None, None, "A venue has features made of its edges: it cannot be added."),
    },
    "relations": [
        relation("writes", "author", "paper", directed=True), relation("cites", "paper", "paper", weighted=True),
        relation("appears in", "paper", "venue", directed=True),
    ],
}  # fmt: skip


class StandIn(ThreadingHTTPServer):
    """Answers every node with the first class; `asked` is what it was asked, `refused` what it refuses by path."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/"
        self.fresh()

    def fresh(self) -> None:
        self.about: dict[str, Any] = copy.deepcopy(ABOUT)
        self.asked: list[tuple[str, Any, str | None]] = []
        self.refused: dict[str, tuple[int, str]] = {}
        self.key: str | None = None
        self.support: list[Any] = [LONG, "c-12"]
        self.values: dict[str, Any] = {}  # of classes that are no texts
        self.weighs = True

    def bodies(self, path: str) -> list[Any]:
        return [body for asked, body, _ in self.asked if asked == path]

    def answer(self, path: str, body: Any) -> tuple[int, Any]:
        if path in self.refused:
            status, sentence = self.refused[path]
            return status, {"error": sentence}
        if path == "/about":
            return 200, self.about
        nodes = [one for one in body.get("nodes", ()) if one.get("type", "paper") in (self.about["target"], "paper")]
        ids = [*body.get("ids", ()), *(one.get("id") for one in nodes)]
        if path == "/predict":
            notes = ["Degrees of neighbours are those of before."] if nodes else []
            predictions = [self.prediction(one) for one in ids]
            rest = {"notes": notes, "run": self.about["run"], "generation": self.about["generation"]}
            return 200, {"predictions": predictions, **rest}
        return 200, {"explanations": [self.explanation(one) for one in ids]}

    def prediction(self, name: Any) -> dict[str, Any]:
        classes = self.about["classes"]
        rest = 0.1 / (len(classes) - 1)
        shares = {one: 0.9 if index == 0 else rest for index, one in enumerate(classes)}
        label = [classes[0]] if self.about["multi_label"] else self.values.get(classes[0], classes[0])
        return {"id": name, "label": label, "probability": 0.9, "probabilities": shares}

    def explanation(self, name: Any) -> dict[str, Any]:
        first, second = self.about["classes"][:2]
        alone = [{"classes": [one], "probability": 0.5} for one in (second, first, first)]
        hops = [{"hop": hop, "weight": weight, "alone": alone[hop]} for hop, weight in enumerate((0.2, 0.5, 0.3))]
        parts = {"probability": 0.9, "logit": 2.5, "from_features": 2.0, "from_labels": 0.5, "without_labels": 0.8}
        if not self.weighs:
            hops = [{"hop": hop, "weight": None, "alone": None} for hop in range(3)]
        return {
            "id": name, "degree": 17, "role": "train", "true": [second],
            "predicted": {"classes": [first], "probability": 0.9}, "hops": hops,
            "label_weights": [0.75, 0.25], "first_label_hop": 1,
            "without_labels": {"classes": [second], "probability": 0.8},
            "classes": [{"name": one, **parts} for one in (first, second)],
            "support": [{"id": one, "label": first, "distance": 1} for one in self.support],
            "support_by_class": {first: 8, second: 2}, "support_is_whole": True, "notes": [],
        }  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    server: StandIn

    def do_GET(self) -> None:
        if self.path == "/":
            body, headers = page()
            self.send(200, body, headers)
        else:
            self.reply(None)

    def do_POST(self) -> None:
        self.reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def reply(self, body: Any) -> None:
        key = self.headers["X-API-Key"]
        self.server.asked.append((self.path, body, key))
        if self.server.key not in (None, key):
            status, answer = 401, {"error": "an API key is needed (send it as 'X-API-Key: KEY')"}
        else:
            status, answer = self.server.answer(self.path, body)
        wait = {"Retry-After": "2"} if status == 503 else {}
        self.send(status, json.dumps(answer).encode(), {"Content-Type": "application/json", **wait})

    def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from opened()


@pytest.fixture(scope="module")
def running() -> Iterator[StandIn]:
    with StandIn() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def server(running: StandIn) -> StandIn:
    running.fresh()
    return running


def show(browser: Any, server: StandIn, width: int = DESK, *, dark: bool = False) -> None:
    browser.get("about:blank")  # an address that differs by its last part only would not be opened anew
    visit(browser, server.url, width, phone=width == PHONE, dark=dark)
    wait(browser, "return !document.getElementById('about').hidden || !document.getElementById('key').hidden")


def text(browser: Any, css: str) -> str:
    return str(browser.find_element("css selector", css).text)


def look_up(browser: Any, name: str) -> None:
    box = browser.find_element("id", "look-id")
    box.clear()
    box.send_keys(name, "\n")
    said = "return document.getElementById(arguments[0]).textContent"
    ready = "document.querySelector('.scores, #answer .problem')"
    wait(browser, f"return {ready} && {said[7:]} === arguments[1]", "answered", name)


def field(browser: Any, label: str) -> Any:
    """The control that a person finds by its label."""
    found = browser.execute_script(
        "return [...document.querySelectorAll('label')].find(one => one.textContent.startsWith(arguments[0])).control",
        label,
    )
    assert found is not None, label
    return found


def send(browser: Any) -> None:
    browser.find_element("id", "add-send").click()


def test_the_policy_knows_the_pages_own_script_and_nothing_else() -> None:
    body, headers = page()
    shown = body.decode()
    assert (shown.count("<script"), shown.count("<style")) == (1, 1)
    assert not re.search(r"\s(?:on\w+|style|src)=", re.sub(r"<script>.*</script>", "", shown, flags=re.DOTALL))
    assert not re.search(r"https?:|//\w+\.\w|innerHTML|insertAdjacent|document\.write|\w+Storage", shown)
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert all(re.fullmatch(r"'sha256-[\w+/]{43}='", policy[one]) for one in ("script-src", "style-src"))
    headers.clear()
    assert page()[1]  # the next request has its own


# Texts that stand out from what is behind them by less than WCAG's 4.5 : 1.
CONTRASTS = """
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const rgb = (colour, behind) => {
        canvas.fillStyle = `rgb(${behind})`; canvas.fillRect(0, 0, 1, 1);
        canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const light = (some) => some.map(one => one / 255)
        .map(one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
        .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
    const faint = [];
    for (const one of document.querySelectorAll('body *')) {
        const written = [...one.childNodes].some(part => part.nodeType === 3 && part.textContent.trim());
        if (!written || !one.checkVisibility()) continue;
        const behind = [];
        for (let at = one; at; at = at.parentElement) behind.unshift(getComputedStyle(at).backgroundColor);
        const ground = behind.reduce((under, colour) => rgb(colour, under), [255, 255, 255]);
        const [a, b] = [light(rgb(getComputedStyle(one).color, ground)), light(ground)].sort((a, b) => b - a);
        if ((a + 0.05) / (b + 0.05) < 4.5 && !one.disabled) faint.push([one.textContent, (a + 0.05) / (b + 0.05)]);
    }
    return faint"""

# Texts and controls that reach beyond the page's right side, or out of their cell.
OUTSIDE = """
    return [...document.querySelectorAll('body *')].filter(one => one.checkVisibility()).filter(one =>
        one.getBoundingClientRect().right > innerWidth + 1
        || (['TD', 'TH', 'DIV', 'P'].includes(one.tagName) && one.scrollWidth > one.clientWidth + 1)
    ).map(one => `${one.tagName} ${one.className} ${one.textContent.slice(0, 40)}`)"""


@in_a_browser
def test_it_says_which_run_this_is_and_asks_nobody_else(browser: Any, server: StandIn) -> None:
    show(browser, server)
    assert text(browser, "h1") == "runs/customers" and browser.title == "runs/customers · gamlp"
    assert text(browser, "#facts") == (
        "customers · gamlp · 2,449,029 nodes · 3 newcomers · 12 classes · 3 hops · float16 · generation 4"
    )
    browser.find_element("css selector", "#about summary").click()
    told = text(browser, "#about-list")
    assert "class 11" in told and "age (standard), country (category)" in told
    assert "knows (node – node, weighted)" in told
    # Icons of the browser's own controls are data, too.
    asked = {url for url in requested(browser) if not url.startswith("data:")}
    assert asked == {server.url, f"{server.url}about"}
    assert browser.get_log("browser") == []


@in_a_browser
def test_a_known_node_is_looked_up(browser: Any, server: StandIn) -> None:
    show(browser, server)
    look_up(browser, "c-7")
    assert server.bodies("/predict") == server.bodies("/explain") == [{"ids": ["c-7"]}]
    assert text(browser, "#look-said") == "Node c-7: class 0, 90.0 %."
    assert text(browser, ".card.first") == "Predicted\nclass 0\n90.0 %"
    shown = text(browser, "#answer")
    assert "Known label\n✗ class 1" in shown and "Neighbours\n17" in shown and "Role\ntrain" in shown
    assert "Without known labels around it: class 1, 80.0 %." in shown
    hops = [one.text.split("\n") for one in browser.find_elements("css selector", ".hops:not(.labels) tbody tr")]
    assert hops == [
        ["hop 0", "itself", "20.0 %", "class 1 50.0 %"],
        ["hop 1", "neighbours", "50.0 %", "class 0 50.0 %"],
        ["hop 2", "30.0 %", "class 0 50.0 %"],
    ]
    of_labels = [one.text for one in browser.find_elements("css selector", ".labels tbody tr")]
    assert of_labels == ["hop 1\nneighbours\n75.0 %", "hop 2\n25.0 %"]
    widths = browser.execute_script(
        "return [...document.querySelectorAll('.hops:not(.labels) .meter')]"
        ".map(one => one.firstChild.getBoundingClientRect().width / one.getBoundingClientRect().width)"
    )
    assert widths == pytest.approx([0.2, 0.5, 0.3], abs=0.01)
    assert browser.get_log("browser") == []


@in_a_browser
def test_classes_beyond_the_first_are_folded_and_added_up(browser: Any, server: StandIn) -> None:
    show(browser, server)
    look_up(browser, "c-7")
    rows = "return [...document.querySelectorAll('.bars tr')].map(one => one.textContent)"
    assert browser.execute_script(rows)[:2] == ["class 090.0 %", "class 10.9 %"]
    assert len(browser.execute_script(rows)) == 8
    fold = browser.find_element("css selector", "#answer .fold summary")
    assert fold.text == "4 other classes, 3.6 % together"
    fold.click()
    wait(browser, "return document.querySelectorAll('.bars tr').length === 12")


@in_a_browser
def test_a_label_that_is_a_number_is_told_as_its_class(browser: Any, server: StandIn) -> None:
    server.about["classes"] = ["7", "10", "2"]
    server.values = {"7": 7}
    show(browser, server)
    look_up(browser, "c-7")
    assert text(browser, ".card.first") == "Predicted\n7\n90.0 %"
    assert text(browser, ".chosen") == "7\n90.0 %"


@in_a_browser
def test_many_labels_and_a_model_that_weighs_no_hops(browser: Any, server: StandIn) -> None:
    server.about["multi_label"], server.weighs, server.support = True, False, []
    show(browser, server)
    look_up(browser, "c-7")
    shown = text(browser, "#answer")
    assert "4 other classes, each at most 0.9 %" in shown
    assert "This model weighs no hops" in shown and "How far it listens\n" not in shown
    assert "No node with a known label was found within its hops." in shown
    assert browser.get_log("browser") == []


@in_a_browser
def test_directed_edges_are_asked_for_both_ways(browser: Any, server: StandIn) -> None:
    server.about["relations"] = [relation("follows", "node", "node", directed=True)]
    show(browser, server)
    field(browser, "Neighbours that lead to it").send_keys("a")
    field(browser, "Neighbours that it leads to").send_keys("b, c")
    send(browser)
    wait(browser, "return document.querySelector('.scores')")
    (node,) = server.bodies("/predict")[0]["nodes"]
    assert (node["neighbours"], node["leads_to"]) == (["a"], ["b", "c"])


@in_a_browser
def test_a_server_that_was_away_is_asked_again(browser: Any, server: StandIn) -> None:
    server.refused["/about"] = (503, "the run is being opened.")
    browser.get("about:blank")
    visit(browser, server.url, DESK)
    wait(browser, "return document.getElementById('about-problem').textContent")
    assert text(browser, "#about-problem") == "the run is being opened. Try again in 2 seconds."
    server.refused.clear()
    look_up(browser, "c-7")
    assert text(browser, "h1") == "runs/customers" and text(browser, "#about-problem") == ""


@in_a_browser
def test_support_leads_on_and_back_returns(browser: Any, server: StandIn) -> None:
    show(browser, server)
    look_up(browser, "c-7")
    nearest = browser.find_elements("css selector", ".support tbody tr")
    assert [one.text for one in nearest] == [f"{LONG} class 0 1", "c-12 class 0 1"]
    assert "All that are so near, by class: class 0 8, class 1 2." in text(browser, "#answer")
    nearest[0].find_element("tag name", "a").click()
    wait(browser, "return document.getElementById('look-said').textContent.startsWith(arguments[0])", f"Node {LONG}:")
    browser.back()
    wait(browser, "return document.getElementById('look-said').textContent.startsWith('Node c-7')")
    assert [body["ids"] for body in server.bodies("/predict")] == [["c-7"], [str(LONG)], ["c-7"]]


@in_a_browser
def test_a_node_is_added_by_hand(browser: Any, server: StandIn) -> None:
    show(browser, server)
    field(browser, "age").send_keys("41.5")
    field(browser, "country").send_keys("CH")
    field(browser, "joined").send_keys("05312024")
    field(browser, "paying").send_keys("true")
    field(browser, "level").send_keys("2")
    field(browser, "picture").send_keys("[0.5, -1, 2e-3]")
    field(browser, "Neighbours").send_keys('c-7, "a, b"\n12')
    field(browser, "Neighbours: weights").send_keys("1, 2.5, 3")
    options = "return [...arguments[0].list.options].map(one => one.value)"
    assert browser.execute_script(options, field(browser, "country")) == ["AT", "CH", "DE"]
    send(browser)
    wait(browser, "return document.querySelector('.scores')")
    cells = {
        "age": 41.5, "country": "CH", "joined": "2024-05-31", "paying": True, "level": 2, "about": None,
        "picture": [0.5, -1, 0.002],
    }  # fmt: skip
    node = {"columns": cells, "neighbours": ["c-7", "a, b", "12"], "weights": [1, 2.5, 3]}
    assert server.bodies("/predict") == server.bodies("/explain") == [{"nodes": [node], "keep": False}]
    assert text(browser, "#add-said") == "The new node: class 0, 90.0 %."
    assert "Degrees of neighbours are those of before." in text(browser, "#answer")
    assert browser.get_log("browser") == []


@in_a_browser
def test_a_node_that_is_kept_needs_an_id_and_is_known_from_then_on(browser: Any, server: StandIn) -> None:
    show(browser, server)
    browser.find_element("id", "add-keep").click()
    send(browser)
    assert text(browser, "#add-problem") == "A node that is kept needs an id."
    assert server.bodies("/predict") == []
    server.about["newcomers"] = 4
    browser.switch_to.active_element.send_keys("new-1", "\n")  # the control that was wrong has the focus
    wait(browser, "return document.querySelector('.scores')")
    (asked,) = server.bodies("/predict")
    assert asked["keep"] and asked["nodes"][0]["id"] == "new-1"
    assert server.bodies("/explain") == [{"ids": ["new-1"]}]  # not written down a second time
    assert text(browser, "#add-said") == "Kept. Node new-1: class 0, 90.0 %."
    wait(browser, "return document.getElementById('facts').textContent.includes('4 newcomers')")


@in_a_browser
def test_types_and_relations_have_their_own_fields(browser: Any, server: StandIn) -> None:
    server.about = copy.deepcopy(PAPERS)
    show(browser, server)
    field(browser, "Numbers").send_keys("1, 2")
    field(browser, "writes").send_keys("a1\na2")
    field(browser, "cites").send_keys("p1")
    field(browser, "cites: weights").send_keys("0.5")
    send(browser)
    wait(browser, "return document.querySelector('.scores')")
    neighbours = {"writes": ["a1", "a2"], "cites": ["p1"]}
    paper = {"type": "paper", "features": [1, 2], "neighbours": neighbours, "weights": {"cites": [0.5]}}
    assert server.bodies("/predict")[0]["nodes"] == [paper]
    field(browser, "Type").send_keys("author")
    assert "Only nodes of type paper are classified" in text(browser, "#add-fields")
    field(browser, "Id of").send_keys("a3")
    browser.find_element("id", "add-keep").click()
    send(browser)
    wait(browser, "return document.getElementById('add-said').textContent.startsWith('Kept.')")
    assert server.bodies("/predict")[1] == {
        "nodes": [{"id": "a3", "type": "author", "columns": {"age": None}}],
        "keep": True,
    }
    field(browser, "Type").send_keys("venue")
    assert "it cannot be added" in text(browser, "#add-fields")
    assert not browser.find_element("id", "add-send").is_enabled()


@in_a_browser
def test_what_the_server_refuses_is_said_beside_the_form(browser: Any, server: StandIn) -> None:
    show(browser, server)
    server.refused["/predict"] = (404, f"there is no node '{IMAGE}'; the nearest is 'c-7'")
    box = browser.find_element("id", "look-id")
    box.send_keys("c-8", "\n")
    wait(browser, "return document.getElementById('look-problem').textContent")
    assert text(browser, "#look-problem") == f"there is no node '{IMAGE}'; the nearest is 'c-7'"
    assert text(browser, "#look-said") == "" and browser.switch_to.active_element == box
    server.refused["/predict"] = (503, "there are too many questions.")
    send(browser)
    wait(browser, "return document.getElementById('add-problem').textContent")
    assert text(browser, "#add-problem") == "there are too many questions. Try again in 2 seconds."
    server.refused = {"/explain": (500, "no hops are stored")}
    box.send_keys("\n")
    wait(browser, "return document.querySelector('#answer .problem')")
    assert text(browser, ".card.first").startswith("Predicted\nclass 0")
    assert text(browser, "#answer .problem") == "There is no explanation: no hops are stored"
    assert text(browser, "#look-problem") == ""


@in_a_browser
def test_what_is_no_number_is_not_sent(browser: Any, server: StandIn) -> None:
    show(browser, server)
    age = field(browser, "age")
    age.send_keys("forty")
    send(browser)
    assert text(browser, "#add-problem") == "age: 'forty' is no number."
    assert age.get_attribute("aria-invalid") == "true" and browser.switch_to.active_element == age
    age.clear()
    age.send_keys("40")
    field(browser, "Neighbours").send_keys("a, b")
    field(browser, "Neighbours: weights").send_keys("1")
    send(browser)
    assert text(browser, "#add-problem") == "There are 2 neighbours and 1 weight."
    assert age.get_attribute("aria-invalid") is None and server.bodies("/predict") == []


@in_a_browser
def test_a_key_is_asked_for_and_kept_in_memory_only(browser: Any, server: StandIn) -> None:
    server.key = "s3cret"
    show(browser, server)
    assert text(browser, "#key-problem") == "The server asks for an API key."
    for key, last in (("wrong", "The server does not know this key."), ("s3cret", "")):
        browser.switch_to.active_element.send_keys(key, "\n")
        wait(browser, "return document.getElementById('key-problem').textContent === arguments[0]", last)
    wait(browser, "return !document.getElementById('about').hidden")
    look_up(browser, "c-7")
    assert [key for _, _, key in server.asked] == [None, "wrong", *["s3cret"] * 3]
    assert browser.execute_script("return localStorage.length + sessionStorage.length + document.cookie.length") == 0
    assert "s3cret" not in browser.page_source and "s3cret" not in browser.current_url


@in_a_browser
def test_names_that_are_html_are_shown_as_text(browser: Any, server: StandIn) -> None:
    server.about.update(run=IMAGE, graph=SCRIPT, classes=[IMAGE, SCRIPT, "__proto__"], dtype=IMAGE)
    columns = [column(IMAGE, "standard"), column("__proto__", "category", [SCRIPT])]
    server.about.update(types={"node": one_type(columns)}, relations=[relation(SCRIPT, IMAGE, "node")])
    server.support = [IMAGE, "javascript:window.ran = 3"]
    show(browser, server)
    for one in browser.find_elements("css selector", "summary"):
        one.click()
    look_up(browser, SCRIPT)
    for one in browser.find_elements("css selector", "#answer summary"):
        one.click()
    shown = text(browser, "#answer")
    assert IMAGE in shown and SCRIPT in shown and "__proto__" in shown
    field(browser, IMAGE).send_keys("1")
    field(browser, "__proto__").send_keys("x")
    field(browser, "Neighbours").send_keys(IMAGE)
    send(browser)
    wait(browser, "return document.getElementById('add-said').textContent.startsWith('The new node')")
    node = server.bodies("/predict")[-1]["nodes"][0]
    assert node == {"columns": {IMAGE: 1, "__proto__": "x"}, "neighbours": [IMAGE]}
    browser.find_elements("css selector", ".support a")[1].click()
    wait(browser, "return document.getElementById('look-said').textContent.includes('javascript:')")
    browser.execute_script(
        "const one = document.createElement('img'); one.src = 'data:,'; document.body.append(one);"
        "try { document.body.insertAdjacentHTML('beforeend', arguments[0]) } catch {}",
        IMAGE,
    )
    assert browser.execute_script("return [document.images.length, document.scripts.length]") == [1, 1]
    assert browser.execute_script("return window.ran === undefined")


@in_a_browser
def test_dark_follows_the_system_and_the_button(browser: Any, server: StandIn) -> None:
    lightness = (
        "const found = getComputedStyle(document.body).backgroundColor.match(/\\d+/g);"
        "return (+found[0] + +found[1] + +found[2]) / 765"
    )
    show(browser, server, dark=True)
    look_up(browser, "c-7")
    assert browser.execute_script(lightness) < 0.2
    assert browser.execute_script(CONTRASTS) == []
    browser.find_element("id", "theme").click()
    assert browser.execute_script(lightness) > 0.9
    assert browser.execute_script(CONTRASTS) == []


@in_a_browser
@pytest.mark.parametrize("kind", ["plain", "long names"])
def test_a_phone_scrolls_down_only(browser: Any, server: StandIn, kind: str) -> None:
    if kind == "long names":
        name = "a-name-without-a-space-" * 6
        server.about.update(run=name, classes=[f"{name}{index}" for index in range(40)], graph=name)
        columns = [column(f"{name}{one['name']}", one["type"], one["values"]) for one in COLUMNS]
        server.about["types"] = {name: one_type(columns), f"{name}2": one_type(None, 3)}
        server.about.update(target=name, relations=[relation(f"{name}{at}", name, name) for at in range(2)])
        server.support = [name * 2]
    for width in (PHONE, 700, DESK):
        show(browser, server, width)
        look_up(browser, "c-7" if kind == "plain" else "x" * 300)
        for one in browser.find_elements("css selector", "summary"):
            one.click()
        assert browser.execute_script("return document.documentElement.scrollWidth") == width
        assert browser.execute_script(OUTSIDE) == []
        if width == PHONE:  # the answer is brought into view
            top = browser.execute_script("return document.getElementById('answer').getBoundingClientRect().top")
            assert top < 900


@in_a_browser
def test_keys_and_a_screen_reader_are_enough(browser: Any, server: StandIn) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    server.about = copy.deepcopy(PAPERS) | {"types": {**PAPERS["types"], "paper": one_type(COLUMNS)}}
    show(browser, server)
    look_up(browser, "c-7")
    names = {
        one["name"]["value"]
        for one in browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        if one.get("role", {}).get("value") in ("textbox", "combobox", "checkbox", "button", "Date", "InputTime")
    }
    assert "" not in names
    assert {"Id", "Look up", "age", "joined, time of day", "about", "writes", "cites: weights", "Type"} <= names
    live = browser.execute_script(
        "return [...document.querySelectorAll('[role=status], [role=alert]')].map(one => one.id)"
    )
    assert {"look-said", "look-problem", "add-said", "add-problem", "key-problem"} <= set(live)
    browser.execute_script("document.getElementById('look-id').focus()")
    reached = []
    for _ in range(60):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        here = browser.switch_to.active_element
        reached.append(here.get_attribute("id"))
        ringed = "return getComputedStyle(arguments[0]).outlineStyle"
        assert here.tag_name == "body" or browser.execute_script(ringed, here) != "none"
        if reached[-1] == "add-clear":
            break
    assert {"add-keep", "add-send", "add-clear"} <= set(reached)


@in_a_browser
def test_paper_has_the_answer_and_no_forms(browser: Any, server: StandIn) -> None:
    show(browser, server, dark=True)
    look_up(browser, "c-7")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    seen = browser.execute_script(
        "return [...document.querySelectorAll('section, button')].filter(one => one.checkVisibility())"
        ".map(one => one.id)"
    )
    ink = browser.execute_script("return getComputedStyle(document.body).color")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert seen == ["answer"] and ink == "rgb(27, 35, 48)"
