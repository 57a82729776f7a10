"""The paper's network on one subject, watched as it trains: what its figures show."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from spdtokens.classifiers import TokenTransformerClassifier
from spdtokens.classifiers.base import held_back
from spdtokens.classifiers.methods import get_method
from spdtokens.classifiers.nn import Pool, RunPlan, TrainedRun, train_runs
from spdtokens.datasets import Selection
from spdtokens.evaluation.plan import Source, matrices, split_front
from spdtokens.evaluation.protocols import check_fold, get_protocol
from spdtokens.geometry import TokenEmbedding
from spdtokens.paper.reproduce.roles import Data, Role


@dataclass(frozen=True)
class Watched:
    """A subject's trials as tokens, in the parts of the role's protocol.

    Attributes
    ----------
    role : Role
    data : {'sim', 'real'}
    subject : int
        By position.
    embedding : str
        As in names of methods: ``'log-euclidean'``.
    source : Source
    multiband : bool
    """

    role: Role
    data: Data
    subject: int
    embedding: str
    source: Source
    multiband: bool = False

    @cached_property
    def _made(self) -> tuple[torch.Tensor, NDArray[np.int64], dict[str, NDArray[np.int64]]]:
        settings = self.role.settings(multiband=self.multiband)
        name = self.role.dataset(self.data)
        dataset = self.source.dataset(name, Selection())
        who = dataset.subjects[min(self.subject, len(dataset.subjects) - 1)]
        trials = self.source.trials(name, Selection(), (who,))
        fold = get_protocol(self.role.protocol).folds(trials.table, who)[0]
        check_fold(fold, trials)
        front, _ = split_front(get_method(f"token-{self.embedding}").make(dataset, settings))
        assert front is not None
        parts = {name: rows for name, rows in fold.parts().items() if len(rows)}
        if "validation" not in parts:  # only to draw a curve: nothing is chosen by it
            own = held_back(42, trials.table.y[fold.train], None, 0.125)
            assert own.validation is not None
            parts["validation"] = fold.train[own.validation]
            parts["train"] = fold.train[own.train]
        C = {part: matrices(trials, front, rows) for part, rows in parts.items()}
        first = TokenEmbedding(self.embedding.replace("-", "_"), unit_free=True).fit(C["train"])
        tokens = torch.from_numpy(np.concatenate([first.tokens(C[part]) for part in C])).float()
        edges = np.cumsum([0, *(len(C[part]) for part in C)])
        places = {part: np.arange(edges[i], edges[i + 1]) for i, part in enumerate(C)}
        y = np.concatenate([trials.table.y[parts[part]] for part in C])
        return tokens, y, places

    @property
    def tokens(self) -> torch.Tensor:
        """Of all parts, (n, tokens, features)."""
        return self._made[0]

    @property
    def y(self) -> NDArray[np.int64]:
        """Labels (n,)."""
        return self._made[1]

    @property
    def places(self) -> dict[str, NDArray[np.int64]]:
        """Rows of each part."""
        return self._made[2]

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the labels."""
        return self.source.dataset(self.role.dataset(self.data), Selection()).classes

    def train(self, seeds: tuple[int, ...], epochs: int | None = None) -> list[TrainedRun]:
        """Train the paper's network, with curves of train, validation and test.

        The curves of the test trials are for looking: the last epoch is kept whatever they say.
        """
        network = TokenTransformerClassifier(**self.role.settings(epochs=epochs).transformer())
        n_tokens, n_features = self.tokens.shape[1:]
        model = network._module(n_features, n_tokens, len(self.classes))
        plans = [
            RunPlan(
                seed,
                self.places["train"],
                self.places["validation"],
                watched={"test": self.places["test"]},
            )
            for seed in seeds
        ]
        pool = Pool(self.tokens, torch.from_numpy(self.y))
        return train_runs(model, pool, plans, network._recipe())
