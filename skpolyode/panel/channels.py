"""The channels of one panel beside those of another: by name wherever there are names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from skpolyode.panel.storage import PanelStorage

__all__ = ["align_channels"]

PanelType = TypeVar("PanelType", bound=PanelStorage)


def align_channels(
    panel: PanelType, names: Sequence[str], *, named: bool, owner: str, name: str = "X"
) -> PanelType:
    """Bring the channels of a panel into the order that `owner` knows.

    Parameters
    ----------
    panel : Panel
        The series.
    names : sequence of str
        Names of the channels that `owner` knows.
    named : bool
        Whether these were given (`Panel.has_channel_names`) or made up.
    owner : str
        Who was fitted on them, in messages.
    name : str, default="X"
        The word for the panel in messages.

    Returns
    -------
    Panel
        Channels by name where both sides have names, else by position.

    Raises
    ------
    ValueError
        If there are other names, or another number of channels.
    """
    own, wanted = list(panel.channel_names), list(names)
    if panel.has_channel_names:
        if sorted(own) == sorted(wanted):
            return panel.select_channels(wanted)
        # The columns [1, 0] of a frame are those of an array, seen from its end.
        if not named and sorted(own) == sorted(map(str, range(len(wanted)))):
            return panel.select_channels([str(k) for k in range(len(wanted))])
        if named:
            unknown = [channel for channel in own if channel not in wanted]
            missing = [channel for channel in wanted if channel not in own]
            also = f", {unknown} are not known" if unknown else ""
            remedy = (
                f"{missing} are missing{also}. Give every series the channels of fit under these "
                "names, NaN where not observed."
                if missing
                else f"{unknown} are not known. Leave them out with "
                f"Panel.select_channels({wanted})."
            )
            raise ValueError(
                f"{name} has the channels {own}, but {owner} was fitted on {wanted}: {remedy}"
            )
    if len(own) != len(wanted):
        raise ValueError(
            f"{name} has {len(own)} channels ({', '.join(own)}), but {owner} was fitted on "
            f"{len(wanted)} ({', '.join(wanted)}): {name} has {len(own)} features, but {owner} is "
            f"expecting {len(wanted)} features as input. Give every series the channels of fit, "
            "NaN where not observed."
        )
    return panel
