"""Forecast glucose under meals and insulin, from sparse readings of virtual patients.

The truth is known here: a minimal model of glucose and insulin (Bergman's, with a gut of two
parts), its constants drawn for each of 100 patients. Meals and boluses act on two days of 40 noisy
readings at random times. From two o'clock of the second day on, the glucose of 30 patients that
training has never seen is forecast: by PolyODE alone, with the meals and boluses to come and
without any; by boosted trees, which know the same meals; and by the last reading. One more row is
what `forecast` returns by default: PolyODE, combined with simple forecasts.

It prints a table and writes it with a figure to a folder:

    python examples/glucose_under_meals.py --output demo_output
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor

from skpolyode import Panel, PolyODETransformer

N_PATIENTS, N_TRAIN, N_READINGS = 100, 70, 40
HOURS, NOW, NOISE = 48, 38.0, 4.0  # mg/dl
LEADS = np.array([1.0, 2.0, 4.0, 8.0])
SHOWN = 3  # patients: the first that were not trained on
STEP = 1 / 60
MEALS = ((7.5, 45.0), (12.5, 70.0), (19.0, 75.0))  # usual hours, and grams of carbohydrates


def simulate(rng: np.random.Generator) -> tuple[np.ndarray, pd.DataFrame]:
    """Glucose (patient, minute) in mg/dl, and a table of meals and boluses."""
    effect, basal = rng.uniform(0.6, 1.4, N_PATIENTS), rng.normal(115, 10, N_PATIENTS)
    absorption = rng.uniform(0.9, 1.6, N_PATIENTS)
    carbs, bolus = np.zeros((2, N_PATIENTS, HOURS * 60))
    for who in range(N_PATIENTS):
        for day in range(HOURS // 24):
            for hour, grams in MEALS:
                minute = int(60 * (24 * day + hour + rng.normal(0, 1.0)))
                carbs[who, minute] = eaten = max(rng.normal(grams, 20), 10)
                if rng.random() < 0.8:
                    bolus[who, minute] = eaten / 10 * rng.uniform(0.7, 1.3)
    glucose, stomach, gut, action, insulin = np.zeros((5, N_PATIENTS))
    glucose = basal.copy()
    course = np.empty(carbs.shape)
    for minute in range(HOURS * 60):
        course[:, minute] = glucose
        stomach, insulin = stomach + carbs[:, minute], insulin + bolus[:, minute]
        appearing = absorption * gut
        slopes = (
            0.25 * (basal - glucose) - action * glucose + 3.0 * appearing,
            -absorption * stomach,
            absorption * stomach - appearing,
            1.2 * (0.10 * effect * insulin - action),
            -0.9 * insulin,
        )
        state = (glucose, stomach, gut, action, insulin)
        glucose, stomach, gut, action, insulin = (
            x + STEP * slope for x, slope in zip(state, slopes, strict=True)
        )
    who, minute = np.nonzero(carbs)
    eaten = {"carbs": carbs[who, minute], "bolus": bolus[who, minute]}
    return course, pd.DataFrame({"patient": who, "hour": minute * STEP} | eaten)


def read_sensor(course: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    """Noisy readings at random times, up to NOW in patients to be forecast."""
    tables = []
    for who, own in enumerate(course):
        until = HOURS if who < N_TRAIN else NOW
        minutes = np.sort(rng.choice(int(until * 60), N_READINGS, replace=False))
        values = own[minutes] + rng.normal(0, NOISE, N_READINGS)
        tables.append(pd.DataFrame({"patient": who, "hour": minutes * STEP, "glucose": values}))
    return pd.concat(tables)


class BoostedTrees:
    """The usual method: lags of glucose, meals and boluses by their ages, and times, as columns."""

    ages = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 9])  # hours
    n_lags = 4

    def rows(self, panel: Panel, who: int, row: int, times: np.ndarray) -> np.ndarray:
        """Features (time, column) after a reading of a patient; the first is this reading."""
        (hours, values), (eaten, amounts) = panel[who], panel.inputs.panel[who]
        totals = np.concatenate([np.zeros((1, 2)), amounts.cumsum(axis=0)])
        now, lags = hours[row], row - np.arange(self.n_lags)

        def eaten_before(at: np.ndarray) -> np.ndarray:  # carbohydrates and insulin so far
            return totals[np.searchsorted(eaten, at)]

        def by_age(at: np.ndarray) -> np.ndarray:
            sums = -np.diff(eaten_before(np.subtract.outer(at, self.ages)), axis=1)
            return sums.reshape(len(at), 2 * len(self.ages) - 2)

        glucose = values[: row + 1, 0]
        same = [*values[lags, 0], *(now - hours[lags]), glucose.mean(), glucose.min()]
        same = np.tile([*same, *by_age(np.array([now]))[0]], (len(times), 1))
        later = eaten_before(times) - eaten_before(now)
        return np.column_stack([same, times - now, times % 24, by_age(times), later])

    def fit(self, panel: Panel) -> BoostedTrees:
        """Learn from all pairs of readings that are at most ten hours from each other."""
        features, changes = [], []
        for who, (hours, values) in enumerate(panel):
            for row in range(self.n_lags - 1, len(hours)):
                later = (hours > hours[row]) & (hours <= hours[row] + HOURS - NOW)
                features.append(self.rows(panel, who, row, hours[later]))
                changes.append(values[later, 0] - values[row, 0])
        self.trees = HistGradientBoostingRegressor(random_state=0)
        self.trees.fit(np.concatenate(features), np.concatenate(changes))
        return self

    def forecast(self, panel: Panel, times: np.ndarray, combine: bool = False) -> Panel:
        """Glucose of all patients at the same times; there is nothing to combine it with."""
        series = []
        for who, (hours, _) in enumerate(panel):
            features = self.rows(panel, who, len(hours) - 1, times)
            series.append((times, features[:, 0] + self.trees.predict(features)))
        return Panel.from_series(series)


def forecasters(readings: pd.DataFrame, meals: pd.DataFrame) -> dict[str, tuple]:
    """PolyODE with and without the meals and trees with them, fitted, and what they forecast."""
    options = {"id": "patient", "time": "hour"}
    driven = Panel.from_long(readings, inputs=meals, kinds="impulse", **options)
    plain = Panel.from_long(readings, **options)
    model = PolyODETransformer(n_coefficients=16, max_epochs=6, random_state=0)
    rows = {
        "PolyODE with meals": (clone(model), driven),
        "boosted trees with meals": (BoostedTrees(), driven),
        "PolyODE without meals": (clone(model), plain),
    }
    return {
        name: (own.fit(panel[:N_TRAIN]), panel[N_TRAIN:]) for name, (own, panel) in rows.items()
    }


def errors(models: dict[str, tuple], course: np.ndarray) -> pd.DataFrame:
    """Root mean squared errors at each lead, in mg/dl."""
    truth = course[N_TRAIN:, np.rint((NOW + LEADS) * 60).astype(int)]
    answers = {
        name: model.forecast(new, NOW + LEADS, combine=False).values.reshape(truth.shape)
        for name, (model, new) in models.items()
    }
    model, new = models["PolyODE with meals"]
    answers["PolyODE with meals, combined"] = model.forecast(new, NOW + LEADS).values.reshape(
        truth.shape
    )
    answers["last reading"] = np.array([[series.values[-1, 0]] for series in new])
    rows = {name: np.sqrt(((x - truth) ** 2).mean(axis=0)).round(1) for name, x in answers.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=[f"{h:g} h" for h in LEADS])


def draw(
    models: dict[str, tuple], course: np.ndarray, meals: pd.DataFrame, scores: pd.DataFrame
) -> Figure:
    """What was read of some patients, the forecasts from their last reading on, and the truth."""
    figure, axes = plt.subplots(
        1, SHOWN, figsize=(12, 3.8), sharey=True, layout="constrained", squeeze=False
    )
    styles = (
        {"color": "C0", "linewidth": 2},
        {"color": "C3", "linewidth": 1.2},
        {"color": "C1", "linestyle": "--"},
    )
    for i, ax in enumerate(axes[0]):
        hours = np.arange(24 * 60, HOURS * 60) * STEP
        ax.plot(hours, course[N_TRAIN + i, 24 * 60 :], color="0.8", linewidth=4, label="truth")
        for (name, (model, new)), style in zip(models.items(), styles, strict=True):
            (times, values) = new[i]
            ahead = np.linspace(times[-1], HOURS, 200)[1:]
            forecast = model.forecast(new[[i]], ahead, combine=False).values[:, 0]
            line = np.append(times[-1], ahead), np.append(values[-1, 0], forecast)
            ax.plot(*line, label=name, **style)
        known = times >= 24
        ax.plot(times[known], values[known, 0], "ko", markersize=4, label="readings")
        eaten = meals[(meals.patient == N_TRAIN + i) & (meals.hour >= 24)]
        at_bottom = {"y": np.full(len(eaten), 0.04), "transform": ax.get_xaxis_transform()}
        ax.scatter(eaten.hour, **at_bottom, color="C2", marker="^", label="meals")
        ax.set(title=f"patient {N_TRAIN + i}", xlabel="time (hours)", xlim=(24, HOURS))
        ax.set_xticks(range(24, HOURS + 1, 6))
    axes[0, 0].set_ylabel("glucose (mg/dl)")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    ours, trees, without = np.sqrt((scores.loc[[*models]] ** 2).mean(axis=1))
    figure.suptitle(
        f"Up to {LEADS[-1]:g} hours ahead, PolyODE's error is {ours:.0f} mg/dl with the meals, and "
        f"{without:.0f} without; that of boosted trees with the meals is {trees:.0f}"
    )
    return figure


def main() -> None:
    """Simulate, train, forecast; write the figure and the table."""
    parser = argparse.ArgumentParser(description="Forecasts of glucose under meals.")
    parser.add_argument("--output", type=Path, default=Path("demo_output"))
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    start, rng = time.perf_counter(), np.random.default_rng(0)
    course, meals = simulate(rng)
    models = forecasters(read_sensor(course, rng), meals)
    scores = errors(models, course)
    table = scores.to_string()
    draw(models, course, meals, scores).savefig(folder / "glucose.png", dpi=120)
    title = "Glucose under meals: root mean squared errors of forecasts, in mg/dl"
    print(f"{title}\n\n{table}\n")
    (folder / "glucose.txt").write_text(f"{title}\n\n{table}\n", encoding="utf-8")
    print(f"{time.perf_counter() - start:.0f} seconds; glucose.png is in {folder}")


if __name__ == "__main__":
    plt.switch_backend("Agg")  # write files, open no windows
    main()
