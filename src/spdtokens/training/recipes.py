"""The recipe published with each network of the comparison.

Epochs, rates and batches are those of the publication or its code; where these retrain on training
and validation trials together, or augment, we do not, and say so. ``COMMON`` is the paper's, the
same for all.
"""

from __future__ import annotations

from dataclasses import replace

from spdtokens.training.recipe import Recipe

COMMON = Recipe()

PUBLISHED = {
    # Adam 5e-4, weight decay 0.1 as part of the gradient, lowest validation loss (BCI2a's values).
    "matt": Recipe(
        epochs=350,
        batch_size=128,
        learning_rate=5e-4,
        weight_decay=0.1,
        decoupled=False,
        keep="best",
    ),
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


def published_recipe(name: str, *, common: bool = False, epochs: int | None = None) -> Recipe:
    """The recipe of a network, or the common one, perhaps of another length."""
    recipe = COMMON if common else PUBLISHED.get(name, COMMON)
    return recipe if epochs is None else replace(recipe, epochs=epochs)
