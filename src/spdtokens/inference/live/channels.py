"""The model's channels among those of a stream."""

from __future__ import annotations

from collections.abc import Sequence

from spdtokens.datasets.select import plain_name
from spdtokens.errors import LiveError
from spdtokens.inference.live.quality import listed


def pick(
    wanted: Sequence[str],
    available: Sequence[str | None] | None,
    n_channels: int,
    given: Sequence[str] | None = None,
) -> list[int]:
    """Where in a stream the model's channels are: by name, written as labs do.

    Parameters
    ----------
    wanted : sequence of str
        The model's channels.
    available : sequence of str or None, optional
        Names in the stream's description, if it has any.
    n_channels : int
        Of the stream.
    given : sequence of str, optional
        Names of the stream's channels as the user has them, instead of the description's.

    Returns
    -------
    picks : list of int
        In the order of ``wanted``.

    Raises
    ------
    LiveError
        If a channel is missing or there is more than one of its name.
    """
    if given is not None:
        if len(given) != n_channels:
            raise LiveError(
                f"--channels names {len(given)} channels, and the stream has {n_channels}. Name "
                "all of them, in the order of the stream; '-' for those that are not needed."
            )
        available = given
    if available is None or all(name is None for name in available):
        raise LiveError(
            f"The stream does not name its {n_channels} channels. Name them in its order: "
            f"--channels {','.join(wanted)} if they come like this, with '-' for others."
        )
    found: dict[str, list[int]] = {}
    for i, name in enumerate(available):
        if name is not None and name != "-":
            found.setdefault(plain_name(name), []).append(i)
    missing = [name for name in wanted if plain_name(name) not in found]
    if missing:
        raise LiveError(
            f"The model needs {len(wanted)} channels, and the stream lacks {len(missing)} of them: "
            f"{listed(missing)}. It has: {listed([str(n) for n in available], 70)}. If they have "
            "other names there, name all of the stream's channels in its order with --channels."
        )
    twice = [name for name in wanted if len(found[plain_name(name)]) > 1]
    if twice:
        raise LiveError(
            f"The stream has more than one channel called {twice[0]}. Name them apart with "
            "--channels, in the order of the stream."
        )
    return [found[plain_name(name)][0] for name in wanted]
