"""Forecasts of peers' own code beside ours: PhysioNet 2012 and Physiome-ODE, the same files.

    python -m benchmarks.peers_code.forecasts --data FOLDER --repositories FOLDER --out FOLDER
    python -m benchmarks.peers_code.forecasts ... --protocols "24 to 24 h" --sets --device cuda
    python -m benchmarks.peers_code.forecasts ... --protocols --sets LEN01 LEN01-odd --limit 1200
    python -m benchmarks.peers_code.forecasts ... --kept           # tables of what --out holds

FOLDER of --data holds `physionet2012_all_long.parquet` (see `benchmarks/physionet_forecasts.py`)
and a folder `physiome` of sets (see `benchmarks/physiome_sets.py`). That of --repositories holds
copies of the peers' (see `benchmarks/peers_code/__init__.py`).

Protocols are the two of `benchmarks/physionet_forecasts.py`, on the same splits, and "36 h,
hourly": the second one on data as GraFITi prepares them. Sets are the first fold of those of
Physiome-ODE; NAME-odd has only the rows that the benchmark's script leaves (see `preparations.py`).
Beside four sets that are named, two are drawn by lot from those of FOLDER.

Peers are trained by their own recipes, for the very question that is asked. A --limit of seconds
ends the training of one, and the table says so. Ours and boosting run as in the other benchmarks,
with their defaults. The result of each table, split, row and seed is a file of --out, and not
computed again, so that several processes or machines can share the work.

Errors are means and standard deviations over splits and seeds. Lines are code lines that a user
writes: `fit` and `forecast`, or the adapter and what the adapters share. Memory is the largest of
the process (of which each run should have its own), data and imports included.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks.lines import heading, line
from benchmarks.peers_code import grafiti, linodenet, tpatchgnn
from benchmarks.peers_code.preparations import hourly, odd
from benchmarks.peers_code.training import Make, Peer, Recipe
from benchmarks.physiome_sets import load_physiome
from benchmarks.physionet_forecasts import METHODS, PROTOCOLS, PUBLISHED, Split, read, split_of
from benchmarks.processes import peak_mib
from benchmarks.real.forecasts import Fitted, Transformer
from benchmarks.real.part import Scores, shown
from benchmarks.real.questions import after
from benchmarks.real.rivals import PANEL_RIVALS
from benchmarks.structure import Module
from skpolyode import PolyODETransformer
from skpolyode.siblings import LinODENetTransformer

DAY, HOURS, HOURLY = *PROTOCOLS, "36 h, hourly"
NAMED = ["LEN01", "LI01", "PHI01", "KAR02"]
BY_LOT = 2
HALF = 0.5
FOLDER = Path(__file__).parent
PHYSIOME = FOLDER.parent / "physiome_published.csv"

PEERS: dict[str, dict[str, tuple[Make, Recipe]]] = {
    DAY: {
        "GraFITi": (partial(grafiti.make, grafiti.DAY), grafiti.DAY),
        "t-PatchGNN": (tpatchgnn.Network, tpatchgnn.RECIPE),
    },
    HOURS: {
        "GraFITi": (partial(grafiti.make, grafiti.HOURS), grafiti.HOURS),
        "LinODENet": (linodenet.Network, linodenet.RECIPE),
    },
    "set": {
        "GraFITi": (partial(grafiti.make, grafiti.PHYSIOME), grafiti.PHYSIOME),
        "LinODENet": (linodenet.Network, linodenet.RECIPE),
    },
}
PEERS[HOURLY] = PEERS[HOURS]
OURS = {"PolyODE": PolyODETransformer, "LinODENet (ours)": LinODENetTransformer}
RULES: dict[str, Callable[[], Any]] = {
    "boosting": METHODS["boosting"],
    "least squares": METHODS["least squares"],
    "last and mean, least squares": partial(Fitted, PANEL_RIVALS["last and mean, least squares"]),
}
ROWS = [*OURS, *RULES, "GraFITi", "LinODENet", "t-PatchGNN"]
SHARED = ["padded.py", "repositories.py", "training.py"]


def rows_of(name: str) -> list[str]:
    """Rows of a table; each peer only where it was published."""
    is_set = name not in PROTOCOLS and name != HOURLY
    rules = ["boosting", "last and mean, least squares" if is_set else "least squares"]
    return ["PolyODE", *(["LinODENet (ours)"] if is_set else []), *rules, *peers_of(name)]


def peers_of(name: str) -> dict[str, tuple[Make, Recipe]]:
    return PEERS.get(name, PEERS["set"])


def split(name: str, number: int, args: argparse.Namespace) -> Split:
    """A split of a table, in standard deviations, or as the set has it."""
    if name in PROTOCOLS:
        return split_of(PROTOCOLS[name], read(args.data, args.stays), number)
    if name == HOURLY:
        ones = PROTOCOLS[HOURS]._replace(unit=lambda train, _: np.ones(train.n_channels))
        return split_of(ones, hourly(read(args.data, args.stays)), number)
    own, _, thinned = name.partition("-")
    data = load_physiome(args.data / "physiome", own, fold=number)
    parts = [data.panel[data.split == part] for part in ("train", "validation", "test")]
    parts = [part[: args.stays] for part in parts]
    parts = map(odd, parts) if thinned else parts
    return Split(*parts, after(HALF), np.ones(data.panel.n_channels))


def model_of(name: str, row: str, seed: int, own: Split, args: argparse.Namespace) -> Any:
    if row in RULES:
        return RULES[row]()
    if row in OURS:
        return Transformer(lambda random_state: OURS[row](random_state=seed))
    options = {"device": args.device, "limit": args.limit, "seed": seed}
    return Peer(*peers_of(name)[row], own.ask, args.repositories, **options)


def measure(name: str, number: int, row: str, seed: int, args: argparse.Namespace) -> Scores:
    own = split(name, number, args)
    torch.set_num_threads(args.threads)
    model, test = model_of(name, row, seed, own, args), own.ask(own.test)
    wall, cpu = time.perf_counter(), time.process_time()
    model.fit(own.train, own.validation)
    errors = (model.answer(own.ask(own.train), test).mean - test.truth) / own.unit
    scores = PROTOCOLS[name if name in PROTOCOLS else HOURS].scores
    found = {key: score(errors) for key, score in scores.items()}
    found |= {"CPU s": time.process_time() - cpu, "wall s": time.perf_counter() - wall}
    found |= {"MiB": peak_mib(), "of GPU": torch.cuda.max_memory_allocated() / 2**20}
    if isinstance(model, Peer):
        found |= {"epochs": model.n_epochs, "limited": float(model.limited)}
    return found


def results(name: str, args: argparse.Namespace) -> pd.DataFrame:
    """Those of a table: from files, and, unless only what is kept is asked for, computed."""
    found = []
    for row in (row for row in rows_of(name) if row in args.rows):
        for number in args.splits if name in (*PROTOCOLS, HOURLY) else args.folds:
            for seed in args.seeds if row not in RULES else args.seeds[:1]:
                file = args.out / f"{name},{number},{row},{seed}.json"
                if not file.is_file():
                    if args.kept:
                        continue
                    scores = measure(name, number, row, seed, args)
                    file.write_text(json.dumps(scores, indent=1))
                found.append({"row": row, **json.loads(file.read_text())})
    return pd.DataFrame(found)


def published(name: str, row: str) -> str:
    if name in PROTOCOLS or name == HOURLY:
        own = PUBLISHED[name if name in PROTOCOLS else HOURS]
        return ", ".join(f"{own[score][row]:g}" for score in own if row in own[score])
    table = pd.read_csv(PHYSIOME).set_index(["set", "method"])
    key = name.partition("-")[0], row
    return f"{table.loc[key, 'mse']:g} ± {table.loc[key, 'std']:g}" if key in table.index else ""


def lines_of(row: str) -> str:
    """Of code that a user writes for a forecast."""
    if row in OURS:
        return "2"
    modules = {"GraFITi": grafiti, "LinODENet": linodenet, "t-PatchGNN": tpatchgnn}
    if row not in modules:
        return ""
    files = [Path(modules[row].__file__), *(FOLDER / file for file in SHARED)]
    return str(sum(len(Module(file, FOLDER).code) for file in files))


def report(name: str, found: pd.DataFrame) -> list[str]:
    """Lines of a table: losses are seen at a glance, for the least error is first."""
    scores = list(PROTOCOLS[name if name in PROTOCOLS else HOURS].scores)
    columns = ["CPU s", "wall s", "MiB", "of GPU"]
    more = ["published", *columns, "epochs", "lines"]
    lines = heading([name, *scores, *more])
    means = found.groupby("row")[scores[0]].mean().sort_values()
    for row in means.index:
        own = found[found["row"] == row]
        cells = [spread(own[score]) for score in scores] + [published(name, row)]
        cells += [f"{own[column].mean():.0f}" for column in columns]
        epochs = ""
        if row in peers_of(name):
            epochs = f"{own['epochs'].mean():.0f}" + (", limit" if own["limited"].any() else "")
        lines.append(line([row, *cells, epochs, lines_of(row)]))
    return lines


def spread(values: pd.Series) -> str:
    deviation = f" ± {shown(values.std(ddof=0))}" if len(values) > 1 else ""
    return f"{shown(values.mean())}{deviation}"


def sets_of(folder: Path) -> list[str]:
    """Four that are named, and two by lot of the others."""
    others = sorted({file.stem for file in (folder / "physiome").glob("?????.parquet")} - {*NAMED})
    drawn = np.random.default_rng(0).choice(others, BY_LOT, replace=False) if others else []
    return [*NAMED, *map(str, drawn)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with table and sets")
    parser.add_argument("--repositories", type=Path, required=True, help="folder of copies")
    parser.add_argument("--out", type=Path, required=True, help="folder of finished results")
    parser.add_argument("--sets", nargs="*", metavar="SET", help="such as LEN01, LEN01-odd")
    parser.add_argument(
        "--protocols", nargs="*", choices=PEERS.keys() - {"set"}, default=[DAY, HOURS, HOURLY]
    )
    parser.add_argument("--rows", nargs="+", metavar="ROW", choices=ROWS, default=ROWS)
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1], help="of PhysioNet")
    parser.add_argument("--folds", type=int, nargs="+", default=[0], help="of sets")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--stays", type=int, help="or series of each part: a quick look")
    parser.add_argument("--device", default="cpu", help="of peers: cpu or cuda")
    parser.add_argument("--limit", type=float, default=np.inf, help="seconds of training of a peer")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--kept", action="store_true", help="only tables of what --out holds")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")  # of what windows cover, and of others' code
    for name in [*args.protocols, *(sets_of(args.data) if args.sets is None else args.sets)]:
        found = results(name, args)
        if len(found):
            print("\n".join(report(name, found)), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
