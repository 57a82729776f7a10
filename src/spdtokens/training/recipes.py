"""The recipe published with each network of the comparison.

Epochs, rates and batches are those of the publication or its code; where these retrain on training
and validation trials together, or augment, we do not, and say so. ``COMMON`` is the paper's, the
same for all.
"""

from __future__ import annotations

from dataclasses import replace

from spdtokens.models.matt import (
    MATT_BCI2A,
    MATT_BCICHA,
    MATT_MAMEM,
    MAttConfig,
    original_config,
)
from spdtokens.training.recipe import Recipe

COMMON = Recipe()

# Weight decay as part of the gradient, lowest validation loss; the rest is another for every data
# set, like the network itself.
_MATT = Recipe(
    epochs=350,
    batch_size=128,
    learning_rate=5e-4,
    weight_decay=0.1,
    decoupled=False,
    keep="best",
)
MATT: dict[MAttConfig, Recipe] = {
    MATT_BCI2A: _MATT,
    MATT_BCICHA: replace(_MATT, epochs=130, batch_size=64, learning_rate=1e-2),
    MATT_MAMEM: replace(_MATT, epochs=180, batch_size=64, learning_rate=5e-3),
}

PUBLISHED = {
    # From the configuration files of its code: Adam 1e-3, weight decay 1e-4 as part of the gradient
    # (none for the BiMap), batches of 50, 50 epochs, lowest validation loss. Their Adam moves the
    # BiMap along the Stiefel manifold; here it moves the coordinates of a Cayley map, with other
    # steps for the same rate. They hold back a fifth of the trials, draw batches stratified by
    # domain and refit the statistics of the batch norm afterwards; we do not.
    "tsmnet": Recipe(batch_size=50, weight_decay=1e-4, decoupled=False, keep="best"),
    # 500 epochs, lowest validation loss.
    "eegnet": Recipe(epochs=500, keep="best"),
    # Early stopping on validation trials; the second phase, on all trials, is left out.
    "shallownet": Recipe(epochs=800, keep="best", patience=80),
    "deepnet": Recipe(epochs=800, keep="best", patience=80),
    "atcnet": Recipe(epochs=1000, learning_rate=9e-4, keep="best", patience=300),
    # 2000 epochs, last one; the segmentation-and-recombination augmentation is left out.
    "eeg-conformer": Recipe(epochs=2000, batch_size=72, learning_rate=2e-4, betas=(0.5, 0.999)),
}
# Networks that are not listed have the common recipe: they come from this paper, or other data.


def published_recipe(
    name: str, n_chans: int, *, common: bool = False, epochs: int | None = None
) -> Recipe:
    """The recipe of a network, or the common one, perhaps of another length.

    Parameters
    ----------
    name : str
    n_chans : int
        MAtt's recipe goes with its configuration, which goes by the number of channels.
    common : bool
    epochs : int, optional
    """
    if common:
        recipe = COMMON
    elif name == "matt":
        recipe = MATT[original_config(n_chans)]
    else:
        recipe = PUBLISHED.get(name, COMMON)
    return recipe if epochs is None else replace(recipe, epochs=epochs)
