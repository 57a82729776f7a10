"""Where to compute."""

from __future__ import annotations

import torch

from spdtokens.training.recipe import TrainingError


def resolve_device(name: str) -> torch.device:
    """The device of a name; ``'auto'`` is the graphics card if there is one.

    Raises
    ------
    TrainingError
        For a device that torch does not know or this machine does not have.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise TrainingError(f"There is no device {name!r}: use 'auto', 'cpu' or 'cuda'.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise TrainingError(
            f"device={name!r} asks for a graphics card, and torch sees none here. Use 'auto' or "
            "'cpu', or install a CUDA build of torch and its driver."
        )
    if device.type not in ("cpu", "cuda"):
        raise TrainingError(f"Training runs on 'cpu' or 'cuda', not on {name!r}.")
    return device


def check_unused_device(name: str, what: str) -> None:
    """Refuse to compute ``what``, which is always done on the processor, elsewhere.

    Raises
    ------
    TrainingError
        For any device but ``'auto'`` and ``'cpu'``.
    """
    if name != "auto" and resolve_device(name).type != "cpu":
        raise TrainingError(
            f"device={name!r} is for networks, and {what} is computed on the CPU. Leave device out."
        )
