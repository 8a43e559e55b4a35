"""The features that heads learn from: transformers around an embedder that is already trained."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from skpolyode.embedders.static import StaticEncoder
from skpolyode.heads.minirocket import MiniRocket, has_minirocket
from skpolyode.panel import Panel
from skpolyode.panel.select import observed_rows
from skpolyode.transformers import Resampler, StaticFeatures, SummaryStatsTransformer
from skpolyode.transformers.base import SeriesTransformer
from skpolyode.units import typical_gap

__all__ = ["FEATURES", "new_transformer", "usable_features", "without_static"]

FEATURES = ("coefficients", "path", "summary")

_FEWEST_POINTS = 32  # of the grid; MiniRocket needs 9 at least
_MOST_POINTS = 512


def usable_features(choice: str, embedder: SeriesTransformer) -> list[str]:
    """Kinds of features that a choice asks for and an embedder has, the preferred one first."""
    if choice == "path" and not embedder.has_path:
        raise ValueError(
            f"features='path' needs an embedder that follows a path, and {type(embedder).__name__} "
            "has none: take another one, or features='coefficients'."
        )
    chosen = FEATURES if choice == "auto" else [choice]
    return [kind for kind in chosen if kind != "path" or embedder.has_path]


def new_transformer(kind: str, embedder: SeriesTransformer, panel: Panel, seed: int) -> Any:
    """Transformer, not fitted, from a panel to features of a kind; the embedder is fitted.

    What a user would build by hand: a pipeline, and a union with the static covariates.
    """
    # Here, as heads are imported where they are made: it keeps `import skpolyode` short.
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.preprocessing import FunctionTransformer

    if kind == "coefficients":
        transformer = FrozenEstimator(embedder)
    elif kind == "summary":
        # Fitted here on series alone: it would warn of the covariates that stand beside it.
        transformer = FrozenEstimator(SummaryStatsTransformer().fit(without_static(panel)))
    else:
        rows = observed_rows(panel)
        n_gaps = float((rows.end - rows.start).max()) / typical_gap(rows)
        n_points = int(np.clip(np.ceil(n_gaps) + 1, _FEWEST_POINTS, _MOST_POINTS))
        resampler = Resampler(FrozenEstimator(embedder), n_points=n_points)
        shapes = MiniRocket(random_state=seed) if has_minirocket() else FunctionTransformer(_flat)
        transformer = make_pipeline(resampler, shapes)
    if StaticEncoder.of_panel(panel) is None:
        return transformer
    return make_union(transformer, StaticFeatures())


def without_static(panel: Panel) -> Panel:
    """The same series, and nothing else known of them."""
    if panel.static is None:
        return panel
    # Without ids, which may repeat in a part of a panel.
    return Panel(
        panel.times,
        panel.values,
        panel.offsets,
        channel_names=panel.channel_names if panel.has_channel_names else None,
        time_unit=panel.time_unit,
    )


def _flat(grids: np.ndarray) -> np.ndarray:
    return grids.reshape(len(grids), -1)
