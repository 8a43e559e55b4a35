"""The paper's table on MIMIC-III, on open data: the stays of PhysioNet 2012, set a.

    python -m benchmarks.paper.physionet --path FOLDER            # 5 splits
    python -m benchmarks.paper.physionet --path FOLDER --seeds 1  # 1 split
    python -m benchmarks.paper.physionet --path FOLDER --quick    # 1 split, 2000 stays

FOLDER holds ``set-a`` and ``Outcomes-a.txt``, unpacked, from
https://physionet.org/content/challenge-2012. Variables, hours, coefficients and window are those of
`benchmarks.paper.mimic`, and so are the columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.paper import mimic
from benchmarks.paper.mimic_cells import PHYSIONET


def main(argv: Sequence[str] | None = None) -> None:
    mimic.main(PHYSIONET, __doc__, "folder with set-a and Outcomes-a.txt", argv)


if __name__ == "__main__":
    main()
