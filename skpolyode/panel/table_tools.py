"""What a panel answers to tools of scikit-learn that take it for a table of features."""

from __future__ import annotations

from typing import Any

NO_TABLE = (
    "a Panel is not a table of features, which this tool needs. Put a transformer of skpolyode "
    "before it in a pipeline, or give whole series as one column: np.asarray(panel)[:, None], or "
    "DataFrame({'series': np.asarray(panel)}) with further columns. Choose channels by "
    "panel.select_channels(names). For the importance of channels call "
    "skpolyode.inspection.observation_importance(model, panel, by='channel')."
)


class OneAxis(tuple):
    """The shape ``(n_series,)``; an error says what to do for whoever asks for a second axis."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        if key == 1:
            raise TypeError(NO_TABLE)
        return super().__getitem__(key)
