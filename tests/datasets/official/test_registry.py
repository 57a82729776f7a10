from __future__ import annotations

from pathlib import Path

import pytest

from spdtokens.datasets.official import OFFICIAL
from spdtokens.errors import DataError


@pytest.mark.parametrize("name", OFFICIAL)
def test_every_source_says_what_it_is_and_how_to_get_it(name: str, tmp_path: Path) -> None:
    source = OFFICIAL[name]
    assert source.name == name
    assert "\n" not in source.description
    assert source.how_to_get.startswith("Expected: ")
    assert not source.is_present(tmp_path)
    with pytest.raises(DataError) as caught:
        source.load(tmp_path / "nowhere")
    assert f"{tmp_path / 'nowhere'} (no such folder)" in str(caught.value)
    assert source.how_to_get in str(caught.value)


def test_the_three_data_sets_of_the_paper_are_there() -> None:
    assert set(OFFICIAL) == {"bci2a", "bcicha", "mamem"}
