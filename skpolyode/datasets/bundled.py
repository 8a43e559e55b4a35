"""Real ragged data sets that come with sktime: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import numpy as np
from sklearn.utils import Bunch

from skpolyode.errors import require
from skpolyode.panel import Panel

_PARTS = ("train", "test")


def load_japanese_vowels(split: str | None = None) -> Bunch:
    """Load JapaneseVowels: nine speakers saying two vowels, as 12 cepstral coefficients.

    640 series (270 for training, 370 for testing) of 7 to 29 frames. The task is to identify
    the speaker.

    Parameters
    ----------
    split : {"train", "test"} or None, default=None
        Part to load; None loads both, the training part first.

    Returns
    -------
    Bunch
        ``panel`` (:class:`~skpolyode.panel.Panel` of 12 channels; times are frame numbers from
        0), ``y`` (int ndarray, the speaker, 1 to 9) and ``split`` (str ndarray, ``"train"`` or
        ``"test"`` for each series).

    Raises
    ------
    ValueError
        If `split` is none of the values above.
    ImportError
        If sktime, which holds the data, is not installed.

    See Also
    --------
    drop_cells : Hide cells at random, for series that are partly observed.

    References
    ----------
    M. Kudo, J. Toyama and M. Shimbo, "Multidimensional curve classification using passing-through
    regions", Pattern Recognition Letters 20 (1999).

    Examples
    --------
    >>> from skpolyode.datasets import load_japanese_vowels
    >>> data = load_japanese_vowels(split="train")
    >>> data.panel.n_series, data.panel.n_channels, int(data.panel.lengths.max())
    (270, 12, 26)
    """
    return _load("load_japanese_vowels", split, [f"cepstrum_{i}" for i in range(1, 13)])


def load_plaid(split: str | None = None) -> Bunch:
    """Load PLAID: the current drawn by household appliances of eleven kinds.

    1074 univariate series (537 for training, 537 for testing) of 100 to 1344 points. The task is
    to identify the kind of appliance.

    Parameters
    ----------
    split : {"train", "test"} or None, default=None
        Part to load; None loads both, the training part first.

    Returns
    -------
    Bunch
        ``panel`` (:class:`~skpolyode.panel.Panel` of 1 channel; times are sample numbers from 0),
        ``y`` (int ndarray, the kind, 0 to 10) and ``split`` (str ndarray, ``"train"`` or
        ``"test"`` for each series).

    Raises
    ------
    ValueError
        If `split` is none of the values above.
    ImportError
        If sktime, which holds the data, is not installed.

    References
    ----------
    J. Gao, S. Giri, E. C. Kara and M. Berges, "PLAID: a public dataset of high-resolution
    electrical appliance measurements for load identification research", BuildSys (2014).

    Examples
    --------
    >>> from skpolyode.datasets import load_plaid
    >>> data = load_plaid(split="test")
    >>> data.panel.n_series, data.panel.n_channels
    (537, 1)
    """
    return _load("load_plaid", split, ["current"])


def _load(name: str, split: str | None, channel_names: Sequence[str]) -> Bunch:
    if split is not None and split not in _PARTS:
        raise ValueError(f"split must be 'train', 'test' or None, got {split!r}.")
    require("sktime", extra="sktime", what=f"{name}()")
    load = getattr(import_module("sktime.datasets"), name)
    parts = _PARTS if split is None else (split,)
    loaded = [load(split=part, return_X_y=True, return_type="df-list") for part in parts]
    frames = [frame for part_frames, _ in loaded for frame in part_frames]
    panel = Panel.from_frames(frames, channel_names=channel_names)  # times are row numbers from 0
    labels = np.concatenate([part_labels for _, part_labels in loaded])
    of_series = np.repeat(parts, [len(part_frames) for part_frames, _ in loaded])
    return Bunch(panel=panel, y=labels.astype(np.int64), split=of_series)
