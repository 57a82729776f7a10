from __future__ import annotations

import json
from dataclasses import replace

import pytest

from spdtokens.classifiers.methods import Settings
from spdtokens.datasets import Selection
from spdtokens.evaluation.estimators import describe
from spdtokens.evaluation.plan import Source
from spdtokens.evaluation.runs import RunSpec, as_text
from tests.evaluation.made import SETTINGS, planned, signals


def test_specs_survive_json() -> None:
    settings = replace(SETTINGS, bands=[(8.0, 13.0), (13.0, 30.0)])
    selection = Selection(window=(0.1, 1.1), classes=("b", "a"), where=(("run", "r1"),))
    specs, source = planned(
        signals(), "token-euclidean", "eegnet", settings=replace(settings), selection=selection
    )
    for spec in specs:
        again = RunSpec.of(json.loads(json.dumps(spec.values())))
        assert (again.key, again.family) == (spec.key, spec.family)
        assert again.subjects == spec.subjects
        assert Selection.of(again.selection) == selection
        assert Settings(**again.about["settings"]).transformer() == settings.transformer()
        assert source.estimator(again) is source.estimator(spec)
        assert describe(Source().estimator(again)) == spec.estimator


def test_a_family_is_what_can_be_trained_together() -> None:
    specs, _ = planned(signals(), "token-euclidean", seeds=(1, 2))
    assert len({spec.family for spec in specs}) == 1
    assert len({spec.key for spec in specs}) == 4
    for name, value in (
        ("access", "online"),
        ("alignment", "recentre"),
        ("protocol_options", {"folds": 3}),
        ("dataset", "elsewhere"),
        ("estimator", {**specs[0].estimator, "verbose": True}),
    ):
        assert replace(specs[0], **{name: value}).family != specs[0].family, name


def test_text_is_one_whatever_the_order_and_kind_of_sequence() -> None:
    assert as_text({"b": (1, 2.5), "a": None}) == as_text({"a": None, "b": [1, 2.5]})
    with pytest.raises(ValueError, match="Out of range"):
        as_text(float("nan"))
