"""What went wrong, said so that it can be put right.

Every error that a user can mend is a :class:`UserError`, and so a ``ValueError``: its message
names the culprit and the remedy. The command line prints the message and nothing else.
"""

from __future__ import annotations


class UserError(ValueError):
    """Input or settings that cannot be used: the base of all errors here."""


class NotSPDError(UserError):
    """A matrix that is not symmetric positive definite."""


class SignalError(UserError):
    """Trials, bands or windows from which no matrix can be made."""


class DataError(UserError):
    """A data set or a file that cannot be read as asked."""


class ModelError(UserError):
    """A network, or a recipe of its training, that is impossible."""


class MethodError(UserError):
    """A method or an estimator that is unknown, or does not fit the data."""


class EvaluationError(UserError):
    """An evaluation that cannot be done."""


class LeakError(EvaluationError):
    """An evaluation that would see what it must not; the message has the trials' ids."""


class StudyError(UserError):
    """A study, or a store of runs, that cannot be used."""


class ReportError(UserError):
    """A report or an explanation that cannot be made."""


class PaperError(UserError):
    """A number or a table that the audit cannot check."""


class DecoderError(UserError):
    """A model file, or data that its model cannot be used with."""


class DeployError(UserError):
    """A model or a recording that cannot be trained on or predicted as asked."""


class LiveError(UserError):
    """A stream that cannot be decoded."""


class StreamLostError(Exception):
    """A stream that has ended or gone silent; not the user's fault."""
