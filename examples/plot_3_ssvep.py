"""
SSVEP: one covariance matrix per stimulus frequency
===================================================

A flickering light evokes a response at its frequency and its harmonics in the visual cortex.
Decoding which of several lights a person looks at means detecting which of several frequencies is
present. The covariance matrix of a broad band contains the power, but not its frequency; one matrix
per narrow band does.
"""

# %%
# Trials
# ------
# ``sim-ssvep`` has the shape of the MAMEM recordings: five stimulus frequencies, eight occipital
# channels, sessions of 25 trials. Three sessions are used here. With so few trials, a single split
# is unreliable, so every session is tested once by models trained on the others.
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
from scipy.signal import welch

from spdtokens import evaluate, load_dataset
from spdtokens.classifiers.methods import Settings
from spdtokens.evaluation import Choice
from spdtokens.reporting.figures import BLUE, GREY, ORANGE, plain

dataset = replace(load_dataset("sim-ssvep"), index={"1": ("1", "2", "3")})
sessions = [dataset.load("1", session) for session in dataset.sessions("1")]
X, y = (np.concatenate([getattr(session, name) for session in sessions]) for name in "Xy")
print(X.shape, "trials, channels, samples;", dataset.classes)

# %%
# Spectra
# -------
# Spectra of each class in dB relative to the mean of all classes, at the channel with the strongest
# response. Each row should have peaks at its stimulus frequency and second harmonic.
begin, end = (round((t - dataset.tmin) * dataset.sfreq) for t in dataset.window)
f, power = welch(X[:, :, begin:end], dataset.sfreq, nperseg=end - begin)
shown = (f >= 5) & (f <= 26)
means = np.stack([power[y == label].mean(0) for label in range(len(dataset.classes))])
above = 10 * np.log10(means / means.mean(0))[..., shown]
channel = above.max((0, 2)).argmax()

fig, axes = plt.subplots(figsize=(7.5, 2.9), layout="constrained")
rows = np.arange(len(dataset.classes))
edges = np.append(f[shown], f[shown][-1] + f[1]) - f[1] / 2
borders = np.append(rows, len(rows)) - 0.5
image = axes.pcolormesh(edges, borders, above[:, channel], cmap="Blues", vmin=0)
flickers = np.array(dataset.stimulus_hz)
axes.plot(flickers, rows + 0.38, "^", color=ORANGE, ms=6, label="stimulus frequency")
axes.plot(2 * flickers, rows + 0.38, "o", color=ORANGE, ms=5, label="second harmonic")
axes.hlines(borders[1:-1], *edges[[0, -1]], color="white", lw=1.5)
axes.invert_yaxis()
axes.set(xlabel="Hz", yticks=rows, yticklabels=dataset.classes, ylabel="attended")
fig.legend(ncols=2, frameon=False, fontsize=8, loc="outside lower right")
axes.set_title(f"channel {dataset.ch_names[channel]}, all trials", fontsize=10)
axes.tick_params(length=0)
axes.spines[:].set_visible(False)
fig.colorbar(image, ax=axes, label="dB above the mean")

# %%
# Three sets of bands
# -------------------
# Trials and protocol (leave one session out) are the same; only the bands differ. Tangent space
# with logistic regression uses one matrix of 4-40 Hz, or one matrix per stimulus frequency and
# second harmonic. ``recommended`` uses a narrow and a wide band around each of them, and the usual
# bands. :func:`spdtokens.evaluate` reports training and test scores, and refuses splits with
# leakage. Methods are names, estimators or, as here, names with changed settings.
result = evaluate(
    dataset,
    {
        "ts-lr, 4-40 Hz": Choice("ts-lr", Settings(bands="broadband")),
        "ts-lr, stimulus bands": Choice("ts-lr", Settings(bands="stimulus")),
        "recommended": "recommended",
    },
    "leave-one-session-out",
)
print(result)
frame = result.to_frame()
print(frame[["train_score", "score", "p_holm"]].round(3))

# %%
# Dots are test sessions, coloured bars their means, grey bars the mean training scores. With the
# broad band, the classifier overfits: it fits most training trials and does not generalise.
fig, axes = plt.subplots(figsize=(6.2, 3.2), layout="constrained")
for place, (method, row) in enumerate(frame.iterrows()):
    dots = 100 * np.array([run.test["accuracy"] for run in result.results[method]])
    axes.bar(place - 0.19, 100 * row.train_score, 0.36, color="#d9d9d9", label="train")
    axes.bar(place + 0.19, 100 * row.score, 0.36, color=(ORANGE, BLUE, BLUE)[place], label="test")
    spread = np.linspace(-0.12, 0.12, len(dots))
    axes.plot(place + 0.19 + spread, dots, "o", color="black", ms=4, mfc="white", clip_on=False)
axes.axhline(100 * row.chance, color=GREY, ls=":", lw=1.2)
axes.text(2.47, 100 * row.chance, "chance", color=GREY, va="center", fontsize=8)
axes.set(xticks=range(3), xticklabels=frame.index, xlim=(-0.5, 2.45))
axes.set(ylabel="accuracy, %", ylim=(0, 105))
plain(axes, grid="y")
plt.show()

# %%
# The p-values compare each method with the first, over the three sessions, with a t-test corrected
# for shared training trials. Three sessions of one subject are only an example. To evaluate all
# eleven subjects and five sessions:
#
# .. code-block:: sh
#
#    spdtokens evaluate --dataset sim-ssvep --protocol leave-one-session-out \
#        --method ts-lr,recommended
