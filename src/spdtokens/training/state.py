"""What training changes: weights, moments, running statistics, random streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spdtokens.training.network import BatchedNetwork, Layout, TokenModel, copy_to_row
from spdtokens.training.streams import RunStreams


@dataclass
class RunStates:
    """The state of runs, a row each; a slice of it shares the memory of the whole.

    Attributes
    ----------
    weights : Tensor, shape (runs, parameters)
    first, second : Tensor, shape (runs, live parameters)
        Adam's moments.
    steps : Tensor, shape (runs, layers)
        Updates done; the optimizer counts them for each layer.
    buffers : Tensor, shape (runs, buffers)
    best_weights, best_buffers : Tensor
        Those with the lowest validation loss; empty (runs, 0) unless they are to be kept.
    best_loss : Tensor, shape (runs,)
    best_epoch : Tensor of int64, shape (runs,)
        Epoch, from 1, of the lowest validation loss; 0 for none.
    active : Tensor of bool, shape (runs,)
        False for a run that was stopped early.
    streams : list of RunStreams
    """

    weights: Tensor
    first: Tensor
    second: Tensor
    steps: Tensor
    buffers: Tensor
    best_weights: Tensor
    best_buffers: Tensor
    best_loss: Tensor
    best_epoch: Tensor
    active: Tensor
    streams: list[RunStreams] = field(default_factory=list)

    @classmethod
    def initial(
        cls,
        network: BatchedNetwork,
        model: TokenModel,
        seeds: Sequence[int],
        *,
        keep_best: bool,
        device: torch.device,
    ) -> RunStates:
        """Fresh runs, their weights drawn from their seeds; ``model`` is used to draw them."""
        streams = [RunStreams(seed) for seed in seeds]
        runs = len(seeds)
        weights = torch.zeros(runs, network.parameters.size)
        buffers = torch.zeros(runs, network.buffers.size)
        for run, stream in enumerate(streams):
            model.reset_parameters(stream.weights())
            copy_to_row(model, network.parameters, weights[run])
            copy_to_row(model, network.buffers, buffers[run])
        weights, buffers = weights.to(device), buffers.to(device)
        return cls(
            weights=weights,
            first=torch.zeros(runs, network.live, device=device),
            second=torch.zeros(runs, network.live, device=device),
            steps=torch.zeros(runs, len(network.layers), device=device),
            buffers=buffers,
            best_weights=weights.clone() if keep_best else weights[:, :0].clone(),
            best_buffers=buffers.clone() if keep_best else buffers[:, :0].clone(),
            best_loss=torch.full((runs,), float("inf")),
            best_epoch=torch.zeros(runs, dtype=torch.int64),
            active=torch.ones(runs, dtype=torch.bool),
            streams=streams,
        )

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, part: slice) -> RunStates:
        tensors = {name: tensor[part] for name, tensor in self.tensors().items()}
        return RunStates(**tensors, streams=self.streams[part])

    def tensors(self) -> dict[str, Tensor]:
        """All but the streams, by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def kept(self, run: int) -> tuple[Tensor, Tensor]:
        """Weights and buffers to keep of a run: the best if they were asked for, else the last."""
        if self.best_weights.shape[1] and self.best_epoch[run]:
            return self.best_weights[run], self.best_buffers[run]
        return self.weights[run], self.buffers[run]

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays, for a file."""
        return {name: tensor.cpu().numpy() for name, tensor in self.tensors().items()}

    def restore(self, arrays: dict[str, NDArray[Any]], streams: list[dict[str, Any]]) -> None:
        """Take over what was saved."""
        for name, tensor in self.tensors().items():
            tensor.copy_(torch.from_numpy(np.asarray(arrays[name])))
        for stream, saved in zip(self.streams, streams, strict=True):
            stream.restore(saved)


def load_into(
    model: TokenModel, network: BatchedNetwork, weights: Tensor, buffers: Tensor
) -> TokenModel:
    """Put flat weights and buffers of a run into a module, which is returned in eval mode."""
    sources = _named(network.parameters, weights) | _named(network.buffers, buffers)
    model.load_state_dict(sources, strict=False)
    return model.eval()


def _named(layout: Layout, row: Tensor) -> dict[str, Tensor]:
    return {name: view[0] for name, view in layout.views(row[None]).items()}
