"""The one module from trials to scores, against the estimators and finite differences."""

from __future__ import annotations

import copy
import io
from dataclasses import dataclass

import mne
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch import Tensor

from spdtokens import FilterBankCovariances, TokenEmbedding
from spdtokens.classifiers.nn import (
    SPDTokenTransformer,
    TransformerConfig,
    TrialTransformer,
    geometric_bias,
)
from spdtokens.errors import ModelError, SignalError
from spdtokens.geometry import EMBEDDINGS, get_embedding, token_dim
from tests.matrices import random_spd, relative_error

SFREQ = 100.0
TINY = TransformerConfig(d_model=8, n_layers=1, n_heads=2, d_ff=16, dropout=0.0)
WINDOWS = [(0.2, 1.4), (1.0, 2.8)]


def trials(n: int = 12, channels: int = 4, samples: int = 300, scale: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((channels, channels))
    signal = mixing @ rng.standard_normal((n, channels, samples))
    return scale * (signal + 50 * rng.standard_normal((n, channels, 1)))


@dataclass
class Parts:
    """A filter bank and an embedding, fitted."""

    filterbank: FilterBankCovariances | None
    embedding: TokenEmbedding

    def matrices(self, X: np.ndarray) -> np.ndarray:
        C = X if self.filterbank is None else self.filterbank.transform(X)
        return C if C.ndim == 4 else C[:, None]

    def tokens(self, X: np.ndarray) -> np.ndarray:
        return self.embedding.tokens(self.matrices(X))


def parts(X: np.ndarray, name: str = "log_euclidean", **options: object) -> Parts:
    y = np.arange(len(X)) % 2
    filterbank = FilterBankCovariances(**{"sfreq": SFREQ, **options})
    C = filterbank.fit_transform(X, y)
    return Parts(filterbank, TokenEmbedding(name).fit(C, y))


def module_of(made: Parts, config: TransformerConfig = TINY) -> TrialTransformer:
    network = SPDTokenTransformer(
        token_dim(made.embedding.n_features_in_),
        made.embedding.n_tokens_,
        2,
        config,
        generator=torch.Generator().manual_seed(0),
    )
    return TrialTransformer.from_parts(made.filterbank, made.embedding, network.eval())


@pytest.mark.parametrize("scale", [1e-6, 1.0])
@pytest.mark.parametrize("name", EMBEDDINGS)
def test_tokens_are_those_of_the_estimators(name: str, scale: float) -> None:
    X = trials(scale=scale)
    made = parts(X[:8], name, bands="paper3", windows=WINDOWS)
    found = module_of(made).tokens(torch.from_numpy(X))
    assert found.dtype == torch.float64
    assert relative_error(found, made.tokens(X)) < 1e-10


@pytest.mark.parametrize(
    "options",
    [
        {"bands": "none"},
        {"bands": [(None, 30), (8, 13)], "tmin": -0.5, "windows": [(-0.5, 1.0), (0, 2.5)]},
        {"bands": "stimulus", "stimulus_hz": (12, 15)},
        {"regularisation": 0.05},
        {"embedding": "euclidean", "isometric": True, "floor": "paper"},
    ],
    ids=str,
)
def test_the_constructor_takes_the_options_of_the_estimators(options: dict) -> None:
    X = trials()
    of_tokens = {n: v for n, v in options.items() if n in TokenEmbedding().get_params()}
    of_signals = {n: v for n, v in options.items() if n not in of_tokens}
    C = FilterBankCovariances(SFREQ, **of_signals).fit_transform(X)
    expected = TokenEmbedding(**of_tokens).fit(C).tokens(C)
    module = TrialTransformer(4, 2, 300, SFREQ, config=TINY, **options)
    assert relative_error(module.tokens(torch.from_numpy(X)), expected) < 1e-10
    assert module(torch.from_numpy(X)).shape == (12, 2)


def test_the_papers_regularisation_is_that_of_its_estimator() -> None:
    X = trials()
    made = parts(X, estimator="paper", unit_in_volts=1e-3)
    assert relative_error(module_of(made).tokens(torch.from_numpy(X)), made.tokens(X)) < 1e-10
    options = {"regularisation": "paper", "unit_in_volts": 1e-3, "config": TINY}
    module = TrialTransformer(4, 2, 300, SFREQ, **options)
    assert relative_error(module.tokens(torch.from_numpy(X)), made.tokens(X)) < 1e-10


def test_single_precision_input_is_computed_in_double_and_scored_in_the_networks_dtype() -> None:
    X = trials().astype(np.float32)
    made = parts(X, bands="paper3")
    module = module_of(made)
    assert relative_error(module.tokens(torch.from_numpy(X)), made.tokens(X)) < 1e-10
    assert module(torch.from_numpy(X)).dtype == torch.float32
    assert module.double()(torch.from_numpy(X)).dtype == torch.float64


def test_scores_are_the_networks_on_the_tokens_of_the_estimators() -> None:
    X = trials()
    made = parts(X, bands="paper3")
    module = module_of(made)
    tokens = torch.from_numpy(made.tokens(X)).float()
    torch.testing.assert_close(module(torch.from_numpy(X)), module.network(tokens))


def test_geometric_attention_gets_its_distances() -> None:
    X = trials()
    config = TransformerConfig(
        d_model=8, n_layers=1, n_heads=2, d_ff=16, dropout=0.0, attention="geometric", alpha=3.0
    )
    made = parts(X, bands="paper3")
    module = module_of(made, config).double()
    tokens, C = (torch.from_numpy(f(X)) for f in (made.tokens, made.matrices))
    found = module(torch.from_numpy(X))
    torch.testing.assert_close(found, module.network(tokens, geometric_bias(C, 3.0).double()))
    without = module.network(tokens, torch.zeros(len(X), 3, 3))
    assert float((found - without).detach().abs().max()) > 1e-6


def test_covariances_in() -> None:
    X = trials()
    C = parts(X, bands="paper3").matrices(X)
    made = Parts(None, TokenEmbedding("affine_invariant", unit_free=True).fit(C))
    module = module_of(made)
    assert relative_error(module.tokens(torch.from_numpy(C)), made.tokens(C)) < 1e-10
    one = TrialTransformer(4, 2, config=TINY).eval()
    single = torch.from_numpy(C[:, 0])
    torch.testing.assert_close(one(single), one(single[:, None]))
    with pytest.raises(ModelError, match=r"covariances \(n, 1, 4, 4\), got .* \(12, 3, 4, 4\)"):
        one(torch.from_numpy(C))
    with pytest.raises(ModelError, match=r"covariances \(n, 3, 4, 4\), got .* \(12, 4, 4\)"):
        module(single)


def test_several_embeddings_are_refused() -> None:
    X = trials()
    made = parts(X)
    several = TokenEmbedding(["euclidean", "log_euclidean"]).fit(made.matrices(X))
    with pytest.raises(ModelError, match="euclidean"):
        TrialTransformer.from_parts(made.filterbank, several, module_of(made).network)


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_gradient_to_raw_trials(name: str) -> None:
    X = trials(n=1, channels=3, samples=20)
    options = {"sfreq": 40.0, "bands": [(4, 12), (None, 15)], "windows": [(0, 0.35), (0.1, 0.5)]}
    module = module_of(parts(X, name, **options)).double()
    assert torch.autograd.gradcheck(module, torch.from_numpy(X).requires_grad_())


def test_gradient_to_covariances() -> None:
    C = random_spd(2, 3, 3).requires_grad_()
    module = TrialTransformer(3, 2, n_tokens=3, config=TINY).double().eval()

    def of_symmetric(C: Tensor) -> Tensor:
        return module(0.5 * (C + C.mT))

    assert torch.autograd.gradcheck(of_symmetric, C)


def test_gradient_reaches_single_precision_input_and_every_weight() -> None:
    X = torch.from_numpy(trials()).float().requires_grad_()
    module = TrialTransformer(4, 2, 300, SFREQ, bands="paper3", config=TINY)
    torch.nn.functional.cross_entropy(module(X), torch.arange(12) % 2).backward()
    assert X.grad is not None
    assert X.grad.dtype == torch.float32
    for x in (X, *(weight for weight in module.parameters() if weight.requires_grad)):
        assert torch.isfinite(x.grad).all()
        assert float(x.grad.abs().max()) > 0


def test_from_parts_uses_the_network_and_its_mode() -> None:
    X = trials()
    made = parts(X)
    module = module_of(made)
    assert not module.training
    assert not module.network.training
    again = TrialTransformer.from_parts(made.filterbank, made.embedding, module.network.train())
    assert again.network is module.network
    assert again.training


def test_a_reference_is_saved_and_stays_exact_in_half_precision() -> None:
    X = trials(scale=1e-6)
    fitted, other = (parts(half, "affine_invariant") for half in (X[:6], X[6:]))
    module, loaded = module_of(fitted), module_of(other)
    raw = torch.from_numpy(X)
    assert relative_error(loaded.tokens(raw), fitted.tokens(X)) > 1e-3
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    loaded.load_state_dict(torch.load(file, weights_only=True))
    torch.testing.assert_close(loaded(raw), module(raw))
    half = copy.deepcopy(module).bfloat16()
    assert half(raw).dtype == torch.bfloat16
    assert relative_error(half.tokens(raw), fitted.tokens(X)) < 1e-10


def test_affine_invariant_needs_a_reference_of_the_right_shape() -> None:
    with pytest.raises(ModelError, match="affine_invariant"):
        TrialTransformer(4, 2, embedding="affine_invariant")
    fitted = get_embedding("affine_invariant").fit(random_spd(5, 3, 4))
    assert TrialTransformer(4, 2, n_tokens=3, embedding=fitted, config=TINY)(
        random_spd(6, 3, 4)
    ).shape == (6, 2)
    with pytest.raises(ValueError, match="fitted to 3 tokens"):
        TrialTransformer(4, 2, embedding=fitted, config=TINY)(random_spd(6, 4))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"filtering": "causal"}, "filtering='causal'"),
        ({"estimator": "oas"}, "estimator='oas'"),
        ({"estimator": "xdawn"}, "estimator='xdawn'"),
        ({"decimate": True}, "decimate=True"),
        ({"delays": (0.1,)}, "delays"),
    ],
)
def test_steps_without_a_gradient_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        module_of(parts(trials(), **options))


def test_parts_that_do_not_fit() -> None:
    made = parts(trials(), bands="paper3")
    network = SPDTokenTransformer(10, 2, 2, TINY)
    with pytest.raises(NotFittedError):
        TrialTransformer.from_parts(clone(made.filterbank), made.embedding, network)
    with pytest.raises(NotFittedError):
        TrialTransformer.from_parts(made.filterbank, clone(made.embedding), network)
    module = TrialTransformer.from_parts(made.filterbank, made.embedding, network)
    with pytest.raises(ModelError, match=r"Expected tokens of shape \(n, 2, 10\)"):
        module(torch.from_numpy(trials()))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_outputs": 2}, ModelError, "n_chans is needed"),
        ({"n_chans": 4}, ModelError, "n_outputs is needed"),
        ({"n_chans": 4, "n_outputs": 2, "n_times": 300}, ModelError, "sfreq"),
        ({"n_chans": 4, "n_outputs": 2, "sfreq": 100.0}, ModelError, "n_times"),
        ({"n_chans": 4, "n_outputs": 2, "scale": 0.0}, ModelError, "scale"),
        (
            {"n_chans": 4, "n_outputs": 2, "n_times": 300, "sfreq": 60.0, "bands": [(4, 40)]},
            SignalError,
            "nothing above 30 Hz",
        ),
        (
            {"n_chans": 40, "n_outputs": 2, "n_times": 30, "sfreq": 100.0},
            SignalError,
            "30 samples for 40 channels",
        ),
    ],
)
def test_what_cannot_be_built(arguments: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        TrialTransformer(**arguments)


def test_trials_of_another_shape_are_refused() -> None:
    module = TrialTransformer(4, 2, 300, SFREQ, config=TINY)
    with pytest.raises(ModelError, match=r"trials \(n, 4, 300\), got .* \(12, 4, 200\)"):
        module(torch.from_numpy(trials(samples=200)))


def test_braindecode_counts_channels_of_epochs() -> None:
    info = mne.create_info(4, SFREQ, "eeg")
    module = TrialTransformer(n_outputs=2, n_times=300, sfreq=SFREQ, chs_info=info["chs"])
    assert module.n_chans == 4
