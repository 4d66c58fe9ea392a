"""The page of results: claims with their verdicts, numbers and pictures, then tables; the same in one file of HTML."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from gamlp.bench import summary
from gamlp.bench.claims import Claim
from gamlp.bench.figures import write_figures
from gamlp.bench.record import RunOrigin
from gamlp.bench.results import Results
from gamlp.bench.summary import _cells, _table, as_summary, write_summary
from gamlp.bench.webpage import as_html
from gamlp.bench.work import Work
from tests.bench.hand import efficiency_results, report, small
from tests.browser import opened, requested, visit

BETTER = Claim(table="small", says="GAMLP(R) is better than SGC.", kind="order", methods=("GAMLP(R)", "SGC"))
UNKNOWN = Claim(table="small", says="FastGCN is the best.", kind="best", methods=("FastGCN",), own=True)


def results(**means: float) -> Results:
    names = {"sgc": "SGC", "gamlp": "GAMLP(R)"}
    cells = {(names[name], "cora", None): [report(0, mean), report(1, mean - 0.01)] for name, mean in means.items()}
    return Results(small(), cells, {"ppi": "not at hand"})


@pytest.fixture
def page_of_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """One table, with a claim of the paper's and one of ours."""
    monkeypatch.setattr(summary, "NAMES", ("small",))
    monkeypatch.setattr(summary, "table_of", lambda name: small())
    monkeypatch.setattr(summary, "claims", lambda: (BETTER, UNKNOWN))
    monkeypatch.setattr(summary, "results_of", lambda table, work: results(sgc=0.80, gamlp=0.845))


def test_cells_stand_beside_published_ones_in_points() -> None:
    (shown,) = _cells(results(sgc=0.805, gamlp=0.8499))
    assert shown.splitlines() == [
        "| test %: ours (published, points apart) | Cora |",
        "|---|---:|",
        "| SGC | 80.0 ± 0.7 (81.0, -1.0) |",
        "| GAMLP(R) | 84.5 ± 0.7 (84.0, +0.5) |",
    ]
    assert _cells(Results(small(), {})) == []


def test_rows_and_columns_without_published_values_are_shown_too() -> None:
    found = results(sgc=0.805, gamlp=0.8499)
    (shown,) = _cells(replace(found, table=small(published={"SGC": {"cora": [81.0, 0.2]}})))
    assert "| SGC | 80.0 ± 0.7 (81.0, -1.0) |" in shown and "| GAMLP(R) | 84.5 ± 0.7 |" in shown
    training, score = _cells(replace(efficiency_results(), table=small(
        kind="efficiency", metrics=["seconds.training", "test.score"], published={})))  # fmt: skip
    assert training.splitlines()[0] == "| training time, SGC = 1.0: ours | Cora |"
    assert "| GAMLP(R) | 5.0 ± 1.4 |" in training and "| GAMLP(R) | 84.5 ± 0.7 |" in score


def test_a_table_says_where_and_when_its_runs_were_measured() -> None:
    origin = RunOrigin("two cores", "0.1.0", "2026-11-16", "2026-11-18", 1200)
    found = replace(results(sgc=0.8), origins=(origin, replace(origin, machine="four", last="2026-11-16", runs=7)))
    assert (
        "Runs: 1,200 on two cores, gamlp 0.1.0, 2026-11-16 to 2026-11-18; 7 on four, gamlp 0.1.0, 2026-11-16."
        in _table(found, None)
    )


def test_a_claim_has_a_verdict_a_number_with_its_error_and_a_picture(page_of_small: None, tmp_path: Path) -> None:
    (tmp_path / "results" / "claims").mkdir(parents=True)
    (tmp_path / "results" / "claims" / "09-gone.png").touch()
    files = write_summary(Work(tmp_path / "work"), tmp_path / "results")
    assert [path.name for path in (tmp_path / "results" / "claims").iterdir()] == ["01-small.png"]
    page = (tmp_path / "results" / "README.md").read_text()
    assert "Written by `gamlp bench summary` on 20" in page.splitlines()[2]
    assert "| 1. GAMLP(R) is better than SGC. | **holds** | +4.50 ± 0.00 points | 1 of 1 |" in page
    assert "| 2. FastGCN is the best. | **not known** | – | – |" in page
    assert page.index("## What the paper says") < page.index("### 1. GAMLP") < page.index("## What one expects")
    assert "![GAMLP(R) is better than SGC.](claims/01-small.png)" in page and "claims/02" not in page
    assert [path.name for path in files] == ["README.md", "index.html", "01-small.png"]
    assert all(path.exists() for path in files) and str(tmp_path) not in page


class Seen(HTMLParser):
    """Tags in order, and what pictures and links point to."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.sources: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.sources += [value or "" for name, value in attrs if name == "src"]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_for_a_browser_has_everything_inside(page_of_small: None, tmp_path: Path) -> None:
    (tmp_path / "results" / "bench").mkdir(parents=True)
    write_figures(results(sgc=0.8, gamlp=0.845), tmp_path / "results" / "bench")
    write_summary(Work(tmp_path / "work"), tmp_path / "results")
    seen = Seen()
    seen.feed((tmp_path / "results" / "index.html").read_text())
    assert seen.open == [] and "script" not in seen.tags and "link" not in seen.tags
    assert len(seen.sources) == 2 and all(source.startswith("data:image/png;base64,") for source in seen.sources)
    assert "1. GAMLP(R) is better than SGC." in seen.text and "**" not in seen.text and "](" not in seen.text
    assert "84.0 ± 0.7 (84.0, +0.0)" in seen.text, "tables' cells"


def test_other_pages_of_the_folder_are_linked_by_their_headings(page_of_small: None, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "serving.md").write_text("# What answers cost\n")
    write_summary(Work(tmp_path / "work"), tmp_path / "results")
    page = (tmp_path / "results" / "README.md").read_text()
    assert "- [What answers cost](serving.md)" in page and "[Results](README.md)" not in page


def test_the_summary_says_what_was_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GAMLP_DATA", raising=False)
    monkeypatch.setenv("GAMLP_CACHE", str(tmp_path / "cache"))
    page = as_summary(Work(tmp_path / "work"))
    head = "### [Transductive performance on citation networks](bench/citation.md)\n\nNot measured: cora is not at hand"
    assert head in page
    assert "| **holds** |" not in page and str(tmp_path) not in page


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from opened()


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of results that is committed, as a browser gets it now."""
    folder, path = Path(__file__).parents[2] / "docs" / "results", tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(as_html((folder / "README.md").read_text(), folder))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(("width", "phone"), [(1280, False), (375, True)])
def test_the_committed_page_in_a_browser(browser: Any, committed: Path, width: int, phone: bool) -> None:
    """Nothing is wider than the screen, every picture is there, and nothing is asked of the network."""
    visit(browser, committed.as_uri(), width, phone=phone)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    seen = browser.execute_script("return [...document.images].map(one => [one.complete, one.naturalWidth])")
    assert len(seen) > 20 and all(complete and natural > 0 for complete, natural in seen)
    assert browser.get_log("browser") == []
    assert {url for url in requested(browser) if not url.startswith("data:")} == {committed.as_uri()}


@pytest.mark.slow
def test_the_committed_page_on_paper(browser: Any, committed: Path) -> None:
    """Rows of tables are whole on a page, and heads of tables come again: no table is pushed to a page of its own."""
    visit(browser, committed.as_uri(), 1280)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        style = "const of = (one, name) => getComputedStyle(document.querySelector(one))[name]; "
        assert browser.execute_script(style + "return of('tr', 'breakInside')") == "avoid"
        assert browser.execute_script(style + "return of('table', 'breakInside')") == "auto"
        assert browser.execute_script(style + "return of('thead', 'display')") == "table-header-group"
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
