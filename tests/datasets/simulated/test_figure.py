from __future__ import annotations

import io

import pytest

from spdtokens.datasets.simulated import SIMULATED
from spdtokens.datasets.simulated.figure import simulation_figure
from spdtokens.errors import DataError


@pytest.mark.parametrize("name", sorted(SIMULATED))
def test_figure_shows_every_class(name: str) -> None:
    figure = simulation_figure(name)
    titles = [axes.get_title() for axes in figure.axes]
    assert [title for title in titles if title] == list(SIMULATED[name]().classes)
    figure.savefig(file := io.BytesIO(), format="png", dpi=40)
    assert file.tell() > 10_000


def test_unknown_names_are_refused() -> None:
    with pytest.raises(DataError, match="sim-mi"):
        simulation_figure("sim-nothing")
