"""The page as a text: what is data stays data, nothing is loaded from elsewhere, and it is small."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from gamlp.report import SeedScores, content_of_probabilities, render
from tests.report.examples import IMAGE, RECIPE, SCRIPT, content_of, graph_of


class _Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.texts.append(data)
            self._inside = ""

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


@pytest.fixture(scope="module")
def hostile() -> tuple[str, dict[str, Any]]:
    """Class names and node ids that are HTML."""
    ids = [f"{IMAGE}{index}" if index % 3 else f"{SCRIPT}{index}" for index in range(40)]
    content = content_of(graph_of(class_names=(SCRIPT, "<!--", IMAGE), ids=ids), title=SCRIPT, notes=[SCRIPT])
    return render(content), content


def test_script_tags_in_names_ids_titles_and_notes_stay_text(hostile: tuple[str, dict[str, Any]]) -> None:
    page, content = hostile
    elements = _Elements(page)
    assert [one.get("type") for one in elements.of("script")] == ["application/json", None]
    assert not elements.of("img") and "<!--" not in page and "alert(1)</script>" not in page
    assert json.loads(elements.texts[0]) == content
    assert content["classes"][0] == SCRIPT and content["nodes"]["id"][1].startswith(SCRIPT)


def test_the_policy_allows_the_pages_own_script_and_style_alone(hostile: tuple[str, dict[str, Any]]) -> None:
    page, _ = hostile
    (policy,) = [one["content"] for one in _Elements(page).of("meta") if "http-equiv" in one]
    assert policy is not None and policy.startswith("default-src 'none';") and "unsafe" not in policy
    script, style = page.rsplit("<script>", 1)[1].split("</script>")[0], page.split("<style>")[1].split("</style>")[0]
    for text, kind in ((script, "script-src"), (style, "style-src")):
        seal = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{seal}'" in policy


def test_nothing_is_loaded_from_elsewhere(hostile: tuple[str, dict[str, Any]]) -> None:
    page, _ = hostile
    for tag, attributes in _Elements(page).found:
        for name in ("src", "href", "action", "data", "poster"):
            assert (attributes.get(name) or "data:").startswith("data:"), (tag, attributes)
    without_data = re.sub(r'id="data">.*?</script>', "", page, flags=re.DOTALL)
    # The name of SVG's language is the one address: it is compared, never fetched.
    assert set(re.findall(r"https?://[^\s\"']+", without_data)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|url\(|innerHTML|insertAdjacentHTML|document\.write|\beval\(|fetch\(", without_data)


def test_text_that_is_no_text_can_be_written() -> None:
    page = render(content_of(graph_of(class_names=("half \ud800", "line \u2028 break", "nul \x00"))))
    page.encode("utf-8")
    assert "\u2028" not in page


@pytest.mark.parametrize(("nodes", "classes", "multi_label"), [(60_000, 253, False), (20_000, 121, True)])
def test_large_graphs_give_small_pages(nodes: int, classes: int, multi_label: bool) -> None:
    names = tuple(f"{'a long name ' * 30}{index}" for index in range(classes))
    content = content_of(graph_of(nodes, classes, multi_label=multi_label, class_names=names, ids=["x" * 500] * nodes))
    assert len(render(content).encode()) < 3_000_000
    assert len(content["nodes"]["id"]) <= 2200 < content["rows"]
    if not multi_label:
        assert len(content["confusion"]["counts"]) == 25 and content["confusion"]["others"] == 229


def test_a_method_without_chances_curves_and_times_has_a_page_too() -> None:
    content = content_of_probabilities(graph_of(), {}, [SeedScores(0, {}, {"score": 0.5})], RECIPE)
    assert content["nodes"] is None and content["curves"] is None and content["by_class"] == []
    assert "Accuracy of 20 test rows is 50.0 %" in render(content)  # for readers without scripts
