"""Alignment of channels with those of a fit, and of entries with the series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from skpolyode.panel.checks import first_misplaced


def refuse_reordered(values: object, panel: Any, name: str) -> None:
    """Raise a ValueError if the pandas index of entries holds ids of series at other positions.

    Entries belong to series by position. As in scikit-learn, an index without ids is ignored; so
    are ids that were not given. The text "7" and the number 7 are the same id.
    """
    if not isinstance(values, pd.Series | pd.DataFrame) or len(values) != panel.n_series:
        return
    index, ids = list(values.index), list(pd.Index(panel.ids, tupleize_cols=False))
    if not panel.rows.has_ids or (first := first_misplaced(index, ids)) is None:
        return
    kind = "str" if isinstance(ids[first], str) else "int"
    named = name if index[first] in ids else f"{name}.set_axis({name}.index.astype({kind}))"
    raise ValueError(
        f"the index of {name} holds the ids of the series in another order: {index[first]!r} is at "
        f"position {first}, where X has {ids[first]!r}. Pass {named}.loc[panel.ids], or "
        f"{name}.to_numpy() if its entries are in the order of X."
    )


def align_to_fit(panel: Any, estimator: Any, name: str = "X") -> Any:
    """Panel with the channels that an estimator was fitted on, in its order.

    Without an attribute `channel_names_` of the estimator, the panel is returned as it is.
    """
    if not hasattr(estimator, "channel_names_"):
        return panel
    names, named = estimator.channel_names_, estimator.has_channel_names_
    return panel.align_channels(names, named=named, owner=type(estimator).__name__, name=name)


def channel_order(
    found: Sequence[str],
    wanted: Sequence[str],
    *,
    known: bool,
    named: bool,
    owner: str,
    name: str = "X",
) -> list[int]:
    """Positions of the channels that `owner` was fitted on among those found.

    `known` and `named` state whether the names found and wanted were given; for the other
    parameters see `Panel.align_channels`.
    """
    found, wanted = list(found), list(wanted)
    if known:
        if sorted(found) == sorted(wanted):
            return [found.index(channel) for channel in wanted]
        # The columns [1, 0] of a frame are those of an array, reversed.
        counted = [str(k) for k in range(len(wanted))]
        if not named and sorted(found) == sorted(counted):
            return [found.index(channel) for channel in counted]
        if named:
            unknown = [channel for channel in found if channel not in wanted]
            missing = [channel for channel in wanted if channel not in found]
            also = f", {unknown} are not known" if unknown else ""
            remedy = (
                f"{missing} are missing{also}. Give every series the channels of fit under "
                "these names, NaN where not observed."
                if missing
                else f"{unknown} are not known. Leave them out with "
                f"Panel.select_channels({wanted})."
            )
            raise ValueError(
                f"{name} has the channels {found}, but {owner} was fitted on {wanted}: {remedy}"
            )
    if len(found) != len(wanted):
        raise ValueError(
            f"{name} has {len(found)} features, but {owner} is expecting {len(wanted)} features as "
            f"input: it has the channels {', '.join(found)} in place of {', '.join(wanted)}. Give "
            "every series the channels of fit, NaN where not observed."
        )
    return list(range(len(wanted)))
