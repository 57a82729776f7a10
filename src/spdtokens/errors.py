"""Exceptions of spdtokens.

Every error that the user can fix is a :class:`UserError`, which is a ``ValueError``. Its message
names the culprit (file, channel, trial or option) and the remedy. The command line prints the
message without a traceback.
"""

from __future__ import annotations


class UserError(ValueError):
    """Invalid input or settings; base class of the errors of this package."""


class NotSPDError(UserError):
    """A matrix is not symmetric positive definite."""


class SignalError(UserError):
    """Trials, bands or windows from which no covariance matrix can be computed."""


class DataError(UserError):
    """A data set or a file does not exist, cannot be read, or lacks what was requested."""


class ModelError(UserError):
    """Invalid labels, or invalid parameters of a classifier, a network or its training."""


class MethodError(UserError):
    """A method or an estimator is unknown, or does not support the data set."""


class EvaluationError(UserError):
    """An evaluation is not possible with this data set, protocol or alignment."""


class LeakError(EvaluationError):
    """Training and test trials are not independent; the message lists the trials."""


class StudyError(UserError):
    """A study file, or a store of runs, is invalid."""


class ReportError(UserError):
    """A report, a figure or an explanation cannot be made from these results."""


class PaperError(UserError):
    """A number or a table of the paper cannot be checked."""


class DecoderError(UserError):
    """A model file is invalid, or its model cannot be applied to the data.

    See Also
    --------
    spdtokens.load_model : Read a model file.

    Examples
    --------
    >>> import tempfile
    >>> from spdtokens import load_model
    >>> from spdtokens.runtime import DecoderError
    >>> with tempfile.NamedTemporaryFile(suffix=".spdt") as file:
    ...     try:
    ...         load_model(file.name)
    ...     except DecoderError:
    ...         print("not a model")
    not a model
    """


class DeployError(UserError):
    """A recording cannot be used for training or prediction."""


class LiveError(UserError):
    """A live stream cannot be decoded."""


class StreamLostError(Exception):
    """A live stream has ended or stopped sending; not caused by the user."""
