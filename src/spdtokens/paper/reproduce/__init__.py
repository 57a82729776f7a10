"""Reproduction of the paper's tables and figures."""

from spdtokens.paper.reproduce.experiments import EXPERIMENTS, Cell, Experiment
from spdtokens.paper.reproduce.run import Extent, Reproduction
from spdtokens.paper.reproduce.scores import ScoreTable

__all__ = ["EXPERIMENTS", "Cell", "Experiment", "Extent", "Reproduction", "ScoreTable"]
