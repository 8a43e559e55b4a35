"""The first look of the README: where storms will be, by those of earlier seasons."""

from __future__ import annotations

from skpolyode import Panel, PolyODETransformer, evaluate_forecasts
from skpolyode.datasets import load_storms

table = load_storms().frame.drop(columns="name")
print(table.head(2))
storms = Panel.from_long(table, id="storm", time="time", time_unit="h")
known, new = storms[:100], storms[100:]
model = PolyODETransformer(random_state=0).fit(known)
scores = evaluate_forecasts(model, new, cutoff=0.5, horizon=[24, 72], metrics=["mse", "coverage"])
print(scores.pivot(index="channel", columns=["metric", "lead"], values="value").round(2))
lower, upper = model.forecast_interval(new, ["12h", "2D"], 0.9, relative_to="end")  # any times
