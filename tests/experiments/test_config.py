"""Study files: what they mean, and every mistake told with its place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
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
from spdtokens.datasets import Selection, load_dataset
from spdtokens.errors import StudyError
from spdtokens.evaluation.estimators import describe
from spdtokens.evaluation.plan import Choice, Source, check_question, plan
from spdtokens.experiments import config
from spdtokens.experiments.config import Study, check_study, read_study
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
        Choice("token-log-euclidean"),
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
            'class = "TokenTransformerClassifier"\nn_layers = 2',
            TokenTransformerClassifier(n_layers=2),
        ),
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
    ids=["class", "nested", "dotted path", "steps", "steps of others"],
)
def test_the_estimator_is_that_of_python(tmp_path: Path, text: str, expected: Any) -> None:
    choice = spelled(tmp_path, f'[[methods]]\nlabel = "mine"\n{text}')
    assert type(choice.method) is type(expected)
    assert describe(choice.method) == describe(expected)
    assert choice.title == "mine"


def test_without_a_label_it_is_named_by_its_class(tmp_path: Path) -> None:
    text = '[[methods]]\nclass = "TokenTransformerClassifier"'
    assert spelled(tmp_path, text).title == "TokenTransformerClassifier"
    twice = problems(tmp_path, HEAD + text + "\n" + text + "\nn_layers = 2")
    (found,) = twice
    assert "label" in found
    assert "TokenTransformerClassifier" in found


# ------------------------------------------------------------------ mistakes

TOKENS = "token-log-euclidean"
SECOND = '\n[[methods]]\nname = "mdm"\n'
#: A file, the table that is at fault, and what the message must name: culprit and remedy.
MISTAKES: list[tuple[str, str, str]] = [
    # Keys.
    ("seed = 3" + SHORT, "The study", "'seed' 'seeds'?"),
    (long(methods="epoch = 3"), "[[methods]]", "'epoch' 'epochs'?"),
    (long(changes="layers = 3"), "[methods.changes]", "'layers' 'n_layers'?"),
    (long(methods="zzz = 1"), "[[methods]]", "'zzz' name, label, bands, device."),
    (long(protocols="fold = 3"), "[[protocols]]", "'fold' 'folds'?"),
    (long(protocols="metric = 'f1'"), "[[protocols]]", "'metric' top"),
    (
        SHORT.replace('["session-transfer"]', '[{name = "session-transfer", folds = 5}]'),
        "[[protocols]]",
        "'folds' name, access, domain.",
    ),
    (SHORT + "[[datasets2]]", "The study", "'datasets2' 'datasets'?"),
    # Missing and empty.
    (SHORT.replace('methods = ["ts-lr", "mdm"]', ""), "The study", "methods missing."),
    (SHORT.replace('["ts-lr", "mdm"]', "[]"), "The study", "methods [[methods]] []."),
    (SHORT.replace('["sim-mi"]', "3"), "The study", "datasets [[datasets]] 3."),
    (SHORT.replace('["sim-mi"]', '[{subjects = ["1"]}]'), "[[datasets]]", "name missing."),
    (SHORT.replace('["sim-mi"]', '[{nam = "sim-mi"}]'), "[[datasets]]", "'nam' 'name'?"),
    (long(datasets="subjects = []"), "[[datasets]]", "subjects []."),
    ("seeds = []" + SHORT, "The study", "seeds [42, 123], []."),
    # Types.
    ('name = ""' + SHORT, "The study", "name ''."),
    (long(methods='epochs = "3"'), "[[methods]]", "epochs '3'."),
    (long(methods="epochs = true"), "[[methods]]", "epochs True."),
    (long(datasets="window = [1]"), "[[datasets]]", "window [0.5, 4], [1]."),
    (long(datasets="stimulus_hz = ['a']"), "[[datasets]]", "stimulus_hz ['a']."),
    (long(datasets="where = 'run'"), "[[datasets]]", "where 'run'."),
    (long(changes="dropout = 'much'"), "[methods.changes]", "dropout 'much'."),
    (long(changes="bn_embed = 1"), "[methods.changes]", "bn_embed 1."),
    (long(changes="d_model = 64.0"), "[methods.changes]", "d_model 64.0."),
    (long(methods="bands = [8, 30]"), "[[methods]]", "bands [8, 30]."),
    (long(methods="preset = []"), "[[methods]]", "preset []."),
    (long(protocols="folds = 2.5"), "[[protocols]]", "folds 2.5."),
    (long(datasets=f"window = [0, 1{'0' * 400}]"), "[[datasets]]", "window"),
    # Names.
    (SHORT.replace('"mdm"', '"mdn"'), "[[methods]] 2", "'mdn' 'mdm'?"),
    (long(methods='preset = "papre"'), "[[methods]]", "'papre' 'paper'?"),
    (long(methods='bands = "broadbands"'), "[[methods]]", "'broadbands' 'broadband'?"),
    (long(methods='device = "gpu"'), "[[methods]]", "device cuda:1, 'gpu'."),
    (long(datasets='paradigm = "imagery"'), "[[datasets]]", "'imagery' imagery'?"),
    (
        SHORT.replace("session-transfer", "session_transfer"),
        "[[protocols]]",
        "'session_transfer' 'session-transfer'?",
    ),
    (long(protocols='access = "training"'), "[[protocols]]", "'training' 'train'?"),
    (long(protocols='alignment = "recenter"'), "[[protocols]]", "'recenter' 'recentre'?"),
    (long(protocols='domain = "sesion"'), "[[protocols]]", "'sesion' 'session'?"),
    ('metric = "acuracy"' + SHORT, "The study", "'acuracy' 'accuracy'?"),
    (SHORT.replace("sim-mi", "sim-m"), "[[datasets]]", "'sim-m' 'sim-mi'?"),
    # Values.
    ("seeds = 11" + SHORT, "The study", "seeds 11."),
    ("seeds = [1, 1]" + SHORT, "The study", "seeds [1, 1]."),
    (f"seeds = [{2**32}]\n" + SHORT, "The study", "seeds [4294967296]."),
    (long(datasets="window = [4, 1]"), "[[datasets]]", "window [4.0, 1.0]."),
    (long(datasets="stimulus_hz = [0]"), "[[datasets]]", "stimulus_hz [0]."),
    (long(datasets="channels = 'C3'"), "[[datasets]]", "channels 'C3'."),
    (long(datasets="channels = ['C3', 'C3']"), "[[datasets]]", "'C3' twice."),
    (long(datasets="resample = 0"), "[[datasets]]", "resample 0."),
    (long(datasets="classes = ['left']"), "[[datasets]]", "classes ['left']."),
    (long(datasets="subjects = [1, '1']"), "[[datasets]]", "'1' twice."),
    (long(methods="bands = [[30, 8]]"), "[[methods]]", "(30.0, 8.0)"),
    (long(changes="n_heads = 3"), "[[methods]]", "n_heads=3 d_model=128:"),
    (long(changes="learning_rate = 0"), "[[methods]]", "learning_rate 0.0."),
    (long(methods="epochs = 3", changes="epochs = 4"), "[[methods]]", "epochs twice:"),
    # Settings that would do nothing.
    (long().replace(TOKENS, "mdm"), "[[methods]]", "changes: mdm"),
    (long(methods="recipe = 'common'"), "[[methods]]", f"recipe: {TOKENS}"),
    (long(protocols=f"{SECOND}epochs = 3"), "[[methods]] 2", "epochs: mdm"),
    (long(protocols=f"{SECOND}device = 'cuda'"), "[[methods]] 2", "device: mdm"),
    # The same twice.
    (SHORT.replace("ts-lr", "mdm"), "[[methods]] 1", "2 'mdm'. label."),
    (SHORT.replace('["sim-mi"]', '["sim-mi", "sim-erp", "sim-mi"]'), "[[datasets]] 1", "3"),
    (long(protocols="[[protocols]]\nname = 'blocks'"), "[[protocols]] 1", "2"),
]


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


def test_a_folder_is_no_study_file(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=str(tmp_path)):
        read_study(tmp_path)


MODELS = (config._Top, config._Dataset, config._Method, config._Changes)


def misspellings(word: str) -> set[str]:
    """All with a letter dropped, added or changed, or two neighbours swapped."""
    letters = "abcdefghijklmnopqrstuvwxyz_"
    at = range(len(word))
    found = {word[:i] + word[i + 1 :] for i in at}
    found |= {word[:i] + c + word[i:] for i in (*at, len(word)) for c in letters}
    found |= {word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in at[:-1]}
    return found - {word}


@given(st.data())
def test_a_misspelt_key_gets_the_right_one(data: st.DataObject) -> None:
    model = data.draw(st.sampled_from(MODELS))
    key = data.draw(st.sampled_from(sorted(model.model_fields)))
    typed = data.draw(st.sampled_from(sorted(misspellings(key) - set(model.model_fields))))
    told: list[str] = []
    config._asked(model, {typed: 1}, "[[here]]", told)
    wanted = f"[[here]] has no key {typed!r}. Did you mean {key!r}?"
    assert wanted in told or typed in config._Top.model_fields
    assert f"[[here]]: {key} is missing." not in told


@pytest.mark.parametrize("name", ["a\\u0000b", "~nobody-of-this-name/x", "a" * 5000])
def test_paths_that_no_system_takes(tmp_path: Path, name: str) -> None:
    """They raised ValueError, RuntimeError and OSError."""
    (told,) = problems(tmp_path, SHORT.replace("sim-mi", name))
    assert told.startswith("[[datasets]]: ")


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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('class = "TokenTransformerClasifier"', ["'TokenTransformerClassifier'"]),
        ('class = "TokenTransformerClassifier"\nn_layer = 2', ["'n_layer'", "'n_layers'"]),
        ('class = "pyriemann.classification.MMD"', ["'MDM'"]),
        ('class = "pyriemann.clasification.MDM"', ["pyriemann.clasification"]),
        ('class = "subprocess.Popen"\nargs = ["ls"]', ["subprocess.Popen"]),
        ('class = "os.system"', ["os.system"]),
        ('class = "FilterBankCovariances"', ["'sfreq'"]),
        ('class = "FilterBankCovariances"\nsfreq = 250', ["FilterBankCovariances", "classifier"]),
        ('class = "sklearn.model_selection.KFold"', ["KFold", "classifier"]),
        ('class = "sklearn.svm.SVC"\nname = "svm"', ["SVC", "'name'"]),
        ('class = "sklearn.svm.SVC"\nkernel = {function = "os.system"}', ["os.system"]),
        ('class = "sklearn.svm.SVC"\nsteps = []', ["steps", "class"]),
        ("class = 3", ["'3'"]),
        ("steps = []", ["[[methods.steps]]"]),
        ("steps = 3", ["[[methods.steps]]"]),
        ('steps = ["ts-lr"]', ["[[methods.steps]]"]),
        ('steps = [{name = "ts-lr"}]', ["[[methods.steps]]"]),
        ('[[methods.steps]]\nclass = "TokenEmbedding"', ["TokenEmbedding", "classifier"]),
        (
            '[[methods.steps]]\nclass = "pyriemann.classification.MDM"\n'
            '[[methods.steps]]\nclass = "sklearn.svm.SVC"\nkernal = "rbf"',
            ["'kernal'", "'kernel'"],
        ),
        (
            '[[methods.steps]]\nclass = "sklearn.svm.SVC"\n'
            '[[methods.steps]]\nclass = "sklearn.svm.SVC"',
            ["SVC", "last"],
        ),
    ],
)
def test_mistakes_in_estimators_are_told_with_their_place(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    methods = f'[[methods]]\nname = "mdm"\n[[methods]]\nlabel = "mine"\n{text}\n'
    (found,) = problems(tmp_path, HEAD + methods)
    assert found.startswith("[[methods]] 2: ")
    for word in words:
        assert word in found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('class = "TokenTransformerClassifier"\nn_layers = 0', ["n_layers", "0"]),
        ('class = "TokenTransformerClassifier"\nlearning_rate = "fast"', ["mine"]),
        ('class = "NetworkClassifier"\nnetwork = "spdnett"', ["spdnett"]),
        (
            '[[methods.steps]]\nclass = "FilterBankCovariances"\nsfreq = 125\n'
            '[[methods.steps]]\nclass = "pyriemann.classification.MDM"',
            ["125", "250"],
        ),
    ],
)
def test_values_that_do_not_fit_are_told_before_anything_runs(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    study = read(tmp_path, HEAD + f'[[methods]]\nlabel = "mine"\n{text}')
    with pytest.raises(StudyError) as caught:
        check_study(study)
    for word in words:
        assert word in str(caught.value)


# ------------------------------------------------------------------ what only the data can tell


def misfits(study: Study) -> list[str]:
    with pytest.raises(StudyError) as caught:
        check_study(study)
    head, *rest = str(caught.value).split("\n")
    assert head == f"{study.path} does not fit:"
    return rest


def test_what_does_not_fit_the_data(tmp_path: Path) -> None:
    text = """
    methods = ["mdm", "xdawn-ts-lr", {name = "ts-lr", bands = "stimulus"}]
    protocols = ["session-transfer", "blocks"]
    datasets = [
        {name = "sim-mi", subjects = ["1", "nobody"]},
        {name = "sim-erp"},
        {name = "sim-ssvep", classes = ["13", "up"]},
    ]
    """
    name = load_dataset("sim-mi").name
    found = misfits(read(tmp_path, text))
    for line, words in zip(found, ([name, "'nobody'"], ["xdawn-ts-lr", name]), strict=False):
        assert all(word in line for word in words)
    assert "sim-ssvep" in found[-1]
    assert "'13'" in found[-1]
    assert len(found) == len(set(found))


def test_data_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (found,) = misfits(read(tmp_path, SHORT.replace("sim-mi", "empty")))
    assert found.startswith(f"{tmp_path / 'empty'}: ")
