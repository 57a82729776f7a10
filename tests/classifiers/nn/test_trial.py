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
from sklearn.model_selection import GridSearchCV
from torch import Tensor

from spdtokens import FilterBankCovariances, TokenEmbedding
from spdtokens.classifiers.nn import (
    SPDTokenTransformer,
    TransformerConfig,
    TrialTransformer,
    channel_saliency,
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
    with pytest.raises(ValueError, match="affine_invariant"):
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
    with pytest.raises(ModelError, match=r"\(n, 2, 10\)"):
        module(torch.from_numpy(trials()))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_outputs": 2}, ModelError, "n_chans"),
        ({"n_chans": 4}, ModelError, "n_outputs"),
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


CHANNELS, SAMPLES, TELLING = 5, 150, 2
SALIENCY_TINY = TransformerConfig(d_model=16, n_layers=1, n_heads=2, d_ff=32, dropout=0.1)


def loud_or_quiet(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two classes that differ in the variance of one channel; offsets differ by hundreds."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.standard_normal((n, CHANNELS, SAMPLES))
    X[:, TELLING] *= np.where(y, 1.2, 1 / 1.2)[:, None]
    return X + 100 * rng.standard_normal((n, CHANNELS, 1)), y


@pytest.fixture(scope="module")
def trained() -> TrialTransformer:
    X, y = (torch.from_numpy(a) for a in loud_or_quiet(200))
    generator = torch.Generator().manual_seed(0)
    module = TrialTransformer(
        CHANNELS,
        2,
        SAMPLES,
        SFREQ,
        bands=[(4, 20), (20, 40)],
        config=SALIENCY_TINY,
        generator=generator,
    )
    optimiser = torch.optim.Adam(module.parameters(), lr=3e-3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for _ in range(60):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(module(X), y).backward()
            optimiser.step()
    return module.eval()


def test_the_channel_that_tells_is_the_one_that_is_seen(trained: TrialTransformer) -> None:
    X, y = loud_or_quiet(60, seed=1)
    assert float((trained(torch.from_numpy(X)).argmax(-1).numpy() == y).mean()) > 0.85
    share = channel_saliency(trained, X).mean(0)
    share /= share.sum()
    assert share[TELLING] > 0.5, share
    assert share[TELLING] > 3 * np.delete(share, TELLING).max(), share


def test_it_is_the_derivative_by_the_log_of_the_gain(trained: TrialTransformer) -> None:
    X, y = loud_or_quiet(4, seed=2)
    asked, step = 1 - y, 1e-5
    module = copy.deepcopy(trained).double()
    found = channel_saliency(module, X, asked)
    for channel in range(CHANNELS):
        margins = []
        for sign in (1, -1):
            louder = X.copy()
            louder[:, channel] *= np.exp(sign * step)
            with torch.no_grad():
                scores = module(torch.from_numpy(louder)).numpy()
            margins.append(scores[np.arange(4), asked] - scores.mean(1))
        expected = np.abs(margins[0] - margins[1]) / (2 * step)
        np.testing.assert_allclose(found[:, channel], expected, rtol=1e-6)


def test_trials_and_their_covariances_agree(trained: TrialTransformer) -> None:
    X, _ = loud_or_quiet(10, seed=3)
    network = copy.deepcopy(trained.network).double()
    raw = TrialTransformer(
        CHANNELS,
        2,
        SAMPLES,
        SFREQ,
        bands=[(4, 20), (20, 40)],
        regularisation=0,
        network=network,
    )
    matrices = TrialTransformer(CHANNELS, n_tokens=2, network=network)
    C = raw.covariances(torch.from_numpy(X))
    np.testing.assert_allclose(
        channel_saliency(raw, X), channel_saliency(matrices, C), rtol=1e-6, atol=1e-9
    )


def test_offsets_batches_and_default_classes_do_not_matter(trained: TrialTransformer) -> None:
    X, _ = loud_or_quiet(10, seed=4)
    module = copy.deepcopy(trained).double()
    predicted = module(torch.from_numpy(X)).argmax(-1)
    whole = channel_saliency(module, X)
    np.testing.assert_allclose(channel_saliency(module, X, predicted, batch_size=3), whole, 1e-9)
    offset = 1e3 * np.arange(CHANNELS)[None, :, None]
    np.testing.assert_allclose(channel_saliency(module, X + offset), whole, 1e-6)


def test_modes_and_gradients_are_left_as_they_were(trained: TrialTransformer) -> None:
    X, _ = loud_or_quiet(4)
    trained.train()
    trained.network.bn_embed.eval()  # frozen
    trained.zero_grad(set_to_none=True)
    means = trained.network.bn_embed.running_mean.clone()
    with torch.no_grad():
        first, second = (channel_saliency(trained, X) for _ in range(2))
    np.testing.assert_array_equal(first, second)  # no dropout
    assert trained.network.blocks[0].training
    assert not trained.network.bn_embed.training
    assert all(p.grad is None for p in trained.parameters())
    torch.testing.assert_close(trained.network.bn_embed.running_mean, means)
    trained.eval()


@pytest.mark.parametrize(
    ("y", "message"), [([0, 1], "4 trials but labels"), ([0, 1, 2, 0], "from 0 to 1, got 0 to 2")]
)
def test_labels_that_do_not_fit(trained: TrialTransformer, y: list[int], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        channel_saliency(trained, loud_or_quiet(4)[0], y)


# Other people's training loops train our module.


SKORCH_TINY = TransformerConfig(d_model=16, n_layers=1, n_heads=2, d_ff=32)


def skorch_trials(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two classes that differ in the 10 Hz power of the first channel."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.standard_normal((n, 4, 200))
    t = np.arange(200) / SFREQ
    phase = rng.uniform(0, 2 * np.pi, (n, 1))
    X[:, 0] += (0.3 + 1.5 * y[:, None]) * np.sin(2 * np.pi * 10 * t + phase)
    return X.astype(np.float32), y


def classifier(**options):
    skorch = pytest.importorskip("skorch")
    return skorch.NeuralNetClassifier(
        TrialTransformer,
        module__n_outputs=2,
        module__config=SKORCH_TINY,
        criterion=torch.nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=3e-3,
        max_epochs=15,
        batch_size=20,
        train_split=None,
        verbose=0,
        **options,
    )


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def test_skorch_trains_it_on_raw_trials() -> None:
    raw = {"n_chans": 4, "n_times": 200, "sfreq": SFREQ, "bands": "paper3"}
    net = classifier(**{f"module__{k}": v for k, v in raw.items()})
    net.fit(*skorch_trials(60))
    losses = net.history[:, "train_loss"]
    assert losses[-1] < 0.5 * losses[0]
    X, y = skorch_trials(60, seed=1)
    assert net.score(X, y) > 0.85
    np.testing.assert_allclose(net.predict_proba(X).sum(1), 1, rtol=1e-5)


def test_skorch_trains_it_on_covariances() -> None:
    (X, y), (X_new, y_new) = skorch_trials(60), skorch_trials(60, seed=1)
    filterbank = FilterBankCovariances(SFREQ, bands="paper3").fit(X)
    net = classifier(module__n_chans=4, module__n_tokens=3).fit(filterbank.transform(X), y)
    assert net.score(filterbank.transform(X_new), y_new) > 0.85


def test_scikit_learn_searches_through_it() -> None:
    raw = {"n_chans": 4, "n_times": 200, "sfreq": SFREQ}
    net = classifier(**{f"module__{k}": v for k, v in raw.items()})
    # The classes differ at 10 Hz, so the search must find that band.
    grid = {"module__bands": [[(20, 40)], [(8, 13)]]}
    search = GridSearchCV(net, grid, cv=2, refit=False, error_score="raise").fit(*skorch_trials(60))
    assert search.best_params_ == {"module__bands": [(8, 13)]}
