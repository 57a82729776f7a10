"""Interrupted training goes on from the last saved epoch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from spdtokens._files import written_whole
from spdtokens.training.group import Curves, Pool
from spdtokens.training.network import BatchedNetwork
from spdtokens.training.recipe import Recipe, TrainingError
from spdtokens.training.state import RunStates

if TYPE_CHECKING:
    from spdtokens.training.engine import RunPlan


class Checkpoint:
    """A file that holds the state of runs after some epochs: arrays and JSON, no pickle.

    Parameters
    ----------
    path : Path
        Ends in ``.npz``.
    network, pool, plans, recipe
        Of the training; a file of any other training is refused.
    """

    def __init__(
        self,
        path: Path,
        network: BatchedNetwork,
        pool: Pool,
        plans: Sequence[RunPlan],
        recipe: Recipe,
    ) -> None:
        if path.suffix != ".npz":
            raise TrainingError(f"A checkpoint is a .npz file, not {path.name}.")
        if not path.parent.is_dir():
            raise TrainingError(f"There is no folder {path.parent} for the checkpoint.")
        self.path = path
        self.fingerprint = _fingerprint(network, pool, plans, recipe)

    def save(self, state: RunStates, curves: Curves, epochs: int) -> None:
        """Write the state after so many epochs; the file before stays until this one is whole."""
        about = {
            "fingerprint": self.fingerprint,
            "epochs": epochs,
            "streams": [stream.state() for stream in state.streams],
        }
        arrays = state.to_arrays() | {f"curve {name}": curve for name, curve in curves.items()}
        with written_whole(self.path) as temporary:
            np.savez(temporary, allow_pickle=False, about=np.array(json.dumps(about)), **arrays)

    def load(self, state: RunStates, curves: Curves) -> int:
        """Take over a saved state if there is one; the epochs already done."""
        if not self.path.exists():
            return 0
        try:
            with self.path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            about: dict[str, Any] = json.loads(str(arrays.pop("about")))
        except (ValueError, KeyError, BadZipFile, OSError, EOFError) as error:
            raise TrainingError(
                f"{self.path} cannot be read as a checkpoint ({error}). Remove it to start anew."
            ) from error
        if about.get("fingerprint") != self.fingerprint:
            raise TrainingError(
                f"{self.path} belongs to another training: other trials, seeds, network or "
                "recipe. Remove it, or give another file."
            )
        for name, curve in curves.items():
            curve[:] = arrays.pop(f"curve {name}")
        state.restore(arrays, about["streams"])
        return int(about["epochs"])


def _fingerprint(
    network: BatchedNetwork, pool: Pool, plans: Sequence[RunPlan], recipe: Recipe
) -> str:
    """A hash of all that the result depends on."""
    digest = hashlib.sha256()
    shape = {
        "network": network.about,
        "recipe": asdict(recipe),
        "seeds": [plan.seed for plan in plans],
    }
    digest.update(json.dumps(shape, sort_keys=True).encode())
    arrays = [pool.tokens, pool.labels, *([] if pool.bias is None else [pool.bias])]
    for tensor in arrays:
        digest.update(np.ascontiguousarray(tensor.numpy(force=True)).tobytes())
    for plan in plans:
        for name, index in plan.parts().items():
            digest.update(name.encode() + np.ascontiguousarray(index).tobytes())
    return digest.hexdigest()
