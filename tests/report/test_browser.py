"""The page in a real browser: it renders, answers pointer, finger and keys, and asks the network for nothing."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gamlp.graph import Graph, Ids, Labels
from gamlp.report import render
from gamlp.run.path import run_path
from gamlp.run.source import Source
from gamlp.run.training import train
from tests.browser import opened, requested, visit, wait
from tests.report.examples import IMAGE, SCRIPT, content_of, graph_of
from tests.training.small import ONE_THREAD, RECIPE, make_graph, with_nodes

pytestmark = pytest.mark.slow

PHONE, DESK = 390, 1200
BOARD = {
    "metric": "accuracy", "chosen": "gamlp", "sentence": f"{SCRIPT} is better",
    "rows": [
        {"name": name, "title": f"{IMAGE} {name}", "valid": 0.9 - 0.1 * at, "error": 0.01, "test": 0.8 - 0.1 * at,
         "seconds": 10.0**at, "parameters": 1000 * at, "bytes": 4000 * at, "state": "finished", "simple": at > 1}
        for at, name in enumerate(("gamlp", "sign", "majority", "logistic regression on features"))
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a window, with logs of its console and its requests."""
    yield from opened()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two seeds whose classes and ids are HTML, with a leaderboard and unlabelled nodes."""
    graph = hostile(make_graph())
    folder = tmp_path_factory.mktemp("run") / "run"
    recipe = RECIPE.changed({"training.seeds": [0, 1], "training.learning_rate": 0.001})
    trained = train(Source("small", None, graph), recipe, folder, resources=ONE_THREAD)
    (folder / "leaderboard.json").write_text(json.dumps(BOARD))
    return run_path(Source("small", None, graph), recipe, trained.run.path, resources=ONE_THREAD).report


def hostile(graph: Graph) -> Graph:
    labels = graph.nodes.labels
    assert labels is not None
    values = np.where(np.arange(len(labels.values)) % 7 == 6, -1, labels.values).astype(np.int32)
    ids = pa.array([f"{IMAGE} node {index}" for index in range(graph.nodes.count)])
    assert graph.nodes.features is not None
    features = replace(graph.nodes.features, values=8 * graph.nodes.features.values)  # so that hops weigh differently
    graph = with_nodes(graph, labels=Labels(values, (SCRIPT, IMAGE, "plain")), features=features)
    return replace(graph, node_types={"node": replace(graph.nodes, ids=Ids(graph.nodes.count, ids))})


def show(browser: Any, page: Path, width: int = DESK, *, dark: bool = False) -> None:
    visit(browser, page.as_uri(), width, phone=width == PHONE, dark=dark)
    wait(browser, "return document.querySelectorAll('.chart svg').length > 3")


def place_of(browser: Any, css: str) -> list[float]:
    """[left, top, width, height] of an element that was brought into view, when the page has come to rest."""
    browser.execute_script(
        "document.querySelector(arguments[0]).scrollIntoView({block: 'center', behavior: 'instant'})", css
    )
    wait(browser, "return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
    measure = "const box = document.querySelector(arguments[0]).getBoundingClientRect();"
    found: list[float] = browser.execute_script(f"{measure} return [box.left, box.top, box.width, box.height]", css)
    return found


def point_at(browser: Any, css: str, x: float = 0.5, y: float = 0.5) -> str:
    """Move the pointer to a part of an element; what the tooltip then says, empty where it is hidden."""
    left, top, width, height = place_of(browser, css)
    where = {"x": left + x * width, "y": top + y * height}
    browser.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", **where})
    return str(browser.find_element("id", "tip").text)


def picture(browser: Any, path: Path) -> Any:
    """A screenshot of what is seen, `[height, width, 3]` from 0 to 1."""
    from matplotlib.image import imread

    shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    path.write_bytes(base64.b64decode(shot["data"]))
    return np.asarray(imread(io.BytesIO(path.read_bytes()), format="png"))[:, :, :3]


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_it_renders_without_an_error_or_a_request(browser: Any, page: Path, width: int) -> None:
    show(browser, page, width)
    assert browser.get_log("browser") == []
    asked = requested(browser)
    assert page.as_uri() in asked and all(url == page.as_uri() or url.startswith("data:") for url in asked)
    titles = browser.execute_script("return [...document.querySelectorAll('h2')].map(one => one.textContent)")
    assert titles == [
        "In short", "Leaderboard", "Scores", "Training", "Confusion matrix", "By class and by degree", "Curves",
        "Reliability", "Nodes without a known label", "How far the model listens", "Nodes", "Time and memory", "Recipe",
    ]  # fmt: skip
    # A whole run has something to show everywhere but for weights of labels, which these few epochs leave equal.
    nothing = [one.text for one in browser.find_elements("css selector", ".empty")]
    assert len(nothing) == 1 and nothing[0].startswith("Weights over hops of labels are ")


def test_class_names_and_ids_that_are_html_are_shown_as_text(browser: Any, page: Path) -> None:
    show(browser, page)
    browser.execute_script("document.getElementById('filter').value = 'all'")
    browser.execute_script("document.getElementById('filter').dispatchEvent(new Event('change'))")
    assert browser.execute_script("return document.querySelectorAll('img, iframe').length") == 0
    assert browser.execute_script("return document.scripts.length") == 2
    shown = browser.execute_script("return document.getElementById('nodes-body').textContent")
    assert SCRIPT in shown and IMAGE in shown


def test_the_policy_stops_a_script_that_somebody_adds(browser: Any, page: Path) -> None:
    show(browser, page)
    browser.execute_script(
        "const one = document.createElement('script'); one.textContent = 'window.ran = true'; document.body.append(one)"
    )
    assert browser.execute_script("return window.ran === undefined")
    assert any("Content Security Policy" in entry["message"] for entry in browser.get_log("browser"))


def test_search_filters_the_list(browser: Any, page: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    show(browser, page)
    rows = "return [...document.querySelectorAll('#nodes-body tr')].map(one => one.textContent)"
    browser.execute_script("document.getElementById('filter').value = 'all'")
    search = browser.find_element("id", "search")
    search.send_keys("n")
    everyone = browser.execute_script(rows)
    wanted = everyone[3].split("node ")[1]
    number = "".join(letter for letter in wanted[:2] if letter.isdigit())
    search.clear()
    search.send_keys(f"node {number}")
    found = browser.execute_script(rows)
    assert 0 < len(found) < len(everyone) and all(f"node {number}" in row for row in found)
    search.send_keys(" no such node")
    assert browser.execute_script(rows) == []
    assert browser.find_element("id", "nodes-count").text == "No listed node matches."
    search.send_keys(Keys.CONTROL, "a")
    search.send_keys(Keys.DELETE)
    assert len(browser.execute_script(rows)) == len(everyone)


def test_charts_say_their_values_to_pointer_and_keys(browser: Any, page: Path) -> None:
    show(browser, page)
    content = json.loads(browser.execute_script("return document.getElementById('data').textContent"))
    said = point_at(browser, "#training svg", 0.99, 0.5)
    last = content["curves"]["seeds"][0]
    assert said.startswith("epoch 6") and "seed 1, validation loss" in said
    assert f"{last['loss'][-1]:.3g}" in said
    cells = content["confusion"]["counts"]
    said = point_at(browser, "#confusion .cell")
    assert f"{cells[0][0]} of {sum(cells[0])} rows" in said
    said = point_at(browser, "#groups figure:nth-of-type(2) svg")
    assert "neighbours" in said and "accuracy" in said and "over seeds" in said
    assert f"rows\n{content['by_class'][0]['rows']}" in point_at(browser, "#groups .bar")
    assert "hop 0 of features" in point_at(browser, "#weights .cell")
    assert "hop 0" in point_at(browser, "#nodes .spark")
    browser.execute_script("document.querySelector('#weights svg').focus({preventScroll: true})")
    for kind in ("keyDown", "keyUp"):
        key = {"type": kind, "key": "ArrowRight", "code": "ArrowRight", "windowsVirtualKeyCode": 39}
        browser.execute_cdp_cmd("Input.dispatchKeyEvent", key)
    assert "hop 1 of features" in browser.find_element("id", "tip").text


def test_a_finger_reads_a_value_that_stays_when_it_is_lifted(browser: Any, page: Path) -> None:
    show(browser, page, PHONE)
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    left, top, *_ = place_of(browser, "#confusion .cell")
    for kind, points in (("touchStart", [{"x": left + 5, "y": top + 5}]), ("touchEnd", [])):
        browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
    assert "predicted" in browser.find_element("id", "tip").text


def test_dark_and_light_follow_the_system_and_the_button(browser: Any, page: Path, tmp_path: Path) -> None:
    show(browser, page, dark=True)
    dark = picture(browser, tmp_path / "dark.png")
    browser.find_element("id", "theme").click()
    light = picture(browser, tmp_path / "light.png")
    assert dark.mean() < 0.3 and light.mean() > 0.8
    for shot in (dark, light):
        colours, counts = np.unique((shot.reshape(-1, 3) * 255).astype(int), axis=0, return_counts=True)
        assert len(colours) > 100 and counts.max() < 0.9 * counts.sum()  # something is drawn


@pytest.mark.parametrize("kind", ["run", "many classes", "many labels"])
def test_a_phone_scrolls_the_page_down_only(browser: Any, page: Path, tmp_path: Path, kind: str) -> None:
    if kind != "run":
        names = tuple(f"{'a-class-without-a-space-' * 4}{index}" for index in range(60))
        content = content_of(
            graph_of(3000, 60, multi_label=kind == "many labels", class_names=names, ids=["y" * 90] * 3000)
        )
        page = tmp_path / "report.html"
        page.write_text(render(content))
    for width in (PHONE, DESK):
        show(browser, page, width)
        moved = browser.find_elements("css selector", "#confusion .aside")
        assert [one.text for one in moved] == (
            ["25 columns: move sideways →"] if kind == "many classes" and width == PHONE else []
        )
        assert browser.execute_script("return document.documentElement.scrollWidth") == width
        assert browser.get_log("browser") == []


LOST = """
    const lost = [];
    for (const table of document.querySelectorAll('table')) {
        const heads = table.querySelectorAll('thead th').length;
        for (const row of table.querySelectorAll('tbody tr')) {
            if (heads && row.cells.length !== heads) lost.push(row.textContent);
            for (const cell of row.cells) {
                const box = cell.getBoundingClientRect();
                const outside = box.left < 0 || box.right > innerWidth + 1 || (cell.textContent && !box.width);
                if (outside) lost.push(cell.textContent);
                if (cell.scrollWidth > cell.clientWidth + 1) lost.push(`cut: ${cell.textContent}`);
            }
        }
    }
    return lost"""


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_every_column_of_every_table_is_seen(browser: Any, page: Path, width: int) -> None:
    show(browser, page, width)
    assert browser.execute_script("return document.querySelectorAll('table').length") >= 6
    assert browser.execute_script(LOST) == []
    named = browser.execute_script(
        "return [...document.querySelectorAll('#leaderboard tbody tr:first-child td')].map(one => one.dataset.name)"
    )
    assert named[:4] == ["model", "validation accuracy", "test accuracy", "seconds"]


def test_the_page_begins_with_words_and_what_to_doubt(browser: Any, page: Path) -> None:
    show(browser, page)
    words = json.loads((page.parent / "words.json").read_text())["words"]
    shown = browser.find_element("id", "words").text
    assert len(words) > 4 and all(one in shown for one in words)
    assert "What to doubt" in shown and f"{SCRIPT} is better." in shown


def test_counts_are_whole_flat_weights_are_said_and_curves_tell_their_values(browser: Any, tmp_path: Path) -> None:
    content = content_of(graph_of(4000, 2))
    content["confusion"]["counts"] = [[1_234_567, 12], [3, 98_765]]
    said = "weights over hops of features are equal, 33.3 % each: the model takes the mean of 3 hops"
    ranges = [{"told": "1", "rows": 9, "features": [0.3, 0.3, 0.4], "labels": [0.1, 0.9]}]
    content["weights"] = {"ranges": ranges, "first_label_hop": 1, "sampled": False, "flat": {"features": said}}
    content["reliability"] = [{"rows": 900, "said": 0.2, "true": 0.25}, {"rows": 1100, "said": 0.8, "true": 0.7}]
    page = tmp_path / "report.html"
    page.write_text(render(content))
    for width in (PHONE, DESK):
        show(browser, page, width)
        cells = browser.execute_script(
            "return [...document.querySelectorAll('#confusion .inside')].map(e => e.textContent)"
        )
        assert cells == ["1234567", "12", "3", "98765"]
        weights = browser.find_element("id", "weights")
        assert said[8:] in weights.text and len(weights.find_elements("css selector", ".cell")) == 2  # of labels
        told = point_at(browser, "#curves figure svg")
        assert (told.startswith("false positive rate") and "class 1" in told) or "class 0" in told
        assert "rows\n900" in point_at(browser, "#reliability svg", 0.2)
        assert browser.get_log("browser") == []
