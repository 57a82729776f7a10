"""Options of the tokens that the discriminant chooses by itself."""

from __future__ import annotations

import numpy as np
import pytest

from spdtokens import TokenDiscriminantClassifier, TokenEmbedding
from spdtokens.classifiers.methods import Settings, get_method
from spdtokens.datasets import from_arrays

AT_MEAN = ("affine_invariant", "whitened_root", "principal_correlation")


@pytest.mark.parametrize(("n", "names"), [(6, AT_MEAN), (40, (*AT_MEAN, "class_filters"))])
def test_options_leave_the_choice_of_tokens(n: int, names: tuple[str, ...]) -> None:
    rng = np.random.default_rng(0)
    signals, y = rng.standard_normal((n, 8, 50)), np.arange(n) % 2
    C = signals @ signals.swapaxes(1, 2) / 50
    changed = get_method("recommended").make(
        from_arrays(C, y), Settings(changes={"isometric": True})
    )
    direct = TokenDiscriminantClassifier(TokenEmbedding("auto", isometric=True, unit_free=True))
    spelled_out = TokenDiscriminantClassifier(TokenEmbedding(names, isometric=True, unit_free=True))
    wanted = spelled_out.fit(C, y).predict_proba(C)
    for model in (changed, direct):
        np.testing.assert_array_equal(model.fit(C, y).predict_proba(C), wanted)
