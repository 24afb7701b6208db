"""An energy in plain numpy and float64, which shares no code with the package: what tests compare it with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

TIMES = np.array([0.0, 0.5, 2.0])
BETA = 0.7


@dataclass
class Reference:
    """An energy with the numbers of another, evaluated point by point."""

    energy: Any
    neural: bool
    static: bool
    even: bool

    def inputs(self, k, anchor):
        if self.static:
            return np.ones(1)
        if self.neural:
            return np.array([[-0.5, 0.5][k], 2 * anchor - 1.0])
        both = np.zeros((len(TIMES) - 1, 2))
        both[k] = 1 - anchor, anchor
        return both.ravel()

    def value_and_slope(self, term, z, c):
        """By hand: layer by layer and back, or feature by feature."""
        part = self.energy.potential_term if term == "potential" else self.energy.interaction_term
        if self.neural:
            return network(part.weights, z, c)
        return features(part.weights, part.model.exponents, z, c)

    def kernel(self, z):
        """U(z) and ∇U(z) in the units of the fit, as they were fitted."""
        value, slope = self.value_and_slope("interaction", z, np.ones(1))
        if self.even:
            mirrored, behind = self.value_and_slope("interaction", -z, np.ones(1))
            return (value + mirrored) / 2, (slope - behind) / 2
        return value, slope

    def felt(self, z, place):
        """∫U(z − z')dμ(z') and its slope, in the units of the fit."""
        among = self.energy.interaction_term.populations[place]
        parts = [self.kernel(z - other.astype(np.float64)) for other in among.points]
        mass = among.weight.astype(np.float64)
        return sum(w * v for w, (v, _) in zip(mass, parts, strict=True)), sum(
            w * s for w, (_, s) in zip(mass, parts, strict=True)
        )

    def score(self, z, place):
        """∇log ρ by the densities themselves, not by their logarithms."""
        mixture = self.energy.internal_term.mixtures[place]
        density, slope = 0.0, np.zeros(len(z))
        for log_weight, mean, precision in zip(mixture.log_weights, mixture.means, mixture.precisions, strict=True):
            one = np.exp(log_weight - (z - mean) @ precision @ (z - mean) / 2) * np.sqrt(np.linalg.det(precision))
            density, slope = density + one, slope - one * precision @ (z - mean)
        return slope / density

    def push(self):
        """The slope of the kernel at no difference, which counts as potential."""
        return self.kernel(np.zeros(2))[1] * self.energy.interaction_term.speed

    def potential(self, x, k, anchor):
        units, offsets = self.energy.units, self.energy.potential_term.offsets[k]
        value = self.value_and_slope("potential", self.inner(x), self.inputs(k, anchor))[0]
        constant = (1 - anchor) * offsets[0] + anchor * offsets[1]
        return value * units.length * units.speed[k] + (x - units.center) @ self.push() + constant

    def gradient(self, x, k, anchor):
        alone = self.value_and_slope("potential", self.inner(x), self.inputs(k, anchor))[1]
        return self.energy.units.speed[k] * alone + self.push()

    def among(self, x, place):
        """∫∇U dμ + β∇log ρ, without the push that counts as potential."""
        z = self.inner(x)
        felt = self.energy.interaction_term.speed * self.felt(z, place)[1] - self.push()
        return felt + BETA * self.score(z, place) / self.energy.units.length

    def slope(self, x, k, anchor):
        """∇J(x) = ∇V + ∫∇U dμ + β∇log ρ in the user's units."""
        return self.gradient(x, k, anchor) + self.among(x, k + anchor)

    def field(self, x, snapshot):
        """−∇J at a snapshot: of two ends at the inner one the mean of both sides, the shorter interval with more."""
        if self.static:
            slope = self.gradient(x, 0, 0.5)
        else:
            parts = {
                0: [(0, 0, 1.0)],
                1: [(0, 1, 1.5 / 2.0), (1, 0, 0.5 / 2.0)],
                2: [(1, 1, 1.0)],
            }[snapshot]
            slope = sum(share * self.gradient(x, k, anchor) for k, anchor, share in parts)
        return -slope - self.among(x, snapshot)

    def inner(self, x):
        return (x - self.energy.units.center) / self.energy.units.length


def network(weights, z, c):
    hidden, slopes = np.concatenate([z, c]), []
    names = sorted(weights)
    for name in names[:-1]:
        kernel, bias = (np.asarray(weights[name][part], np.float64) for part in ("kernel", "bias"))
        before = hidden @ kernel + bias
        hidden, slopes = np.logaddexp(0, before), [*slopes, (kernel, 1 / (1 + np.exp(-before)))]
    last = np.asarray(weights[names[-1]]["kernel"], np.float64)[:, 0]
    value, back = hidden @ last + float(weights[names[-1]]["bias"][0]), last
    for kernel, sigmoid in slopes[::-1]:
        back = kernel @ (sigmoid * back)
    return value, back[: len(z)]


def features(weights, exponents, z, c):
    values, slopes = [], []
    for powers in exponents:
        values.append(np.prod([x**p for x, p in zip(z, powers, strict=True)]))
        slopes.append(
            [
                p * z[i] ** max(p - 1, 0) * np.prod([z[j] ** q for j, q in enumerate(powers) if j != i])
                for i, p in enumerate(powers)
            ]
        )
    width = float(weights["width"])
    for center in np.asarray(weights["centers"], np.float64):
        values.append(np.exp(-np.sum((z - center) ** 2) / width))
        slopes.append(-2 / width * values[-1] * (z - center))
    theta = c @ np.asarray(weights["theta"], np.float64)
    return theta @ np.array(values), theta @ np.array(slopes)
