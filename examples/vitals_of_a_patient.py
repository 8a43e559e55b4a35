"""
A day in intensive care, read back
==================================

The paper shows ten vital signs of a patient, read back out of the embedding after 24 hours. Here is
the same with the open records of the PhysioNet challenge of 2012: unpack ``set-a`` and
``Outcomes-a.txt`` into the folder ``challenge-2012`` (https://physionet.org/content/challenge-2012).
Without that folder the patients are simulated, as in the pictures below.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skpolyode import Panel, PolyODETransformer
from skpolyode.datasets import drop_times, load_physionet2012

FOLDER = Path("challenge-2012")
N_TRAIN, N_TEST, N_EPOCHS, HOURS = 200, 50, 12, 24
# Name here and in the records, then, to simulate: level, spread, and share of hours with a value.
VITALS = {
    "heart rate": ("HR", 85, 15, 0.9),
    "mean pressure": ("NIMAP", 77, 12, 0.7),
    "diastolic pressure": ("NIDiasABP", 58, 11, 0.7),
    "saturation": ("SaO2", 97, 2, 0.15),
    "respiration": ("RespRate", 19, 4, 0.5),
    "glucose": ("Glucose", 135, 40, 0.15),
    "urea nitrogen": ("BUN", 27, 18, 0.1),
    "white cells": ("WBC", 12, 5, 0.1),
    "temperature": ("Temp", 37, 0.8, 0.4),
    "creatinine": ("Creatinine", 1.3, 0.9, 0.1),
}


def simulated(n_stays: int) -> Panel:
    """Stays whose severity wanders; each vital sign follows it in part, and is noisy."""
    rng = np.random.default_rng(0)
    _, level, spread, measured = (np.array(column) for column in zip(*VITALS.values(), strict=True))
    stays = []
    for _ in range(n_stays):
        course = np.empty((HOURS, 1 + len(VITALS)))  # severity, then what each sign has alone
        course[0] = rng.normal(size=course.shape[1])
        for hour in range(1, HOURS):
            course[hour] = 0.95 * course[hour - 1] + 0.31 * rng.normal(size=course.shape[1])
        signs = 0.7 * course[:, :1] + 0.7 * course[:, 1:] + 0.2 * rng.normal(size=(HOURS, 10))
        values = level + spread * signs
        values[rng.random(values.shape) > measured] = np.nan
        stays.append((np.arange(HOURS) + 0.5, values))
    return Panel.from_series(stays, channel_names=list(VITALS))


def recorded(n_stays: int) -> Panel:
    """The first day of the first records."""
    panel = load_physionet2012(FOLDER).panel[:n_stays]
    panel = panel.select_channels([name for name, *_ in VITALS.values()])
    stays = []
    for times, values in panel:
        kept = (times < HOURS) & ~np.isnan(values).all(axis=1)
        stays.append((times[kept], values[kept]))
    return Panel.from_series(stays, channel_names=list(VITALS))


panel = (recorded if FOLDER.is_dir() else simulated)(N_TRAIN + N_TEST)
train, test = panel[:N_TRAIN], panel[N_TRAIN:]
model = PolyODETransformer(n_coefficients=18, window=HOURS, max_epochs=N_EPOCHS, random_state=0)
model.fit(train)

# %%
# Errors of the past
# ------------------
# A fifth of the hours of new patients is hidden. Errors are squared, in units of the variance of
# each vital sign.

known, hidden = drop_times(test, 0.2, random_state=0)
for name, targets in (("observed", known), ("hidden", hidden)):
    errors = []
    for (times, values), (own, _), k in zip(targets, known, range(len(known)), strict=True):
        inside = (times >= own[0]) & (times <= own[-1])
        if inside.any():
            past = model.reconstruct(known[[k]], times[inside]).values
            errors.append((past - values[inside]) / model.scaler_.scale)
    print(f"{name} hours: {np.nanmean(np.concatenate(errors) ** 2):.3f}")

# %%
# One patient
# -----------
# Points were observed, circles were hidden; the line is what the embedding holds of the day.

i = int(np.argmax(hidden.lengths))
(times, values), (later, unseen) = known[i], hidden[i]
fine = np.linspace(times[0], times[-1], 200)
past = model.reconstruct(known[[i]], fine).values
figure, axes = plt.subplots(5, 2, figsize=(10, 9), sharex=True, layout="constrained")
for channel, (ax, name) in enumerate(zip(axes.flat, VITALS, strict=True)):
    ax.plot(fine, past[:, channel], "C0")
    ax.plot(times, values[:, channel], "k.")
    ax.plot(later, unseen[:, channel], "o", color="C3", markerfacecolor="none")
    ax.set_title(name, loc="left", fontsize=9)
figure.supxlabel("hours since admission", fontsize=10)
plt.show()

# %%
# What happened here: eighteen coefficients a vital sign hold the course of the day, but not its
# noise. Signs that are measured once in ten hours follow what the others say about the patient.
