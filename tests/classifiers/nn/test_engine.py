from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from spdtokens.classifiers.nn import (
    Pool,
    Recipe,
    RunPlan,
    SPDTokenMLP,
    SPDTokenTransformer,
    TrainedRun,
    TransformerConfig,
    train_runs,
)
from spdtokens.classifiers.nn.engine import RunStreams, dropout_masks
from spdtokens.classifiers.nn.layers import BatchedNetwork, TokenModel
from spdtokens.errors import ModelError
from tests.classifiers.nn.obvious import Obvious, train_obviously

CONFIG = TransformerConfig(d_model=16, n_layers=2, n_heads=4, d_ff=24, dropout=0.2)
RECIPE = Recipe(epochs=3, batch_size=16)


def make_pool(tokens: int = 1, n: int = 90, bias: bool = False) -> Pool:
    generator = torch.Generator().manual_seed(3)
    X = torch.randn(n, tokens, 10, generator=generator)
    y = torch.arange(n) % 3
    X[..., 0] += y[:, None]
    extra = -torch.rand(n, tokens, tokens, generator=generator) if bias else None
    return Pool(X, y, extra)


def transformer(tokens: int = 1, **changes) -> SPDTokenTransformer:
    return SPDTokenTransformer(10, tokens, 3, replace(CONFIG, **changes))


def weights(run: TrainedRun) -> torch.Tensor:
    return torch.cat([value.flatten().float() for value in run.model.state_dict().values()])


def has_gradient(name: str, tokens: int) -> bool:
    """False where gradients are zero but for rounding, which Adam blows up to full steps.

    Batch norm takes out a shift of all tokens, and a softmax does not see one of all scores.
    """
    if tokens == 1 and ("query_key" in name or name == "positions"):
        return False
    return not name.endswith(("project.bias", "running_mean", "query_key.bias"))


@pytest.mark.parametrize("tokens", [1, 3, 9])
@pytest.mark.parametrize(
    ("changes", "recipe"),
    [
        ({}, RECIPE),
        ({"dropout": 0.0, "bn_embed": False}, RECIPE),
        ({}, replace(RECIPE, label_smoothing=0.1, weight_decay=0.05)),
    ],
    ids=["paper", "bare", "regularised"],
)
def test_same_mathematics_as_the_obvious_loop(tokens, changes, recipe) -> None:
    pool = make_pool(tokens, 50, bias=tokens > 1)
    model = transformer(tokens, **changes)
    plans = [RunPlan(5, np.arange(50)), RunPlan(6, np.arange(30))]
    run = train_runs(model, pool, plans, recipe)[0]
    model.reset_parameters(RunStreams(5).weights())
    obvious = Obvious(model)
    losses = train_obviously(
        obvious,
        pool.tokens,
        pool.labels,
        5,
        recipe,
        heads=4,
        masked=BatchedNetwork(model).dropped,
        dropout=model.config.dropout,
        bias=pool.bias,
    )
    np.testing.assert_allclose(run.curves["train loss"], losses, rtol=2e-6)
    names = {id(p): name for name, p in run.model.state_dict(keep_vars=True).items()}
    for ours, theirs in obvious.pairs(run.model):
        name = names[id(ours)]
        if has_gradient(name, tokens):
            torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=1e-3, msg=name)


def test_mlp_trains_as_torch_would() -> None:
    pool = make_pool(2, 50)
    model = SPDTokenMLP(10, 2, 3, width=12, n_layers=2, dropout=0.0)
    run = train_runs(model, pool, [RunPlan(5, np.arange(50))], RECIPE)[0]
    model.reset_parameters(RunStreams(5).weights())
    losses = train_obviously(
        model, pool.tokens, pool.labels, 5, RECIPE, heads=1, masked=0, dropout=0.0
    )
    np.testing.assert_allclose(run.curves["train loss"], losses, rtol=2e-6)
    with_dropout = SPDTokenMLP(10, 2, 3, width=12, n_layers=2, dropout=0.5)
    dropped = train_runs(with_dropout, pool, [RunPlan(5, np.arange(50))], RECIPE)[0]
    assert not np.allclose(dropped.curves["train loss"], losses)


@pytest.mark.parametrize("tokens", [1, 3])
def test_a_run_does_not_depend_on_its_neighbours(tokens: int) -> None:
    """Bit by bit: alone, in a batch of 5, in a batch of 45, on one thread or two."""
    pool = make_pool(tokens)
    rng = np.random.default_rng(0)
    sizes = rng.integers(40, 90, 45)  # last batches of 1 to 16 trials
    plans = [RunPlan(seed, rng.permutation(90)[:n]) for seed, n in enumerate(sizes)]
    model = transformer(tokens)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        together = train_runs(model, pool, plans, RECIPE)
        torch.set_num_threads(1)
        five = train_runs(model, pool, plans[10:15], RECIPE)
        alone = train_runs(model, pool, plans[12:13], RECIPE)
    finally:
        torch.set_num_threads(before)
    for batch_of_45, batch_of_5 in zip(together[10:15], five, strict=True):
        assert torch.equal(weights(batch_of_45), weights(batch_of_5))
    assert torch.equal(weights(together[12]), weights(alone[0]))
    np.testing.assert_array_equal(together[12].curves["train loss"], alone[0].curves["train loss"])


def test_standard_network_is_bit_identical_in_any_company() -> None:
    generator = torch.Generator().manual_seed(0)
    pool = Pool(torch.randn(70, 1, 253, generator=generator), torch.arange(70) % 4)
    model = SPDTokenTransformer(253, 1, 4)
    plans = [RunPlan(seed, np.arange(70)) for seed in range(14)]
    recipe = Recipe(epochs=2)
    together = train_runs(model, pool, plans, recipe)
    for number in (0, 6, 13):
        alone = train_runs(model, pool, [plans[number]], recipe)[0]
        assert torch.equal(weights(alone), weights(together[number]))


def test_best_epoch_is_chosen_by_validation_loss() -> None:
    pool = make_pool(n=90)
    # Memorising noise: the validation loss rises soon.
    pool = replace(pool, labels=torch.from_numpy(np.random.default_rng(0).integers(0, 3, 90)))
    plans = [RunPlan(seed, np.arange(60), np.arange(60, 90)) for seed in range(4)]
    recipe = Recipe(epochs=30, batch_size=16, learning_rate=3e-3, keep="best", patience=5)
    runs = train_runs(transformer(), pool, plans, recipe)
    for run in runs:
        losses = run.curves["validation loss"]
        assert run.epoch == losses.argmin() + 1
        assert len(losses) == min(30, run.epoch + 5)
        with torch.no_grad():
            scores = run.model(pool.tokens[60:])
        loss = torch.nn.functional.cross_entropy(scores, pool.labels[60:]).item()
        assert loss == pytest.approx(losses.min(), rel=1e-4)
    assert min(run.epoch for run in runs) < 20


def test_watched_trials_change_nothing() -> None:
    pool = make_pool()
    plain = train_runs(transformer(), pool, [RunPlan(1, np.arange(60))], RECIPE)[0]
    watched = {"test": np.arange(60, 90), "all": np.arange(90)}
    seen = train_runs(transformer(), pool, [RunPlan(1, np.arange(60), watched=watched)], RECIPE)[0]
    assert torch.equal(weights(plain), weights(seen))
    with torch.no_grad():
        hits = seen.model(pool.tokens[60:]).argmax(1) == pool.labels[60:]
    assert seen.curves["test accuracy"][-1] == pytest.approx(hits.float().mean().item())
    assert {name.rsplit(" ", 1)[0] for name in seen.curves} == {"train", "test", "all"}


@pytest.mark.parametrize("model", [transformer(), SPDTokenMLP(10, 2, 3, width=12)])
def test_a_lone_last_trial_is_left_out_of_its_epoch(model: TokenModel) -> None:
    run = train_runs(model, make_pool(model.n_tokens), [RunPlan(1, np.arange(33))], RECIPE)[0]
    assert np.isfinite(run.curves["train loss"]).all()
    assert torch.isfinite(weights(run)).all()


def test_runaway_training_is_reported() -> None:
    pool = make_pool()
    recipe = Recipe(epochs=60, batch_size=16, learning_rate=1e30)
    with pytest.raises(ModelError, match=r"epoch \d+.*learning_rate"):
        train_runs(transformer(bn_embed=False), pool, [RunPlan(1, np.arange(60))], recipe)


@pytest.mark.parametrize(
    ("plan", "recipe", "message"),
    [
        (RunPlan(1, np.arange(0)), RECIPE, "Run 0"),
        (RunPlan(1, np.arange(0, 90, 3)), RECIPE, "1, 2"),
        (RunPlan(1, np.arange(60), np.arange(59, 90)), RECIPE, "59"),
        (RunPlan(1, np.arange(60)), replace(RECIPE, keep="best"), "validation"),
        (RunPlan(1, np.arange(60)), replace(RECIPE, batch_size=1), "batch_size"),
    ],
)
def test_plans_that_cannot_be_trained_are_refused(plan, recipe, message) -> None:
    with pytest.raises(ModelError, match=message):
        train_runs(transformer(), make_pool(), [plan], recipe)


def test_runs_must_go_together() -> None:
    plans = [RunPlan(1, np.arange(60)), RunPlan(2, np.arange(60), np.arange(60, 90))]
    with pytest.raises(ModelError, match=r"Run 1 .*validation"):
        train_runs(transformer(), make_pool(), plans, RECIPE)
    with pytest.raises(ModelError, match="no runs"):
        train_runs(transformer(), make_pool(), [], RECIPE)


BAD = {"epochs": 0, "patience": 0, "learning_rate": 0, "weight_decay": -1}
BAD |= {"label_smoothing": 1, "keep": "test", "betas": (0.9,)}


@pytest.mark.parametrize("name", BAD)
def test_bad_recipes_are_refused(name: str) -> None:
    with pytest.raises(ModelError, match=name):
        replace(RECIPE, **{name: BAD[name]})


@pytest.mark.parametrize("p", [0.1, 0.5, 0.001])
def test_masks_drop_with_the_right_probability(p: float) -> None:
    masks = dropout_masks([RunStreams(1), RunStreams(2)], 400_001, p, "cpu")
    assert masks.shape == (2, 400_001)
    dropped = (masks == 0).double().mean(1)
    spread = np.sqrt(p * (1 - p) / 400_001)
    assert torch.all((dropped - p).abs() < 5 * spread + 1 / 65536)
    assert len(masks.unique()) == 2
    assert masks.max().item() == pytest.approx(1 / (1 - p), rel=2e-5)
    agreement = (masks[0] == masks[1]).double().mean().item()
    assert agreement == pytest.approx(p**2 + (1 - p) ** 2, abs=0.01)  # independent of each other


def test_weights_of_a_seed_are_always_the_same() -> None:
    one, two = (torch.randn(5, generator=RunStreams(3).weights()) for _ in range(2))
    assert torch.equal(one, two)
    assert not torch.equal(one, torch.randn(5, generator=RunStreams(4).weights()))
