"""
Understanding a model: which channels and bands decide
======================================================

A score says that a model works, not why. A model that decodes imagined hands from the eyes, or from
the muscles of the jaw, scores well too. So before you trust one, ask what it uses.
"""

# %%
# A model of several bands
# ------------------------
# The paper's three bands, 4-8, 8-13 and 13-30 Hz, one matrix each; the decoder is the recommended
# one on these bands. Of the simulation we know the truth: imagined hands change mu
# (about 11 Hz) and beta (about 22 Hz) under C3 and C4; nothing in 4-8 Hz tells them apart.
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
print(f"train {train:.1%}, test {test:.1%}; chance 50 %, by luck up to {bound:.1%}")

# %%
# What moves the scores
# ---------------------
# :func:`~spdtokens.classifiers.explain.channel_importance` asks how far the score of the predicted
# class moves when the amplitude of a channel in a band moves as far as it does from trial to
# trial. The gradient is exact, shares sum to 100 %, and units do not matter. Ask on trials the
# model was not trained on.
share = 100 * channel_importance(model, second.X)
bands = model["filterbank"].matrix_names_
for name, row in zip(bands, share, strict=True):
    best = [f"{hands.ch_names[i]} {row[i]:.1f} %" for i in row.argsort()[:-4:-1]]
    print(f"{name}: {row.sum():.0f} % ({', '.join(best)}, ...)")

# %%
# The maps have one scale, so that bands compare. What decides lies around C3 and C4, in the two
# bands where it should. A third goes to 4-8 Hz, thinly spread over all channels, where the
# simulation puts no difference between the hands: models listen to noise too.
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
        extrapolate="local",  # a cap over one part of the head says nothing about the rest
        image_interp="linear",
        names=labels if axes is every[0] else None,
    )
    axes.set_title(f"{name}: {row.sum():.0f} %", fontsize=10)
fig.colorbar(image, ax=every, shrink=0.6, label="share of a channel, %")

# %%
# Is it true?
# -----------
# Importance is a statement about a model, and it can be tested: take away what it calls important,
# and the score should fall; take away the rest, and it should not. Here channels of the *test*
# trials are made useless one after another, by giving each trial the channel of another trial, most
# important ones first, or last.
rng = np.random.default_rng(0)
some = second.X[::2]  # half of the test trials, to be quick
order = share.sum(0).argsort()[::-1]
counts = [0, 1, 2, 5, 12, 17, 22]


def score_without(channels):
    """Test accuracy when these channels come from other trials."""
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
axes.set(xlabel="channels taken from other trials", ylabel="test accuracy, %", xlim=(-0.5, 22.5))
axes.legend(frameon=False)
plain(axes)
plt.show()

# %%
# Two things to keep in mind. Importance tells what the model uses, not where a source is: a channel
# that only cancels the noise of another is used too (Haufe et al. 2014). And it is an average over
# trials to first order. ``spdtokens report`` draws these maps for the best methods of a study
# (:doc:`/report`); for transformers :func:`~spdtokens.classifiers.explain.band_attention` tells
# which bands attend to which.
