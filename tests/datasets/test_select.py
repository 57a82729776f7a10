from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdtokens.datasets import Dataset, Recording, Selection, from_arrays, load_dataset, select
from spdtokens.datasets.select import PARADIGMS, later_window
from spdtokens.errors import DataError


def dataset(**more: Any) -> Dataset:
    rng = np.random.default_rng(0)
    y = np.array([0, 1, 2, 0, 1, 2, 1, 1])
    about = {"imagined": np.array([1, 0] * 4), "onset": np.arange(8) * 300}
    run = np.array(list("11112222"))
    X = rng.standard_normal((8, 3, 200))
    recording = Recording("1", "1", X, y, run, np.array([0, 0, 1, 1, 2, 2, 3, 3]), about)
    made = Dataset(
        name="d",
        description="",
        paradigm="other",
        classes=("left", "right", "rest"),
        ch_names=("A", "B", "C"),
        sfreq=100.0,
        tmin=-0.5,
        window=(-0.5, 1.5),
        index={"1": ("1",)},
        read=lambda *_: recording,
    )
    return replace(made, **more)


@given(
    classes=st.sampled_from([(), ("right", "left"), ("rest", "right"), ("rest", "left", "right")]),
    imagined=st.sampled_from([None, "0", "1"]),
    run=st.sampled_from([None, "1", "2"]),
)
def test_trials_that_are_selected(
    classes: tuple[str, ...], imagined: str | None, run: str | None
) -> None:
    where = {k: v for k, v in (("imagined", imagined), ("run", run)) if v is not None}
    whole = dataset().load("1", "1")
    part = select(dataset(), Selection(classes=classes, where=where))
    names = classes or ("left", "right", "rest")
    assert part.classes == names
    old = np.array(dataset().classes)[whole.y]
    kept = [
        i
        for i in range(8)
        if old[i] in names
        and (imagined is None or str(whole.about["imagined"][i]) == imagined)
        and (run is None or whole.run[i] == run)
    ]
    found = part.load("1", "1")
    np.testing.assert_array_equal(found.X, whole.X[kept])
    assert [names[code] for code in found.y] == old[kept].tolist()
    np.testing.assert_array_equal(found.group, whole.group[kept])
    np.testing.assert_array_equal(found.run, whole.run[kept])
    np.testing.assert_array_equal(found.about["onset"], whole.about["onset"][kept])


def test_mappings_and_lists_are_kept_as_what_can_be_hashed() -> None:
    written = Selection(classes=["left", "right"], where={"imagined": 1}, window=[0, 1])  # type: ignore[arg-type,dict-item]
    pairs = Selection(classes=("left", "right"), where=(("imagined", "1"),), window=(0, 1))
    assert written == pairs
    assert hash(written) == hash(pairs)


@pytest.mark.parametrize("name", ["classes", "where"])
def test_one_text_is_refused_with_an_example(name: str) -> None:
    with pytest.raises(DataError, match=rf"{name} must be like {name}=[({{]"):
        Selection(**{name: "left"})  # type: ignore[arg-type]


def test_nothing_selected_changes_nothing() -> None:
    whole = dataset()
    assert select(whole, Selection()) == whole


@given(
    st.builds(
        Selection,
        paradigm=st.sampled_from([None, *PARADIGMS]),
        stimulus_hz=st.lists(st.floats(1, 50), max_size=3).map(tuple),
        window=st.none() | st.tuples(st.floats(-1, 1), st.floats(1, 2)),
        classes=st.lists(st.sampled_from("abc"), unique=True).map(tuple),
        where=st.dictionaries(st.sampled_from(["run", "x"]), st.sampled_from("12")).map(
            lambda d: tuple(d.items())
        ),
    )
)
def test_plain_values_come_back(selection: Selection) -> None:
    assert Selection(**selection.values()) == selection
    assert Selection(**json.loads(json.dumps(selection.values()))) == selection
    hash(selection)  # data sets are kept by it


def test_paradigms_begin_when_their_signal_does() -> None:
    assert select(dataset(), Selection("mi")).window == (0.5, 1.5)
    assert select(dataset(), Selection("erp")).window == (-0.5, 1.5)
    assert select(dataset(window=(0.1, 1.5)), Selection("mi")).window == (0.1, 1.5)
    assert later_window((0.0, 1.2), 0.0, "motor imagery") == (0.0, 1.2)  # too short to begin later
    assert later_window((0.0, 5.0), 0.0, "ssvep") == (1.0, 5.0)
    again = select(select(dataset(), Selection("mi")), Selection())
    assert again.window == (0.5, 1.5)


def test_window_and_flicker() -> None:
    assert select(dataset(), Selection(window=(0.25, 1.0))).window == (0.25, 1.0)
    found = select(dataset(), Selection("ssvep", stimulus_hz=(13.0, 17.0)))
    assert (found.paradigm, found.stimulus_hz) == ("ssvep", (13.0, 17.0))


@pytest.mark.parametrize(
    ("selection", "culprit"),
    [
        (Selection("eeg"), "'eeg'"),
        (Selection("ssvep"), "d: .*--stimulus-hz"),
        (Selection(stimulus_hz=(13.0,)), "stimulus_hz .* d is other"),
        (Selection(classes=("left", "rigth")), "'rigth'. Did you mean 'right'"),
        *((Selection(classes=names), "left") for names in (("left",), ("left", "left"))),
        *(
            (Selection(window=window), r"window .* d begin at -0\.5")
            for window in ((-0.6, 1.0), (1.0, 1.0), (1.0, 0.5))
        ),
    ],
)
def test_mistakes_are_told_before_anything_is_read(selection: Selection, culprit: str) -> None:
    with pytest.raises(DataError, match=culprit):
        select(dataset(read=lambda *_: pytest.fail("read")), selection)


def test_covariances_have_no_window() -> None:
    matrices = from_arrays(np.stack([np.eye(3)] * 4), [0, 1, 0, 1])
    with pytest.raises(DataError, match="arrays contains covariance"):
        select(matrices, Selection(window=(0.0, 1.0)))


@pytest.mark.parametrize(
    ("where", "culprit"),
    [({"phase": "1"}, "'phase'.* run, imagined, onset"), ({"imagined": "2"}, "imagined=2.*0, 1")],
)
def test_properties_that_do_not_exist(where: dict[str, str], culprit: str) -> None:
    with pytest.raises(DataError, match=f"Subject 1, session 1: .*{culprit}"):
        select(dataset(), Selection(where=where)).load("1", "1")


def people(*names: str) -> Dataset:
    return replace(dataset(), index=dict.fromkeys(names, ("1",)))


@pytest.mark.parametrize("subjects", [1, "1", "01", "001", ["001"], np.int64(1), ("001", 1)])
def test_a_number_is_the_subject_whose_name_is_that_number(subjects) -> None:
    assert people("001", "002", "s1", "010").chosen(subjects) == ("001",)


def test_chosen_subjects_come_in_the_order_of_the_data_set() -> None:
    three = people("b", "a", "3")
    assert three.chosen() == ("b", "a", "3")
    assert three.chosen([3, "a"]) == ("a", "3")
    assert three.sessions(3) == ("1",)
    assert len(three.load(3, "1")) == 8
    with pytest.raises(DataError, match=r"no session '9'. It has: 1"):
        three.load(3, "9")


@pytest.mark.parametrize(
    ("subjects", "culprit"),
    [
        ("3", r"no subject '3'. It has: 001, 2, 02"),
        (7, "7"),
        (["001", "x"], "'x'"),
        (2, "'2' or '02'"),
        ("002", "'2' or '02'"),
    ],
)
def test_subjects_that_are_not_there_or_may_be_two_are_refused(subjects, culprit: str) -> None:
    with pytest.raises(DataError, match=culprit):
        people("001", "2", "02").chosen(subjects)


def test_an_exact_name_comes_before_a_number() -> None:
    assert people("001", "2", "02").chosen(["02"]) == ("02",)


def test_arrays_are_no_name_of_a_data_set() -> None:
    with pytest.raises(DataError, match=r"tuple.*from_arrays"):
        load_dataset((np.zeros((9, 9, 9)), np.zeros(9)))  # type: ignore[arg-type]


def test_what_goes_together_must() -> None:
    X, y = np.zeros((4, 3, 5)), np.arange(4) % 2
    for arrays, culprit in (
        ((X[0], y), r"\(3, 5\)"),
        ((X.astype(complex), y), "complex"),
        ((X, y[:3]), "'y'"),
        ((X, y[None]), r"y must .*\(1, 4\)"),
    ):
        with pytest.raises(DataError, match=culprit):
            from_arrays(*arrays, sfreq=50.0)
    with pytest.raises(DataError, match=r"sfreq=250"):
        from_arrays(X, y)
    with pytest.raises(DataError, match=r"labels .*got \[3\]"):
        replace(from_arrays(X, np.arange(4), sfreq=50.0), classes=("a", "b", "c")).load("1", "1")
