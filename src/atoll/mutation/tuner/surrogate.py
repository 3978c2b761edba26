"""What few evaluations tell about the rest: a Gaussian process, Matern 5/2, with a length for each coordinate."""

import math

import numpy
from numpy.typing import NDArray

type Array = NDArray[numpy.float64]

_ROOT5 = math.sqrt(5.0)
_STEPS, _FIRST_STEPS = 8, 40  # of the fit: lengths move little from one evaluation to the next
_NOISE_BOUNDS = (math.log(1e-6), math.log(0.3))
_LENGTH_BOUNDS = (math.log(0.02), math.log(20.0))
_JITTER = 1e-8


class Surrogate:
    """Predicts scores; fitted by the marginal likelihood with a prior, and warm from fit to fit.

    The lengths are log-normal around `0.5 sqrt(d)`: in many dimensions points lie far apart, and a function that can be
    learned from few of them must be smooth on that scale (Hvarfner et al. 2024).
    """

    def __init__(self, num_columns: int) -> None:
        self._centre = math.log(0.5 * math.sqrt(num_columns))
        self._theta = numpy.concatenate([numpy.full(num_columns, self._centre), [0.0, math.log(1e-3)]])
        self._x: Array = numpy.empty((0, num_columns))
        self._alpha: Array = numpy.empty(0)
        self._inverse: Array = numpy.empty((0, 0))  # of the root of the kernel
        self._is_first, self._num_fitted = True, 0

    def fit(self, x: Array, y: Array) -> None:
        """Takes in standardised scores; lengths, amplitude and noise are learned anew whenever a tenth is new."""
        self._x = x
        squares = (x[:, None, :] - x[None, :, :]) ** 2
        if len(y) >= self._num_fitted + max(1, self._num_fitted // 10):
            self._climb(squares, y)
            self._num_fitted = len(y)
        self._inverse = numpy.linalg.inv(numpy.linalg.cholesky(self._kernel(self._theta, squares)[0]))
        self._alpha = self._inverse.T @ (self._inverse @ y)

    def _climb(self, squares: Array, y: Array) -> None:
        """Moves the parameters some steps uphill (Rprop: it asks for the signs of slopes alone)."""
        theta, steps = self._theta, numpy.full(len(self._theta), 0.1)
        best, best_value, before = theta, -math.inf, numpy.zeros(len(theta))
        for _ in range(_FIRST_STEPS if self._is_first else _STEPS):
            value, slope = self._likelihood(theta, squares, y)
            if value > best_value:
                best, best_value = theta, value
            agree = numpy.sign(slope) * numpy.sign(before)
            steps = numpy.clip(steps * numpy.where(agree > 0, 1.3, numpy.where(agree < 0, 0.5, 1.0)), 1e-3, 0.6)
            theta = self._bounded(theta + steps * numpy.sign(slope))
            before = slope
        self._theta, self._is_first = best, False

    @property
    def lengths(self) -> Array:
        """How far each coordinate may move before the score is another."""
        return numpy.asarray(numpy.exp(self._theta[:-2]))

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Returns mean and deviation of the score without noise at each row."""
        scaled, known = x / self.lengths, self._x / self.lengths
        squares = (scaled**2).sum(1)[:, None] + (known**2).sum(1)[None, :] - 2 * scaled @ known.T
        amplitude = math.exp(self._theta[-2])
        cross = amplitude * _matern(numpy.sqrt(numpy.maximum(squares, 0.0)))
        half = self._inverse @ cross.T
        variance = numpy.maximum(amplitude - (half**2).sum(0), 1e-12)
        return cross @ self._alpha, numpy.sqrt(variance)

    def _kernel(self, theta: Array, squares: Array) -> tuple[Array, Array, Array]:
        weights = numpy.exp(-2 * theta[:-2])
        distance = numpy.sqrt(squares @ weights)
        signal = math.exp(theta[-2]) * _matern(distance)
        noise = math.exp(theta[-1]) + _JITTER
        return signal + noise * numpy.eye(len(distance)), signal, distance

    def _likelihood(self, theta: Array, squares: Array, y: Array) -> tuple[float, Array]:
        """Returns the log of likelihood and prior, and its slope."""
        kernel, signal, distance = self._kernel(theta, squares)
        try:
            root = numpy.linalg.cholesky(kernel)
        except numpy.linalg.LinAlgError:
            return -math.inf, numpy.concatenate([-numpy.ones(len(theta) - 1), [1.0]])  # shorter and noisier
        inverse = numpy.linalg.inv(kernel)
        alpha = inverse @ y
        value = -0.5 * y @ alpha - numpy.log(numpy.diag(root)).sum()
        pull = 0.5 * (numpy.outer(alpha, alpha) - inverse)
        # d k / d log l_j = amplitude 5/3 (1 + sqrt5 r) exp(-sqrt5 r) (x_j - x'_j)^2 / l_j^2
        common = math.exp(theta[-2]) * 5 / 3 * (1 + _ROOT5 * distance) * numpy.exp(-_ROOT5 * distance)
        by_length = numpy.einsum("ij,ijk->k", pull * common, squares) * numpy.exp(-2 * theta[:-2])
        by_rest = [(pull * signal).sum(), numpy.trace(pull) * math.exp(theta[-1])]
        prior = numpy.concatenate([(theta[:-2] - self._centre) / 1.5**2, [theta[-2] / 2.0**2, 0.0]])
        prior[-1] = (theta[-1] - math.log(1e-3)) / 3.0**2
        value -= 0.5 * ((theta[:-2] - self._centre) ** 2).sum() / 1.5**2 + 0.5 * theta[-2] ** 2 / 4
        value -= 0.5 * (theta[-1] - math.log(1e-3)) ** 2 / 9
        return float(value), numpy.concatenate([by_length, by_rest]) - prior

    def _bounded(self, theta: Array) -> Array:
        low = [_LENGTH_BOUNDS[0]] * (len(theta) - 2) + [-4.0, _NOISE_BOUNDS[0]]
        high = [_LENGTH_BOUNDS[1]] * (len(theta) - 2) + [6.0, _NOISE_BOUNDS[1]]
        return numpy.clip(theta, low, high)


def _matern(distance: Array) -> Array:
    return numpy.asarray((1 + _ROOT5 * distance + 5 / 3 * distance**2) * numpy.exp(-_ROOT5 * distance))
