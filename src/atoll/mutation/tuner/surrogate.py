"""Surrogate of the score: a Gaussian process with a length scale for each coordinate.

Its kernel is a Matern 5/2 of all coordinates plus a sum of Cauchy kernels 1 / (1 + u^2), one for each coordinate.
Constants often act independently. Every evaluation then informs about each of them.
"""

import math

import numpy
from numpy.typing import NDArray

type Array = NDArray[numpy.float64]

_ROOT5 = math.sqrt(5.0)
_STEPS, _FIRST_STEPS = 8, 40  # of the fit: lengths change little between evaluations
_NOISE_BOUNDS = (math.log(1e-6), math.log(0.3))
_LENGTH_BOUNDS = (math.log(0.02), math.log(20.0))
_JITTER = 1e-8
_SINGLE_LENGTH_RATIO = 3.0  # times shorter: a single coordinate may curve more than all together


class Surrogate:
    """Predicts scores. The fit maximizes the marginal likelihood with a prior and starts from the last fit.

    The prior of the lengths is log-normal around `0.5 sqrt(d)`. In many dimensions points are far apart, and a function
    that few points can predict must be smooth on that scale (Hvarfner et al. 2024).
    """

    def __init__(self, num_columns: int) -> None:
        self._center = math.log(0.5 * math.sqrt(num_columns))
        self._theta = numpy.concatenate([numpy.full(num_columns, self._center), [-1.0, -1.0, math.log(1e-3)]])
        self._x: Array = numpy.empty((0, num_columns))
        self._alpha: Array = numpy.empty(0)
        self._inverse: Array = numpy.empty((0, 0))  # of the Cholesky factor of the kernel
        self._is_first, self._num_new = True, 0

    def fit(self, x: Array, y: Array) -> None:
        """Fits standardized scores. The parameters are fitted again when a tenth of the scores is new."""
        self._x = x
        squares = (x[:, None, :] - x[None, :, :]) ** 2
        self._num_new += 1
        if self._num_new >= max(1, len(y) // 10):
            self._maximize_likelihood(squares, y)
            self._num_new = 0
        self._inverse = numpy.linalg.inv(numpy.linalg.cholesky(self._compute_kernel(self._theta, squares)[0]))
        self._alpha = self._inverse.T @ (self._inverse @ y)

    def _maximize_likelihood(self, squares: Array, y: Array) -> None:
        """Moves the parameters some steps uphill by Rprop, which uses only the signs of slopes."""
        theta, steps = self._theta, numpy.full(len(self._theta), 0.1)
        best, best_value, previous_slope = theta, -math.inf, numpy.zeros(len(theta))
        for _ in range(_FIRST_STEPS if self._is_first else _STEPS):
            value, slope = self._compute_likelihood(theta, squares, y)
            if value > best_value:
                best, best_value = theta, value
            agree = numpy.sign(slope) * numpy.sign(previous_slope)
            steps = numpy.clip(steps * numpy.where(agree > 0, 1.3, numpy.where(agree < 0, 0.5, 1.0)), 1e-3, 0.6)
            theta = self._clip(theta + steps * numpy.sign(slope))
            previous_slope = slope
        self._theta, self._is_first = best, False

    @property
    def lengths(self) -> Array:
        """Length scale of each coordinate."""
        return numpy.asarray(numpy.exp(self._theta[:-3]))

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Returns mean and standard deviation of the noise-free score at each row."""
        scaled, known_points = x / self.lengths, self._x / self.lengths
        squares = (scaled**2).sum(1)[:, None] + (known_points**2).sum(1)[None, :] - 2 * scaled @ known_points.T
        joint, separate = numpy.exp(self._theta[-3:-1])
        cross = joint * _matern(numpy.sqrt(numpy.maximum(squares, 0.0)))
        for column in range(x.shape[1]):
            single = _SINGLE_LENGTH_RATIO * (scaled[:, column, None] - known_points[None, :, column])
            single *= single
            single += 1.0
            # In place, because this is most of the cost of a search.
            cross += numpy.divide(separate / x.shape[1], single, out=single)
        half = self._inverse @ cross.T
        variance = numpy.maximum(joint + separate - (half**2).sum(0), 1e-12)
        return cross @ self._alpha, numpy.sqrt(variance)

    def _compute_kernel(self, theta: Array, squares: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Returns the kernel, its joint and separate parts, the distances and the kernel of each coordinate."""
        weights = numpy.exp(-2 * theta[:-3])
        distance = numpy.sqrt(squares @ weights)
        joint = math.exp(theta[-3]) * _matern(distance)
        singles = 1 / (1 + squares * (weights * _SINGLE_LENGTH_RATIO**2))
        separate = math.exp(theta[-2]) * singles.mean(2)
        noise = math.exp(theta[-1]) + _JITTER
        return joint + separate + noise * numpy.eye(len(distance)), joint, separate, distance, singles

    def _compute_likelihood(self, theta: Array, squares: Array, y: Array) -> tuple[float, Array]:
        """Returns the logarithm of likelihood times prior, and its gradient."""
        kernel, joint, separate, distance, singles = self._compute_kernel(theta, squares)
        try:
            root = numpy.linalg.cholesky(kernel)
        except numpy.linalg.LinAlgError:
            return -math.inf, numpy.concatenate([-numpy.ones(len(theta) - 1), [1.0]])  # shorter and noisier
        inverse = numpy.linalg.inv(kernel)
        alpha = inverse @ y
        value = -0.5 * y @ alpha - numpy.log(numpy.diag(root)).sum()
        gradient_weights = 0.5 * (numpy.outer(alpha, alpha) - inverse)
        # d k / d log l_j = amplitude 5/3 (1 + sqrt5 r) exp(-sqrt5 r) (x_j - x'_j)^2 / l_j^2
        common = math.exp(theta[-3]) * 5 / 3 * (1 + _ROOT5 * distance) * numpy.exp(-_ROOT5 * distance)
        by_length = numpy.einsum("ij,ijk->k", gradient_weights * common, squares) * numpy.exp(-2 * theta[:-3])
        single_slopes = numpy.einsum("ij,ijk->k", gradient_weights, 2 * singles * (1 - singles))
        by_length += math.exp(theta[-2]) / len(by_length) * single_slopes
        by_noise = numpy.trace(gradient_weights) * math.exp(theta[-1])
        by_other_params = [(gradient_weights * joint).sum(), (gradient_weights * separate).sum(), by_noise]
        center = numpy.concatenate([numpy.full(len(by_length), self._center), [-1.0, -1.0, math.log(1e-3)]])
        widths = numpy.concatenate([numpy.full(len(by_length), 1.5), [2.0, 2.0, 3.0]])
        value -= 0.5 * (((theta - center) / widths) ** 2).sum()
        return float(value), numpy.concatenate([by_length, by_other_params]) - (theta - center) / widths**2

    def _clip(self, theta: Array) -> Array:
        low = [_LENGTH_BOUNDS[0]] * (len(theta) - 3) + [-6.0, -6.0, _NOISE_BOUNDS[0]]
        high = [_LENGTH_BOUNDS[1]] * (len(theta) - 3) + [6.0, 6.0, _NOISE_BOUNDS[1]]
        return numpy.clip(theta, low, high)


def _matern(distance: Array) -> Array:
    scaled = _ROOT5 * distance
    decay = numpy.exp(-scaled)
    decay *= 1 + scaled * (1 + scaled / 3)
    return numpy.asarray(decay)
