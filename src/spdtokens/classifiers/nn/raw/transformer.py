"""RawTransformer: the token transformer on raw EEG instead of SPD tokens."""

from __future__ import annotations

from torch import Tensor

from spdtokens.classifiers.nn.raw.base import RawNet
from spdtokens.classifiers.nn.transformer import STANDARD, SPDTokenTransformer, TransformerConfig
from spdtokens.errors import ModelError


class RawTransformer(RawNet):
    """The paper's transformer on raw time series, as in its input ablation.

    A token is a patch: all channels of a short stretch of time, side by side. Everything after
    that is :class:`spdtokens.classifiers.nn.SPDTokenTransformer`, so that the input alone differs.

    Parameters
    ----------
    n_chans, n_outputs, n_times : int
    sfreq : float
    patch_seconds : float
        Wanted length of a patch.
    config : TransformerConfig
        By default the paper's network: width 128, 6 layers, 8 heads, d_ff 256, dropout 0.1.

    Notes
    -----
    The paper does not say what a token of raw time series is; patches of 0.2 s are our choice. A
    trial is cut into equal patches of about that length, and the fewer than ``n_tokens`` samples
    left over at its end are not used.
    """

    def __init__(
        self,
        n_chans: int,
        n_outputs: int,
        n_times: int,
        sfreq: float,
        *,
        patch_seconds: float = 0.2,
        config: TransformerConfig = STANDARD,
    ) -> None:
        if config.attention != "standard":
            raise ModelError(
                "Raw patches have no matrices, so attention='standard' is all there is."
            )
        wanted = max(1, round(patch_seconds * sfreq))
        super().__init__(n_chans, n_outputs, n_times, sfreq, shortest=wanted)
        self.n_tokens = round(n_times / wanted)
        self.patch = n_times // self.n_tokens
        self.transformer = SPDTokenTransformer(
            n_chans * self.patch, self.n_tokens, n_outputs, config
        )

    def forward(self, trials: Tensor) -> Tensor:
        """Logits (n, n_outputs) of trials (n, n_chans, n_times)."""
        used = self.checked(trials)[..., : self.n_tokens * self.patch]
        patches = used.unflatten(-1, (self.n_tokens, self.patch))  # (n, chans, tokens, patch)
        return self.transformer(patches.transpose(1, 2).flatten(2))
