from __future__ import annotations

import re
from pathlib import Path

import pytest

from spdtokens.classifiers.methods import Settings
from spdtokens.classifiers.nn.recipe import SEEDS, STABILITY_SEEDS
from spdtokens.datasets import Selection, load_dataset
from spdtokens.errors import StudyError
from spdtokens.evaluation.plan import Choice, Source, check_question, plan
from spdtokens.experiments.config import Study, check_study
from tests.experiments.files import SHORT, long, problems, read

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


def test_the_example_of_the_docs_fits_its_data(tmp_path: Path) -> None:
    check_study(read(tmp_path, EXAMPLES[0]))


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
    assert Selection.of(question.selection.values()) == question.selection


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
    assert found[0].startswith(f"{name} has no subject 'nobody'. It has: 1, 2")
    assert found[1] == f"xdawn-ts-lr is made for erp, and {name} is not. Leave it out."
    assert found[-1].startswith("sim-ssvep: sim-ssvep has no class '13'.")
    assert len(found) == len(set(found))


def test_data_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (found,) = misfits(read(tmp_path, SHORT.replace("sim-mi", "empty")))
    assert found.startswith(f"{tmp_path / 'empty'}: ")


def test_a_study_that_fits(tmp_path: Path) -> None:
    check_study(read(tmp_path, SHORT))
