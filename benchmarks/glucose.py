"""Glucose of virtual patients under meals and insulin, from a sensor with gaps of hours.

    python -m benchmarks.glucose --simulate FILE     needs the package simglucose, and not this one
    python -m benchmarks.glucose --data FILE [--n-train 60]

The 30 patients of simglucose (UVA/Padova, type 1 diabetes) live four pairs of days each: three
meals and a snack at random times, a bolus for most meals, of the right size up to 30 %, and a basal
rate that changes now and then. The sensor reads every 15 minutes, with the noise of its model, and
40 % of its readings are hidden in gaps of one to five hours. Patients that train and that test are
not the same. Each test series is forecast from three moments, 2 and 8 hours ahead, with bands of
90 %; the meals and the insulin of these hours are known.

- PolyODE driven, alone: `PolyODEForecaster` with and without meals, boluses and the basal rate.
- boosting: HistGradientBoostingRegressor with quantile losses, on the last four hours of a grid
  that is filled by lines, and on meals and insulin by the hour before and after.
- LSTM: on the same kind of grid, from eight hours before to the time that is asked, row by row.
- last value: with bands from the errors of the training series.
"""

from __future__ import annotations

import argparse
import time
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

MINUTES, STEP, LEADS = 2880, 15, (2.0, 8.0)
BIN = {"carbs": "impulse", "bolus": "impulse", "basal": "hold"}


class FixedSteps:
    """Runge-Kutta steps of a minute, in place of the solver of a patient: 50 times faster."""

    def __init__(self, model: Any, y: np.ndarray) -> None:
        self.model, self.y, self.t = model, np.array(y, dtype=float), 0.0

    def set_f_params(self, *params: Any) -> None:
        self.params = params

    def successful(self) -> bool:
        return True

    def integrate(self, t: float) -> None:
        h, f = t - self.t, lambda y: self.model(self.t, y, *self.params)
        a = f(self.y)
        b = f(self.y + h / 2 * a)
        c = f(self.y + h / 2 * b)
        self.y, self.t = self.y + h / 6 * (a + 2 * b + 2 * c + f(self.y + h * c)), t


def days(name: str, ratio: float, rng: np.random.Generator) -> list[tuple]:
    """Rows (minute, kind, value) of two days of a patient: readings, meals and insulin."""
    from simglucose.patient.t1dpatient import Action, T1DPatient
    from simglucose.sensor.cgm import CGMSensor

    patient = T1DPatient.withName(name)
    sensor = CGMSensor.withName("GuardianRT", seed=int(rng.integers(2**31)))
    solver = FixedSteps(patient.model, patient.state)
    patient._odesolver, params = solver, patient._params
    patient._params = SimpleNamespace(**{str(k): v for k, v in params.items()})
    usual = params.u2ss * params.BW / 6000
    carbs, bolus = np.zeros(MINUTES), np.zeros(MINUTES)
    for day in range(2):
        for hour, mean in ((7.5, 45), (12.5, 70), (16.0, 20), (19.0, 75)):
            if rng.random() < 0.9:
                at = 1440 * day + int(60 * (hour + rng.normal(0, 0.8)))
                carbs[at] = grams = max(rng.normal(mean, 15) * min(params.BW / 70, 1), 5)
                if rng.random() < 0.85:
                    late = int(np.clip(at + rng.normal(0, 15), 0, MINUTES - 1))
                    bolus[late] += grams / ratio * rng.uniform(0.7, 1.3)
    basal = np.full(MINUTES, usual)
    for start in rng.integers(0, MINUTES, 3):
        basal[start : start + int(rng.uniform(60, 300))] = usual * rng.choice([0.4, 0.7, 1.4])
    rows, before = [], None
    for minute in range(MINUTES):
        patient.step(Action(insulin=basal[minute] + bolus[minute], CHO=carbs[minute]))
        if (minute + 1) % 5 == 0:  # when the sensor reads
            reading = sensor.measure(patient)
            if (minute + 1) % STEP == 0:
                rows.append((minute + 1, "glucose", reading))
        beside = (("carbs", carbs[minute]), ("bolus", bolus[minute]))
        rows += [(minute, kind, value) for kind, value in beside if value]
        if basal[minute] != before:
            rows.append((minute, "basal", before := basal[minute]))
    return rows


def simulate(path: str) -> None:
    from importlib.resources import files

    quest = pd.read_csv(str(files("simglucose") / "params" / "Quest.csv")).set_index("Name")
    tables = []
    for number, (name, row) in enumerate(quest.iterrows()):
        for pair in range(4):
            rng = np.random.default_rng([number, pair])
            own = pd.DataFrame(days(str(name), row.CR, rng), columns=["minute", "kind", "value"])
            tables.append(own.assign(patient=name, series=f"{name}/{pair}"))
        print(name, flush=True)
    pd.concat(tables).to_csv(path, index=False)


def hide(t: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Mask of the readings that are kept: six of ten, without gaps of one to five hours."""
    kept = np.ones(len(t), dtype=bool)
    while kept.mean() > 0.6:
        start = rng.uniform(0, t[-1])
        kept &= (t < start) | (t > start + rng.uniform(1, 5))
    return kept


class Series:
    """Readings, of which some are hidden, and inputs of one pair of days; times in hours."""

    def __init__(self, table: pd.DataFrame, rng: np.random.Generator) -> None:
        self.patient = table.patient.iloc[0]
        readings = table[table.kind == "glucose"]
        self.t, self.x = readings.minute.to_numpy() / 60, readings.value.to_numpy()
        self.kept = hide(self.t, rng)
        others = table[table.kind != "glucose"].pivot_table("value", "minute", "kind", "sum")
        self.inputs = others.reindex(columns=list(BIN))
        self.inputs.index = self.inputs.index / 60
        self.at, self.basal = self.inputs.index.to_numpy(), self.inputs.basal.ffill().to_numpy()
        amounts = self.inputs[["carbs", "bolus"]].fillna(0.0).to_numpy().cumsum(axis=0)
        self.totals = np.concatenate([np.zeros((1, 2)), amounts])
        known = np.flatnonzero(self.kept & (self.t > 14) & (self.t < self.t[-1] - LEADS[-1]))
        self.origins = np.sort(rng.choice(known, 3, replace=False))

    def until(self, origin: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Readings up to a row."""
        kept = self.kept & (np.arange(len(self.t)) <= (len(self.t) if origin is None else origin))
        return self.t[kept], self.x[kept]

    def ahead(self, origin: int, lead: float) -> float:
        """What the sensor read `lead` hours after a row."""
        return float(self.x[origin + round(lead * 60 / STEP)])

    def features(self, origin: int, lead: float) -> np.ndarray:
        """Filled grid of the past four hours, and sums of inputs by the hour."""
        (t, x), now = self.until(origin), self.t[origin]
        grid = np.interp(now - np.arange(0, 4.25, 0.25), t, x)
        edges = now + np.concatenate([[-8, -5], np.arange(-3, lead + 0.5)])
        sums = np.diff(self.totals[np.searchsorted(self.at, edges)], axis=0)
        basal = self.basal[np.searchsorted(self.at, now, "right") - 1]
        return np.concatenate([grid, sums.ravel(), [basal]])

    def sequence(self, origin: int, lead: float) -> np.ndarray:
        """Rows of a grid from eight hours before to `lead` after: the reading, or the last one,
        hours ahead, what was eaten and injected since the row before, and the basal rate."""
        (t, x), now = self.until(origin), self.t[origin]
        grid = now + np.arange(-8, lead + STEP / 120, STEP / 60)
        edges = np.append(grid[0] - STEP / 60, grid)
        amounts = np.diff(self.totals[np.searchsorted(self.at, edges)], axis=0)
        basal = self.basal[np.searchsorted(self.at, grid, "right") - 1]
        return np.column_stack([np.interp(grid, t, x), np.maximum(grid - now, 0), amounts, basal])


def panel_of(series: list[Series], origins: list[int | None], driven: bool) -> Any:
    from skpolyode import Inputs, Panel

    rows = [(own.inputs.index.to_numpy(), own.inputs.to_numpy()) for own in series]
    inputs = Inputs(Panel.from_series(rows, channel_names=list(BIN)), BIN) if driven else None
    parts = [own.until(origin) for own, origin in zip(series, origins, strict=True)]
    return Panel.from_series(parts, channel_names=["glucose"], inputs=inputs)


def of_forecaster(train: list[Series], tests: list[tuple], driven: bool) -> np.ndarray:
    """Forecast, lower and upper ends (3, n, leads)."""
    from skpolyode import PolyODEForecaster, PolyODETransformer

    model = PolyODEForecaster(PolyODETransformer(), random_state=0)
    model.pretrain(panel_of(train, [None] * len(train), driven))
    panel = panel_of(*map(list, zip(*tests, strict=True)), driven)
    times = [[own.t[origin] + lead for lead in LEADS] for own, origin in tests]
    found = model.forecast(panel, times), *model.forecast_interval(panel, times, 0.9)
    return np.stack([part.values.reshape(len(tests), -1) for part in found])


def questions(train: list[Series], lead: float) -> list[tuple[Series, int]]:
    """All readings that are kept, from eight hours on, with what came `lead` hours later."""
    steps = round(lead * 60 / STEP)
    return [(s, o) for s in train for o in np.flatnonzero(s.kept[:-steps]) if s.t[o] > 8]


def of_boosting(train: list[Series], tests: list[tuple], driven: bool) -> np.ndarray:
    from sklearn.ensemble import HistGradientBoostingRegressor

    found = np.empty((3, len(tests), len(LEADS)))
    for k, lead in enumerate(LEADS):
        pairs = questions(train, lead)
        x = np.array([own.features(origin, lead) for own, origin in pairs])
        y = np.array([own.ahead(origin, lead) for own, origin in pairs])
        asked = np.array([own.features(origin, lead) for own, origin in tests])
        for row, level in enumerate((0.5, 0.05, 0.95)):
            loss = {"loss": "squared_error"} if not row else {"loss": "quantile", "quantile": level}
            model = HistGradientBoostingRegressor(max_iter=200, random_state=0, **loss)
            found[row, :, k] = model.fit(x, y).predict(asked)
    return found


def of_lstm(train: list[Series], tests: list[tuple], driven: bool) -> np.ndarray:
    """An LSTM reads the grid to the time that is asked; stopped by a fifth of the series."""
    import torch

    found = np.empty((3, len(tests), len(LEADS)))
    for k, lead in enumerate(LEADS):
        pairs = questions(train, lead)
        x = np.array([own.sequence(origin, lead) for own, origin in pairs])
        y = np.array([own.ahead(origin, lead) for own, origin in pairs])
        asked = np.array([own.sequence(origin, lead) for own, origin in tests])
        mean, scale = x.mean(axis=(0, 1)), x.std(axis=(0, 1))
        x, asked = (torch.tensor((part - mean) / scale).float() for part in (x, asked))
        y = torch.tensor((y - mean[0]) / scale[0]).float()
        held_out = torch.tensor([own in train[::5] for own, _ in pairs])
        found[:, :, k] = (trained_lstm(x, y, held_out)(asked).T * scale[0] + mean[0]).numpy()
    return found


def trained_lstm(x: Any, y: Any, held_out: Any) -> Any:
    """What gives the mean and the ends of an interval of 90 %, (n, 3), from sequences (n, T, 5)."""
    import torch

    torch.manual_seed(0)
    lstm, head = torch.nn.LSTM(x.shape[2], 64, batch_first=True), torch.nn.Linear(64, 3)
    weights = torch.nn.ParameterList([*lstm.parameters(), *head.parameters()])
    optimizer, n_epochs = torch.optim.Adam(weights, 3e-3), 40
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_epochs)
    levels, best = torch.tensor([0.05, 0.95]), (np.inf, {})

    def output(part: Any) -> Any:
        return head(lstm(part)[0][:, -1])

    def loss(rows: Any) -> Any:
        error = y[rows, None] - output(x[rows])
        ends = torch.maximum(levels * error[:, 1:], (levels - 1) * error[:, 1:])
        return error[:, 0].square().mean() + ends.mean()

    train, test = (part.nonzero()[:, 0] for part in (~held_out, held_out))
    for _ in range(n_epochs):
        for rows in train[torch.randperm(len(train))].split(256):
            optimizer.zero_grad()
            loss(rows).backward()
            optimizer.step()
        schedule.step()
        with torch.no_grad():
            error = float(loss(test))
        if error < best[0]:
            best = error, [w.detach().clone() for w in weights]
    with torch.no_grad():
        for weight, kept in zip(weights, best[1], strict=True):
            weight.copy_(kept)
    return torch.no_grad()(output)


def of_last(train: list[Series], tests: list[tuple], driven: bool) -> np.ndarray:
    last = np.array([[own.x[origin]] * len(LEADS) for own, origin in tests])
    widths = []
    for lead in LEADS:
        errors = [own.ahead(o, lead) - own.x[o] for own in train for o in own.origins]
        widths.append(np.quantile(np.abs(errors), 0.9))
    return np.stack([last, last - widths, last + widths])


def measure(path: str, n_train: int, seed: int) -> None:
    rng, table = np.random.default_rng(seed), pd.read_csv(path)
    series = [Series(own, rng) for _, own in table.groupby("series", sort=True)]
    names = rng.permutation(sorted({own.patient for own in series}))
    learned = set(names[: len(names) * 2 // 3])
    train = [own for own in series if own.patient in learned]
    train = [train[k] for k in rng.permutation(len(train))[:n_train]]
    test = [own for own in series if own.patient not in learned]
    tests = [(own, origin) for own in test for origin in own.origins]
    truth = np.array([[own.ahead(origin, lead) for lead in LEADS] for own, origin in tests])
    print(f"{len(train)} series train, {len(tests)} forecasts; RMSE in mg/dl, width, coverage")
    rows = [("last value", of_last, True), ("boosting driven", of_boosting, True)]
    rows += [("LSTM driven", of_lstm, True)]
    rows += [("PolyODE driven", of_forecaster, True), ("PolyODE alone", of_forecaster, False)]
    for name, method, driven in rows:
        start = time.perf_counter()
        mean, lower, upper = method(train, tests, driven)
        error = np.sqrt(np.mean((mean - truth) ** 2, axis=0))
        inside = np.mean((lower <= truth) & (truth <= upper), axis=0)
        width = np.mean(upper - lower, axis=0)
        columns = zip(LEADS, error, width, inside, strict=True)
        text = "".join(f"   {h:g} h:{e:7.1f}{w:7.0f}{c:6.2f}" for h, e, w, c in columns)
        print(f"{name:17s}{text}{time.perf_counter() - start:8.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulate", metavar="FILE")
    parser.add_argument("--data", metavar="FILE")
    parser.add_argument("--n-train", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.simulate:
        simulate(options.simulate)
    elif options.data:
        measure(options.data, options.n_train, options.seed)
    else:
        parser.error("give --simulate FILE, then --data FILE")


if __name__ == "__main__":
    main()
