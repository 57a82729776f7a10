"""The adversarial head against autograd by hand, and which trials it may learn from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from torch import nn

from spdtokens import (
    AdversarialTokenClassifier,
    DecodingPipeline,
    FilterBankCovariances,
    TokenTransformerClassifier,
    fit_together,
    load_pipeline,
    save_model,
)
from spdtokens.classifiers.adversarial import AdversarialNetwork, GradientReversal, ramp
from spdtokens.classifiers.nn import SPDTokenTransformer
from spdtokens.errors import ModelError

TINY: dict[str, Any] = {
    **{"d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 16, "epochs": 4, "batch_size": 16},
    **{"random_state": 0, "learning_rate": 5e-3},
}


def subjects(n: int = 20, count: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Covariances of subjects with gains of their own, classes, and subjects."""
    rng = np.random.default_rng(0)
    y, subject = np.arange(n * count) % 2, np.repeat(np.arange(count), n)
    X = rng.standard_normal((n * count, 4, 60))
    X[:, 0] *= (1 + y)[:, None]
    X *= np.exp(rng.standard_normal((count, 4)))[subject][:, :, None]
    return X @ X.swapaxes(1, 2) / 60, y, np.array([f"s{i}" for i in subject])


def model(**changes: Any) -> AdversarialTokenClassifier:
    return AdversarialTokenClassifier(**TINY | changes)


def weights(fitted: TokenTransformerClassifier) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in fitted.networks_[0].parameters()])


C, Y, WHO = subjects()
KNOWN = WHO != "s2"
TRAIN: dict[str, Any] = {"X": C[KNOWN], "y": Y[KNOWN], "domains": WHO[KNOWN]}
TARGET = C[~KNOWN], WHO[~KNOWN]


@pytest.mark.parametrize("factor", [0.0, 0.3, 2.0])
def test_the_gradient_is_reversed_and_the_value_is_not(factor: float) -> None:
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() * torch.arange(3.0)).sum()

    assert torch.equal(GradientReversal.apply(x, factor), x)
    (found,) = torch.autograd.grad(loss(GradientReversal.apply(x, factor)), x)
    steps = 1e-6 * torch.eye(x.numel(), dtype=x.dtype).view(-1, *x.shape)
    with torch.no_grad():  # central differences of the loss without the layer
        slopes = torch.stack([(loss(x + h) - loss(x - h)) / 2e-6 for h in steps]).view_as(x)
    torch.testing.assert_close(found, -factor * slopes, atol=1e-8, rtol=1e-6)


def test_the_weight_rises_as_published() -> None:
    assert ramp(0.0) == 0.0
    assert ramp(0.5) == pytest.approx((1 - np.exp(-5)) / (1 + np.exp(-5)))
    assert ramp(1.0) == pytest.approx(np.tanh(5))


def network(weight: float) -> AdversarialNetwork:
    torch.manual_seed(0)
    made = SPDTokenTransformer(6, 1, 2, d_model=8, n_layers=1, n_heads=2, d_ff=16, dropout=0.0)
    tokens, domains = torch.randn(30, 1, 6), torch.arange(30) % 3
    return AdversarialNetwork(made, tokens, None, domains, torch.arange(20, 30), 0.5, weight, 10)


def test_the_features_climb_the_loss_that_the_head_descends() -> None:
    """Gradients are those of two plain losses, combined by hand."""
    weight, done = 0.7, 4
    module = network(weight)
    module.recognised = [0.0] * done
    index = torch.arange(20)
    body = dict(module.network.named_parameters())
    body = {name: p for name, p in body.items() if p.requires_grad and "head" not in name}
    head = list(module.domain_head.parameters())

    torch.manual_seed(1)
    scores, domain_loss = module.objective(index)
    loss = F.cross_entropy(scores, index % 2)
    found = torch.autograd.grad(loss + domain_loss, [*body.values(), *head])

    torch.manual_seed(1)
    both = torch.cat([index, 20 + torch.randperm(10)])
    features = module.network.features(module.tokens[both])
    plain = F.cross_entropy(module.domain_head(features), module.domains[both])
    class_loss = F.cross_entropy(module.network.head(features[:20]), index % 2)
    of_class = torch.autograd.grad(class_loss, list(body.values()), retain_graph=True)
    of_domain = torch.autograd.grad(plain, [*body.values(), *head])
    factor = weight * ramp(done / 10)
    for at, (name, gradient) in enumerate(zip(body, found, strict=False)):
        expected = of_class[at] - factor * of_domain[at]
        torch.testing.assert_close(gradient, expected, atol=1e-6, rtol=1e-4, msg=name)
    for gradient, expected in zip(found[len(body) :], of_domain[len(body) :], strict=True):
        torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("told", [{"domains": WHO[KNOWN]}, {}], ids=["weight 0", "no domains"])
def test_without_an_adversary_it_is_the_token_transformer(told: dict[str, Any]) -> None:
    changes: dict[str, Any] = {"dropout": 0.0} | ({"weight": 0} if told else {})
    found = model(**changes).fit(C[KNOWN], Y[KNOWN], **told)
    expected = TokenTransformerClassifier(**TINY, dropout=0.0).fit(C[KNOWN], Y[KNOWN])
    for name, curve in expected.history_.items():
        np.testing.assert_allclose(found.history_[name], curve, atol=1e-4)
    np.testing.assert_allclose(found.predict_proba(C), expected.predict_proba(C), atol=1e-3)


def test_domains_and_trials_without_labels_matter() -> None:
    plain, known = model(weight=0).fit(**TRAIN), model().fit(**TRAIN)
    adapted = model().fit(**TRAIN, unlabeled=TARGET)
    for one, other in ((plain, known), (known, adapted)):
        assert not torch.equal(weights(one), weights(other))


def test_the_features_forget_the_domain() -> None:
    """The head recognises subjects by features that it cannot change, and hardly otherwise."""
    long = {"epochs": 60, "dropout": 0.0}
    reached = {
        weight: model(weight=weight, **long).fit(**TRAIN, unlabeled=TARGET) for weight in (0, 3)
    }
    found = {w: m.history_["domain accuracy"][0, -10:].mean() for w, m in reached.items()}
    assert found[0] > 0.9
    assert found[3] < 0.7  # chance level: 1 / 3


def test_fits_repeat_bit_by_bit_and_leave_the_global_generator_alone() -> None:
    before = torch.random.get_rng_state()
    one, again = (clone(model()).fit(**TRAIN, unlabeled=TARGET) for _ in range(2))
    assert torch.equal(weights(one), weights(again))
    np.testing.assert_array_equal(one.predict_proba(C), again.predict_proba(C))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not torch.equal(weights(one), weights(model(random_state=1).fit(**TRAIN)))


def test_validation_trials_choose_the_epoch_and_are_of_no_domain() -> None:
    held = C[~KNOWN], Y[~KNOWN]
    fitted = model(keep="best", epochs=6).fit(**TRAIN, validation=held, unlabeled=TARGET)
    losses = fitted.history_["validation loss"][0]
    assert fitted.n_epochs_ == [int(losses.argmin()) + 1]
    watched = model(dropout=0.0).fit(**TRAIN, validation=held)
    alone = model(dropout=0.0).fit(**TRAIN)
    assert torch.equal(weights(watched), weights(alone))


def test_every_way_to_fit_is_the_same() -> None:
    several = np.stack([C, C**2 + np.eye(4)], axis=1)
    made = model(attention="geometric", ensemble=2)
    told: dict[str, Any] = {"domains": WHO[KNOWN], "unlabeled": (several[~KNOWN], WHO[~KNOWN])}
    alone = clone(made).fit(several[KNOWN], Y[KNOWN], **told)
    assert len(alone.networks_) == 2
    for other in (clone(made), make_pipeline(clone(made)), DecodingPipeline([("c", clone(made))])):
        fit_together([other], [(several[KNOWN], Y[KNOWN])], [told])
        np.testing.assert_array_equal(other.predict_proba(several), alone.predict_proba(several))


def test_a_pipeline_transforms_trials_without_labels() -> None:
    X = np.random.default_rng(0).standard_normal((40, 3, 100)) * (1 + np.arange(3))[:, None]
    y, who = np.arange(40) % 2, np.repeat(["a", "b"], 20)
    first = FilterBankCovariances(100)
    pipeline = DecodingPipeline([("filterbank", first), ("classifier", model())])
    pipeline.fit(X[:30], y[:30], domains=who[:30], unlabeled=(X[30:], who[30:]))
    M = clone(first).fit_transform(X)
    by_hand = model().fit(M[:30], y[:30], domains=who[:30], unlabeled=(M[30:], who[30:]))
    np.testing.assert_array_equal(pipeline.predict_proba(X), by_hand.predict_proba(M))


def test_a_model_file_holds_the_network(tmp_path: Any) -> None:
    fitted = DecodingPipeline([("classifier", model())]).fit(C, Y, domains=WHO)
    save_model(fitted, tmp_path / "model.spdt", ch_names=tuple("ABCD"))
    loaded = load_pipeline(tmp_path / "model.spdt")
    assert isinstance(loaded[-1], AdversarialTokenClassifier)
    np.testing.assert_allclose(loaded.predict_proba(C), fitted.predict_proba(C), atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "told", "culprit"),
    [
        ({"weight": -1}, {}, "weight"),
        ({"weight": np.nan}, {}, "weight"),
        ({}, {"domains": WHO[:3]}, "domains"),
        ({}, {"unlabeled": (C[:4], WHO[:3])}, "domains of unlabeled"),
        ({}, {"unlabeled": (C[:4], WHO[:4]), "domains": None}, "requires domains"),
        ({}, {"unlabeled": (C[:4, :3, :3], WHO[:4])}, "3"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], told: dict[str, Any], culprit: str) -> None:
    with pytest.raises((ModelError, ValueError), match=culprit):
        model(**changes).fit(**TRAIN | told)


def test_the_domain_head_is_not_part_of_the_fitted_network() -> None:
    (found,) = model().fit(**TRAIN).networks_
    assert isinstance(found, SPDTokenTransformer)
    assert not any(isinstance(layer, nn.Sequential) for layer in found.modules())
