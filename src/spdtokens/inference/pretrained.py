"""Models that ship with the package."""

from __future__ import annotations

from spdtokens.classifiers.filters import model_path
from spdtokens.runtime import Decoder, load_model


def load_pretrained(name: str) -> Decoder:
    """Load a model that ships with the package.

    Parameters
    ----------
    name : {'imagery-left-right'}
        Name of the model. ``spdtokens/pretrained`` has a model card for each: training data and
        their licence, scores on people the model was not trained on, and limits.

    Returns
    -------
    Decoder
        The model. It recentres each session by the trials before.

    Raises
    ------
    ModelError
        If there is no such model.

    See Also
    --------
    spdtokens.inference.with_channels : Apply it to other channels.
    spdtokens.train : Adapt it to recordings of one person, with ``start_from=name``.

    Examples
    --------
    >>> from spdtokens import load_pretrained
    >>> decoder = load_pretrained("imagery-left-right")
    >>> decoder.classes
    ('left_fist', 'right_fist')
    """
    return load_model(model_path(name))
