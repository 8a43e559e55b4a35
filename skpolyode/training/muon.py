"""Muon: momentum whose matrices are orthogonalised before each step."""

from __future__ import annotations

from collections.abc import Iterable

import torch

_FEW = 64  # inputs of a typical hidden layer, for which the learning rate is meant


def orthogonalise(matrix: torch.Tensor, rounds: int = 5) -> torch.Tensor:
    """Bring all singular values of a matrix near one, keeping its singular vectors.

    A Newton-Schulz iteration: each round applies an odd polynomial of degree five to the singular
    values, with three small products and no decomposition.

    Parameters
    ----------
    matrix : Tensor of shape (n_out, n_in)
    rounds : int, default=5
        Rounds of the iteration; five suffice for singular values down to 1 % of the norm.

    Returns
    -------
    Tensor of shape (n_out, n_in)

    Examples
    --------
    >>> import torch
    >>> from skpolyode.training import orthogonalise
    >>> values = torch.linalg.svdvals(orthogonalise(torch.diag(torch.tensor([3.0, -1.0, 0.2]))))
    >>> bool((values > 0.6).all() and (values < 1.3).all())
    True
    """
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.t() if tall else matrix  # (n, m) with n <= m
    x = x / x.norm().clamp(min=1e-12)
    a, b, c = 3.4445, -4.775, 2.0315  # map singular values in (0, 1] close to 1 in five rounds
    for _ in range(rounds):
        gram = x @ x.t()
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.t() if tall else x


class Muon:
    """Orthogonalised momentum for matrices, Adam for vectors.

    On Lorenz63 it needs half of Adam's epochs to the same forecasting error. This is not
    :class:`torch.optim.Muon` because that one works in bfloat16, which on a CPU takes ten
    times as long for matrices of this size and would cost half of the training time; and no
    subclass of torch's optimizers because their constructor imports torch's compiler, which takes
    longer than training on a small set.

    Parameters
    ----------
    parameters : iterable of Parameter
        Matrices and vectors.
    lr : float
        Size of a step of a matrix, in its spectral norm: times the root of outputs for each input
        where there are more outputs, or more than 64 inputs, so that outputs move as much on
        average however wide the layer is. An attribute that may be set anew before each step.
    momentum : float, default=0.9
        Share of the past in the gradient of matrices.
    vector_lr : float, default=0.4
        Step of the vectors, relative to `lr`.
    weight_decay : float, default=0.1
        Shrinking rate of the matrices, relative to `lr`. It makes the learned field smooth: on
        the sparsest benchmark (Synthetic) it halves the held-out error, on Lorenz63 the error of
        the integration.

    References
    ----------
    K. Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024.

    Examples
    --------
    >>> import torch
    >>> from skpolyode.training import Muon
    >>> layer = torch.nn.Linear(3, 2)
    >>> optimizer = Muon(layer.parameters(), lr=0.05)
    >>> layer(torch.ones(1, 3)).sum().backward()
    >>> optimizer.step()
    """

    def __init__(
        self,
        parameters: Iterable[torch.Tensor],
        lr: float,
        momentum: float = 0.9,
        vector_lr: float = 0.4,
        weight_decay: float = 0.1,
    ) -> None:
        self.parameters = list(parameters)
        self.lr = lr
        self.momentum = momentum
        self.vector_lr = vector_lr
        self.weight_decay = weight_decay
        self.state: list[dict] = [{} for _ in self.parameters]

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Update all parameters from their gradients."""
        for parameter, state in zip(self.parameters, self.state, strict=True):
            if parameter.grad is not None:
                rule = self._step_matrix if parameter.ndim == 2 else self._step_vector
                rule(parameter, state)

    def _step_matrix(self, matrix: torch.Tensor, state: dict) -> None:
        if not state:
            state["momentum"] = torch.zeros_like(matrix)
        momentum = state["momentum"].lerp_(matrix.grad, 1 - self.momentum)
        ahead = matrix.grad.lerp(momentum, self.momentum)  # Nesterov
        outputs, inputs = matrix.shape
        size = (max(outputs, min(inputs, _FEW)) / inputs) ** 0.5
        matrix.mul_(1 - self.lr * self.weight_decay)
        matrix.add_(orthogonalise(ahead), alpha=-self.lr * size)

    def _step_vector(self, vector: torch.Tensor, state: dict) -> None:
        """Adam with its default constants."""
        if not state:
            state.update(step=0, mean=torch.zeros_like(vector), square=torch.zeros_like(vector))
        state["step"] += 1
        state["mean"].lerp_(vector.grad, 0.1)
        state["square"].lerp_(vector.grad.square(), 0.001)
        mean = state["mean"] / (1 - 0.9 ** state["step"])
        deviation = (state["square"] / (1 - 0.999 ** state["step"])).sqrt_()
        vector.addcdiv_(mean, deviation + 1e-8, value=-self.lr * self.vector_lr)
