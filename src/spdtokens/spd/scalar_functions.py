r"""Scalar functions of eigenvalues, with divided differences that never cancel.

The gradient of a matrix function needs the first divided difference

.. math:: f[a, b] = \frac{f(a) - f(b)}{a - b}, \qquad f[a, a] = f'(a),

for every pair of eigenvalues. The quotient as written loses all digits when ``a`` and ``b`` are
close, and the usual remedy, a threshold below which ``f'`` is used instead, is wrong on both of
its sides by up to the square root of the machine precision. Here each function has a form in
which nothing cancels, valid for all pairs, equal ones included. With ``a >= b`` and the exact
difference ``a - b``:

=============  ============================================================================
function       divided difference
=============  ============================================================================
square root    ``1 / (sqrt a + sqrt b)``
inverse sqrt   ``-1 / (sqrt a sqrt b (sqrt a + sqrt b))``
logarithm      ``log1p(x) / (x b)`` with ``x = (a - b) / b``
exponential    ``exp(a) (-expm1(-u)) / u`` with ``u = a - b``
power p > 0    ``a^(p-1) (-expm1(-p L)) / y`` with ``y = (a - b) / a``, ``L = log1p(x)``
power p < 0    ``b^(p-1) expm1(p L) / x``
=============  ============================================================================

The logarithm's equivalent form ``2 atanh(z) / (z (a + b))``, ``z = (a - b) / (a + b)``, cancels
nothing for close pairs but loses digits in ``1 - z`` for distant ones (1e-10 at a ratio of 1e8,
infinite at 1e17); ``log1p`` keeps all of them at any ratio.

The quotients ``log1p(x) / x`` and ``expm1(u) / u`` are 0/0 at zero. Adding a number far below the
smallest nonzero value that ``x`` can take (the machine precision) and far above underflow gives
their limit 1 there and changes no other digit: no branch and no threshold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


def _tiny(x: Tensor) -> float:
    return torch.finfo(x.dtype).tiny ** 0.5


@dataclass(frozen=True)
class SpectralFunction:
    """A scalar function to apply to the eigenvalues of a symmetric matrix.

    Attributes
    ----------
    name : str
        Shown in messages.
    value : callable
        ``f(a)``, elementwise.
    divided_difference : callable
        ``f[a, b]`` for tensors that broadcast, symmetric in its arguments, equal to ``f'(a)``
        where ``a == b``.
    positive_domain : bool
        Whether ``f`` needs positive eigenvalues; then the eigenvalue floor applies.
    """

    name: str
    value: Callable[[Tensor], Tensor]
    divided_difference: Callable[[Tensor, Tensor], Tensor]
    positive_domain: bool = True


def _larger_smaller(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return torch.maximum(a, b), torch.minimum(a, b)


def _sqrt_difference(a: Tensor, b: Tensor) -> Tensor:
    return (a.sqrt() + b.sqrt()).reciprocal_()


def _inv_sqrt_difference(a: Tensor, b: Tensor) -> Tensor:
    p, q = a.sqrt(), b.sqrt()
    return (p + q).mul_(p).mul_(q).reciprocal_().neg_()


def _log_difference(a: Tensor, b: Tensor) -> Tensor:
    large, small = _larger_smaller(a, b)
    x = large.sub_(small).div_(small).add_(_tiny(a))
    return x.log1p().div_(x.mul_(small))


def _exp_difference(a: Tensor, b: Tensor) -> Tensor:
    large, small = _larger_smaller(a, b)
    u = (large - small).add_(_tiny(a))
    return large.exp_().mul_(torch.expm1(-u)).div_(u).neg_()


SQRT = SpectralFunction("sqrt", torch.sqrt, _sqrt_difference)
INV_SQRT = SpectralFunction("inverse sqrt", torch.rsqrt, _inv_sqrt_difference)
LOG = SpectralFunction("log", torch.log, _log_difference)
EXP = SpectralFunction("exp", torch.exp, _exp_difference, positive_domain=False)


def power_function(p: float) -> SpectralFunction:
    """The function ``a -> a ** p`` for any real ``p``."""

    def difference(a: Tensor, b: Tensor) -> Tensor:
        large, small = _larger_smaller(a, b)
        gap = large - small
        x = gap / small + _tiny(a)
        log_ratio = x.log1p()
        if p > 0:  # in terms of the larger one, so that nothing overflows on the way
            y = gap / large + _tiny(a)
            return -(large ** (p - 1)) * torch.expm1(-p * log_ratio) / y
        return small ** (p - 1) * torch.expm1(p * log_ratio) / x

    return SpectralFunction(f"power {p:g}", lambda a: a**p, difference)
