"""PyPOTS 1.5: networks that read an array (series, step, channel) on one grid, NaN where hidden.

Sizes are those of its README (SAITS), of its benchmark TSI-Bench on the small set Italy Air (BRITS,
GRU-D) and of the paper (CSDI); 100 epochs at most, patience 10 and Adam at .001, as in TSI-Bench
and by default. Training is stopped by the error of series that are not trained on.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pypots.classification
import pypots.imputation
from pypots.utils.random import set_random_seed

from benchmarks.peers_code.grids import at_rows, even_grid, grid_of, on_grid
from benchmarks.peers_code.rows import Run

STOPPING = {"epochs": 100, "patience": 10, "verbose": False}
MOST_STEPS = 100  # times that are on no grid go to the nearest of so many even ones
logging.disable(logging.WARNING)


def imputed(name: str, data: Any, run: Run, sampled: bool = False, **sizes: Any) -> np.ndarray:
    """Values (n_obs, D) at the rows of the test part."""
    set_random_seed(run.seed)
    grid = grid_of(data.train, data.test)
    train, holed, whole, test = (on_grid(part, grid) for part in (*data.parts(), data.test))
    shape = {"n_steps": len(grid), "n_features": test.shape[2]}
    model = getattr(pypots.imputation, name)(**shape, **STOPPING, **sizes)
    with run.training():
        model.fit({"X": train}, {"X": holed, "X_ori": whole})
    options = {"n_sampling_times": 10} if sampled else {}
    found = model.predict({"X": test}, **options)["imputation"]
    return at_rows(found.mean(axis=1) if sampled else found, data.test, grid)


def saits(data: Any, run: Run) -> np.ndarray:
    """Self-attention.

    >>> from pypots.imputation import SAITS
    >>> X = to_grid(train), to_grid(validation), to_grid(test)
    >>> holed = mcar(X[1], 0.2)
    >>> saits = SAITS(n_steps, n_features, n_layers=2, d_model=256, n_heads=4, d_k=64, d_v=64,
    ...               d_ffn=128, dropout=0.1, epochs=100, patience=10)
    >>> saits.fit({"X": X[0]}, {"X": holed, "X_ori": X[1]})
    >>> filled = saits.predict({"X": X[2]})["imputation"]
    """
    sizes = {"n_layers": 2, "d_model": 256, "n_heads": 4, "d_k": 64, "d_v": 64, "d_ffn": 128}
    return imputed("SAITS", data, run, dropout=0.1, **sizes)


def brits(data: Any, run: Run) -> np.ndarray:
    """Two recurrent networks, forwards and backwards.

    >>> from pypots.imputation import BRITS
    >>> X = to_grid(train), to_grid(validation), to_grid(test)
    >>> holed = mcar(X[1], 0.2)
    >>> brits = BRITS(n_steps, n_features, rnn_hidden_size=256, epochs=100, patience=10)
    >>> brits.fit({"X": X[0]}, {"X": holed, "X_ori": X[1]})
    >>> filled = brits.predict({"X": X[2]})["imputation"]
    """
    return imputed("BRITS", data, run, rnn_hidden_size=256)


def grud(data: Any, run: Run) -> np.ndarray:
    """A recurrent network whose inputs and states decay.

    >>> from pypots.imputation import GRUD
    >>> X = to_grid(train), to_grid(validation), to_grid(test)
    >>> holed = mcar(X[1], 0.2)
    >>> grud = GRUD(n_steps, n_features, rnn_hidden_size=128, epochs=100, patience=10)
    >>> grud.fit({"X": X[0]}, {"X": holed, "X_ori": X[1]})
    >>> filled = grud.predict({"X": X[2]})["imputation"]
    """
    return imputed("GRUD", data, run, rnn_hidden_size=128)


def csdi(data: Any, run: Run) -> np.ndarray:
    """Diffusion; the mean of ten samples.

    >>> from pypots.imputation import CSDI
    >>> X = to_grid(train), to_grid(validation), to_grid(test)
    >>> holed = mcar(X[1], 0.2)
    >>> csdi = CSDI(n_steps, n_features, n_layers=4, n_heads=8, n_channels=64,
    ...             d_time_embedding=128, d_feature_embedding=16, d_diffusion_embedding=128,
    ...             epochs=100, patience=10)
    >>> csdi.fit({"X": X[0]}, {"X": holed, "X_ori": X[1]})
    >>> samples = csdi.predict({"X": X[2]}, n_sampling_times=10)["imputation"]
    >>> filled = samples.mean(axis=1)
    """
    sizes = {"n_layers": 4, "n_heads": 8, "n_channels": 64}
    names = ("d_time_embedding", "d_feature_embedding", "d_diffusion_embedding")
    return imputed(
        "CSDI", data, run, True, **sizes, **dict(zip(names, (128, 16, 128), strict=True))
    )


def classified(name: str, data: Any, run: Run, n_hidden: int) -> np.ndarray:
    """Probabilities (n_test,) of the label 1."""
    set_random_seed(run.seed)
    grid = grid_of(data.train, data.test)
    if len(grid) > MOST_STEPS:
        grid = even_grid(data.train, MOST_STEPS)
    X, X_test = on_grid(data.train, grid), on_grid(data.test, grid)
    sizes = {"n_steps": len(grid), "n_features": X.shape[2], "rnn_hidden_size": n_hidden}
    model = getattr(pypots.classification, name)(**sizes, n_classes=2, **STOPPING)
    with run.training():
        model.fit(*({"X": X[part], "y": data.y[part]} for part in data.parts(run.seed)))
    return model.predict_proba({"X": X_test})[:, 1]


def grud_classifier(data: Any, run: Run) -> np.ndarray:
    """A recurrent network whose inputs and states decay.

    >>> from pypots.classification import GRUD
    >>> X = to_grid(train), to_grid(validation), to_grid(test)
    >>> grud = GRUD(n_steps, n_features, n_classes=2, rnn_hidden_size=128, epochs=100, patience=10)
    >>> grud.fit({"X": X[0], "y": y}, {"X": X[1], "y": y_validation})
    >>> risk = grud.predict_proba({"X": X[2]})[:, 1]
    """
    return classified("GRUD", data, run, 128)


def brits_classifier(data: Any, run: Run) -> np.ndarray:
    """Two recurrent networks that impute and classify.

    >>> from pypots.classification import BRITS
    >>> X = to_grid(train), to_grid(validation), to_grid(test)
    >>> brits = BRITS(n_steps, n_features, n_classes=2, rnn_hidden_size=256, epochs=100,
    ...               patience=10)
    >>> brits.fit({"X": X[0], "y": y}, {"X": X[1], "y": y_validation})
    >>> risk = brits.predict_proba({"X": X[2]})[:, 1]
    """
    return classified("BRITS", data, run, 256)
