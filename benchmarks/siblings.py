"""What the neural siblings reach on Lorenz63 or Lorenz96, and in what time.

    python -m benchmarks.siblings [--model LinODENet] [--seeds 1] [--dataset lorenz63]
    python -m benchmarks.siblings --epochs 1   # sizes and times of embedding, not errors

Data: 500 training series in the paper's protocol (`protocol="paper-code", rate=0.3`); scored on the
250 test series by the one-step forecasting MSE, in standardised units, over all observed values but
the first of each series, and by the label from the frozen embedding, as it is and standardised.
Training is for the next observation alone (`horizon=1`). Seconds are those of one core, whatever
else it has to do meanwhile.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

import skpolyode
from benchmarks.protocol import PAPER_WINDOW, downstream
from skpolyode.datasets import make_lorenz63, make_lorenz96
from skpolyode.transformers.neural import NeuralTransformer

MAKERS = {"lorenz63": make_lorenz63, "lorenz96": make_lorenz96}
MODELS = {
    name.removesuffix("Transformer"): getattr(skpolyode, name)
    for name in skpolyode.__all__
    if name.endswith("Transformer") and issubclass(getattr(skpolyode, name), NeuralTransformer)
}
# Beside the defaults of each class.
VARIANTS = {
    "S4 with memory": ("S4", {"memory": True}),
    "Neural CDE": ("NeuralRDE", {"depth": 1}),
    "NeuralRDE depth 3": ("NeuralRDE", {"depth": 3}),
    "HiPPORNN legs": ("HiPPORNN", {"measure": "legs"}),
}
ROWS = {name: (name, {}) for name in MODELS} | VARIANTS


def measure(
    name: str, dataset: str, seed: int, epochs: int | str, n_series: int
) -> dict[str, float]:
    data = MAKERS[dataset](n_series, rate=0.3, protocol="paper-code", random_state=seed)
    training, test = (data.panel[np.asarray(data.split) == part] for part in ("train", "test"))
    kind, chosen = ROWS[name]
    parameters = {"window": PAPER_WINDOW, "horizon": 1, "max_epochs": epochs} | chosen
    parameters["random_state"] = seed
    known = MODELS[kind]().get_params()
    estimator = MODELS[kind](**{key: own for key, own in parameters.items() if key in known})
    start = time.process_time()
    estimator.fit(training)
    fitted = time.process_time()
    embedding = estimator.transform(data.panel)
    embedded = time.process_time()
    scaled = (embedding - embedding.mean(axis=0)) / np.maximum(embedding.std(axis=0), 1e-12)
    raw, standardised = (downstream(own, data, seed) for own in (embedding, scaled))
    model = estimator.embedder_.model
    return {
        "fit, s": fitted - start,
        "embedding of all series, s": embedded - fitted,
        "epochs": estimator.n_epochs_,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "features": embedding.shape[1],
        "one-step MSE, validation": estimator.validation_error_,
        "one-step MSE, test": -estimator.score(test),
        "AUC": raw.auc,
        "AUC, standardised": standardised.auc,
        "label MSE": raw.label_regression_mse,
        "label MSE, standardised": standardised.label_regression_mse,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=ROWS, action="append")
    parser.add_argument("--dataset", choices=MAKERS, default="lorenz63")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--n-series", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default="auto", help="at most (%(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.model or ROWS:
        for seed in range(arguments.seeds):
            result = measure(name, arguments.dataset, seed, arguments.epochs, arguments.n_series)
            text = ", ".join(f"{key} {value:.4g}" for key, value in result.items())
            print(f"{name}, {arguments.dataset}, seed {seed}: {text}", flush=True)


if __name__ == "__main__":
    main()
