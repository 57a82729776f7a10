from __future__ import annotations

import pickle

import numpy as np
import pytest
from pyriemann.estimation import XdawnCovariances
from pyriemann.geometry.covariance import covariances
from pyriemann.tangentspace import TangentSpace
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from spdtokens.signal import SignalError, Tokenizer
from spdtokens.spd import EMBEDDINGS, NotSPDError

SFREQ = 100.0


def trials(n: int = 24, channels: int = 4, samples: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Two classes that differ in the 10 Hz power of the first channel."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    X = rng.standard_normal((n, channels, samples))
    t = np.arange(samples) / SFREQ
    phase = rng.uniform(0, 2 * np.pi, (n, 1))
    X[:, 0] += (0.4 + 0.8 * y[:, None]) * np.sin(2 * np.pi * 10 * t + phase)
    return X, y


def test_tokens_are_bands_times_windows_with_names() -> None:
    X, _ = trials()
    tokenizer = Tokenizer(
        sfreq=SFREQ, bands=[(4, 8), (8, 13)], windows=[(0.5, 1.5), (1.5, 2.5)], tmin=0.0
    ).fit(X)
    assert tokenizer.transform(X).shape == (24, 4, 10)
    assert tokenizer.token_names_[:2] == ["4-8 Hz, 0.5-1.5 s", "4-8 Hz, 1.5-2.5 s"]
    assert Tokenizer(sfreq=SFREQ, bands="paper3").fit(X).token_names_[2] == "13-30 Hz"


def test_windows_are_cut_after_filtering() -> None:
    X, _ = trials()
    inside = Tokenizer(sfreq=SFREQ, bands=[(4, 8)], windows=[(1.0, 2.0)]).fit(X)
    cut_first = Tokenizer(sfreq=SFREQ, bands=[(4, 8)]).fit(X[..., 100:200])
    assert not np.allclose(inside.transform(X), cut_first.transform(X[..., 100:200]), atol=0.1)
    shifted = Tokenizer(sfreq=SFREQ, bands=[(4, 8)], windows=[(0.5, 1.5)], tmin=-0.5).fit(X)
    np.testing.assert_array_equal(inside.transform(X), shifted.transform(X))


@pytest.mark.parametrize("name", EMBEDDINGS)
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_change_tokens_by_the_scale_law_and_predictions_not_at_all(
    name: str, scale: float
) -> None:
    X, y = trials(60)
    options = {"sfreq": SFREQ, "bands": "paper3"}
    tokens, scaled = (Tokenizer(name, **options).fit(x).transform(x) for x in (X, scale * X))
    s = scale**2
    diagonal = np.eye(4)[np.triu_indices(4)] > 0
    law = {
        "bures_wasserstein": lambda t: s**0.5 * t,
        "cholesky": lambda t: s**0.5 * t,
        "euclidean": lambda t: s * t,
        "log_euclidean": lambda t: t + np.log(s) * diagonal,
        "log_cholesky": lambda t: np.where(diagonal, t + 0.5 * np.log(s), s**0.5 * t),
        "affine_invariant": lambda t: t,  # the reference was fitted in the same unit
        "whitened_root": lambda t: t,
        "principal_correlation": lambda t: t,
    }[name]
    np.testing.assert_allclose(scaled, law(tokens), rtol=1e-6, atol=1e-7 * np.abs(scaled).max())
    if name in ("affine_invariant", "whitened_root", "log_euclidean"):
        flat = FunctionTransformer(lambda t: (t - t.mean(0)).reshape(len(t), -1))
        predictions = [
            make_pipeline(flat, LogisticRegression()).fit(t, y).predict_proba(t) > 0.5
            for t in (tokens, scaled)
        ]
        np.testing.assert_array_equal(*predictions)


def test_covariances_in() -> None:
    X, _ = trials()
    raw = Tokenizer(sfreq=SFREQ, bands="paper3").fit(X)
    C = raw.covariances(X)
    assert C.shape == (24, 3, 4, 4)
    np.testing.assert_allclose(Tokenizer().fit(C).transform(C), raw.transform(X), rtol=1e-12)
    assert Tokenizer().fit(C[:, 0]).transform(C[:, 0]).shape == (24, 1, 10)


def test_several_embeddings_of_each_matrix() -> None:
    X, _ = trials()
    names = ("log_euclidean", "whitened_root")
    options = {"sfreq": SFREQ, "bands": "paper3", "isometric": True}
    several = Tokenizer(names, **options).fit(X[:16])
    alone = [Tokenizer(name, **options).fit(X[:16]).transform(X) for name in names]
    np.testing.assert_allclose(several.transform(X), np.concatenate(alone, 1), rtol=1e-12)
    assert (several.n_matrices_, several.n_tokens_) == (3, 6)
    assert several.token_names_[:4:3] == ["4-8 Hz, log_euclidean", "4-8 Hz, whitened_root"]
    assert several.covariances(X).shape == (24, 3, 4, 4)
    np.testing.assert_array_equal(several.state()["reference"], several.embedding_.reference)


def test_affine_invariant_is_pyriemanns_tangent_space() -> None:
    X, _ = trials()
    tokenizer = Tokenizer("affine_invariant", sfreq=SFREQ, isometric=True).fit(X[:16])
    C = tokenizer.covariances(X)[:, 0]
    expected = TangentSpace().fit(C[:16]).transform(C[16:])
    np.testing.assert_allclose(tokenizer.transform(X[16:])[:, 0], expected, atol=1e-6)


def test_xdawn_is_pyriemanns_and_fitted_on_training_trials_only() -> None:
    X, y = trials(40)
    tokenizer = Tokenizer(
        sfreq=SFREQ, bands="none", covariance="xdawn", n_filters=2, regularisation=0.0
    )
    tokenizer.fit(X[:30], y[:30])
    scale = X[:30].std()
    side_by_side = np.hstack(X[:30] / scale)
    noise = covariances(side_by_side[None], estimator="oas")[0]
    made = XdawnCovariances(2, estimator="oas", xdawn_estimator="scm", baseline_cov=noise)
    made.fit(X[:30] / scale, y[:30])
    expected = scale**2 * made.transform(X[30:] / scale)
    np.testing.assert_allclose(tokenizer.covariances(X[30:])[:, 0], expected, rtol=1e-8)
    erp = Tokenizer(sfreq=SFREQ, bands="none", covariance="erp").fit(X, y)
    assert erp.covariances(X).shape == (40, 1, 12, 12)
    with pytest.raises(SignalError, match="40 trials but 3 labels"):
        Tokenizer(sfreq=SFREQ, covariance="xdawn").fit(X, [0, 1, 0])
    with pytest.raises(SignalError, match="needs two classes"):
        Tokenizer(sfreq=SFREQ, covariance="erp").fit(X, np.zeros(40))
    with pytest.raises(SignalError, match="fitted to raw trials and their labels"):
        Tokenizer(sfreq=SFREQ, covariance="xdawn").fit(X)


def test_scikit_learn_contract() -> None:
    X, y = trials(60)
    tokenizer = Tokenizer(sfreq=SFREQ, bands=[(8, 13)])
    fitted = clone(tokenizer).fit(X)
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.transform(X), fitted.transform(X))
    np.testing.assert_array_equal(clone(tokenizer).fit_transform(X), fitted.transform(X))
    assert tokenizer.get_params()["bands"] == [(8, 13)]
    flat = FunctionTransformer(lambda t: t.reshape(len(t), -1))
    pipeline = make_pipeline(tokenizer, flat, LogisticRegression())
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.8


def test_paper_preset_adds_square_microvolts() -> None:
    X, _ = trials()
    options = {"sfreq": SFREQ, "regularisation": "paper", "floor": "paper"}
    micro = Tokenizer(**options, unit_in_volts=1e-6).fit(X).covariances(X)
    volts = Tokenizer(**options, unit_in_volts=1.0).fit(1e-6 * X).covariances(1e-6 * X)
    np.testing.assert_allclose(volts, 1e-12 * micro, rtol=1e-9)
    plain = Tokenizer(sfreq=SFREQ, regularisation=0.0).fit(X).covariances(X)
    np.testing.assert_allclose((micro - plain)[0, 0], 1e-6 * np.eye(4), atol=1e-15)


def spoil(change) -> np.ndarray:
    X, _ = trials()
    change(X)
    return X


def _nan(X):
    X[3, 1, 7] = np.nan


def _flat(X):
    X[2, 1] = 5.0


def _twin(X):
    X[:, 2] = -3 * X[:, 0] + 1


@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        (spoil(_nan), {}, "Trial 3, channel number 1, sample 7 is not a number"),
        (spoil(_flat), {}, "Flat: channel number 1 in trial 2"),
        (spoil(_twin), {}, "channels number 0, number 2 carry the same signal"),
        (trials()[0], {"sfreq": None}, "raw trials: pass sfreq"),
        (trials()[0][0], {}, "got an array of shape"),
        (trials()[0][:0], {}, "no trials"),
        (trials()[0], {"windows": [(2.5, 4.0)]}, "2.5-4 s does not lie inside .* from 0 to 3 s"),
        (trials()[0], {"windows": [(0, 0.04)], "bands": "none"}, "4 samples for 4 channels"),
        (trials()[0], {"bands": [(30, 60)]}, "nothing above 50 Hz"),
        (trials()[0], {"filtering": "magic"}, "'zero-phase' or 'causal'"),
    ],
)
def test_bad_input(X: np.ndarray, options: dict, message: str) -> None:
    with pytest.raises(SignalError, match=message):
        Tokenizer(**{"sfreq": SFREQ, **options}).fit(X)


def test_other_data_at_transform() -> None:
    X, _ = trials()
    tokenizer = Tokenizer(sfreq=SFREQ).fit(X)
    with pytest.raises(SignalError, match="4 channels, got 3"):
        tokenizer.transform(X[:, :3])
    with pytest.raises(SignalError, match="300 samples, got 200"):
        tokenizer.transform(X[..., :200])


def test_fewer_samples_than_channels_with_shrinkage_is_fine() -> None:
    X, _ = trials(channels=20)
    short = Tokenizer(sfreq=SFREQ, bands="none", windows=[(0, 0.15)], covariance="oas").fit(X)
    assert np.isfinite(short.transform(X)).all()


def test_singular_covariances_are_refused() -> None:
    with pytest.raises(NotSPDError, match=r"matrix \[0, 0\]"):
        Tokenizer().fit(np.zeros((3, 4, 4)))


@pytest.mark.parametrize("embedding", sorted(EMBEDDINGS))
@pytest.mark.parametrize("unit", [1e-6, 1e4])
def test_unit_free_tokens_do_not_depend_on_the_unit(embedding: str, unit: float) -> None:
    X = np.random.default_rng(0).standard_normal((12, 4, 200))
    X[6:] *= 3

    def tokens(X: np.ndarray) -> np.ndarray:
        return Tokenizer(embedding, sfreq=100, unit_free=True).fit(X[:8]).transform(X[8:])

    np.testing.assert_allclose(tokens(unit * X), tokens(X), rtol=1e-6, atol=1e-9)


def test_unit_free_makes_the_mean_variance_of_training_100() -> None:
    X = np.random.default_rng(0).standard_normal((12, 4, 200))
    plain = Tokenizer(sfreq=100).fit(X[:8])
    free = Tokenizer(sfreq=100, unit_free=True).fit(X[:8])
    C = plain.covariances(X[:8])
    scale = np.trace(C, axis1=-2, axis2=-1).mean() / 4 / 100
    assert plain.scale_ == 1
    assert free.scale_ == pytest.approx(scale)
    np.testing.assert_allclose(free.covariances(X[8:]), plain.covariances(X[8:]) / scale)
    assert np.trace(free.covariances(X[:8]), axis1=-2, axis2=-1).mean() / 4 == pytest.approx(100)
    assert free.state()["scale"] == free.scale_
