"""Token transformer with a domain-adversarial head (DANN)."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from spdtokens._labels import as_groups
from spdtokens.classifiers.base import Array, EmbeddingSpec, check_finite
from spdtokens.classifiers.networks import train_module
from spdtokens.classifiers.nn.engine import RunPlan, TrainedRun
from spdtokens.classifiers.nn.recipe import Listener, Recipe, TrainingBars, resolve_device
from spdtokens.classifiers.nn.transformer import STANDARD, Attention, SPDTokenTransformer
from spdtokens.classifiers.transformer import (
    TokenTransformerClassifier,
    Validation,
    _as_float32,
    _embedded,
    planned,
)
from spdtokens.errors import ModelError
from spdtokens.runtime.threads import one_thread


class GradientReversal(torch.autograd.Function):
    """Identity whose gradient is multiplied by ``-factor``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        """Return ``x``."""
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Reverse the gradient."""
        return -ctx.factor * gradients[0], None


def ramp(progress: float) -> float:
    """Rise from 0 to 1 with the progress of training in [0, 1], as in Ganin et al. 2016."""
    return 2 / (1 + math.exp(-10 * progress)) - 1


class AdversarialNetwork(nn.Module):
    """Token transformer with a second head that predicts the domain of a trial.

    The input of the module is indices of trials, as a batch draws trials without labels by itself.

    Parameters
    ----------
    network : SPDTokenTransformer
        Network with the class head.
    tokens : Tensor, shape (n, n_tokens, n_features)
        Tokens of all trials.
    bias : Tensor or None, shape (n, n_tokens, n_tokens)
        Attention bias of all trials.
    domains : Tensor, shape (n,)
        Domain numbers in int64.
    unlabeled : Tensor, shape (n_unlabeled,)
        Indices of the trials without labels.
    share : float
        Trials without labels per labelled trial of a batch.
    weight : float
        Weight of the reversed gradient at the end of training.
    steps : int
        Number of training steps, over which the weight rises.
    """

    def __init__(
        self,
        network: SPDTokenTransformer,
        tokens: Tensor,
        bias: Tensor | None,
        domains: Tensor,
        unlabeled: Tensor,
        share: float,
        weight: float,
        steps: int,
    ) -> None:
        super().__init__()
        width = network.config.d_model
        n_domains = int(domains.max()) + 1
        self.network = network
        self.domain_head = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, n_domains)
        )
        # Not buffers: they are not part of the trained state.
        self.tokens, self.bias, self.domains, self.unlabeled = tokens, bias, domains, unlabeled
        self.share, self.weight, self.steps = share, weight, steps
        #: Share of trials whose domain was recognised, per step.
        self.recognised: list[float] = []

    def forward(self, index: Tensor) -> Tensor:
        """Compute class scores of trials."""
        return self.network.head(self._features(index))

    def objective(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return class scores of labelled trials, and the loss of their domains.

        Trials without labels go through the network in the same batch, so that BN-Embed has the
        moments of all domains, as in prediction.
        """
        n = math.ceil(self.share * len(index))
        drawn = self.unlabeled[torch.randperm(len(self.unlabeled))[:n].to(self.unlabeled.device)]
        both = torch.cat([index, drawn])
        features = self._features(both)
        factor = self.weight * ramp(len(self.recognised) / self.steps)
        scores = self.domain_head(GradientReversal.apply(features, factor))
        domains = self.domains[both]
        self.recognised.append(float((scores.argmax(1) == domains).float().mean()))
        return self.network.head(features[: len(index)]), F.cross_entropy(scores, domains)

    def _features(self, index: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias[index]
        return self.network.features(self.tokens[index], bias)


class AdversarialTokenClassifier(TokenTransformerClassifier):
    """Token transformer trained to forget the domain (DANN).

    While the network learns the classes, a second head learns to predict the domain (the subject)
    of a trial from the features that the class head sees. Its gradient is reversed before it
    reaches the features, which therefore lose what tells domains apart [1]_. The reversed gradient
    has the weight ``weight * (2 / (1 + exp(-10 p)) - 1)``, where p is the progress of training.
    Trials of a target domain can take part in this without labels. The second head is only used in
    training; the fitted classifier is that of :class:`TokenTransformerClassifier`.

    Without domains, or with a single one, this is the training of
    :class:`TokenTransformerClassifier` with other random numbers for dropout.

    Parameters
    ----------
    embedding : str, sequence of str, TokenEmbedding or None, default='log_euclidean'
        Embedding of the matrices, see :class:`TokenEmbedding`. None if the input is tokens
        (n, n_features) or (n, n_tokens, n_features).
    weight : float, default=1.0
        Weight of the reversed gradient at the end of training. 0 for no adaptation.
    d_model : int, default=128
        Width of the residual stream, and of the hidden layer of the domain head.
    n_layers : int, default=6
        Number of encoder blocks.
    n_heads : int, default=8
        Attention heads per block. Must divide ``d_model``.
    d_ff : int, default=256
        Hidden width of the feed-forward networks.
    dropout : float, default=0.1
        Dropout probability, in [0, 1).
    bn_embed : bool, default=True
        Whether projected tokens are batch-normalised (BN-Embed of the paper).
    attention : {'standard', 'geometric'}, default='standard'
        Attention, see :class:`TokenTransformerClassifier`.
    alpha : float, default=0.5
        Weight of the distance in geometric attention.
    epochs : int, default=50
        Number of epochs.
    batch_size : int, default=64
        Labelled trials per batch. Trials without labels are added in proportion to their number.
    learning_rate : float, default=1e-3
        Learning rate of Adam.
    weight_decay : float, default=0.0
        Weight decay.
    decoupled : bool, default=True
        Whether the weight decay is decoupled from the gradient (AdamW) or part of it (Adam with L2
        penalty).
    betas : tuple of float, default=(0.9, 0.999)
        Decay rates of Adam's two moments.
    label_smoothing : float, default=0.0
        Share of the target that is spread evenly over the classes.
    keep : {'last', 'best'}, default='last'
        Weights to keep: those of the last epoch, or those of the epoch with the lowest validation
        loss.
    patience : int, default=None
        Stop when the validation loss has not decreased for this many epochs.
    validation : float, default=None
        Share of the training trials held out for validation. By default all are trained on.
    ensemble : int, default=1
        Number of networks, trained from different seeds. Their probabilities are averaged.
    random_state : int, RandomState instance or None, default=None
        Seed of initial weights, order of trials and dropout.
    device : {'auto', 'cpu', 'cuda'}, default='auto'
        Where to train. ``'auto'`` is CUDA where available, else the CPU.
    verbose : bool, default=False
        Whether to show a progress bar.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        Class labels.
    embedding_ : TokenEmbedding or None
        Embedding, fitted to the labelled trials.
    networks_ : list of SPDTokenTransformer
        Trained torch modules, in float64, without the domain head.
    history_ : dict of str to ndarray, shape (ensemble, n_epochs)
        Curves as in :class:`TokenTransformerClassifier`, and ``'domain accuracy'``: the share of
        training trials, with and without labels, whose domain the second head recognises.
    n_epochs_ : list of int
        Epoch that was kept for each network, counted from 1.
    held_back_ : ndarray of int or None
        Indices of the training trials that were held out for validation.
    n_features_in_ : int
        Rows of a matrix, or number of features of a token.

    See Also
    --------
    TokenTransformerClassifier : The same without domains.
    Recentring : Align domains by their Riemannian means.

    References
    ----------
    .. [1] Y. Ganin, E. Ustinova, H. Ajakan, P. Germain, H. Larochelle, F. Laviolette, M. Marchand
       and V. Lempitsky, "Domain-adversarial training of neural networks", Journal of Machine
       Learning Research 17(59), 2016. https://jmlr.org/papers/v17/15-239.html

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import AdversarialTokenClassifier
    >>> rng = np.random.default_rng(0)
    >>> y, subject = np.arange(60) % 2, np.repeat(["1", "2", "3"], 20)
    >>> signals = rng.standard_normal((60, 3, 100))
    >>> signals[y == 1, 0] *= 2
    >>> C = signals @ signals.swapaxes(1, 2) / 100
    >>> model = AdversarialTokenClassifier(d_model=16, n_layers=1, n_heads=2, random_state=0)
    >>> target = C[40:], subject[40:]  # without labels
    >>> model = model.fit(C[:40], y[:40], domains=subject[:40], unlabeled=target)
    >>> model.predict(C[40:]).shape
    (20,)
    """

    # For scikit-learn's metadata routing.
    __metadata_request__fit: ClassVar = {
        "groups": True,
        "validation": True,
        "domains": True,
        "unlabeled": True,
    }

    weight: float

    def __init__(
        self,
        embedding: EmbeddingSpec = "log_euclidean",
        *,
        weight: float = 1.0,
        d_model: int = STANDARD.d_model,
        n_layers: int = STANDARD.n_layers,
        n_heads: int = STANDARD.n_heads,
        d_ff: int = STANDARD.d_ff,
        dropout: float = STANDARD.dropout,
        bn_embed: bool = STANDARD.bn_embed,
        attention: Attention = STANDARD.attention,
        alpha: float = STANDARD.alpha,
        epochs: int = Recipe.epochs,
        batch_size: int = Recipe.batch_size,
        learning_rate: float = Recipe.learning_rate,
        weight_decay: float = Recipe.weight_decay,
        decoupled: bool = Recipe.decoupled,
        betas: tuple[float, float] = Recipe.betas,
        label_smoothing: float = Recipe.label_smoothing,
        keep: Literal["last", "best"] = Recipe.keep,
        patience: int | None = Recipe.patience,
        validation: float | None = None,
        ensemble: int = 1,
        random_state: Any = None,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self._store(locals())

    @one_thread()
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        validation: Validation | None = None,
        domains: ArrayLike | None = None,
        unlabeled: Validation | None = None,
    ) -> Self:
        """Train the networks.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, n_matrices, d, d)
            SPD matrices; with ``embedding=None`` tokens (n, n_features) or
            (n, n_tokens, n_features).
        y : array, shape (n,)
            Labels.
        groups : array, shape (n,), default=None
            Groups of trials that are never split between training and validation.
        validation : tuple of array, default=None
            Validation trials and labels, instead of holding out some of ``X``.
        domains : array, shape (n,), default=None
            Subject or session of each trial. None for a single domain.
        unlabeled : tuple of array, default=None
            Trials without labels, in the form of ``X``, and their domains. They only enter the
            loss of the domains. Requires ``domains``.

        Returns
        -------
        self
            Fitted classifier.

        Raises
        ------
        ModelError
            If a parameter is out of range, or domains do not match the trials.
        """
        recipe, device, seeds = self._recipe(), resolve_device(self.device), self._seeds()
        if not (isinstance(self.weight, int | float | np.number) and 0 <= self.weight < math.inf):
            raise ModelError(f"weight must be a number >= 0, got {self.weight!r}.")
        tokens, bias, codes = _embedded(self, X, y, validation)
        n = len(np.asarray(y))
        tokens, bias, of = self._with_unlabeled(tokens, bias, n, domains, unlabeled)
        # Trials without labels have no class number: a loss of their class would raise an error.
        labels = np.concatenate([codes, np.full(len(tokens) - len(codes), -1)])
        given = None if validation is None else n
        plans = [planned(seed, codes, groups, self.validation, given) for seed in seeds]
        self.held_back_ = plans[0].validation if given is None else None
        data = (
            _as_float32([tokens]).to(device),
            None if bias is None else _as_float32([bias]).to(device),
            torch.from_numpy(of).to(device),
            torch.arange(len(codes), len(tokens), device=device),
        )
        with TrainingBars() as bars:
            total = recipe.epochs * len(plans)
            bar = bars.add(type(self).__name__, total) if self.verbose else None
            y_codes = torch.from_numpy(labels).to(device)
            self._finish([self._trained(plan, recipe, data, y_codes, bar) for plan in plans])
        return self

    def _with_unlabeled(
        self,
        tokens: Array,
        bias: Array | None,
        n: int,
        domains: ArrayLike | None,
        unlabeled: Validation | None,
    ) -> tuple[Array, Array | None, NDArray[np.int64]]:
        """Append the trials without labels, and return domain numbers of all trials.

        Validation trials, after the first ``n``, have no domain; they get the first number.
        """
        names = as_groups(domains, n, ModelError, "domains")
        between = np.zeros(len(tokens) - n, dtype=np.int64)
        if unlabeled is None:
            of = (
                np.zeros(n, np.int64) if names is None else np.unique(names, return_inverse=True)[1]
            )
            return tokens, bias, np.concatenate([of, between])
        if names is None:
            raise ModelError("unlabeled requires domains, the domain of each labelled trial.")
        X, given = unlabeled() if callable(unlabeled) else unlabeled
        C = self._checked(X)
        others = as_groups(given, len(C), ModelError, "domains of unlabeled")
        more, more_bias = self._tokens_of(C), self._bias(C)
        check_finite(more)
        of = np.unique(np.concatenate([names, others]), return_inverse=True)[1]
        if bias is not None and more_bias is not None:
            bias = np.concatenate([bias, more_bias])
        return np.concatenate([tokens, more]), bias, np.concatenate([of[:n], between, of[n:]])

    def _trained(
        self,
        plan: RunPlan,
        recipe: Recipe,
        data: tuple[Tensor, Tensor | None, Tensor, Tensor],
        labels: Tensor,
        listener: Listener | None,
    ) -> TrainedRun:
        """Train one network."""
        tokens, bias, domains, unlabeled = data
        _, n_tokens, n_features = tokens.shape
        n, n_classes = len(plan.train), len(self.classes_)
        # A last batch of one trial is left out.
        batches = max(1, n // recipe.batch_size + (n % recipe.batch_size > 1))
        share, steps = len(unlabeled) / n, recipe.epochs * batches

        def build() -> nn.Module:
            network = self._module(n_features, n_tokens, n_classes)
            network.reset_parameters()  # from the generator of the seed
            return AdversarialNetwork(
                network, tokens, bias, domains, unlabeled, share, self.weight, steps
            )

        trained, curves, epoch = train_module(
            build,
            torch.arange(len(tokens), device=tokens.device),
            labels,
            plan,
            recipe,
            n_classes=n_classes,
            listener=listener,
            objective=AdversarialNetwork.objective,
        )
        assert isinstance(trained, AdversarialNetwork)
        recognised = np.reshape(trained.recognised, (len(curves["train loss"]), -1)).mean(1)
        return TrainedRun(trained.network, curves | {"domain accuracy": recognised}, epoch)
