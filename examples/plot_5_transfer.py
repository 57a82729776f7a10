"""
Transfer between subjects: recentring
=====================================

Covariance matrices differ more between subjects than between classes, because anatomy, electrode
positions and amplifiers mix the sources differently. A classifier trained on some subjects
therefore fails on a new one. *Recentring* (Zanini et al. 2018) transforms the matrices of each
subject so that their mean is the identity. It needs trials of the new subject, but no labels.

A score depends on the data of the target subject that the method may use. In spdtokens, this target
access is an explicit argument.
"""

# %%
# Four subjects
# -------------
# The data are two runs (96 trials) of motor imagery of each of four simulated subjects, as
# covariance matrices of 8-30 Hz.
import matplotlib.pyplot as plt
import numpy as np

from spdtokens import FilterBankCovariances, TokenDiscriminantClassifier, load_dataset
from spdtokens.evaluation.alignment import align
from spdtokens.evaluation.chance import accuracy_bound
from spdtokens.geometry import get_embedding
from spdtokens.reporting.figures import BLUE, GREEN, GREY, ORANGE, PINK, plain

dataset = load_dataset("sim-mi")
people = ("1", "4", "7", "9")
filterbank = FilterBankCovariances(
    dataset.sfreq, bands="8-30", windows=[dataset.window], tmin=dataset.tmin, estimator="oas"
)
matrices, labels = [], []
for person in people:
    session = dataset.load(person, "1")
    some = np.isin(session.run, ["1", "2"])
    matrices.append(filterbank.fit_transform(session.X[some]))  # trial by trial
    labels.append(session.y[some])
C, y = np.concatenate(matrices)[:, None], np.concatenate(labels)
who = np.repeat(people, [len(part) for part in labels])
print(C.shape, "trials, bands, channels, channels")

# %%
# Distribution of the tokens
# --------------------------
# The figure shows the first two principal components of the tokens of all trials. As recorded, the
# trials cluster by subject, and the classes are not visible. After recentring, the subjects
# overlap, and the classes become visible: feet and tongue in this plane, the hands mainly in other
# components.
recentred = align(C, who, None, None, None, C[-1:], who[-1], "train", "recentre").train


def plane(C):
    """First two principal components of the tokens."""
    tokens = get_embedding("affine_invariant", isometric=True).fit(C).to_token(C)[:, 0]
    tokens = tokens - tokens.mean(0)
    return tokens @ np.linalg.svd(tokens, full_matrices=False)[2][:2].T


fig, every = plt.subplots(1, 3, figsize=(9, 3.3), layout="constrained")
before, after = plane(C), plane(recentred)
views = (
    ("as recorded", before, who, people, "subject"),
    ("recentred", after, who, people, "subject"),
    ("recentred", after, y, range(len(dataset.classes)), "imagined"),
)
rng = np.random.default_rng(0)
for axes, (title, points, kind, kinds, legend) in zip(every, views, strict=True):
    order = rng.permutation(len(points))  # so that no colour lies on top
    colours = dict(zip(kinds, (BLUE, ORANGE, GREEN, PINK), strict=True))
    axes.scatter(*points[order].T, s=9, c=[colours[k] for k in kind[order]], alpha=0.6, lw=0)
    for k, colour in colours.items():
        name = k if legend == "subject" else dataset.classes[k]
        axes.plot([], [], "o", color=colour, ms=5, label=name)
    axes.set(title=title, xticks=[], yticks=[])
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.02), "frameon": False}
    axes.legend(title=legend, ncols=2, fontsize=8, handletextpad=0.1, columnspacing=1, **below)

# %%
# Decoding a new subject
# ----------------------
# Three subjects are used for training, the fourth for testing. The access argument of
# :func:`~spdtokens.evaluation.alignment.align` states which data of the fourth subject may be used:
# none (``train``); for each trial the trials before it (``online``, as in live use); or all trials
# without labels (``unlabeled_full``, offline only). An alignment that needs more is refused.
views = {
    "as recorded": ("train", "none"),
    "recentred,\npast trials": ("online", "recentre"),
    "recentred,\nall trials": ("unlabeled_full", "recentre"),
}
scores = np.zeros((len(people), len(views), 2))
for i, person in enumerate(people):
    own = who == person
    for j, (access, alignment) in enumerate(views.values()):
        aligned = align(C[~own], who[~own], None, None, None, C[own], person, access, alignment)
        model = TokenDiscriminantClassifier().fit(aligned.train, y[~own])
        scores[i, j] = model.score(aligned.train, y[~own]), model.score(aligned.test, y[own])
for name, (train, test) in zip(views, 100 * scores.mean(0), strict=True):
    print(f"{' '.join(name.split())}: train {train:.1f} %, test {test:.1f} %")
bound = accuracy_bound(len(y) // len(people), len(dataset.classes))
print(f"chance level 25 % (95th percentile for n = {len(y) // len(people)}: {bound:.1%})")

# %%
# Each line is a subject. Recentring needs only unlabelled trials, and the trials before the current
# one are nearly as good as all trials.
fig, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
places = np.arange(len(views))
for person, colour, line in zip(people, (BLUE, ORANGE, GREEN, PINK), scores, strict=True):
    axes.plot(places, 100 * line[:, 1], "o-", color=colour, lw=1.6, ms=6, label=f"subject {person}")
train = 100 * scores[..., 0].mean(0)
axes.plot(places, train, "_", color=GREY, ms=26, mew=2, label="training trials,\nmean")
axes.axhline(25, color=GREY, ls=":", lw=1.2)
axes.text(-0.22, 27, "chance", color=GREY, fontsize=8)
axes.set(xticks=places, xticklabels=list(views), xlim=(-0.25, 2.25), ylim=(0, 103))
axes.set_ylabel("accuracy, %")
fig.legend(frameon=False, fontsize=8, loc="outside right center")
plain(axes, grid="y")
plt.show()

# %%
# The simulated subjects differ in gains and cap position, which recentring removes; real subjects
# differ in more. On 12 real SSVEP subjects, recentring gains 6 to 15 percentage points
# (:doc:`/alignment`). On the command line:
#
# .. code-block:: sh
#
#    spdtokens evaluate --dataset DATA --protocol leave-one-subject-out \
#        --alignment recentre --target-access online --method recommended,ts-lda
