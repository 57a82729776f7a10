from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spdtokens.errors import StudyError
from spdtokens.evaluation.runs import RunResult, as_text
from spdtokens.experiments.export import to_csv, to_parquet
from tests.experiments.helpers import made


@pytest.fixture
def results() -> list[RunResult]:
    two_classes = made(3, n=4)
    return [
        made(0),
        made(1, validation={"accuracy": 0.5}, leaky='segments, "both"\nsides', epoch=None),
        replace(
            two_classes,
            spec=replace(two_classes.spec, seed=None, subject="Ä, 2"),
            probabilities=two_classes.probabilities[:, :2],
        ),
    ]


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_csv_has_a_row_a_run(tmp_path: Path, results: list[RunResult]) -> None:
    to_csv(results, tmp_path / "runs.csv")
    rows = read_csv(tmp_path / "runs.csv")
    for row, result in zip(rows, results, strict=True):
        spec = result.spec
        for name in ("key", "method", "subject", "fold"):
            assert row[name] == getattr(spec, name)
        assert row["seed"] == ("" if spec.seed is None else str(spec.seed))
        for name in ("about", "estimator", "selection"):
            assert json.loads(row[name]) == getattr(spec, name)
        assert row["estimator"] == as_text(spec.estimator)
        assert json.loads(row["subjects"]) == list(spec.subjects)
        assert float(row["test_accuracy"]) == result.test["accuracy"]
        assert row["train_roc_auc"] == ""  # which was NaN
        assert row["n_train"] == str(result.sizes["train"])
        assert (float(row["seconds"]), float(row["memory"])) == (result.seconds, result.memory)
        assert row["leaky"] == result.leaky
        assert row["origin_code"] == "c0de"
    assert [row["validation_accuracy"] for row in rows] == ["", "0.5", ""]
    assert [row["epoch"] for row in rows] == ["50", "", "50"]
    names = list(rows[0])
    assert names.index("train_accuracy") < names.index("validation_accuracy")
    assert names.index("validation_accuracy") < names.index("test_accuracy")
    assert all(not name.startswith("origin_") for name in names[: names.index("memory")])


def test_csv_has_a_row_a_trial(tmp_path: Path, results: list[RunResult]) -> None:
    to_csv(results, tmp_path / "trials.csv", predictions=True)
    rows = read_csv(tmp_path / "trials.csv")
    assert len(rows) == 12 + 12 + 4
    mine = [row for row in rows if row["key"] == results[0].spec.key]
    assert [row["id"] for row in mine] == results[0].ids.tolist()
    assert [int(row["y"]) for row in mine] == results[0].y.tolist()
    p = np.array([[row[f"p_{i}"] for i in range(4)] for row in mine], dtype=float)
    np.testing.assert_array_equal(p.astype(np.float32), results[0].probabilities)
    assert [int(row["predicted"]) for row in mine] == p.argmax(1).tolist()
    # One trial is tested under several protocols, with more or less seen of its session.
    spec = results[0].spec
    for name in ("dataset", "protocol", "access", "alignment", "method", "fold"):
        assert {row[name] for row in mine} == {getattr(spec, name)}
    assert (rows[-1]["subject"], rows[-1]["seed"]) == ("Ä, 2", "")
    assert (rows[-1]["p_2"], rows[-1]["p_3"]) == ("", "")


@pytest.mark.parametrize("predictions", [False, True])
def test_parquet_has_the_same(
    tmp_path: Path, results: list[RunResult], *, predictions: bool
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    to_csv(results, tmp_path / "a.csv", predictions=predictions)
    to_parquet(results, tmp_path / "a.parquet", predictions=predictions)
    wanted = read_csv(tmp_path / "a.csv")
    rows = parquet.read_table(tmp_path / "a.parquet").to_pylist()
    told = [{k: "" if v is None else str(v) for k, v in row.items()} for row in rows]
    assert told == wanted


def test_an_empty_column_has_its_type(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    seedless = replace(made(0).spec, seed=None)
    to_parquet([made(0, spec=seedless, epoch=None)], tmp_path / "runs.parquet")
    schema = parquet.read_schema(tmp_path / "runs.parquet")
    assert [str(schema.field(name).type) for name in ("seed", "epoch")] == ["int64", "int64"]


def test_without_pyarrow_it_is_said(
    tmp_path: Path, results: list[RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(StudyError, match=r"spdtokens\[parquet\]"):
        to_parquet(results, tmp_path / "runs.parquet")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_refused(tmp_path: Path, results: list[RunResult]) -> None:
    with pytest.raises(StudyError, match="no results"):
        to_csv([], tmp_path / "runs.csv")
    with pytest.raises(StudyError, match="nowhere"):
        to_csv(results, tmp_path / "nowhere" / "runs.csv")


def test_a_failure_leaves_the_old_file(tmp_path: Path, results: list[RunResult]) -> None:
    path = tmp_path / "trials.csv"
    path.write_text("old")
    short = replace(results[0], y=results[0].y[:3])
    with pytest.raises(ValueError, match="length"):
        to_csv([results[1], short], path, predictions=True)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
