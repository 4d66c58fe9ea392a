"""`gamlp recipes`: what fits a graph, one recipe, every setting."""

from __future__ import annotations

import json

from tests.cli.people import Call


def test_what_fits_a_graph(call: Call) -> None:
    ended = call("recipes karate")
    assert ended.code == 0 and ended.out.index("jk ") < ended.out.index("gcn ") < ended.out.index("does not fit")
    assert "gamlp run karate --recipe jk: this one alone" in ended.out
    listed = json.loads(call("recipes karate --json").out)
    assert listed[0]["name"] == "jk" and listed[0]["fits"] and "attention" in listed[0]["why"]
    assert [one["fits"] for one in listed] == sorted((one["fits"] for one in listed), reverse=True)


def test_every_setting_with_what_it_may_be(call: Call) -> None:
    assert "inductive" in call("recipes --keys").out
    settings = {one["key"]: one for one in json.loads(call("recipes --keys --json").out)}
    assert settings["training.setting"]["allowed"] == "transductive | inductive"
    assert settings["training.setting"]["default"] == "transductive"


def test_a_name_and_keys_at_once(call: Call) -> None:
    ended = call("recipes karate --keys")
    assert ended.code == 2 and "leave out 'karate' or --keys" in ended.err and ended.err.count("\n") == 1
