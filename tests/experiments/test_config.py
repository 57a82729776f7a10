"""Study files: what they mean, and every mistake told with its place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyriemann.classification import MDM
from pyriemann.estimation import Covariances
from pyriemann.tangentspace import TangentSpace
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from spdtokens import (
    DecodingPipeline,
    FilterBankCovariances,
    TokenDiscriminantClassifier,
    TokenEmbedding,
    TokenTransformerClassifier,
)
from spdtokens.classifiers.methods import Settings
from spdtokens.classifiers.nn.recipe import SEEDS, STABILITY_SEEDS
from spdtokens.datasets import Selection
from spdtokens.errors import EvaluationError, StudyError
from spdtokens.evaluation.estimators import describe
from spdtokens.evaluation.plan import Choice, Source, check_question, plan
from spdtokens.experiments import config
from spdtokens.experiments.config import read_study
from spdtokens.experiments.run import plan_study
from tests.experiments.helpers import SHORT, long, problems, read

DOCS = Path(__file__).parents[2] / "docs" / "studies.md"
EXAMPLES = re.findall(r"```toml\n(.*?)```", DOCS.read_text(), re.DOTALL)

# ------------------------------------------------------------------ files that can be used


def test_the_example_of_the_docs(tmp_path: Path) -> None:
    study = read(tmp_path, EXAMPLES[0])
    assert (study.name, study.metric) == ("motor imagery", "accuracy")
    assert [(q.dataset, q.protocol) for q in study.questions] == [
        ("sim-mi", "session-transfer"),
        ("sim-mi", "blocks"),
        ("sim-ssvep", "session-transfer"),
        ("sim-ssvep", "blocks"),
    ]
    last = study.questions[-1]
    assert last.seeds == (42, 123, 456)
    assert study.questions[0].subjects == ("1", "2")
    assert last.protocol_options == {"folds": 4}
    assert (last.access, last.alignment, last.domain) == ("unlabeled_full", "recentre", "session")
    assert last.selection == Selection(
        "ssvep",
        (6.66, 7.5, 8.57, 10.0, 12.0),
        (1.0, 4.0),
        ("10 Hz", "12 Hz"),
        (("run", "1"),),
        ("O1", "Oz", "O2"),
        128.0,
    )
    assert last.choices == (
        Choice("ts-lr", Settings(bands=((8.0, 13.0), (13.0, 30.0)))),
        Choice("eegnet", Settings(recipe="common", epochs=100, device="cpu")),
        Choice("token-log-euclidean", Settings(preset="paper")),
        Choice(
            "token-log-euclidean",
            Settings(changes={"n_layers": 2, "learning_rate": 5e-4}),
            "two layers",
        ),
    )


def test_the_message_of_the_docs(tmp_path: Path) -> None:
    text = EXAMPLES[0].replace("epochs = 100", "epoch = 100")
    text = text.replace('"unlabeled_full"', '"unlabelled_full"')
    _, *shown = re.findall(r"```text\n(.*?)```", DOCS.read_text(), re.DOTALL)[0].split("\n")[:-1]
    assert problems(tmp_path, text) == shown


def test_the_short_form(tmp_path: Path) -> None:
    assert EXAMPLES[1].strip() == SHORT.strip()
    study = read(tmp_path, SHORT)
    assert (study.name, study.path, study.metric) == ("study", tmp_path / "study.toml", None)
    (question,) = study.questions
    assert question.choices == (Choice("ts-lr"), Choice("mdm"))
    assert question.seeds == SEEDS


def test_runs_can_be_planned(tmp_path: Path) -> None:
    text = long(datasets='subjects = ["1"]').replace("n_layers = 2", "betas = [0.8, 0.9]")
    (question,) = read(tmp_path, text).questions
    source = Source()
    check_question(question, source.dataset(question.dataset, question.selection))
    specs = plan(question, source)
    assert len({spec.key for spec in specs}) == 2 * 5
    assert source.estimator(specs[0])["classifier"].betas == (0.8, 0.9)


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("3", SEEDS[:3]), ("10", STABILITY_SEEDS), ("[7]", (7,)), ("[0, 42]", (0, 42))],
)
def test_seeds(tmp_path: Path, text: str, seeds: tuple[int, ...]) -> None:
    assert read(tmp_path, f"seeds = {text}{SHORT}").questions[0].seeds == seeds


def test_paths_are_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "studies").mkdir()
    monkeypatch.chdir("/")
    study = read(tmp_path / "studies", SHORT.replace("sim-mi", "../mine"))
    assert study.questions[0].dataset == str(tmp_path / "mine")


def test_numbers_are_names_of_subjects_too(tmp_path: Path) -> None:
    (question,) = read(tmp_path, long(datasets="subjects = [1, 2]\nwhere = {run = 1}")).questions
    assert question.subjects == ("1", "2")
    assert question.selection.where == (("run", "1"),)


def test_the_common_channels(tmp_path: Path) -> None:
    text = long(datasets="channels = 'common'\nresample = 128")
    (question,) = read(tmp_path, text).questions
    assert question.selection == Selection(channels="common", resample=128.0)
    assert Selection(**question.selection.values()) == question.selection


def test_options_of_the_loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "files").mkdir()
    monkeypatch.chdir("/")
    text = SHORT.replace("sim-mi", "mamem").replace('"mamem"', OPTIONS)
    (question,) = read(tmp_path, text).questions
    folder = str(tmp_path / "files")
    assert question.dataset_options == {"segments": 4, "folder": folder}


OPTIONS = '{name = "mamem", dataset_options = {segments = 4, folder = "files"}}'
HEAD = 'datasets = ["sim-mi"]\nprotocols = ["session-transfer"]\n'


def spelled(folder: Path, text: str) -> Choice:
    (question,) = read(folder, HEAD + text).questions
    (choice,) = question.choices
    return choice


# ------------------------------------------------------------------ estimators as in Python


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'class = "spdtokens.TokenDiscriminantClassifier"\ngains = [0.1, 0.2]\n'
            "embedding = {class = 'TokenEmbedding', embedding = ['cholesky'], isometric = true}",
            TokenDiscriminantClassifier(
                TokenEmbedding(["cholesky"], isometric=True), gains=[0.1, 0.2]
            ),
        ),
        ('class = "pyriemann.classification.MDM"\nmetric = "logeuclid"', MDM(metric="logeuclid")),
        (
            '[[methods.steps]]\nclass = "FilterBankCovariances"\nsfreq = 250\n'
            "bands = [[8, 13], [13, 30]]\nwindows = [[0.5, 2.5]]\n"
            '[[methods.steps]]\nclass = "TokenTransformerClassifier"\nn_layers = 2',
            DecodingPipeline(
                [
                    (
                        "filterbank",
                        FilterBankCovariances(250, bands=[[8, 13], [13, 30]], windows=[[0.5, 2.5]]),
                    ),
                    ("classifier", TokenTransformerClassifier(n_layers=2)),
                ]
            ),
        ),
        (
            '[[methods.steps]]\nclass = "pyriemann.estimation.Covariances"\nestimator = "oas"\n'
            '[[methods.steps]]\nclass = "pyriemann.tangentspace.TangentSpace"\n'
            '[[methods.steps]]\nclass = "sklearn.preprocessing.StandardScaler"\n'
            '[[methods.steps]]\nclass = "sklearn.preprocessing.StandardScaler"\nwith_mean = false\n'
            '[[methods.steps]]\nclass = "sklearn.linear_model.LogisticRegression"',
            DecodingPipeline(
                [
                    ("covariances", Covariances("oas")),
                    ("tangentspace", TangentSpace()),
                    ("standardscaler", StandardScaler()),
                    ("standardscaler-2", StandardScaler(with_mean=False)),
                    ("classifier", LogisticRegression()),
                ]
            ),
        ),
    ],
    ids=["nested", "dotted path", "steps", "steps of others"],
)
def test_the_estimator_is_that_of_python(tmp_path: Path, text: str, expected: Any) -> None:
    choice = spelled(tmp_path, f'[[methods]]\nlabel = "mine"\n{text}')
    assert type(choice.method) is type(expected)
    assert describe(choice.method) == describe(expected)
    assert choice.title == "mine"


def test_without_a_label_it_is_named_by_its_class(tmp_path: Path) -> None:
    text = '[[methods]]\nclass = "TokenTransformerClassifier"'
    assert spelled(tmp_path, text).title == "TokenTransformerClassifier"
    twice = read(tmp_path, HEAD + text + "\n" + text + "\nn_layers = 2")
    with pytest.raises(EvaluationError, match=r"TokenTransformerClassifier.*label"):
        plan_study(twice)


# ------------------------------------------------------------------ mistakes

TOKENS = "token-log-euclidean"
SECOND = '\n[[methods]]\nname = "mdm"\n'
STEP = '[[methods.steps]]\nclass = "sklearn.svm.SVC"\n'


def mine(text: str) -> str:
    return f'{HEAD}[[methods]]\nname = "mdm"\n[[methods]]\nlabel = "mine"\n{text}\n'


#: A file, the table that is at fault, and what the message must name: culprit and remedy.
MISTAKES: list[tuple[str, str, str]] = [
    # Keys.
    (long(methods="zzz = 1"), "[[methods]]", "'zzz' name, label, bands, device."),
    (long(protocols="fold = 3"), "[[protocols]]", "'fold' 'folds'?"),
    (long(protocols="metric = 'f1'"), "[[protocols]]", "'metric' top"),
    (SHORT.replace('"session-transfer"', '{name = "session-transfer", folds = 5}'),
     "[[protocols]]", "'folds' name, access, domain."),
    # Missing and empty.
    (SHORT.replace('methods = ["ts-lr", "mdm"]', ""), "The study", "methods missing."),
    (SHORT.replace('["ts-lr", "mdm"]', "[]"), "The study", "methods [[methods]] []."),
    (SHORT.replace('["ts-lr", "mdm"]', '["ts-lr", 3]'), "[[methods]] 2", "3."),
    (SHORT.replace('["sim-mi"]', "3"), "The study", "datasets [[datasets]] 3."),
    (SHORT.replace('["sim-mi"]', '[{subjects = ["1"]}]'), "[[datasets]]", "name missing."),
    (SHORT.replace('["sim-mi"]', '[{nam = "sim-mi"}]'), "[[datasets]]", "'nam' 'name'?"),
    (long(datasets="subjects = []"), "[[datasets]]", "subjects []."),
    # Types.
    ('name = ""' + SHORT, "The study", "name ''."),
    (long(methods='epochs = "3"'), "[[methods]]", "epochs '3'."),
    (long(methods="epochs = true"), "[[methods]]", "epochs True."),
    (long(datasets="window = [1]"), "[[datasets]]", "window [0.5, 4], [1]."),
    (long(datasets=f"window = [0, 1{'0' * 400}]"), "[[datasets]]", "window"),
    (long(datasets="stimulus_hz = [0]"), "[[datasets]]", "stimulus_hz 0."),
    (long(datasets="where = 'run'"), "[[datasets]]", "where 'run'."),
    (long(datasets="channels = 'C3'"), "[[datasets]]", "channels 'C3'."),
    (long(datasets="dataset_options = 4"), "[[datasets]]", "dataset_options 4."),
    (long(datasets="dataset_options = {resample = 4}"), "[[datasets]]", "resample"),
    (long(datasets="dataset_options = {tmin = nan}"), "[[datasets]]", "dataset_options"),
    (long(datasets="subjects = [1, '1']"), "[[datasets]]", "'1' twice."),
    (long(changes="dropout = 'much'"), "[methods.changes]", "dropout 'much'."),
    (long(changes="bn_embed = 1"), "[methods.changes]", "bn_embed 1."),
    (long(changes="d_model = 64.0"), "[methods.changes]", "d_model 64.0."),
    (long(methods="bands = [8, 30]"), "[[methods]]", "bands [8, 30]."),
    (long(protocols="folds = 2.5"), "[[protocols]]", "folds 2.5."),
    # Names.
    (SHORT.replace('"mdm"', '"mdn"'), "[[methods]] 2", "'mdn' 'mdm'?"),
    (long(methods='preset = "papre"'), "[[methods]]", "'papre' 'paper'?"),
    (SHORT.replace("session-tr", "session_tr"), "[[protocols]]", "'session-transfer'?"),
    (long(protocols='access = "training"'), "[[protocols]]", "'training' 'train'?"),
    (long(protocols='alignment = "recenter"'), "[[protocols]]", "'recenter' 'recentre'?"),
    (long(protocols='domain = "sesion"'), "[[protocols]]", "'sesion' 'session'?"),
    ('metric = "acuracy"' + SHORT, "The study", "'acuracy' 'accuracy'?"),
    (SHORT.replace("sim-mi", "sim-m"), "[[datasets]]", "'sim-m' 'sim-mi'?"),
    # Paths that raised ValueError, RuntimeError and OSError.
    (SHORT.replace("sim-mi", "a\\u0000b"), "[[datasets]]", "name"),
    (SHORT.replace("sim-mi", "~nobody-of-this-name/x"), "[[datasets]]", "nobody"),
    (SHORT.replace("sim-mi", "a" * 5000), "[[datasets]]", "aaa"),
    # Values.
    ("seeds = []" + SHORT, "The study", "seeds [42, 123], []."),
    ("seeds = 11" + SHORT, "The study", "seeds 11."),
    ("seeds = [1, 1]" + SHORT, "The study", "seeds [1, 1]."),
    (f"seeds = [{2**32}]\n" + SHORT, "The study", "seeds [4294967296]."),
    (long(methods="epochs = 3", changes="epochs = 4"), "[[methods]]", "epochs twice:"),
    (long(methods="covariance = 'oas'\nestimator = 'oas'"), "[[methods]]", "covariance estimator"),
    # Settings that would do nothing.
    (long().replace(TOKENS, "mdm"), "[[methods]]", "changes: mdm"),
    (long(methods="recipe = 'common'"), "[[methods]]", f"recipe: {TOKENS}"),
    (long(protocols=f"{SECOND}epochs = 3"), "[[methods]] 2", "epochs: mdm"),
    # Estimators spelled out.
    (mine('class = "TokenTransformerClasifier"'), "[[methods]] 2", "'TokenTransformerClassifier'"),
    (mine('class = "sklearn.svm.SVC"\nkernal = "rbf"'), "[[methods]] 2", "'kernal' 'kernel'"),
    (mine('class = "pyriemann.classification.MMD"'), "[[methods]] 2", "'MDM'"),
    (mine('class = "pyriemann.clasification.MDM"'), "[[methods]] 2", "pyriemann.clasification"),
    (mine('class = "subprocess.Popen"\nargs = ["ls"]'), "[[methods]] 2", "subprocess.Popen"),
    (mine('class = "sklearn.svm.SVC"\nkernel = {function = "os.system"}'),
     "[[methods]] 2", "os.system"),
    (mine('class = "FilterBankCovariances"'), "[[methods]] 2", "'sfreq'"),
    (mine('class = "sklearn.svm.SVC"\nsteps = []'), "[[methods]] 2", "steps class"),
    (mine("class = 3"), "[[methods]] 2", "'3'"),
    (mine("steps = 3"), "[[methods]] 2", "[[methods.steps]]"),
    (mine('steps = [{name = "ts-lr"}]'), "[[methods]] 2", "[[methods.steps]]"),
    (mine(STEP + STEP), "[[methods]] 2", "SVC last"),
    # What only the data can tell, before anything runs.
    (long(methods="estimator = 0"), "[[methods]]", "estimator 0."),
    (long(datasets='paradigm = "imagery"'), "sim-mi", "'imagery'"),
    (long(datasets="window = [4, 1]"), "sim-mi", "4 1"),
    (long(datasets="classes = ['left hand']"), "sim-mi", "left"),
    (long(datasets="resample = 999"), "sim-mi", "999"),
    (long(datasets="dataset_options = {segments = 4}"), "sim-mi", "'segments' channels,"),
    (long(datasets="dataset_options = {unit = 'uV'}"), "sim-mi", "1 1e-06"),
    (long(datasets="subjects = ['1', 'nobody']"), "sim-mi", "'nobody'"),
    (SHORT.replace('"ts-lr", "mdm"', '"mdm", "xdawn-ts-lr"'), "xdawn-ts-lr", "erp"),
    (SHORT.replace('"ts-lr", ', '{name = "ts-lr", bands = "stimulus"}, '), "ts-lr", "'stimulus'"),
    (long(methods='bands = "broadbands"'), TOKENS, "'broadbands' broadband"),
    (long(methods="bands = [[30, 8]]"), TOKENS, "(30.0, 8.0)"),
    (long(methods='device = "gpu"'), TOKENS, "'gpu'"),
    (SHORT.replace('"ts-lr", ', '{name = "ts-lr", device = "cuda"}, '), "ts-lr", "cuda"),
    (long(changes="n_heads = 3"), TOKENS, "n_heads=3 d_model=128:"),
    (long(changes="learning_rate = 0"), TOKENS, "learning_rate 0.0."),
    (mine('class = "TokenTransformerClassifier"\nn_layers = 0'), "mine", "n_layers 0"),
    (mine('class = "TokenTransformerClassifier"\nlearning_rate = "fast"'), "mine", "str"),
    (mine('class = "NetworkClassifier"\nnetwork = "spdnett"'), "mine", "spdnett"),
    (mine('class = "sklearn.model_selection.KFold"'), "mine", "KFold classifier"),
    (mine(f'[[methods.steps]]\nclass = "FilterBankCovariances"\nsfreq = 125\n{STEP}'),
     "mine", "125 250"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "place", "words"), MISTAKES)
def test_a_mistake_is_named(tmp_path: Path, text: str, place: str, words: str) -> None:
    (told,) = problems(tmp_path, text)
    assert told.startswith(place)
    missing = [word for word in words.split() if word not in told]
    assert not missing, told


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    text = long(
        datasets="subject = ['1']",
        methods="epochs = 0",
        changes="n_layer = 2",
        protocols="acces = 'train'",
    )
    found = problems(tmp_path, "metrics = 'f1'\n" + text)
    wrong = ("'metrics'", "'subject'", "epochs", "'n_layer'", "'acces'")
    assert len(found) == len(wrong)
    assert all(any(word in line for line in found) for word in wrong)
    (tmp_path / "empty").mkdir()
    found = problems(tmp_path, SHORT.replace('"sim-mi"', '"empty", "sim-erp"'))
    assert found[0].startswith(f"{tmp_path / 'empty'}: ")


PLACES = {
    "": config._File,
    "datasets": config._Dataset,
    "methods": config._Method,
    "changes": config._Changes,
}


@pytest.mark.parametrize(
    ("place", "key"), [(place, key) for place in PLACES for key in PLACES[place].model_fields]
)
def test_a_misspelt_key_gets_the_right_one(tmp_path: Path, place: str, key: str) -> None:
    typed = f"{key[:2]}q{key[2:]}"
    text = long(**{place: f"{typed} = 1"}) if place else f"{typed} = 1\n{SHORT}"
    assert any(f"{typed!r}. Did you mean {key!r}?" in line for line in problems(tmp_path, text))


def test_the_old_name_of_the_estimator_is_taken_with_a_warning(tmp_path: Path) -> None:
    with pytest.warns(FutureWarning, match="covariance"):
        study = read(tmp_path, long(methods="covariance = 'oas'"))
    assert study.questions[0].choices[0].settings.estimator == "oas"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"seeds = 3\nmethods = [\nname 3\n", "TOML line 3"),
        # Without a check: a RecursionError, and a ValueError on the number of digits.
        (b"seeds = " + b"[" * 5000, "TOML"),
        (b"seeds = 1" + b"0" * 5000, "TOML"),
        (b'name = "\xe4"', "UTF-8"),
        (None, "no study file"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "study.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StudyError, match=str(path)) as caught:
        read_study(path)
    assert all(word in str(caught.value) for word in words.split())
    with pytest.raises(StudyError, match=str(tmp_path)):
        read_study(tmp_path)


@pytest.mark.parametrize("character", ["\\u001b[2J", "\\n", "\\u202e"])
def test_titles_cannot_command_the_terminal(tmp_path: Path, character: str) -> None:
    (told,) = problems(tmp_path, long(methods=f'label = "mine{character}"'))
    assert told.startswith("[[methods]]: label ")
    assert told.isprintable()


def test_a_mark_at_the_start_of_the_file(tmp_path: Path) -> None:
    """Windows' Notepad writes one."""
    path = tmp_path / "marked.toml"
    path.write_text(SHORT, encoding="utf-8-sig")
    assert read_study(path).questions == read(tmp_path, SHORT).questions
