from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdtokens.errors import StudyError
from spdtokens.experiments.choices import CHANGEABLE
from spdtokens.experiments.choices import KEYS as METHOD_KEYS
from spdtokens.experiments.config import read_study
from spdtokens.experiments.reading import TOP, Table
from tests.experiments.files import SHORT, long, problems, read

TOKENS = "token-log-euclidean"
SECOND = '\n[[methods]]\nname = "mdm"\n'
MISTAKES: list[tuple[str, str]] = [
    # Keys.
    ("seed = 3" + SHORT, "The study has no key 'seed'. Did you mean 'seeds'?"),
    (
        long(methods="epoch = 3"),
        "[[methods]] has no key 'epoch'. Did you mean 'epochs'?",
    ),
    (
        long(changes="layers = 3"),
        "[methods.changes] has no key 'layers'. Did you mean 'n_layers'?",
    ),
    (
        long(methods="zzz = 1"),
        "[[methods]] has no key 'zzz'. It has: name, label, bands, estimator, preset, changes, "
        "recipe, epochs, device.",
    ),
    (
        long(protocols="fold = 3"),
        "[[protocols]] has no key 'fold'. Did you mean 'folds'?",
    ),
    (
        long(protocols="metric = 'f1'"),
        "[[protocols]] has no key 'metric'. 'metric' belongs at the top of the file, before the "
        "first table.",
    ),
    (
        SHORT.replace('["session-transfer"]', '[{name = "session-transfer", folds = 5}]'),
        "[[protocols]] has no key 'folds'. It has: name, access, alignment, domain.",
    ),
    # Missing and empty.
    (SHORT.replace('methods = ["ts-lr", "mdm"]', ""), "The study: methods is missing."),
    (
        SHORT.replace('["ts-lr", "mdm"]', "[]"),
        'The study: methods is [[methods]] tables, or a list of names such as methods = ["ts-lr", '
        '"mdm"], not [].',
    ),
    (
        SHORT.replace('["sim-mi"]', "3"),
        "The study: datasets is [[datasets]] tables, or a list of names such as datasets = "
        '["sim-mi"], not 3.',
    ),
    (SHORT + "[[datasets2]]", "The study has no key 'datasets2'. Did you mean 'datasets'?"),
    (
        SHORT.replace('["sim-mi"]', '[{subjects = ["1"]}]'),
        "[[datasets]]: name is missing.",
    ),
    (
        long(datasets="subjects = []"),
        '[[datasets]]: subjects is a list of names, such as ["1", "2"], not [].',
    ),
    (
        "seeds = []" + SHORT,
        "The study: seeds is how many of the paper's to take, 1 to 10, or a list "
        "such as [42, 123], not [].",
    ),
    # Types.
    ('name = ""' + SHORT, 'The study: name is printable text in quotes, not "".'),
    (
        long(methods='epochs = "3"'),
        '[[methods]]: epochs is a whole number of at least 1, not "3".',
    ),
    (
        long(methods="epochs = true"),
        "[[methods]]: epochs is a whole number of at least 1, not true.",
    ),
    (
        long(datasets="window = [1]"),
        "[[datasets]]: window is a list of two numbers, such as [0.5, 4], not [1].",
    ),
    (
        long(datasets="stimulus_hz = ['a']"),
        "[[datasets]]: stimulus_hz is a list of numbers, such as [13, 17, 21], not ['a'].",
    ),
    (
        long(datasets="where = 'run'"),
        '[[datasets]]: where is a table of names and values, such as {run = "1"}, not "run".',
    ),
    (
        long(changes="dropout = 'much'"),
        '[methods.changes]: dropout is a number, not "much".',
    ),
    (
        long(changes="bn_embed = 1"),
        "[methods.changes]: bn_embed is true or false, not 1.",
    ),
    (
        long(changes="d_model = 64.0"),
        "[methods.changes]: d_model is a whole number of at least 1, not 64.0.",
    ),
    (
        long(methods="bands = [8, 30]"),
        "[[methods]]: bands is the name of a preset or a list of pairs in Hz, such as [[8, 13], "
        "[13, 30]], not [8, 30].",
    ),
    (
        long(protocols="folds = 2.5"),
        "[[protocols]]: Protocol blocks: folds must be a whole number >= 2, got 2.5.",
    ),
    # Names.
    (
        SHORT.replace('"mdm"', '"mdn"'),
        "[[methods]] 2: there is no method 'mdn'. Did you mean 'mdm'?",
    ),
    (
        long(methods='preset = "papre"'),
        "[[methods]]: there is no preset 'papre'. Did you mean 'paper'?",
    ),
    (
        long(methods='bands = "broadbands"'),
        "[[methods]]: there is no preset of bands 'broadbands'. Did you mean 'broadband'?",
    ),
    (
        long(methods='device = "gpu"'),
        "[[methods]]: device is 'auto', 'cpu', 'cuda' or 'cuda:1', not 'gpu'.",
    ),
    (
        long(datasets='paradigm = "imagery"'),
        "[[datasets]]: there is no paradigm 'imagery'. Did you mean 'motor imagery'?",
    ),
    (
        SHORT.replace("session-transfer", "session_transfer"),
        "[[protocols]]: there is no protocol 'session_transfer'. Did you mean 'session-transfer'?",
    ),
    (
        long(protocols='access = "training"'),
        "[[protocols]]: there is no access 'training'. Did you mean 'train'?",
    ),
    (
        long(protocols='alignment = "recenter"'),
        "[[protocols]]: there is no alignment 'recenter'. Did you mean 'recentre'?",
    ),
    (
        long(protocols='domain = "sesion"'),
        "[[protocols]]: there is no domain 'sesion'. Did you mean 'session'?",
    ),
    (
        'metric = "acuracy"' + SHORT,
        "The study: there is no metric 'acuracy'. Did you mean 'accuracy'?",
    ),
    # Values.
    (
        "seeds = 11" + SHORT,
        "The study: seeds = 11 is more than the paper's 10. List your own: seeds = [1, 2, 3].",
    ),
    (
        "seeds = [1, 1]" + SHORT,
        "The study: seeds are different and not negative, and below 2^32, unlike [1, 1].",
    ),
    (
        long(datasets="window = [4, 1]"),
        "[[datasets]]: the window ends at 1 s, before it begins at 4 s.",
    ),
    (long(datasets="stimulus_hz = [0]"), "[[datasets]]: stimulus_hz are frequencies above 0."),
    (
        long(datasets="channels = 'C3'"),
        '[[datasets]]: channels is "common" or a list of different names, such as ["C3", "C4"], '
        'not "C3".',
    ),
    (
        long(datasets="resample = 0"),
        "[[datasets]]: resample must be a rate above 0 Hz, got 0.",
    ),
    (
        long(datasets="classes = ['left']"),
        "[[datasets]]: name two or more different classes, not left.",
    ),
    (long(datasets="subjects = [1, '1']"), "[[datasets]]: subject '1' is named twice."),
    (
        long(methods="bands = [[30, 8]]"),
        "[[methods]]: Band (30.0, 8.0): the low edge must be below the high one, none negative.",
    ),
    (
        long(changes="n_heads = 3"),
        "[methods.changes]: n_heads=3 does not divide d_model=128: every head gets an equal part "
        "of the width. Heads that fit: 1, 2, 4, 8, 16, 32, 64, 128.",
    ),
    (
        long(changes="learning_rate = 0"),
        "[methods.changes]: learning_rate is positive, not 0.0.",
    ),
    (
        long(methods="epochs = 3", changes="epochs = 4"),
        "[[methods]]: epochs is given twice: leave it out of the changes.",
    ),
    # Settings that would do nothing.
    (
        long().replace(TOKENS, "mdm"),
        "[[methods]]: changes of mdm are for token transformers, as values of their preset. Leave "
        "changes out.",
    ),
    (
        long(methods="recipe = 'common'"),
        f"[[methods]]: recipe of {TOKENS} is for other networks; token transformers have a preset. "
        "Leave recipe out.",
    ),
    (
        long(protocols=f"{SECOND}epochs = 3"),
        "[[methods]] 2: epochs of mdm is for networks. Leave epochs out.",
    ),
    (
        long(protocols=f"{SECOND}device = 'cuda'"),
        "[[methods]] 2: device of mdm is for networks. Leave device out.",
    ),
    # The same twice.
    (
        SHORT.replace("ts-lr", "mdm"),
        "[[methods]] 1 and 2 are both called 'mdm'; give each a label of its own.",
    ),
    (
        SHORT.replace('["sim-mi"]', '["sim-mi", "sim-erp", "sim-mi"]'),
        "[[datasets]] 3 is the same as 1. Leave it out.",
    ),
    (
        long(protocols="[[protocols]]\nname = 'blocks'"),
        "[[protocols]] 2 is the same as 1. Leave it out.",
    ),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES, ids=[m[:60] for _, m in MISTAKES])
def test_a_mistake_is_named(tmp_path: Path, text: str, message: str) -> None:
    assert problems(tmp_path, text) == [message]


def test_the_file_without_mistakes_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, long()).questions[0].choices[0].settings.changes == {"n_layers": 2}


def test_a_data_set_that_is_nowhere(tmp_path: Path) -> None:
    assert problems(tmp_path, SHORT.replace("sim-mi", "sim-m")) == [
        f"[[datasets]]: there is no data set 'sim-m', and no file or folder {tmp_path / 'sim-m'}. "
        "Did you mean 'sim-mi'?"
    ]


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    text = long(
        datasets="subject = ['1']",
        methods="epochs = 0",
        changes="n_layer = 2",
        protocols="acces = 'train'",
    )
    assert problems(tmp_path, "metrics = 'f1'\n" + text) == [
        "The study has no key 'metrics'. Did you mean 'metric'?",
        "[[datasets]] has no key 'subject'. Did you mean 'subjects'?",
        "[methods.changes] has no key 'n_layer'. Did you mean 'n_layers'?",
        "[[methods]]: epochs is a whole number of at least 1, not 0.",
        "[[protocols]] has no key 'acces'. Did you mean 'access'?",
    ]


def test_syntax_is_told_with_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(StudyError) as caught:
        read(tmp_path, "seeds = 3\nmethods = [\nname 3\n")
    assert str(caught.value).startswith(f"{tmp_path / 'study.toml'} is not TOML: ")
    assert "line 3" in str(caught.value)


@pytest.mark.parametrize("value", ["[" * 5000, "1" + "0" * 5000])
def test_values_beyond_python(tmp_path: Path, value: str) -> None:
    """Without a check: a RecursionError, and a ValueError on the number of digits."""
    with pytest.raises(StudyError, match="is not TOML"):
        read(tmp_path, f"seeds = {value}")


def test_numbers_beyond_floats(tmp_path: Path) -> None:
    """Without a check: an OverflowError."""
    found = problems(tmp_path, long(datasets=f"window = [0, 1{'0' * 400}]"))
    assert found[0].startswith("[[datasets]]: window is a list of two numbers")
    assert problems(tmp_path, f"seeds = [{2**32}]\n" + SHORT) == [
        "The study: seeds are different and not negative, and below 2^32, unlike [4294967296]."
    ]


def test_a_preset_that_is_a_list(tmp_path: Path) -> None:
    """Without a check: a TypeError, as lists have no hash."""
    found = problems(tmp_path, long(methods="preset = []"))
    assert found[0] == "[[methods]]: preset is printable text in quotes, not []."


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"There is no study file .*no\.toml"):
        read_study(tmp_path / "no.toml")
    with pytest.raises(StudyError, match=r"cannot be read: Is a directory"):
        read_study(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe4"')
    with pytest.raises(StudyError, match=r"latin\.toml is not text in UTF-8"):
        read_study(tmp_path / "latin.toml")


# ------------------------------------------------------------------ misspelt keys

PLACES = {
    "The study": TOP,
    "[[datasets]]": (
        "name",
        "subjects",
        "paradigm",
        "stimulus_hz",
        "window",
        "classes",
        "where",
        "channels",
        "resample",
    ),
    "[[methods]]": METHOD_KEYS,
    "[methods.changes]": tuple(CHANGEABLE),
    "[[protocols]]": ("name", "folds", "ungrouped", "access", "alignment", "domain"),
}


def misspellings(word: str) -> set[str]:
    """All with a letter dropped, added or changed, or two neighbours swapped."""
    letters = "abcdefghijklmnopqrstuvwxyz_"
    at = range(len(word))
    found = {word[:i] + word[i + 1 :] for i in at}
    found |= {word[:i] + c + word[i:] for i in (*at, len(word)) for c in letters}
    found |= {word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in at[:-1]}
    return found - {word}


@pytest.mark.parametrize("place", PLACES)
def test_every_misspelling_of_a_key_gets_the_right_one(place: str) -> None:
    wrong: dict[str, Any] = {}
    for key in PLACES[place]:
        for typed in misspellings(key) - set(PLACES[place]) - set(TOP):
            found: list[str] = []
            Table({typed: 1}, place, found).only(PLACES[place])
            if found != [f"{place} has no key {typed!r}. Did you mean {key!r}?"]:
                wrong[typed] = (key, found)
    assert wrong == {}


@given(st.data())
def test_a_misspelt_key_in_a_file(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp()
    key, value = data.draw(
        st.sampled_from([("label", "'x'"), ("epochs", "3"), ("device", "'cpu'")])
    )
    typed = data.draw(st.sampled_from(sorted(misspellings(key))))
    assert problems(folder, long(methods=f"{typed} = {value}")) == [
        f"[[methods]] has no key {typed!r}. Did you mean {key!r}?"
    ]


@pytest.mark.parametrize("name", ["a\\u0000b", "~nobody-of-this-name/x", "a" * 5000])
def test_paths_that_no_system_takes(tmp_path: Path, name: str) -> None:
    """They raised ValueError, RuntimeError and OSError."""
    (told,) = problems(tmp_path, SHORT.replace("sim-mi", name))
    assert told.startswith(("The study: datasets is", "[[datasets]]: there is no data set"))


@pytest.mark.parametrize("character", ["\\u001b[2J", "\\n", "\\u202e"])
def test_titles_cannot_command_the_terminal(tmp_path: Path, character: str) -> None:
    (told,) = problems(tmp_path, long(methods=f'label = "mine{character}"'))
    assert told.startswith("[[methods]]: label is printable text")
    assert told.isprintable()


def test_a_mark_at_the_start_of_the_file(tmp_path: Path) -> None:
    """Windows' Notepad writes one."""
    path = tmp_path / "marked.toml"
    path.write_text(SHORT, encoding="utf-8-sig")
    assert read_study(path).questions == read(tmp_path, SHORT).questions
