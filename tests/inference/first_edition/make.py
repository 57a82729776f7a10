"""How the files in this folder were made, once, by the first edition (git tag ``first-edition``).

From a checkout of that tag, in an environment with that version installed::

    python PATH/TO/tests/inference/first_edition/make.py

``trials.npz`` has trials (n, channels, samples) that no model was trained on, and for every model
``NAME.spdt`` its class probabilities as ``NAME``. Nothing here is to be made again: later editions
must read what was written then.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spdtokens import SPDTokenClassifier, train
from spdtokens.datasets import from_arrays
from spdtokens.inference.convert import make_decoder  # of the first edition
from spdtokens.runtime import load_model, model_bytes

HERE = Path(__file__).parent
SFREQ, CHANNELS, SAMPLES = 64.0, 4, 96
NAMES = ("C3", "Cz", "C4", "Pz")
CLASSES = ("left", "right")
SMALL = {"d_model": 12, "n_layers": 2, "n_heads": 2, "d_ff": 16, "epochs": 20, "random_state": 0}
#: Parameters of the classifiers that ``train`` would not make so small.
CLASSIFIERS = {
    "erp": {"paradigm": "erp", "n_filters": 1},
    "ssvep": {"stimulus_frequencies": (9.0, 14.0)},
    "paper": {"preset": "paper", "bands": "paper3", **SMALL},
    "geometric": {"preset": "paper", "bands": "paper3", "attention": "geometric", **SMALL}
    | {"ensemble": 2, "regularisation": "paper", "unit_in_volts": 1e-6, "filtering": "zero-phase"},
}
#: Those that the matrices already carry.
OF_SIGNALS = ("bands", "regularisation", "unit_in_volts", "filtering", "stimulus_frequencies")


def trials(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers, as an amplifier gives them: rhythms and a wave that tell two classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    t = np.arange(SAMPLES) / SFREQ
    X = rng.standard_normal((n, CHANNELS, SAMPLES)).cumsum(-1) + 3 * rng.standard_normal(
        (n, CHANNELS, SAMPLES)
    )
    for k, frequency in enumerate((9.0, 14.0)):
        phase = rng.random(((y == k).sum(), 1))
        X[y == k, k] += 4 * np.sin(2 * np.pi * (frequency * t + phase))
    X[y == 1] += 4 * np.exp(-(((t - 0.4) / 0.1) ** 2))
    return np.round(10 * X).astype(np.int16), y


def main() -> None:
    X, y = trials(40, seed=0)
    X = X.astype(np.float64)
    runs = np.repeat(["1", "2"], 20)
    dataset = from_arrays(X, np.array(CLASSES)[y], sfreq=SFREQ, ch_names=NAMES, run=runs)
    train(dataset, recentre=True).save(HERE / "imagery.spdt")
    for name, options in CLASSIFIERS.items():
        front = SPDTokenClassifier(sfreq=SFREQ, **options).make_tokenizer(X)
        C = front.fit_covariances(X, y)
        rest = {key: value for key, value in options.items() if key not in OF_SIGNALS}
        decoder = make_decoder(
            front, SPDTokenClassifier(**rest).fit(C, y), classes=CLASSES, ch_names=NAMES
        )
        (HERE / f"{name}.spdt").write_bytes(model_bytes(decoder))
    new, _ = trials(6, seed=1)
    found = {
        path.stem: load_model(path).predict_proba(new.astype(np.float64))
        for path in sorted(HERE.glob("*.spdt"))
    }
    np.savez_compressed(HERE / "trials.npz", X=new, **found)


if __name__ == "__main__":
    main()
