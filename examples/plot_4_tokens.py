"""
Tokens and geometry
===================

A covariance matrix is symmetric and positive definite (SPD). In the geometries suited to them, SPD
matrices form a curved manifold: the straight line between two matrices is not the shortest path. An
embedding maps the manifold to a vector space. The upper triangle of the embedded matrix is the
*token*, which a linear classifier or a network can add and scale.

This tutorial shows how much of the geometry a token preserves: averages, distances and gradients.
"""

# %%
# From a matrix to a token and back
# ---------------------------------
# The embeddings are invertible, so a token contains all information of the matrix.
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.patches import Ellipse

from spdtokens import FilterBankCovariances, TokenEmbedding, load_dataset
from spdtokens.geometry import distance_bures_wasserstein, get_embedding, sqrtm
from spdtokens.reporting.figures import BLUE, GREEN, GREY, ORANGE, plain

C = np.array([[2.0, 0.8], [0.8, 1.0]])
for name in ("euclidean", "bures_wasserstein", "log_euclidean"):
    embedding = get_embedding(name)
    token = embedding.to_token(C)
    assert np.allclose(embedding.from_token(token), C)
    print(f"{name:>18}: {token.round(3)}")

# %%
# Interpolation between two matrices
# ----------------------------------
# A network averages tokens, so the matrix halfway between two others depends on the embedding.
# Below, the tokens of two matrices (left and right end) are averaged with varying weights and
# mapped back to matrices, drawn as ellipses. The Euclidean embedding shows the swelling effect: the
# determinant of the average is larger than those of both ends. The log-Euclidean embedding
# preserves the determinant; Bures-Wasserstein lies in between.
names = {"euclidean": ORANGE, "bures_wasserstein": BLUE, "log_euclidean": GREEN}


def ellipse(C, x, y, **look):
    """One standard deviation of a Gaussian with covariance C."""
    (a, b), vectors = np.linalg.eigh(C)
    angle = np.degrees(np.arctan2(*vectors[::-1, 1]))
    return Ellipse((x, y), 2 * b**0.5, 2 * a**0.5, angle=angle, **look)


def turned(angle):
    """A covariance matrix with one large and one small eigenvalue, rotated."""
    c, s = np.cos(angle), np.sin(angle)
    turn = np.array([[c, -s], [s, c]])
    return turn @ np.diag([1.0, 0.04]) @ turn.T


A, B = turned(np.radians(15)), turned(np.radians(105))
weights = np.linspace(0, 1, 7)
fig, (left, right) = plt.subplots(
    1, 2, figsize=(7.5, 2.9), width_ratios=[2, 1], layout="constrained"
)
for row, (name, colour) in enumerate(names.items()):
    embedding = get_embedding(name)
    a, b = embedding.to_token(A), embedding.to_token(B)
    way = np.stack([embedding.from_token((1 - w) * a + w * b) for w in weights])
    for place, matrix in enumerate(way):
        left.add_patch(ellipse(matrix, 2.2 * place, -2.3 * row, color=colour, alpha=0.75, lw=0))
    right.plot(weights, np.linalg.det(way) / np.linalg.det(A), "o-", color=colour, ms=4)
left.set(xlim=(-1.3, 14.5), ylim=(-5.7, 1.1), yticks=[0, -2.3, -4.6], xticks=[])
left.set_yticklabels([name.replace("_", "\n") for name in names])
left.set_aspect("equal")
left.spines[:].set_visible(False)
left.tick_params(length=0)
right.set(xlabel="weight of the second matrix", ylabel="determinant, relative to the ends")
right.set_ylim(0, None)
plain(right)

# %%
# Distances
# ---------
# With off-diagonal entries multiplied by sqrt 2 (``isometric=True``), the distance between two
# log-Euclidean or Euclidean tokens equals the distance between the matrices in that geometry. The
# distance between two Bures-Wasserstein tokens is between 1 and sqrt 2 times the Bures-Wasserstein
# distance, for every number of channels and every condition number. The paper's upper bound of 1
# holds only for matrices that commute. :doc:`/theory-proof` has the theorem and its proof.
#
# Pairs of trials of one session lie close to the lower bound, where the distance is preserved.
# Pairs of nearly singular matrices that are mirror images (crosses) come close to the upper bound.
dataset = load_dataset("sim-ssvep")
trials = 1e6 * dataset.load("1", "1").X  # in microvolts
matrices = FilterBankCovariances(dataset.sfreq).fit_transform(trials)
tokens = TokenEmbedding("bures_wasserstein", isometric=True).fit_transform(matrices)
one, other = np.triu_indices(len(trials), 1)
gaps = np.linalg.norm(tokens[one] - tokens[other], axis=-1)
distances = distance_bures_wasserstein(matrices[one], matrices[other])
print(f"pairs of trials: {(gaps / distances).min():.3f} to {(gaps / distances).max():.3f}")

embedding = get_embedding("bures_wasserstein", isometric=True)
mirrored = []
for angle in np.radians([5, 15, 25, 32, 38, 42, 44]):
    u = np.array([np.cos(angle), np.sin(angle)])
    pair = [np.outer(v, v) + 1e-9 * np.eye(2) for v in (u, u[::-1])]
    gap = np.linalg.norm(embedding.to_token(pair[0]) - embedding.to_token(pair[1]))
    mirrored.append((float(distance_bures_wasserstein(*pair)), gap))
crosses = np.array(mirrored)
crosses *= 0.9 * distances.max() / crosses[:, 0].max()  # to scale; their ratio stays
print(f"mirror images: up to {(crosses[:, 1] / crosses[:, 0]).max():.4f}")
print(f"the bound, sqrt 2: {2**0.5:.4f}")

fig, axes = plt.subplots(figsize=(5.2, 4), layout="constrained")
reach = np.array([0, distances.max() * 1.05])
axes.fill_between(reach, reach, 2**0.5 * reach, color=BLUE, alpha=0.08, lw=0)
for slope, text in ((1, "1"), (2**0.5, r"$\sqrt{2}$")):
    axes.plot(reach, slope * reach, color=GREY, lw=1)
    axes.text(reach[1] * 1.01, slope * reach[1], text, va="center", color=GREY)
axes.plot(distances, gaps, ".", color=BLUE, ms=4, alpha=0.6, label="pairs of trials")
axes.plot(*crosses.T, "x", color=ORANGE, ms=7, mew=1.8, label="mirror images, rescaled")
axes.set(xlabel="Bures-Wasserstein distance", ylabel="distance of isometric BWSPD tokens")
axes.set(xlim=(0, reach[1] * 1.07), ylim=(0, None))
axes.legend(frameon=False, loc="upper left")
plain(axes)
plt.show()

# %%
# Gradients
# ---------
# Networks backpropagate through tokens. Automatic differentiation of an eigendecomposition divides
# by differences of eigenvalues and gives NaN if two of them are equal, as for the identity. The
# matrix functions of spdtokens have exact gradients for all SPD matrices.
identity = torch.eye(3, dtype=torch.float64, requires_grad=True)
sqrtm(identity).sum().backward()
print("spdtokens:", identity.grad.numpy().round(3).tolist())

identity.grad = None
values, vectors = torch.linalg.eigh(identity)
(vectors @ torch.diag(values.sqrt()) @ vectors.T).sum().backward()
print("eigh:     ", identity.grad.numpy().tolist())
