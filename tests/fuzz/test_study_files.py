"""Study files with mistakes: a study, or a StudyError that can be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from spdtokens.errors import UserError
from spdtokens.experiments.config import read_study
from tests.fuzz.mutations import FACTORS, PLACES, for_all, limited, spoil, spoilt_bytes

ROOT = Path(__file__).parents[2]
STUDY = """\
name = "all keys"
seeds = [1, 2]
metric = "accuracy"

[[datasets]]
name = "sim-mi"
subjects = ["1", 2]
paradigm = "mi"
window = [0.5, 2.5]
classes = ["left hand", "right hand"]
where = {run = "1"}

[[datasets]]
name = "sim-ssvep"
stimulus_hz = [13, 17, 21]

[[methods]]
name = "token-log-euclidean"
label = "ours"
bands = [[8, 13], [13.5, 30]]
estimator = "oas"
preset = "paper-small"
epochs = 3
device = "cpu"
[methods.changes]
d_model = 16
n_heads = 2
dropout = 0.1
attention = "geometric"

[[methods]]
name = "eegnet"
recipe = "published"

[[methods]]
label = "two layers"
[[methods.steps]]
class = "pyriemann.estimation.Covariances"
estimator = "oas"
[[methods.steps]]
class = "TokenTransformerClassifier"
embedding = ["log_euclidean", "cholesky"]
n_layers = 2
betas = [0.9, 0.99]

[[methods]]
class = "sklearn.model_selection.GridSearchCV"
label = "searched"
param_grid = {C = [0.1, 1.0]}
cv = {class = "sklearn.model_selection.StratifiedKFold", n_splits = 2}
estimator = {class = "sklearn.svm.SVC", kernel = "linear"}

[[protocols]]
name = "session-transfer"
access = "train"
alignment = "none"
domain = "session"

[[protocols]]
name = "k-fold"
folds = 5
"""
#: TOML, right and wrong.
_VALUES = r"""
    0|1|-1|2|5|10|1e308|-1e308|nan|inf|-inf|0.0|99999999999999999999|9223372036854775808|1_0
    |0x10|""|" "|"x"|"sim-mi"|"sim-erp"|"ts-lr"|"../.."|"/dev/zero"|"moabb:os"|"~"|"\\u0000"|'''
    '''|true|false|[]|[[]]|[1]|["1"]|[1, 2]|[2, 1]|[nan, 1]|[[1, 2]]|[[2, 1], [0, 0]]|[true]
    |["a", "a"]|[{}]|{}|{a = 1}|{run = 1}|{run = []}|1979-05-27|07:32:00|1979-05-27T07:32:00Z
    |"left hand"|[1, 1]|[-1]|[1e400]|"auto"|"cuda:99"|"stimulus"|"paper"|"geometric"|1=1
    |[0.5, 2.5]|[-1e300, 1e300]|[1, [2]]|{""=1}|[9999999999999999999999]
    |"subprocess.Popen"|"sklearn.model_selection.KFold"|"sklearn.pipeline.Pipeline"|"..x"|"os.path"
    |{class = "TokenEmbedding"}|{class = 1}|{class = "sklearn.svm.SVC", steps = 1}|{number = "x"}
    |{function = "spdtokens.nothing"}|{function = "os.system"}|{text = "x", digest = "y"}
    |[{class = "MDM"}]|{class = "sklearn.pipeline.Pipeline", steps = [["a", 1]]}|{function = 1}
"""
_LINES = """
    [[methods]]|[[datasets]]|[[protocols]]|[methods]|[methods.changes]|[datasets]|[a.b.c]|[[]]
    |seeds = 3|name = "x"|methods = ["ts-lr", "mdm"]|protocols = "session-transfer"|a.b = 1
    |datasets = [1]|methods = [["ts-lr"]]|"" = 1|# comment|= 1|folds = 0|epochs = 1|repeats = -1
    |[[methods.steps]]|class = "TokenDiscriminantClassifier"|steps = []|class = ""
    |steps = [{class = "spdtokens.TokenEmbedding"}]|class = "sklearn.cluster.KMeans"
    |name = "leave-one-subject-out"|name = "across-subjects"|access = "all"|test_share = 2
"""


def _parts(text: str) -> Any:
    return st.sampled_from([part.strip() for part in text.split("|")])


VALUES = st.one_of(_parts(_VALUES), st.sampled_from(["1" + "0" * 400, "[" * 5000, "1\n2"]))
LINES = _parts(_LINES)


def _value(lines: list[str], place: int, value: str, _: str) -> None:
    chosen = [i for i, line in enumerate(lines) if "=" in line]
    if chosen:
        i = chosen[place % len(chosen)]
        lines[i] = f"{lines[i].split('=')[0]}= {value}"


def _remove(lines: list[str], place: int, *_: Any) -> None:
    if lines:
        del lines[place % len(lines)]


def _double(lines: list[str], place: int, *_: Any) -> None:
    if lines:
        lines.insert(place % 97 % (len(lines) + 1), lines[place % len(lines)])


def _move(lines: list[str], place: int, *_: Any) -> None:
    if lines:
        lines.insert(place % 89 % len(lines), lines.pop(place % len(lines)))


def _add(lines: list[str], place: int, _: str, line: str) -> None:
    lines.insert(place % (len(lines) + 1), line)


line_ways = st.lists(
    st.tuples(
        st.sampled_from([_value, _value, _value, _remove, _double, _move, _add]),
        PLACES,
        VALUES,
        LINES,
    ),
    min_size=1,
    max_size=4,
)


@pytest.fixture(scope="module")
def attempt(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bytes], bool]:
    folder = tmp_path_factory.mktemp("studies")
    path = folder / "study.toml"

    def run(contents: bytes) -> bool:
        path.write_bytes(contents)
        with limited(folder):
            try:
                study = read_study(path)
            except UserError as error:
                str(error).encode()
                return False
            assert study.questions
            return True

    return run


def spoilt_lines(ways: list[Any]) -> bytes:
    lines = STUDY.splitlines()
    for way, *details in ways:
        way(lines, *details)
    return "\n".join(lines).encode()


CASES = {
    "bytes": (lambda ways: spoil(STUDY.encode(), ways), spoilt_bytes, 200),
    "lines": (spoilt_lines, line_ways, 600),
}


def test_the_whole_file_is_a_study(attempt: Any) -> None:
    assert attempt(STUDY.encode())
    assert attempt((ROOT / "studies" / "demo.toml").read_bytes())


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("case", CASES)
def test_spoilt_files(case: str, factor: int, attempt: Any) -> None:
    spoilt, ways, n = CASES[case]
    for_all(ways, n * factor, lambda drawn: attempt(spoilt(drawn)))
