"""
Event-related potentials: covariances with class averages
=========================================================

An event-related potential is a waveform that is time-locked to a stimulus. A covariance matrix does
not depend on the order of the samples, so the waveform only adds a little power. Barachant and
Congedo (2014) append the average waveform of each class, estimated from training trials, to every
trial: the covariance between trial and average then measures how much of the waveform the trial
contains.
"""

# %%
# Trials
# ------
# ``sim-erp`` simulates error potentials in the shape of the BCI Challenge at NER 2015: subjects see
# feedback, and 30 % of it is wrong. Four sessions of 60 trials are used for training, the fifth
# session of 100 trials for testing.
import matplotlib.pyplot as plt
import mne
import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve

from spdtokens import load_dataset, make_decoder
from spdtokens.classifiers.explain import electrode_info
from spdtokens.evaluation.chance import auc_bound
from spdtokens.preprocessing import Band, zero_phase
from spdtokens.reporting.figures import BLUE, GREY, ORANGE, plain

dataset = load_dataset("sim-erp")
*earlier, last = (dataset.load("2", session) for session in dataset.sessions("2"))
X, y = (np.concatenate([getattr(session, name) for session in earlier]) for name in "Xy")
print(X.shape, "to train on,", last.X.shape, "to test;", dataset.classes)

# %%
# Evoked responses
# ----------------
# In the average over training trials, wrong feedback evokes a negative deflection at FCz where
# correct feedback evokes a positive one. The shaded area shows two standard errors.
filtered = 1e6 * zero_phase(X, [Band(1, 24)], dataset.sfreq)[0]
times = dataset.tmin + np.arange(X.shape[-1]) / dataset.sfreq
channel = dataset.ch_names.index("FCz")

fig, (left, right) = plt.subplots(
    1, 2, figsize=(7.5, 3), width_ratios=[1.9, 1], layout="constrained"
)
for label, (name, colour) in enumerate(zip(dataset.classes, (BLUE, ORANGE), strict=True)):
    waves = filtered[y == label, channel]
    mean, error = waves.mean(0), waves.std(0) / len(waves) ** 0.5
    left.fill_between(times, mean - 2 * error, mean + 2 * error, color=colour, alpha=0.2, lw=0)
    left.plot(times, mean, "-" if label == 0 else "--", color=colour, lw=2, label=name)
left.axvline(0, color=GREY, lw=0.8)
left.set(xlabel="seconds after the feedback", ylabel="µV at FCz", xlim=(times[0], 1.0))
left.legend(frameon=False, title="feedback")
plain(left)

gap = filtered[y == 1].mean(0) - filtered[y == 0].mean(0)
moment = np.abs(gap[channel]).argmax()
info, places = electrode_info(dataset.ch_names)
top = np.abs(gap[:, moment]).max()
image, _ = mne.viz.plot_topomap(
    gap[places, moment], info, axes=right, show=False, cmap="RdBu_r", vlim=(-top, top), contours=0
)
right.set_title(f"error less correct, {1000 * times[moment]:.0f} ms", fontsize=10)
fig.colorbar(image, ax=right, shrink=0.7, label="µV")

# %%
# Two decoders
# ------------
# ``make_decoder("erp")`` uses the covariances described above: Xdawn filters and class averages, in
# two windows, with delayed copies of the signal. The decoder for motor imagery uses plain
# covariances; its band is changed to the same 1-24 Hz. Filters and averages are estimated within
# ``fit``, from training trials only. Estimated from all trials, they would leak test data.
common = {"sfreq": dataset.sfreq, "tmin": dataset.tmin, "window": dataset.window}
models = {
    "plain covariances": make_decoder("mi", **common).set_params(filterbank__bands="1-24"),
    "with class averages": make_decoder("erp", **common),
}
chances = {}
for name, model in models.items():
    model.fit(X, y)
    chances[name] = [model.predict_proba(trials)[:, 1] for trials in (X, last.X)]
    train, test = (roc_auc_score(*pair) for pair in zip((y, last.y), chances[name], strict=True))
    print(f"{name}: AUC train {train:.3f}, test {test:.3f}")
bound = auc_bound(np.bincount(last.y))
print(f"chance level 0.5 (95th percentile for n = {len(last)}: {bound:.3f})")

# %%
# With unequal classes, accuracy is misleading: predicting "correct" for every trial gives 70 %. The
# area under the ROC curve does not depend on the class frequencies. Each point of the curve is a
# threshold, with its true positive rate (errors found) and false positive rate (false alarms).
fig, axes = plt.subplots(figsize=(4.4, 4), layout="constrained")
looks = zip(models, (ORANGE, BLUE), ("--", "-"), strict=True)
for name, colour, line in looks:
    for part, truth, chance, thin in (
        ("train", y, chances[name][0], True),
        ("test", last.y, chances[name][1], False),
    ):
        alarms, found, _ = roc_curve(truth, chance)
        label = f"{name}, {part}: {roc_auc_score(truth, chance):.2f}"
        style = {"lw": 1, "alpha": 0.45} if thin else {"lw": 2.2}
        axes.plot(alarms, found, line, color=colour, label=label, **style)
axes.plot([0, 1], [0, 1], ":", color=GREY, lw=1)
axes.set(xlabel="false alarms", ylabel="errors found", xlim=(-0.01, 1), ylim=(0, 1.01))
axes.set_aspect("equal")
axes.legend(frameon=False, fontsize=8, loc="lower right")
plain(axes)
plt.show()

# %%
# With plain covariances, the decoder overfits and generalises poorly. With class averages, the same
# classifier finds most errors at few false alarms. On the command line, the paradigm of the data
# set selects the covariances:
#
# .. code-block:: sh
#
#    spdtokens evaluate --dataset sim-erp --method recommended,ts-lr
