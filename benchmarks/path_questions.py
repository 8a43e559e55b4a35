"""Questions to paths: means over windows with intervals, and slopes with errors.

    python -m benchmarks.path_questions                         # processes and slopes: an hour
    python -m benchmarks.path_questions --parts slopes --seeds 0
    python -m benchmarks.path_questions --parts years --data FOLDER
    python -m benchmarks.path_questions --quick                 # does it work? seconds

"processes": a default `PolyODETransformer` is trained on 12 or 40 series of each of six processes
(`benchmarks.known_laws`), and asked about 60 others. "past" windows are the rows 10 to 30 of the 40
known ones, half of which are hidden in stretches of one to five; "ahead" is the time of the next 20
rows; "both" goes from row 25 to row 50. The truth is the mean in time of all rows, on lines between
them. Prints what intervals of 90 % cover, their mean width in standard deviations of the set, and
that width over the one of sums of marginal intervals of 90 %: as they are, and scaled until they
cover as much.

"slopes": mean squared errors of slopes, over that of slopes of the mean, at times in the middle of
each series and at its end, for a default transformer and simpler curves, of true slopes of Lorenz63
and van der Pol's oscillator with noise of 0, .1 and .3. Then how many true slopes are within two
standard deviations of `derivative_std`.

"years" (aneurysm.parquet and nafld.parquet, as `benchmarks.longitudinal` reads them): from the
first half of the measurements of each person, the change per year up to the first one half a year
to two years later. Root mean squared errors of the slope of the model, of least squares on the same
rows, and of no change.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
from scipy.interpolate import CubicSpline, PchipInterpolator, make_smoothing_spline
from scipy.special import ndtri

from benchmarks.known_laws import N_AHEAD, N_KNOWN, PROCESSES, uneven
from benchmarks.lines import heading, line
from skpolyode import Panel, PolyODETransformer
from skpolyode.datasets import make_lorenz63, make_ode_system
from skpolyode.panel.select import Query, keep_rows
from skpolyode.questions.path import nodes_between

COVERAGE, N_OTHERS, FINER = 0.9, 60, 16
FIRST, LAST, BOTH, BEYOND = 10, 30, 25, 10  # rows of windows; rows ahead of the window "both"
SYSTEMS = ("lorenz63", "van_der_pol")
NOISES = (0.0, 0.1, 0.3)


def hide_stretches(panel: Panel, rng: np.random.Generator) -> Panel:
    """Half of the rows hidden in stretches of one to five; first and last rows of windows stay."""
    kept = np.ones(panel.n_observations, dtype=bool)
    for start in panel.offsets[:-1]:
        at = FIRST + 1
        while at < LAST - 1:
            long = int(rng.integers(1, 6))
            kept[start + at : start + min(at + long, LAST)] = False
            at += long + int(rng.integers(1, 6))
        kept[start + BOTH] = True
    return keep_rows(panel, kept)


def first_rows(panel: Panel, n: int) -> Panel:
    return keep_rows(panel, np.arange(panel.n_observations) % (N_KNOWN + N_AHEAD) < n)


def dense_times(rng: np.random.Generator) -> np.ndarray:
    """Times of 60 rows as of `uneven`, with 15 more in each gap, and so after the last."""
    rows = uneven(rng)
    gaps = np.diff(rows, append=rows[-1] + 1.0)
    return (rows[:, None] + gaps[:, None] * np.arange(FINER) / FINER).ravel()


def drawn(name: str, n_series: int, rng: np.random.Generator) -> tuple[Panel, list]:
    """Series of 60 rows, and what they are between these, times and values."""
    with patch("benchmarks.known_laws.uneven", dense_times):
        courses = [PROCESSES[name](rng)[:2] for _ in range(n_series)]
    every = len(courses[0][0]) // (N_KNOWN + N_AHEAD)  # 1 of the one that has rows only
    return Panel.from_series([(t[::every], x[::every]) for t, x in courses]), courses


def true_means(
    panel: Panel, dense: list, first: int, last: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means in time between the rows `first` and `last` of each series, and the two times."""
    start, end = (panel.times[panel.offsets[:-1] + row] for row in (first, last))
    found = []
    for (t, x), a, b in zip(dense, start, end, strict=True):
        own = (t >= a) & (t <= b)
        found.append(np.trapezoid(x[own], t[own]) / (b - a))
    return np.array(found), start, end


def marginal_widths(
    model: PolyODETransformer, known: Panel, start: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """Mean half widths (B,) over windows of the intervals at single times."""
    embedder = model.embedder_
    weights, *at = nodes_between(embedder, known, start, np.minimum(end, known.end))
    std = embedder.path_errors.course(embedder, Query(known, *at)).std[:, 0]
    own = ndtri((1 + COVERAGE) / 2) * embedder.units.scaler.scale[0] * std * weights
    series = np.repeat(np.arange(known.n_series), np.diff(at[1]))
    total = np.bincount(series, own, minlength=known.n_series)
    levels = ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2)
    for k in np.flatnonzero(end > known.end):
        t = np.linspace(max(start[k], known.end[k]), end[k], 60)
        low, high = model.sample_paths(known[[k]], t, random_state=0).quantiles(levels).values()
        total[k] += np.trapezoid((high.values - low.values)[:, 0] / 2, t)
    return total / (end - start)


def judge(
    model: PolyODETransformer, known: Panel, whole: Panel, dense: list, first: int, last: int
) -> tuple[np.ndarray, ...]:
    """Errors, half widths and half widths of marginal sums (B,) of a window."""
    truth, start, end = true_means(whole, dense, first, last)
    table = model.average(known, start, end, coverage=COVERAGE)
    middle = (table["lower"] + table["upper"]).to_numpy() / 2
    half = (table["upper"] - table["lower"]).to_numpy() / 2
    return np.abs(truth - middle), half, marginal_widths(model, known, start, end)


WINDOWS = {
    "past": (FIRST, LAST),
    "ahead": (N_KNOWN - 1, N_KNOWN + N_AHEAD - 1),
    "both": (BOTH, N_KNOWN + BEYOND - 1),
}


def processes(args: argparse.Namespace) -> Iterator[str]:
    """Coverage and widths, of each process and window."""
    columns = (
        "process",
        "series",
        "window",
        "coverage",
        "width",
        "of marginal sums",
        "equal coverage",
    )
    yield from heading([*columns])
    for n_series in args.n_series:
        for k, name in enumerate(list(PROCESSES)[: 1 if args.quick else None]):
            found: dict[str, list] = {window: [] for window in WINDOWS}
            for seed in args.seeds:
                rng = np.random.default_rng([seed, n_series, k])
                train, (whole, dense) = (
                    drawn(name, n_series, rng)[0],
                    drawn(name, args.n_others, rng),
                )
                train, known = (first_rows(panel, N_KNOWN) for panel in (train, whole))
                fitted = PolyODETransformer(max_epochs=args.epochs or "auto", random_state=seed)
                model = fitted.fit(train)
                hidden = hide_stretches(known, rng)
                for window, rows in WINDOWS.items():
                    asked = known if window == "ahead" else hidden
                    found[window].append(np.stack(judge(model, asked, whole, dense, *rows)))
            for window, own in found.items():
                missed, half, marginal = np.concatenate(own, axis=1)
                inside = (missed <= half).mean()
                scaled = np.quantile(missed / marginal, inside) * marginal
                ratios = half.mean() / marginal.mean(), half.mean() / scaled.mean()
                figures = inside, 2 * half.mean() / train.values.std(), *ratios
                yield line([name, str(n_series), window, *(f"{x:.2f}" for x in figures)])


class LocalLine:
    """The Kalman smoother of a local line in continuous time, as a regression on all rows.

    An integrated Wiener process beside a line of unknown level and slope; its variance and that of
    the noise are those of the largest likelihood over the training series.
    """

    SIZES = np.geomspace(1e-3, 1e3, 13)
    NOISES = np.geomspace(1e-3, 1.0, 10)

    def fit(self, series: list[tuple[np.ndarray, np.ndarray]]) -> LocalLine:
        grid = [(q, r) for q in self.SIZES for r in self.NOISES]
        self.q, self.r = max(grid, key=lambda own: sum(self._likelihood(*x, *own) for x in series))
        return self

    def _covariance(self, t: np.ndarray, q: float, r: float) -> np.ndarray:
        low, high = np.minimum.outer(t, t), np.maximum.outer(t, t)
        return 1e2 * (1 + np.outer(t, t)) + q * low**2 * (3 * high - low) / 6 + r * np.eye(len(t))

    def _likelihood(self, t: np.ndarray, x: np.ndarray, q: float, r: float) -> float:
        root = np.linalg.cholesky(self._covariance(t - t[0], q, r))
        return -np.log(np.diag(root)).sum() - np.square(np.linalg.solve(root, x)).sum() / 2

    def slopes(self, t: np.ndarray, x: np.ndarray, at: np.ndarray) -> np.ndarray:
        row, at = t - t[0], (at - t[0])[:, None]
        before = at * row - at**2 / 2  # derivative of the covariance by the later time
        cross = 1e2 * row + self.q * np.where(at < row, before, row**2 / 2)
        return cross @ np.linalg.solve(self._covariance(row, self.q, self.r), x)


def with_close_rows(panel: Panel, noise: float, rng: np.random.Generator) -> Panel:
    """Every fifth row is measured again a thousandth later, with noise of its own."""
    series = []
    for t, x in panel:
        again = slice(2, None, 5)
        own = x[again] + noise * x.std(axis=0) * rng.standard_normal(x[again].shape)
        times, values = np.append(t, t[again] + 1e-3), np.vstack([x, own])
        order = np.argsort(times)
        series.append((times[order], values[order]))
    return Panel.from_series(series)


def rivals(train: Panel) -> dict[str, Callable[..., np.ndarray]]:
    """Slopes of one channel by simpler curves."""
    first = [(t, x[:, j]) for t, x in train[:20] for j in range(train.n_channels)]
    line = LocalLine().fit(first)
    return {
        "PCHIP": lambda t, x, at: PchipInterpolator(t, x).derivative()(at),
        "smoothing spline": lambda t, x, at: make_smoothing_spline(t, x).derivative()(at),
        "local line (Kalman)": line.slopes,
    }


def slopes(args: argparse.Namespace) -> Iterator[str]:
    """Errors of slopes, and how many are within two standard deviations."""
    answers = "derivative", "PCHIP", "smoothing spline", "local line (Kalman)"
    yield ""
    yield from heading(["system", "noise", "where", *answers, "within two deviations"])
    cases = [(x, False) for x in NOISES] + [(0.1, True)]
    for name in SYSTEMS[: 1 if args.quick else None]:
        for noise, is_close in cases[-1:] if args.quick else cases:
            found: dict[str, list] = {"middle": [], "end": []}
            for seed in args.seeds:
                options = {"noise": noise, "random_state": seed, "n_series": 4 * args.n_slopes}
                data = (
                    make_lorenz63(**options)
                    if name == "lorenz63"
                    else make_ode_system(name, **options)
                )
                is_test, panel = data.split == "test", data.panel
                enough = panel.lengths >= 8
                test, train = panel[is_test & enough], panel[~is_test]
                if is_close:
                    test = with_close_rows(test, noise, np.random.default_rng(seed))
                truth = [
                    CubicSpline(data.truth.times, own[:, : panel.n_channels]).derivative()
                    for own in data.truth.values[is_test & enough]
                ]
                model = PolyODETransformer(max_epochs=args.epochs or "auto", random_state=seed)
                model.fit(train)
                inside = [
                    np.linspace(a, b, 42)[1:-1] for a, b in zip(test.start, test.end, strict=True)
                ]
                for where, times in (("middle", inside), ("end", [[b] for b in test.end])):
                    found[where].append(slope_errors(model, rivals(train), test, times, truth))
            for where, own in found.items():
                errors, within = (np.mean(x, axis=0) for x in zip(*own, strict=True))
                label = f"{noise}, close rows" if is_close else f"{noise}"
                yield line([name, label, where, *(f"{x:.3f}" for x in errors), f"{within:.2f}"])


def slope_errors(
    model: PolyODETransformer,
    others: dict[str, Callable[..., np.ndarray]],
    test: Panel,
    times: list,
    truth: list[CubicSpline],
) -> tuple[np.ndarray, float]:
    """Mean squared errors over that of no slope at all, and the share within two deviations."""
    actual = np.concatenate([own(t) for own, t in zip(truth, times, strict=True)])
    answers = [model.derivative(test, times).values]
    for slope in others.values():
        columns = [
            np.stack([slope(t, x[:, j], np.asarray(at)) for j in range(test.n_channels)], axis=1)
            for (t, x), at in zip(test, times, strict=True)
        ]
        answers.append(np.concatenate(columns))
    scale = np.square(actual).mean(axis=0)
    errors = [(np.square(own - actual) / scale).mean() for own in answers]
    std = model.derivative_std(test, times).values
    return np.array(errors), float((np.abs(answers[0] - actual) <= 2 * std).mean())


LONGITUDINAL = {"aneurysm": 1.0, "nafld": 365.25}  # a year, in their units of time


def years(args: argparse.Namespace) -> Iterator[str]:
    """Changes in the year after the first half of each series, from the slopes at that moment."""
    yield ""
    yield from heading(["set", "persons", "derivative", "least squares", "none"])
    for name, year in LONGITUDINAL.items():
        table = pd.read_parquet(args.data / f"{name}.parquet")
        table = table[table["channel"] == table["channel"].iloc[0]].drop_duplicates(["id", "time"])
        series = [
            (own["time"].to_numpy(float), own["value"].to_numpy(float)[:, None])
            for _, own in table.sort_values("time").groupby("id")
            if len(own) >= 6
        ][:1200]
        half = len(series) // 2
        model = PolyODETransformer(max_epochs=args.epochs or "auto", random_state=0)
        model.fit(series[:half])
        past, change, own_slope = [], [], []
        for t, x in series[half:]:
            n = len(t) // 2
            later = np.flatnonzero((t > t[n - 1] + 0.5 * year) & (t < t[n - 1] + 2 * year))
            if n >= 3 and len(later):
                k = later[0]
                past.append((t[:n], x[:n]))
                change.append((x[k, 0] - x[n - 1, 0]) / (t[k] - t[n - 1]) * year)
                own_slope.append(np.polyfit(t[:n], x[:n, 0], 1)[0] * year)
        found = model.derivative(past, [0.0], relative_to="end").values[:, 0] * year
        answers = found, np.array(own_slope), np.zeros(len(found))
        errors = [np.sqrt(np.square(own - change).mean()) for own in answers]
        yield line([name, str(len(past)), *(f"{x:.3f}" for x in errors)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=["processes", "slopes"])
    parser.add_argument("--data", type=Path, help="folder of the longitudinal sets")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--n-series", nargs="+", type=int, default=[12, 40])
    parser.add_argument("--n-slopes", type=int, default=60, help="series that are asked for slopes")
    parser.add_argument("--n-others", type=int, default=N_OTHERS, help="series asked for means")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    if args.quick:
        args.seeds, args.n_series, args.epochs = [0], [6], 1
        args.n_others = args.n_slopes = 5
    for part in args.parts:
        for found in PARTS[part](args):
            print(found, flush=True)


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[str]]] = {
    "processes": processes,
    "slopes": slopes,
    "years": years,
}

if __name__ == "__main__":
    main()
