"""Networks and recipes that belong together, by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from spdtokens.models.config import SMALL, STANDARD, TransformerConfig
from spdtokens.training.recipe import Recipe, TrainingError


@dataclass(frozen=True)
class Preset:
    """A network and how it is trained."""

    config: TransformerConfig
    recipe: Recipe


PRESETS = {
    #: The paper's configuration for BCI2a and BCIcha, never bent to look better.
    "paper": Preset(STANDARD, Recipe()),
    #: The paper's configuration for MAMEM.
    "paper-small": Preset(SMALL, Recipe(batch_size=32)),
}


def resolve_preset(name: str, **changes: Any) -> Preset:
    """A preset with some of its values replaced.

    Parameters
    ----------
    name : str
        One of ``PRESETS``.
    **changes
        Fields of :class:`TransformerConfig` and :class:`Recipe`; None leaves the preset's.

    Raises
    ------
    TrainingError
        For an unknown preset.
    """
    if name not in PRESETS:
        raise TrainingError(f"There is no preset {name!r}. There are: {', '.join(PRESETS)}.")
    preset = PRESETS[name]
    given = {field: value for field, value in changes.items() if value is not None}
    of_config = {k: v for k, v in given.items() if k in TransformerConfig.__dataclass_fields__}
    of_recipe = {k: v for k, v in given.items() if k not in of_config}
    return Preset(replace(preset.config, **of_config), replace(preset.recipe, **of_recipe))
