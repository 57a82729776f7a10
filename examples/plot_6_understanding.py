"""
Explaining a model: importance of channels and bands
====================================================

A score shows that a model works, not why. A model that decodes motor imagery from eye movements or
jaw muscles also scores well. So check which channels and bands a model uses before you trust it.
"""

# %%
# A model with several bands
# --------------------------
# The recommended decoder is fitted to the paper's three bands, 4-8, 8-13 and 13-30 Hz, with one
# matrix per band. In the simulation the ground truth is known: imagined hand movements change mu
# (about 11 Hz) and beta (about 22 Hz) at C3 and C4, and nothing in 4-8 Hz.
import matplotlib.pyplot as plt
import mne
import numpy as np

from spdtokens import load_dataset, make_decoder
from spdtokens.classifiers.explain import channel_importance, electrode_info
from spdtokens.datasets import Selection, select
from spdtokens.evaluation.chance import accuracy_bound
from spdtokens.reporting.figures import BLUE, GREY, ORANGE, plain

hands = select(load_dataset("sim-mi"), Selection(classes=("left hand", "right hand")))
first, second = (hands.load("3", session) for session in hands.sessions("3"))
model = make_decoder("mi", sfreq=hands.sfreq, tmin=hands.tmin, window=hands.window)
model.set_params(filterbank__bands="paper3").fit(first.X, first.y)
train, test = (model.score(part.X, part.y) for part in (first, second))
bound = accuracy_bound(len(second), len(hands.classes))
print(f"train {train:.1%}, test {test:.1%}")
print(f"chance level 50 % (95th percentile for n = {len(second)}: {bound:.1%})")

# %%
# Channel importance
# ------------------
# :func:`~spdtokens.classifiers.explain.channel_importance` measures how much the score of the
# predicted class changes when the amplitude of a channel in a band changes by its standard
# deviation over trials. The gradient is exact, the shares sum to 100 %, and the unit of the signal
# does not matter. Use trials that the model was not trained on.
share = 100 * channel_importance(model, second.X)
bands = model["filterbank"].matrix_names_
for name, row in zip(bands, share, strict=True):
    best = [f"{hands.ch_names[i]} {row[i]:.1f} %" for i in row.argsort()[:-4:-1]]
    print(f"{name}: {row.sum():.0f} % ({', '.join(best)}, ...)")

# %%
# All maps have the same scale. The important channels lie around C3 and C4, in the two expected
# bands. A third of the importance is spread over all channels in 4-8 Hz, where the simulated
# classes do not differ: the model also fits noise.
info, places = electrode_info(hands.ch_names)
labels = [f"{name}\n" if name in ("C3", "C4") else "" for name in info.ch_names]
fig, every = plt.subplots(1, 3, figsize=(7.5, 3), layout="constrained")
for axes, name, row in zip(every, bands, share, strict=True):
    image, _ = mne.viz.plot_topomap(
        row[places],
        info,
        axes=axes,
        show=False,
        cmap="Blues",
        vlim=(0, share.max()),
        contours=0,
        extrapolate="local",  # no values far from the electrodes
        image_interp="linear",
        names=labels if axes is every[0] else None,
    )
    axes.set_title(f"{name}: {row.sum():.0f} %", fontsize=10)
fig.colorbar(image, ax=every, shrink=0.6, label="importance of a channel, %")

# %%
# Validation by permutation
# -------------------------
# Importance can be validated: without the important channels, the score should drop; without the
# others, it should not. Here, channels of the *test* trials are permuted over trials, starting with
# the most important or with the least important one.
rng = np.random.default_rng(0)
some = second.X[::2]  # half of the test trials, for speed
order = share.sum(0).argsort()[::-1]
counts = [0, 1, 2, 5, 12, 17, 22]


def score_without(channels):
    """Test accuracy with these channels permuted over trials."""
    X = some.copy()
    X[:, channels] = X[rng.permutation(len(X))][:, channels]
    return 100 * model.score(X, second.y[::2])


curves = {
    "most important first": [score_without(order[:n]) for n in counts],
    "least important first": [score_without(order[::-1][:n]) for n in counts],
}
fig, axes = plt.subplots(figsize=(5.6, 3.4), layout="constrained")
for (name, scores), look in zip(curves.items(), ("o-", "s--"), strict=True):
    axes.plot(counts, scores, look, color=ORANGE if look == "o-" else BLUE, lw=2, label=name)
axes.axhline(50, color=GREY, ls=":", lw=1.2)
axes.text(22.7, 50, "chance", color=GREY, va="center", fontsize=8)
axes.set(xlabel="number of permuted channels", ylabel="test accuracy, %", xlim=(-0.5, 22.5))
axes.legend(frameon=False)
plain(axes)
plt.show()

# %%
# Importance has two limits. It shows what the model uses, not where a source is: a channel that
# only cancels noise of another channel is important as well (Haufe et al. 2014). And it is a
# first-order approximation, averaged over trials. ``spdtokens report`` draws these maps for the
# best methods of a study (:doc:`/report`). For transformers,
# :func:`~spdtokens.classifiers.explain.band_attention` shows which bands attend to which.
