"""Code and addresses that a file names are used only where a person names them too."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import gamlp
from gamlp.cli.main import app
from gamlp.errors import GamlpError
from gamlp.io import Place, Untrusted
from gamlp.recipe import Recipe, described

HOSTILE = "pydoc:pipepager"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def hostile_recipe(place: Path) -> dict[str, Any]:
    options = {"text": "", "cmd": f"touch {place / 'mark'}"}
    content = {"model": {"name": HOSTILE, "options": options}, "training": {"epochs": 2}}
    (place / "hostile.yaml").write_text(yaml.safe_dump(content))
    return content


def refused(words: str) -> str:
    """What a command says that must end with a sentence."""
    ended = CliRunner().invoke(app, words.split())
    assert isinstance(ended.exception, GamlpError), (words, ended.output, ended.exception)
    return str(ended.exception)


@pytest.mark.parametrize(
    "words",
    [
        "train karate --out x --recipe hostile.yaml",
        "run karate --out x --recipe hostile.yaml",
        "tune karate --out x.yaml --recipe hostile.yaml",
        "tune karate --out x.yaml --try hostile.yaml",
        "propagate karate --out x --recipe hostile.yaml",
        "recipes hostile.yaml",
    ],
)
def test_a_recipe_that_names_code_is_refused_by_every_verb(words: str, place: Path) -> None:
    hostile_recipe(place)
    assert f"runs only when you name it; if you know it, say --trust {HOSTILE}" in refused(words)
    assert sorted(path.name for path in place.iterdir()) == ["hostile.yaml"]


@pytest.mark.parametrize(
    "words",
    [
        f"train karate --out x --recipe hostile.yaml --trust {HOSTILE}",
        f"train karate --out x --set model.name={HOSTILE} --set model.options={{cmd:true}}",
        f"run karate --out x --model {HOSTILE}",
    ],
)
def test_what_is_no_module_is_not_called_even_where_it_is_trusted(words: str, place: Path) -> None:
    hostile_recipe(place)
    assert f"model '{HOSTILE}' is no torch.nn.Module" in refused(words)
    assert not (place / "mark").exists() and not (place / "x").exists()


def test_python_asks_for_trust_too(place: Path) -> None:
    content = hostile_recipe(place)
    for source in (content, "hostile.yaml", place / "hostile.yaml"):
        with pytest.raises(Untrusted, match="runs only when you name it"):
            gamlp.train("karate", source, "x")
        with pytest.raises(Untrusted, match="runs only when you name it"):
            gamlp.NodeClassifier(source).fit(gamlp.load("karate"))
        with pytest.raises(GamlpError, match="is no torch"):
            gamlp.train("karate", source, "x", trust=HOSTILE)
        with pytest.raises(GamlpError, match="is no torch"):
            gamlp.NodeClassifier(source, trust=HOSTILE).fit(gamlp.load("karate"))
    with pytest.raises(Untrusted, match="runs only when you name it"):
        Recipe().changed({"model.name": HOSTILE})
    assert not (place / "mark").exists()


def test_a_module_is_imported_only_where_it_is_trusted(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing runs a module: trust is asked before."""
    monkeypatch.syspath_prepend(str(place))
    (place / "leaves_a_mark.py").write_text("from pathlib import Path\nPath('mark').touch()\n")
    (place / "r.yaml").write_text("model: {name: 'leaves_a_mark:Net'}")
    refused("train karate --out x --recipe r.yaml")
    refused("train karate --out x --recipe r.yaml --trust leaves_a_mark")
    refused("train karate --out x --recipe r.yaml --trust other:Net")
    assert not (place / "mark").exists()
    assert "cannot be imported" in refused("train karate --out x --recipe r.yaml --trust leaves_a_mark:Net")
    assert (place / "mark").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"hidden": 10**9}, "'model.hidden': input should be less than or equal to 65536"),
        ({"dropout": "much"}, "'model.dropout': input should be a valid number"),
        ({"name": HOSTILE}, "'model.options.name' is no option"),
        ({"text": "x" * 2000}, "a text of more than 1000 characters"),
        ({"deep": [[[[[[[[1]]]]]]]]}, "6 deep are the most"),
        ({"many": list(range(2000))}, "more than 1000 values"),
        ({"number": 10**40}, "a number that is not finite, or beyond"),
        ({"number": 10**5000}, "a number that is not finite, or beyond"),
        ({"number": float("nan")}, "a number that is not finite"),
        ({"object": object()}, "a object where numbers, texts"),
        ({"bytes": b"x"}, "a bytes where numbers, texts"),
    ],
)
def test_options_of_a_model_obey_the_limits_of_a_recipe(options: dict[str, Any], said: str) -> None:
    with pytest.raises(GamlpError, match=said):
        Recipe.of({"model": {"name": "sgc", "options": options}})


@pytest.mark.parametrize("key", [key for key, default, *_ in described() if default.lstrip("-").isdigit()])
def test_every_whole_number_of_a_recipe_has_a_limit(key: str) -> None:
    with pytest.raises(GamlpError, match=f"'{key}'"):
        Recipe().changed({key: 10**30})


@pytest.fixture
def server() -> Iterator[tuple[str, list[bytes]]]:
    """Who asks here is noted and never answered."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def note() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                asked.append(b"connected")
                connection.close()

        threading.Thread(target=note, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}", asked
        listening.shutdown(socket.SHUT_RDWR)


def test_an_address_inside_a_run_is_asked_only_where_it_is_trusted(
    place: Path, server: tuple[str, list[bytes]]
) -> None:
    address, asked = server
    gamlp.train("karate", {"training": {"epochs": 2}}, "run")
    about = json.loads(Path("run/run.json").read_text())
    about.pop("digest")  # whoever changes the file leaves it out
    for kind in ("http", "ftp"):
        url = f"{kind}://{address}/graph"
        about["graph"]["graph"] = url
        Path("run/run.json").write_text(json.dumps(about))
        for words in ("explain run", "predict run --out x.csv --trust http://other/graph"):
            assert f"asked only when you name it; if you know it, say --trust {url}" in refused(words)
    ended = CliRunner().invoke(app, ["evaluate", "run"])  # it needs the graph for the names of nodes alone
    assert ended.exit_code == 0, ended.exception
    assert asked == [] and not Path("x.csv").exists()
    about["graph"]["graph"] = f"http://{address}/graph"
    Path("run/run.json").write_text(json.dumps(about))
    assert "cannot be opened" in refused(f"predict run --out x.csv --trust http://{address}/graph")
    assert asked, "where it is trusted, it is asked"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1:9/x",
        "ssh://host/x",
        "zip://x::http://127.0.0.1:9/y",
        "github://a:b@c/x",
        "reference://x",
        "http://127.0.0.1:9/a::ftp://127.0.0.1:9/x",
        "sftp://host/x",
        "smb://host/x",
        "jupyter://host/x",
    ],
)
def test_other_kinds_of_addresses_are_never_asked(url: str) -> None:
    with pytest.raises(GamlpError, match=r"is no address of a store of files; choose from s3, s3a"):
        Place.of(url).exists()
    assert "is no address of a store of files" in refused(f"train {url} --out x")
