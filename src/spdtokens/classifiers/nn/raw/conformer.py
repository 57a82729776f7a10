"""EEG Conformer: a convolution makes tokens, a transformer mixes them."""

from __future__ import annotations

from torch import Tensor, nn

from spdtokens.classifiers.nn.raw.base import Dropout, MultiHead, RawNet, TimeSpaceConv

FILTER, POOL, STRIDE = 25, 75, 15


class EEGConformer(RawNet):
    """EEG Conformer: tokens of a shallow ConvNet, encoder blocks, a perceptron on all tokens.

    Parameters
    ----------
    n_chans, n_outputs, n_times : int
    sfreq : float
        Filters of 25 samples and pools of 75, every 15, stay that many samples at frequencies
        other than the paper's 250 Hz.
    width, n_layers, n_heads : int
        Of the tokens, and of the encoder.
    dropout : float
        Of tokens and encoder, and of the perceptron's first layer.

    Notes
    -----
    As in the authors' code, attention scores are divided by the root of the whole width rather
    than of a head's, and tokens have no positions: convolution and the last layers know the order.

    References
    ----------
    Song et al. (2022), EEG Conformer: convolutional transformer for EEG decoding and visualization,
    IEEE Trans. Neural Syst. Rehabil. Eng. 31, 710-719.
    """

    def __init__(
        self,
        n_chans: int,
        n_outputs: int,
        n_times: int,
        sfreq: float,
        *,
        width: int = 40,
        n_layers: int = 6,
        n_heads: int = 10,
        dropout: float = 0.5,
    ) -> None:
        super().__init__(n_chans, n_outputs, n_times, sfreq, shortest=FILTER - 1 + POOL)
        self.tokens = nn.Sequential(
            TimeSpaceConv(n_chans, width, width, FILTER, bias=True),
            nn.BatchNorm1d(width),
            nn.ELU(),
            nn.AvgPool1d(POOL, STRIDE),
            Dropout(dropout),
            nn.Conv1d(width, width, 1),
        )
        self.blocks = nn.Sequential(
            *[ConformerBlock(width, n_heads, dropout) for _ in range(n_layers)]
        )
        n_tokens = (n_times - FILTER + 1 - POOL) // STRIDE + 1
        self.head = nn.Sequential(
            nn.Linear(n_tokens * width, 256),
            nn.ELU(),
            Dropout(dropout),
            nn.Linear(256, 32),
            nn.ELU(),
            Dropout(0.3),
            nn.Linear(32, n_outputs),
        )

    def forward(self, trials: Tensor) -> Tensor:
        """Logits (n, n_outputs) of trials (n, n_chans, n_times)."""
        tokens = self.tokens(self.checked(trials)).mT  # (n, tokens, width)
        return self.head(self.blocks(tokens).flatten(1))


class ConformerBlock(nn.Module):
    """Pre-norm encoder block: attention, then a GELU feed-forward part of 4 times the width."""

    def __init__(self, width: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.attention = nn.Sequential(
            nn.LayerNorm(width),
            MultiHead(width, width, n_heads, scale=width**-0.5, dropout=dropout),
            Dropout(dropout),
        )
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            Dropout(dropout),
            nn.Linear(4 * width, width),
            Dropout(dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (n, tokens, width) to tokens of the same shape."""
        x = x + self.attention(x)
        return x + self.feed_forward(x)
