"""
Motor imagery: event-related desynchronisation
==============================================

Imagining a hand movement reduces the power of the mu rhythm (about 10 Hz) over the contralateral
motor cortex. The diagonal of a covariance matrix contains the power of every channel, the other
entries how the channels covary, so covariance matrices are suited to decode such trials.

This tutorial trains a decoder on one session, tests it on the next, and reports the test score with
the training score and the chance level.
"""

# %%
# Trials
# ------
# ``sim-mi`` is simulated: dipoles in a spherical head, with the montage, the classes and the size
# of BCI Competition IV 2a. Each subject has two sessions, on two days. Your own recordings are
# loaded in the same way, from a folder: see :doc:`/data`.
import matplotlib.pyplot as plt
import numpy as np
from scipy.signal import welch
from sklearn.metrics import confusion_matrix

from spdtokens import load_dataset, make_decoder
from spdtokens.classifiers.methods import get_method
from spdtokens.evaluation.chance import accuracy_bound, chance_level
from spdtokens.reporting.figures import BLUE, GREY, ORANGE, plain

dataset = load_dataset("sim-mi")
first, second = (dataset.load("1", session) for session in dataset.sessions("1"))
print(first.X.shape, "trials, channels, samples at", dataset.sfreq, "Hz")
print("classes:", ", ".join(dataset.classes), "- decoded from", dataset.window, "s after the cue")

# %%
# Look at the data first. The mu rhythm at C3, over the left hemisphere, should be weaker when the
# right hand is imagined, and at C4 when the left hand is imagined.
at = {name: dataset.ch_names.index(name) for name in ("C3", "C4")}
begin, end = (round((t - dataset.tmin) * dataset.sfreq) for t in dataset.window)
f, power = welch(first.X[:, :, begin:end], dataset.sfreq, nperseg=256)
seen = (f >= 4) & (f <= 35)

fig, every = plt.subplots(1, 2, figsize=(7.5, 2.9), sharey=True, layout="constrained")
for axes, (name, channel) in zip(every, at.items(), strict=True):
    for label, colour, line in (("left hand", BLUE, "-"), ("right hand", ORANGE, "--")):
        trials = first.y == dataset.classes.index(label)
        decibels = 10 * np.log10(power[trials, channel].mean(0) / 1e-12)
        axes.plot(f[seen], decibels[seen], line, color=colour, lw=2, label=label)
    axes.axvspan(8, 30, color=GREY, alpha=0.1, lw=0)
    axes.set(title=name, xlabel="Hz", xlim=(4, 35))
    plain(axes)
every[0].set_ylabel("dB (1 µV²/Hz)")
every[0].legend(title="imagined", frameon=False)
every[1].text(29.5, 0.97, "8-30 Hz is decoded", transform=every[1].get_xaxis_transform(),
              ha="right", va="top", fontsize=8, color=GREY)  # fmt: skip

# %%
# A decoder
# ---------
# :func:`~spdtokens.make_decoder` returns a scikit-learn pipeline of two steps. The first step
# filters the trials to 8-30 Hz and computes their covariance matrices. The second step maps each
# matrix to tokens, relative to the mean of the training trials, and fits a linear discriminant to
# them. The decoder needs the sampling rate and the part of the trial to decode; there is nothing to
# tune.
decoder = make_decoder("mi", sfreq=dataset.sfreq, tmin=dataset.tmin, window=dataset.window)
decoder.fit(first.X, first.y)
print(decoder["filterbank"].transform(first.X).shape, decoder["filterbank"].matrix_names_)

# %%
# Scores
# ------
# Three numbers belong together. The *test* score, on the second session, measures generalisation.
# The *training* score shows how much the decoder overfits. The *chance level* depends on the number
# of test trials: random guesses exceed its 95th percentile in 5 % of the cases.
#
# A strong baseline completes the comparison: tangent space with logistic regression (``ts-lr``) on
# the same trials.
models = {"recommended": decoder}
models["ts-lr"] = get_method("ts-lr").make(dataset).fit(first.X, first.y)
parts = {"train": first, "test": second}
said = {m: {p: models[m].predict(r.X) for p, r in parts.items()} for m in models}
scores = {m: {p: np.mean(said[m][p] == r.y) for p, r in parts.items()} for m in models}
chance = chance_level(len(dataset.classes))
bound = accuracy_bound(len(second), len(dataset.classes))
for name, score in scores.items():
    print(f"{name}: train {score['train']:.1%}, test {score['test']:.1%}")
print(f"chance level {chance:.1%} (95th percentile for n = {len(second)}: {bound:.1%})")

# %%
# The confusion matrix of the test session shows which classes are confused.
fig, (left, right) = plt.subplots(
    1, 2, figsize=(7.5, 3.3), width_ratios=[1, 1.25], layout="constrained"
)
places = np.arange(len(models))
for shift, (part, colour) in enumerate({"train": "#b8cfe0", "test": BLUE}.items()):
    heights = [100 * scores[m][part] for m in models]
    bars = left.bar(places + 0.38 * (shift - 0.5), heights, 0.36, color=colour, label=part)
    left.bar_label(bars, fmt="%.0f", padding=2, fontsize=9)
left.axhline(100 * chance, color=GREY, ls=":", lw=1.2)
left.text(1.47, 100 * chance, "chance", color=GREY, va="center", fontsize=8)
left.set(xticks=places, xticklabels=list(models), ylabel="accuracy, %", ylim=(0, 125))
left.set_xlim(-0.5, 1.45)
left.legend(ncols=2, frameon=False, loc="upper center")
plain(left, grid="y")

share = 100 * confusion_matrix(second.y, said["recommended"]["test"], normalize="true")
image = right.imshow(share, cmap="Blues", vmin=0, vmax=100)
for (i, j), value in np.ndenumerate(share):
    ink = "white" if value > 55 else "black"
    right.text(j, i, f"{value:.0f}", ha="center", va="center", color=ink, fontsize=9)
places = np.arange(len(dataset.classes))
right.set(xlabel="predicted", ylabel="imagined")
right.set_title("recommended, test session, %", fontsize=10)
right.set_xticks(places, [c.replace(" ", "\n") for c in dataset.classes], fontsize=8)
right.set_yticks(places, dataset.classes, fontsize=8)
right.spines[:].set_visible(False)
right.tick_params(length=0)
plt.show()

# %%
# One subject is only an example. :func:`spdtokens.evaluate` evaluates the same decoder on several
# subjects, with other protocols and significance tests, and refuses splits with leakage: see
# :doc:`/evaluation`.
