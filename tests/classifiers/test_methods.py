"""What every method must do, on an easy simulated subject of its paradigm."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from functools import cache
from io import StringIO

import numpy as np
import pytest
from rich.console import Console
from sklearn.base import BaseEstimator

from spdtokens import (
    NetworkClassifier,
    TokenMLPClassifier,
    TokenTransformerClassifier,
    load_dataset,
    make_decoder,
)
from spdtokens._extras import how_to_install
from spdtokens.classifiers import methods
from spdtokens.classifiers.methods import METHODS, PRESETS, Method, Settings, get_method
from spdtokens.classifiers.nn import SMALL, STANDARD
from spdtokens.classifiers.nn.networks import NETWORKS, SHAPES
from spdtokens.datasets import Dataset, Recording
from spdtokens.errors import MethodError, ModelError, SignalError, UserError
from spdtokens.evaluation import Choice, evaluate
from spdtokens.evaluation.estimators import steps_of, with_seed
from spdtokens.evaluation.summary import summary_table
from spdtokens.geometry import EMBEDDINGS, token_dim
from spdtokens.preprocessing import resolve_bands
from spdtokens.preprocessing.bands import BandSpec, check_band

SFREQ, CHANNELS = 128.0, 8
# Small and short: the contract is about behaviour, not about accuracy.
SETTINGS = Settings(
    epochs=25,
    changes={"d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 32, "learning_rate": 5e-3},
    recipe="common",
)


# Slow and quick to learn; quick and slow to learn.
EPOCHS = {"matt": 6, "tsmnet": 6, "atcnet": 15, "eeg-conformer": 15, "deepnet": 15, "spdnet": 150}
EPOCHS |= {"eegnet-paper": 80, "atcnet-paper": 15}


def oscillations(session: int, n: int = 128) -> tuple[np.ndarray, np.ndarray]:
    """Rhythms of 10 Hz over one of two places, whose strength is the class."""
    rng = np.random.default_rng(session)
    t = np.arange(192) / SFREQ
    y = rng.permutation(np.arange(n) % 2)
    X = rng.standard_normal((n, CHANNELS, len(t)))
    for trial, label in zip(X, y, strict=True):
        trial[2 + 3 * label] += 3 * np.sin(2 * np.pi * 10 * t + rng.uniform(0, 6.3))
    return 1e-5 * X, y


def potentials(session: int, n: int = 128) -> tuple[np.ndarray, np.ndarray]:
    """A wave at 0.3 s, or none."""
    rng = np.random.default_rng(session)
    t = np.arange(128) / SFREQ
    y = rng.permutation(np.arange(n) % 2)
    X = rng.standard_normal((n, CHANNELS, len(t)))
    wave = np.exp(-(((t - 0.3) / 0.08) ** 2))
    X[:, :4] += 3 * y[:, None, None] * wave
    return 1e-5 * X, y


@cache
def easy(paradigm: str) -> Dataset:
    make = potentials if paradigm == "erp" else oscillations

    def read(subject: str, session: str) -> Recording:
        X, y = make(int(session))
        return Recording(subject, session, X, y, np.full(len(y), "0"), np.arange(len(y)))

    return Dataset(
        name=f"easy {paradigm}",
        description="",
        paradigm=paradigm,
        classes=("a", "b"),
        ch_names=tuple(f"E{i}" for i in range(CHANNELS)),
        sfreq=SFREQ,
        tmin=0.0,
        window=(0.0, 1.0 if paradigm == "erp" else 1.5),
        index={"1": ("1", "2")},
        read=read,
    )


def settings_for(method: Method) -> Settings:
    return replace(SETTINGS, changes={}) if method.name == "recommended" else SETTINGS


def fitted(name: str, seed: int = 1):
    method = get_method(name)
    dataset = easy(method.only_for or "motor imagery")
    train = dataset.load("1", "1")
    epochs = EPOCHS.get(name, SETTINGS.epochs)
    model = method.make(dataset, replace(settings_for(method), epochs=epochs))
    return with_seed(model, seed).fit(train.X, train.y), dataset.load("1", "2")


def with_reason(method: Method) -> object:
    """A method as a parameter of a test, skipped where its extra is not installed."""
    if method.extra is None or method.installed:
        return method.name
    reason = f"needs {how_to_install(method.extra)}"
    return pytest.param(method.name, marks=pytest.mark.skip(reason=reason))


every_method = pytest.mark.parametrize("name", [with_reason(m) for m in METHODS.values()])


@every_method
def test_contract(name: str) -> None:
    model, test = fitted(name)
    predicted = model.predict(test.X)
    assert predicted.shape == (128,)
    # A fair coin reaches 0.62 of 128 trials less than once in 200 times.
    assert (predicted == test.y).mean() > 0.62
    again, _ = fitted(name)
    np.testing.assert_array_equal(again.predict(test.X), predicted)
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict(test.X), predicted)
    if METHODS[name].has_seed:
        other, _ = fitted(name, seed=2)
        assert not np.array_equal(other.predict_proba(test.X), model.predict_proba(test.X))


@every_method
def test_bad_input_is_refused(name: str) -> None:
    method = get_method(name)
    dataset = easy(method.only_for or "motor imagery")
    train = dataset.load("1", "1")
    model = method.make(dataset, settings_for(method))
    holes = train.X.copy()
    holes[3, 1, 5] = np.nan
    with pytest.raises(UserError, match="3"):  # the trial is named
        model.fit(holes, train.y)
    if name == "ts-lda":
        return  # scikit-learn's discriminant analysis is content with one class
    with pytest.raises(ValueError, match=r"class|label"):
        model.fit(train.X, np.zeros(128, dtype=int))


@pytest.mark.parametrize("name", [with_reason(m) for m in METHODS.values() if m.counts])
def test_counts_for_tables_are_those_of_torch(name: str) -> None:
    found = []
    for preset, shape in zip(("paper", "paper", "paper-small"), SHAPES.values(), strict=True):
        if name in NETWORKS:
            module = NETWORKS[name].build(shape)
        else:
            small = name != "spd-token-mlp"
            made = TokenTransformerClassifier(**PRESETS[preset]) if small else TokenMLPClassifier()
            module = made._module(token_dim(shape.n_chans), shape.n_tokens, shape.n_outputs)
        found.append(sum(p.numel() for p in module.parameters()))
    assert tuple(found) == METHODS[name].counts


def test_what_the_registry_repeats_agrees() -> None:
    assert tuple(EMBEDDINGS) == tuple(methods.EMBEDDINGS)
    small = dict(PRESETS["paper-small"])
    assert small.pop("batch_size") == 32
    assert replace(STANDARD, **small) == SMALL


def test_the_registry_waits_for_no_library() -> None:
    heavy = "{'torch', 'sklearn', 'scipy', 'mne', 'pyriemann', 'pandas', 'matplotlib'}"
    code = f"import sys, spdtokens.classifiers.methods; print(*{heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_methods_say_where_they_do_not_apply() -> None:
    matrices = replace(easy("motor imagery"), is_covariance=True, sfreq=None)
    assert get_method("eegnet").why_not(matrices) is not None
    assert get_method("ts-lr").why_not(matrices) is None
    assert get_method("xdawn-ts-lr").why_not(easy("motor imagery")) is not None
    with pytest.raises(MethodError, match=r"Matt .*easy motor imagery"):
        get_method("matt").make(matrices, SETTINGS)
    with pytest.raises(MethodError, match=r"csp.*recommended"):
        get_method("csp")


def test_a_method_without_its_extra_is_refused_before_any_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    method = get_method("tsmnet")
    assert method.extra == "baselines"
    assert get_method("eegnet").extra is None
    monkeypatch.setitem(sys.modules, "spd_learn", None)  # as if it were not installed
    assert not method.installed
    assert get_method("eegnet").installed

    def read(*_which: str) -> Recording:
        raise AssertionError("data were read")

    dataset = replace(easy("motor imagery"), read=read)
    command = r"pip install 'spdtokens\[baselines\]'"
    with pytest.raises(MethodError, match=f"Tsmnet is not installed .*{command}"):
        method.make(dataset, SETTINGS)
    with pytest.raises(MethodError, match=command):
        evaluate(dataset, [Choice(name, SETTINGS) for name in ("ts-lr", "tsmnet")])
    with pytest.raises(ModelError, match=command):
        NetworkClassifier("tsmnet", sfreq=SFREQ).fit(np.zeros((4, 2, 64)), [0, 1, 0, 1])
    marks = with_reason(method).marks  # type: ignore[attr-defined]
    assert "spdtokens[baselines]" in marks[0].kwargs["reason"]


def slow(paradigm: str) -> Dataset:
    """At 48 Hz, which reaches neither 30 nor 40 Hz."""
    X, y = (array[:48] for array in oscillations(0))
    recording = Recording("1", "1", X[..., ::2], y, np.repeat(["1", "2"], 24), np.arange(48))
    frequencies = (10.0, 15.0) if paradigm == "ssvep" else ()
    return replace(
        easy("motor imagery"),
        paradigm=paradigm,
        sfreq=48.0,
        window=(0.0, 2.0),
        index={"1": ("1",)},
        read=lambda *_: recording,
        stimulus_hz=frequencies,
    )


def bands_of(estimator: BaseEstimator) -> BandSpec:
    """Of the step that has signals."""
    return next(step.bands for step in steps_of(estimator) if hasattr(step, "bands"))


@pytest.mark.parametrize("paradigm", ["motor imagery", "ssvep", "erp", "other"])
@pytest.mark.parametrize("name", sorted(METHODS))
def test_bands_that_are_asked_for_are_used(name: str, paradigm: str) -> None:
    asked = [(8.0, 12.0), (12.0, 20.0)]
    method, dataset = METHODS[name], slow(paradigm)
    if method.only_for not in (None, paradigm):
        with pytest.raises(MethodError, match="only to"):
            method.make(dataset, Settings(bands=asked))
        return
    found, told = (f(dataset, Settings(bands=asked)) for f in (method.make, method.bands_cut))
    if method.own_bands is not None:
        assert bands_of(found) == bands_of(method.make(dataset))
        assert "not used" in told[0]
    else:
        assert (bands_of(found), told) == (asked, [])


@pytest.mark.parametrize("paradigm", ["motor imagery", "ssvep", "erp", "other"])
@pytest.mark.parametrize("name", sorted(METHODS))
def test_default_bands_fit_the_sampling_rate(name: str, paradigm: str) -> None:
    method, dataset = METHODS[name], slow(paradigm)
    if method.only_for not in (None, paradigm):
        return
    frequencies, fast = dataset.stimulus_hz, replace(dataset, sfreq=128.0)
    bands, wanted = (
        resolve_bands(bands_of(method.make(data)), frequencies, 2.0) for data in (dataset, fast)
    )
    for band in bands:
        check_band(band, 48.0, 2.0)
    cut = method.bands_cut(dataset, Settings())
    assert len(cut) == sum((band.high or 0) >= 24 for band in wanted)
    assert {band.low for band in bands} <= {band.low for band in wanted}
    assert method.bands_cut(fast, Settings()) == []


@pytest.mark.parametrize("name", ["recommended", "ts-lr", "fb-ts-lr", "token-log-euclidean"])
def test_a_slow_recording_is_evaluated_and_the_table_says_what_was_cut(name: str) -> None:
    settings = Settings() if name == "recommended" else replace(SETTINGS, epochs=1)
    found = evaluate(slow("motor imagery"), Choice(name, settings), "leave-one-run-out", seeds=1)
    (row,) = found.rows
    assert "24 Hz" in row.note
    assert row.values()["note"] == row.note
    console = Console(width=200, record=True, file=StringIO())
    console.print(summary_table(found.rows, found.question, "slow"))
    assert row.note in " ".join(console.export_text().split())
    with pytest.raises(SignalError, match="4-40 Hz"):
        evaluate(
            slow("motor imagery"),
            Choice(name, replace(settings, bands="broadband")),
            "leave-one-run-out",
            seeds=1,
        )


@pytest.mark.parametrize("name", ["recommended", "ts-lr"])
def test_a_device_that_is_not_used_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    choice = Choice(name, Settings(device="cuda"))
    with pytest.raises(ModelError, match="cuda"):
        evaluate(easy("motor imagery"), choice)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    with pytest.raises(ModelError, match=f"device='cuda'.*{name}"):
        evaluate(easy("motor imagery"), choice)


def test_recommended_is_the_decoder_of_the_paradigm() -> None:
    method = get_method("recommended")
    for name in ("sim-mi", "sim-erp", "sim-ssvep"):
        dataset = load_dataset(name)
        expected = make_decoder(
            dataset.paradigm,
            sfreq=dataset.sfreq,
            tmin=dataset.tmin,
            window=dataset.window,
            stimulus_hz=dataset.stimulus_hz,
        )
        recording = dataset.load(dataset.subjects[0], dataset.sessions(dataset.subjects[0])[0])
        X, y = recording.X[:60], recording.y[:60]
        found = method.make(dataset).fit(X, y).predict_proba(X)
        np.testing.assert_allclose(found, expected.fit(X, y).predict_proba(X), atol=1e-9)
        own = method.make(dataset, Settings(bands="paper3", estimator="lwf"))["filterbank"]
        assert (own.bands, own.estimator) == ("paper3", "lwf")
    unknown = replace(load_dataset("sim-ssvep"), stimulus_hz=())
    with pytest.raises(ModelError, match="flicker frequencies"):
        method.make(unknown)


def test_ingredients_of_recommended_can_be_changed_one_by_one() -> None:
    dataset, method = load_dataset("sim-erp"), get_method("recommended")
    plain = method.make(dataset).get_params()
    assert plain["classifier__gains"] is None  # rows of matrices are not channels
    filterbank = {"delays": (), "cross_fit": 1, "n_filters": 2, "filtering": "causal"}
    classifier = {"ridge": 0.1, "embedding": "affine_invariant", "gains": (0.1, 0.06)}
    made = method.make(dataset, Settings(changes=filterbank | classifier)).get_params()
    changed = {name for name, value in made.items() if name in plain and value != plain[name]}
    wanted = {f"filterbank__{name}": value for name, value in filterbank.items()}
    wanted |= {f"classifier__{name}": value for name, value in classifier.items()}
    assert {name: made[name] for name in wanted} == wanted
    assert changed == {*wanted, "steps", "filterbank", "classifier"}
    isometric = method.make(dataset, Settings(changes={"isometric": True}))["classifier"]
    assert isometric.embedding.isometric
    assert isometric.embedding.names == ("auto",)  # test_discriminant.py has what that means
    matrices = replace(dataset, is_covariance=True, sfreq=None)
    for data in (dataset, matrices):
        with pytest.raises(MethodError, match=r"n_layers.*windows"):
            method.make(data, Settings(changes={"n_layers": 2}))


def test_presets_of_the_token_transformer() -> None:
    paper = get_method("token-log-euclidean").make(easy("motor imagery"))["classifier"]
    assert (paper.d_model, paper.n_layers, paper.n_heads, paper.d_ff) == (128, 6, 8, 256)
    assert (paper.dropout, paper.bn_embed, paper.embedding) == (0.1, True, "log_euclidean")
    assert (paper.epochs, paper.batch_size, paper.learning_rate) == (50, 64, 1e-3)
    assert (paper.weight_decay, paper.keep, paper.patience) == (0.0, "last", None)
    small = PRESETS["paper-small"]
    assert (small["d_model"], small["n_layers"], small["n_heads"]) == (64, 4, 4)
    assert (small["d_ff"], small["batch_size"]) == (128, 32)
    changed = Settings(preset="paper-small", epochs=100, changes={"n_layers": 2}).transformer()
    assert changed == small | {"epochs": 100, "n_layers": 2}
    # Where a recipe chooses an epoch, trials are held back for it.
    assert Settings(changes={"keep": "best"}).transformer()["validation"] == 0.125
    assert Settings(changes={"patience": 3, "validation": 0.3}).transformer()["validation"] == 0.3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (Settings(preset="best"), "best.*paper"),
        (Settings(changes={"heads": 3}), "'heads'"),
        (Settings(changes={"n_heads": 3}), "n_heads=3"),
        (Settings(epochs=0), "epochs"),
    ],
)
def test_bad_settings_are_refused(settings: Settings, message: str) -> None:
    with pytest.raises(UserError, match=message):
        get_method("token-log-euclidean").make(easy("motor imagery"), settings)


@pytest.mark.parametrize("name", ["ts-lr", "recommended", "token-euclidean", "spdnet"])
def test_covariances_are_estimated_as_asked(name: str) -> None:
    method, dataset = get_method(name), easy("motor imagery")
    own = method.make(dataset)["filterbank"].estimator
    assert own == {"ts-lr": "oas", "recommended": "oas"}.get(name, "sample")
    assert method.make(dataset, Settings(estimator="lwf"))["filterbank"].estimator == "lwf"
    with pytest.raises(MethodError, match="best"):
        method.make(dataset, Settings(estimator="best"))
    matrices = replace(dataset, is_covariance=True, sfreq=None)
    assert "filterbank" not in method.make(matrices).named_steps


def test_settings_of_other_networks() -> None:
    dataset, settings = easy("motor imagery"), Settings(epochs=7, recipe="common", device="cpu")
    for name in ("eegnet", "spdnet", "spd-token-mlp"):
        model = get_method(name).make(dataset, settings)["classifier"]
        assert (model.epochs, model.device) == (7, "cpu")
        assert isinstance(model, TokenMLPClassifier) or model.recipe == "common"


# Spatial filters.


@pytest.mark.parametrize(
    ("time", "wanted"),
    [
        ((0.0, 2.0), [(0.0, 1.0), (0.5, 1.5), (1.0, 2.0)]),
        ((0.5, 2.6), [(0.5, 1.5), (1.0, 2.0), (1.5, 2.5)]),
        ((-0.2, 1.3), [(-0.2, 0.8), (0.3, 1.3)]),
        ((0.0, 1.4), [(0.0, 1.4)]),
        ((0.0, 0.8), [(0.0, 0.8)]),
    ],
)
def test_windows_of_equal_length(
    time: tuple[float, float], wanted: list[tuple[float, float]]
) -> None:
    np.testing.assert_allclose(methods.sliding(*time, 1.0, 0.5), wanted)


def test_rounding_does_not_cost_a_window() -> None:
    assert len(methods.sliding(0.1, 0.1 + 0.2 + 0.3, 0.3, 0.1)) == 3


SIDES = ["left_fist", "right_fist"]


def test_channels_on_the_other_side_of_the_head() -> None:
    names = ["Fp1", "FP2", "C3", "Cz", "c4", "T9", "T10", "FCz", "FFC3h", "FFC4h", "PO7", "PO8"]
    mirror, pairs = methods.mirrored(names, SIDES)
    assert mirror is not None
    other = [names[i] for i in mirror]
    assert other == [
        *("FP2", "Fp1", "c4", "Cz", "C3", "T10", "T9", "FCz", "FFC4h", "FFC3h", "PO8", "PO7")
    ]
    assert pairs == [(0, 1)]


@pytest.mark.parametrize(
    ("classes", "pairs"),
    [
        (["right hand", "feet", "left hand"], [(2, 0)]),
        (["Left", "RIGHT"], [(0, 1)]),
        (["left_fist", "left_foot", "right_foot", "right_fist"], [(0, 3), (1, 2)]),
    ],
)
def test_classes_of_the_other_side(classes: list[str], pairs: list[tuple[int, int]]) -> None:
    assert methods.mirrored(["C3", "C4"], classes) == ([1, 0], pairs)


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        (["C3", "Cz"], SIDES),  # no C4
        (["C3", "C4"], ["left", "feet"]),  # no right
        (["C3", "C4"], ["769", "770"]),  # may stand for sides
        (["E1", "E2"], SIDES),  # numbered, not by side
        (["EEG 1", "EEG 2"], SIDES),
        (["A", "B"], SIDES),
        (["Fc3.", "Fc4."], SIDES),
    ],
)
def test_what_cannot_be_mirrored(names: list[str], classes: list[str]) -> None:
    assert methods.mirrored(names, classes) == (None, [])


def sided(**changes: object) -> Dataset:
    names = ("Fp1", "Fp2", "C3", "Cz", "C4", "Pz", "P3", "P4")
    return replace(easy("motor imagery"), ch_names=names, classes=("left", "right"), **changes)


@pytest.mark.parametrize("name", ["spatial-filters", "spatial-filters-power"])
def test_pipelines_of_spatial_filters(name: str) -> None:
    dataset = sided(sfreq=128.0)
    pipeline = get_method(name).make(dataset)
    filterbank, recentring, classifier = (step for _, step in pipeline.steps)
    means = 4 if name == "spatial-filters" else 0
    assert filterbank.dtype == "float32"
    assert {step.n_means for step in (filterbank, recentring, classifier)} == {means}
    assert classifier.n_windows == recentring.n_windows == len(filterbank.windows)
    assert classifier.mirror == [1, 0, 4, 3, 2, 5, 7, 6]
    assert classifier.mirror_labels == [(0, 1)]
    lowest = min(low for low, _ in filterbank.bands)
    assert lowest == (0.3 if means else 4.0)
    unsided = get_method(name).make(replace(dataset, ch_names=tuple("ABCDEFGH")))
    assert unsided["classifier"].mirror is None


def test_slow_potentials_begin_at_the_cue_and_rhythms_later() -> None:
    """The default window of motor imagery begins 0.5 s after the cue."""
    dataset = sided(tmin=-0.5, window=(0.5, 3.0))
    begins = {
        name: get_method(name).make(dataset)["filterbank"].windows[0][0]
        for name in ("spatial-filters", "spatial-filters-power")
    }
    assert begins == {"spatial-filters": 0.0, "spatial-filters-power": 0.5}
    chosen = replace(dataset, window=(1.0, 3.0))
    for name in begins:
        windows = get_method(name).make(chosen)["filterbank"].windows
        assert (windows[0][0], windows[-1][1]) == (1.0, 3.0)
    late = replace(dataset, tmin=0.25)
    assert get_method("spatial-filters").make(late)["filterbank"].windows[0][0] == 0.25
