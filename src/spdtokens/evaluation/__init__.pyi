from .answer import Evaluation, evaluate
from .plan import Choice, Question

__all__ = [
    "Choice",
    "Evaluation",
    "Question",
    "evaluate",
]
