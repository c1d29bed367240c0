"""The recursion of second moments, from the terms of a step: `Independent` samples, or `Along` a chain.

With z = (x - origin, 1) a step is z <- z - alpha N z, where N is a sum over lefts l of l rho^T (see `terms`).

With independent samples S = E[z z^T] obeys

    S <- S - alpha (A S + S A^T) + alpha^2 E[N S N^T],     A = E[N].

The state of each chain decides l, and rho is a combination of few rows, units and rewards. So the mean of a
product rho^T S rho', given the states, follows from the products of these among each other
(`StepPlan._products`), and a step costs a few products of d x d and n x d matrices.

Along a chain S(u) = E[z z^T, the chain is in u] obeys

    S'(v) = sum over u of P(u, v) M S(u) M^T,     M = I - alpha * sum over lefts of l(u) rho(u, v)^T.

So S'(v) is the mixture of the S(u), and corrections of few ranks. Terms whose rho does not depend on v come
first, at each node: with B = I minus these terms, S'(v) is the mixture of the B S(u) B^T, and corrections by
the other terms. A node u is a state, or a pair of states if there are two chains. A step costs about three
products with d x d matrices for each possible transition.

With two chains these are the transitions of pairs, n^4 of them at most. But where rho does not see the next
state of the second chain, as in double-chain, this state is drawn independently of the step. So the first
chain moves alone, which are n^3 transitions, and then the second one, which is a product with its matrix.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from gainbias.model.checks import CsrArray
from gainbias.theory.curve.terms import STATES, Ingredients, RowSource
from gainbias.types import Floats, Ints

HERE, OTHER = 0, 2
"""Numbers of the lefts that are rows of states: here, and that of the other chain."""

NEXT_OTHER = 3
"""Number of the right that is the row of the next state of the second chain."""

FIRST, SECOND = 0, 1
"""Numbers of the two chains."""

DENSE_SHARE = 0.1
"""From this share of possible transitions on, products with the dense matrix are faster."""

ALONE = sparse.csr_array(np.ones((1, 1)))
"""A chain of one state, which replaces a missing second chain."""


class Independent:
    """The recursion of the second moment, for independent samples.

    Parameters
    ----------
    made_of : Ingredients
    """

    def __init__(self, made_of: Ingredients) -> None:
        self.coefficients, self.fixed, self.units = made_of.coefficients, made_of.fixed, made_of.units
        first, second = made_of.first, made_of.second
        self.sources = (first,) if second is None else (first, second)
        self._kept: StepPlan | None = None

    def begin(self, x: Floats) -> Floats:
        """Return S for first values x, measured from the origin: (1, m + 1, m + 1)."""
        z = np.append(x, 1.0)
        return np.outer(z, z)[None]

    def step(self, moments: Floats, step_size: float) -> Floats:
        """Return S after one step."""
        return moments + step_size * self.slope(moments, step_size)

    def slope(self, moments: Floats, step_size: float) -> Floats:
        """Return the change of S in one step, divided by the step size."""
        plan, now = self.plan(step_size), moments[0]
        drift = plan.mean @ now if self.fixed else plan.drift(now)
        change = plan.noise(now)
        change *= step_size
        change -= drift
        change -= drift.T
        return change[None]

    def change_of_sum(self, moments: Floats, step_size: float) -> Floats:
        """Return the change of S in one step, (m + 1, m + 1)."""
        return np.asarray(step_size * self.slope(moments, step_size)[0])

    def forgetting(self, step_size: float) -> Floats:
        """Return the rate at which each entry of z forgets itself, 0 for weights and for the 1: (m + 1,)."""
        return self.plan(step_size).forgetting

    def plan(self, step_size: float) -> StepPlan:
        """Return the parts of a step with this size that do not depend on the moments."""
        if self._kept is None or not self.fixed:
            self._kept = StepPlan(self.coefficients(step_size), self.sources, self.units)
        return self._kept


class StepPlan:
    """The part of a step under independent samples that does not depend on the moments.

    A left is the row here (of the first chain), the row of the other state (of the second chain), or a unit.
    """

    def __init__(self, coefficients: Floats, sources: tuple[RowSource, ...], units: Floats) -> None:
        self.sources, self.units = sources, units
        num_units = len(units) - 1
        lefts = np.flatnonzero(coefficients.any(axis=(0, 2))).tolist()
        self.lefts: list[int] = lefts
        self.chain_of = [SECOND if i == OTHER else FIRST for i in lefts]
        same = bool((coefficients == coefficients[:1]).all())
        rights = STATES + num_units
        own = [0, 1, rights + 1, *range(STATES, rights), rights]
        picked = coefficients[:1] if same else coefficients
        self.parts = [picked[:, lefts][:, :, own]]
        if len(sources) == 2:
            self.parts.append(coefficients[:1, lefts][:, :, [2, 3, rights + 2]])
        self.tables = [self._table(i) for i in lefts]

    def _table(self, left: int) -> Floats:
        """Return the rows of a left without the last entry's share of the origin, or its unit."""
        if left in (HERE, OTHER):
            return self.sources[FIRST if left == HERE else SECOND].lefts
        unit: Floats = self.units[left - STATES].copy()
        unit[-1] = 0.0
        return unit

    @cached_property
    def rights(self) -> list[Floats]:
        """Mean right side of each left, for each state of a chain: (lefts, n, m + 1) for each chain."""
        found = []
        for source, part in zip(self.sources, self.parts, strict=True):
            right = np.zeros((len(self.lefts), *source.rows.shape))
            if part.shape[2] > 3:
                right[:, :, self._first_unit :] = (
                    part[:, :, 3:] @ self.units[:, self._first_unit :]
                ).transpose(1, 0, 2)
            right[:, :, -1] += part[:, :, 2].T * source.reward_mean
            for i, j in np.argwhere(part[:, :, :2].any(axis=0)):
                right[i] += part[:, i, j, None] * (source.rows, source.after)[j]
            found.append(right)
        return found

    @cached_property
    def means(self) -> list[Floats]:
        """Mean of these under the stationary law: (lefts, m + 1) for each chain."""
        return [
            np.einsum("n,inm->im", source.law, right)
            for source, right in zip(self.sources, self.rights, strict=True)
        ]

    @cached_property
    def crossed(self) -> list[list[Floats]]:
        """Mean of left i times the right side j of the chain of left i: an (m + 1, m + 1) array for each."""
        return [
            [self._left_times(i, self.rights[self.chain_of[i]][j]) for j in range(len(self.lefts))]
            for i in range(len(self.lefts))
        ]

    @cached_property
    def mean(self) -> Floats:
        """The matrix A = E[N], (m + 1, m + 1)."""
        total = np.zeros((self.units.shape[1],) * 2)
        for i, chain in enumerate(self.chain_of):
            total += self.crossed[i][i]
            for other in range(len(self.sources)):
                if other != chain:
                    total += np.outer(self.left_mean[i], self.means[other][i])
        return total

    @cached_property
    def forgetting(self) -> Floats:
        """The diagonal of A, for fields after the weights alone, (m + 1,)."""
        law, part, found = self.sources[FIRST].law, self.parts[FIRST], np.zeros(self.units.shape[1])
        for i, left in enumerate(self.lefts):
            if left >= STATES:
                own = np.broadcast_to(part[:, i, 3 + left - STATES], law.shape)
                found[self._first_unit + left - STATES] = law @ own
        return found

    def drift(self, moments: Floats) -> Floats:
        """Return A S for one S, (m + 1, m + 1), at less cost than A itself if there is one chain."""
        if len(self.sources) == 2:
            return np.asarray(self.mean @ moments)
        total = np.zeros_like(moments)
        for i, table in enumerate(self.tables):
            if table.ndim == 1:
                total += np.outer(table, self.means[FIRST][i] @ moments)
            else:
                total += self._left_times(i, self.rights[FIRST][i] @ moments)
        return total

    @cached_property
    def left_mean(self) -> list[Floats]:
        """Mean of each left, (m + 1,)."""
        return [
            table if table.ndim == 1 else self.sources[chain].law @ table
            for table, chain in zip(self.tables, self.chain_of, strict=True)
        ]

    def _left_times(self, i: int, right: Floats) -> Floats:
        law, table = self.sources[self.chain_of[i]].law, self.tables[i]
        if table.ndim == 1:
            return np.outer(table, law @ right)
        return np.asarray((table * law[:, None]).T @ right)

    def noise(self, moments: Floats) -> Floats:
        """Return E[N S N^T] for one S, (m + 1, m + 1)."""
        products = [self._products(c, moments) for c in range(len(self.sources))]
        averages = [
            np.asarray(product @ source.law) for product, source in zip(products, self.sources, strict=True)
        ]
        total = np.zeros_like(moments)
        for i in range(len(self.lefts)):
            for k in range(i, len(self.lefts)):
                if self.chain_of[i] == self.chain_of[k]:
                    self._add_weighted(i, k, self._together(i, k, moments, products, averages), total)
                else:
                    block = self._apart(i, k, moments, products)
                    total += block
                    total += block.T
        return total

    def _together(
        self, i: int, k: int, moments: Floats, products: list[Floats], averages: list[Floats]
    ) -> Floats:
        """Return the mean of rho_i^T S rho_k for two lefts of one chain, given its state, times its law."""
        chain = self.chain_of[i]
        weight: Floats = products[chain][i, k].copy()
        for other in range(len(self.sources)):
            if other != chain:
                one, two = self.means[other][i], self.means[other][k]
                weight += averages[other][i, k]
                if self._present[chain][i] and self._present[other][k]:
                    weight += self.rights[chain][i] @ (moments @ two)
                if self._present[chain][k] and self._present[other][i]:
                    weight += self.rights[chain][k] @ (moments @ one)
        weight *= self.sources[chain].law
        return weight

    def _add_weighted(self, i: int, k: int, weight: Floats, total: Floats) -> None:
        """Add the sum over states of weight l_i l_k^T, and its transpose if i and k differ."""
        one, two = self.tables[i], self.tables[k]
        if one.ndim == 2 and two.ndim == 2:
            total += (one.T * weight) @ two
        elif one.ndim == 2:
            place, column = self.lefts[k] - STATES + self._first_unit, weight @ one
            total[:, place] += column
            total[place] += column
        else:
            block = weight.sum() * np.outer(one, two)
            total += block if i == k else block + block.T

    @property
    def _first_unit(self) -> int:
        """Place in z of the first field after the weights."""
        return int(self.units.shape[1] - len(self.units))

    def _apart(self, i: int, k: int, moments: Floats, products: list[Floats]) -> Floats:
        """Return the mean of l_i l_k^T rho_i^T S rho_k for lefts of different chains."""
        chain, other = self.chain_of[i], self.chain_of[k]
        block = np.outer(self._moment_of(i, products[chain][i, k]), self.left_mean[k])
        block += np.outer(self.left_mean[i], self._moment_of(k, products[other][i, k]))
        for one, two in ((i, k), (k, i)):
            if self._present[chain][one] and self._present[other][two]:
                block += self.crossed[i][one] @ moments @ self.crossed[k][two].T
        return block

    def _moment_of(self, i: int, weight: Floats) -> Floats:
        """Return the mean of a left times a weight for each state of its chain, (m + 1,)."""
        law, table = self.sources[self.chain_of[i]].law, self.tables[i]
        return np.asarray((law @ weight) * table if table.ndim == 1 else (law * weight) @ table)

    @cached_property
    def _present(self) -> list[list[bool]]:
        """Whether the right side of each left has a part of each chain."""
        return [[bool(np.any(part[:, i])) for i in range(len(self.lefts))] for part in self.parts]

    @cached_property
    def _squared_parts(self) -> list[Floats]:
        return [np.kron(part[0], part[0]) for part in self.parts]

    def _products(self, chain: int, moments: Floats) -> Floats:
        """Return the mean of rho_i^T S rho_k of one chain, given its state: (lefts, lefts, n)."""
        source, part = self.sources[chain], self.parts[chain]
        if not any(self._present[chain]):
            return np.zeros((len(self.lefts), len(self.lefts), source.size))
        units = self.units if chain == FIRST else self.units[-1:]
        short = units @ moments
        rows = source.rows @ moments
        here = np.einsum("nm,nm->n", rows, source.rows)
        count = 3 + (len(units) if chain == FIRST else 0)
        gram = np.zeros((count, count, source.size))
        gram[0, 0] = here
        gram[0, 1] = gram[1, 0] = np.einsum("nm,nm->n", rows, source.after)
        gram[1, 1] = source.transitions @ here
        last = short[-1]
        gram[0, 2] = gram[2, 0] = source.reward_mean * rows[:, -1]
        gram[1, 2] = gram[2, 1] = source.reward_after @ last
        gram[2, 2] = source.reward_square * last[-1]
        if chain == FIRST:
            gram[0, 3:] = gram[3:, 0] = short @ source.rows.T
            gram[1, 3:] = gram[3:, 1] = short @ source.after.T
            gram[2, 3:] = gram[3:, 2] = np.outer(short[:, -1], source.reward_mean)
            gram[3:, 3:] = (short @ units.T)[:, :, None]
        if len(part) == 1:
            pairs = self._squared_parts[chain] @ gram.reshape(-1, source.size)
            return np.asarray(pairs.reshape(*2 * [len(self.lefts)], -1))
        return np.asarray(np.einsum("nik,nlk->iln", np.einsum("nij,jkn->nik", part, gram), part))


class BlindTerms(NamedTuple):
    """Lefts and right sides, (nodes, terms, m + 1) each, of terms that do not see next states."""

    lefts: Floats
    rights: Floats

    def change(self, moments: Floats, step_size: float) -> Floats:
        """Return B S B^T - S for each node, B = I - alpha * sum over these terms of l rho^T."""
        products = self.rights @ moments
        squares = products @ self.rights.transpose(0, 2, 1)
        half = _pairs(self.lefts, step_size * (products - 0.5 * step_size * (squares @ self.lefts)))
        return -(half + half.transpose(0, 2, 1))

    def moved_rows(self, rows: Floats, step_size: float) -> Floats:
        """Return X B^T for the rows X of each node, (nodes, rows, m + 1)."""
        if not self.lefts.shape[1]:
            return rows
        return rows - step_size * _pairs(
            (rows @ self.rights.transpose(0, 2, 1)).transpose(0, 2, 1), self.lefts
        )


class SeeingTerms(NamedTuple):
    """Lefts and right sides of terms that see next states.

    `lefts` has the shape (nodes, terms, m + 1), `rights` (nodes, transitions * terms, m + 1). `lefts_before`
    are the lefts of the nodes that the transitions to each node come from.
    """

    lefts: Floats
    rights: Floats
    lefts_before: Floats


class Along:
    """The recursion of the second moments, for samples along a chain.

    Parameters
    ----------
    made_of : Ingredients
    """

    def __init__(self, made_of: Ingredients) -> None:
        self.coefficients, self.fixed, self.units = made_of.coefficients, made_of.fixed, made_of.units
        self.first, second = made_of.first, made_of.second
        first = self.first
        self._moves_later: Floats | None = None
        if second is not None and self._is_blind_to_next_of(second):
            self._moves_later = second.transitions.toarray().T
            second = _standing(second)
        self.second = second
        pair = ALONE if second is None else second.transitions
        self.here, self.other = (part.ravel() for part in np.indices((first.size, pair.shape[0])))
        self.transitions = _product(first.transitions, pair)
        self._entries = _product(_numbered(first.transitions), _ones_like(pair)).data.astype(np.int64) - 1
        self._other_entries = (
            _product(_ones_like(first.transitions), _numbered(pair)).data.astype(np.int64) - 1
        )
        self._tables: tuple[BlindTerms, SeeingTerms] | None = None

    def _is_blind_to_next_of(self, second: RowSource) -> bool:
        """Whether steps see neither the next state of the second chain nor a reward that depends on it."""
        if not self.fixed:
            return False
        coefficients, table = self.coefficients(1.0), second.transitions
        of_state = np.repeat(second.rewards[table.indptr[:-1]], np.diff(table.indptr))
        by_state = np.array_equal(of_state, second.rewards) or not np.any(coefficients[:, :, -1])
        return bool(by_state and not np.any(coefficients[:, :, NEXT_OTHER]))

    def begin(self, x: Floats) -> Floats:
        """Return S(u) for first values x, measured from the origin: (nodes, m + 1, m + 1)."""
        z = np.append(x, 1.0)
        law = self.first.start if self.second is None else np.kron(self.first.start, self.second.start)
        return np.asarray(law[:, None, None] * np.outer(z, z))

    def step(self, moments: Floats, step_size: float) -> Floats:
        """Return S(u) after one step."""
        blind, seeing = self._terms(step_size)
        after = self._mixed(moments + blind.change(moments, step_size))
        nodes, count, size = seeing.lefts.shape
        if count:
            into = self._corrections(moments, step_size).reshape(-1, count, size)[self._order]
            into[self._missing] = 0.0
            shape = (nodes, -1, size)
            correction = seeing.lefts_before.reshape(shape).transpose(0, 2, 1) @ into.reshape(shape)
            after += correction
            after += correction.transpose(0, 2, 1)
        if self._moves_later is not None:
            pairs = after.reshape(self.first.size, -1, size * size)
            after = np.asarray(self._moves_later @ pairs).reshape(moments.shape)
        return after

    def change_of_sum(self, moments: Floats, step_size: float) -> Floats:
        """Return the change of the sum of all S(u) in one step, with all digits however small the step."""
        blind, seeing = self._terms(step_size)
        total: Floats = blind.change(moments, step_size).sum(axis=0)
        if seeing.lefts.shape[1]:
            rows = self._corrections(moments, step_size)
            lefts = np.tile(seeing.lefts, (1, self._degree, 1))
            correction = np.einsum("uti,utj->ij", lefts, rows)
            total += correction
            total += correction.T
        return total

    def _corrections(self, moments: Floats, step_size: float) -> Floats:
        """Return what terms that depend on v add to S'(v): sums of l X^T + X l^T over X, with lefts l.

        The probability of the transition is in them: (nodes, transitions * terms, m + 1).
        """
        blind, seeing = self._terms(step_size)
        nodes, count, size = seeing.lefts.shape
        products = seeing.rights @ moments
        own = (nodes, self._degree, count, size)
        squares = _squares(products.reshape(own), seeing.rights.reshape(own))
        found = blind.moved_rows(products, step_size)
        found -= _pairs(
            (0.5 * step_size) * squares.reshape(nodes, -1, count).transpose(0, 2, 1), seeing.lefts
        )
        found *= -step_size * self._weight_of_rows(count)
        return found

    def _mixed(self, moments: Floats) -> Floats:
        """Return the mixture of moments that moves bring to each node."""
        flat = moments.reshape(self._mixer.shape[1], -1)
        return np.asarray(self._mixer @ flat).reshape(moments.shape)

    def _weight_of_rows(self, count: int) -> Floats:
        return np.repeat(self._weight, count, axis=1)[:, :, None]

    def _terms(self, step_size: float) -> tuple[BlindTerms, SeeingTerms]:
        """Return the terms whose right sides do not see next states, and those whose do."""
        if self._tables is None or not self.fixed:
            self._tables = self._make_tables(self.coefficients(step_size))
        return self._tables

    def _make_tables(self, coefficients: Floats) -> tuple[BlindTerms, SeeingTerms]:
        used = [i for i in range(coefficients.shape[1]) if np.any(coefficients[:, i])]
        own = coefficients[self.here]
        sees = [i for i in used if self._sees_next(own[:, i])]
        others = [i for i in used if i not in sees]
        nodes, size = len(self.here), self.units.shape[1]
        lefts = self._lefts(sees)
        rights = self._rights(own[:, sees], slice(None)).reshape(nodes, -1, size)
        blind = BlindTerms(self._lefts(others), self._rights(own[:, others], slice(1))[:, 0])
        return blind, SeeingTerms(lefts, rights, lefts[self._before])

    def _sees_next(self, own: Floats) -> bool:
        """Whether a right side, (nodes, rights), has next states or rewards that depend on them."""
        seen = bool(np.any(own[:, [1, NEXT_OTHER]]))
        for j, rewards in self._rewards.items():
            varied = np.any((rewards != rewards[:, :1]) & (self._weight > 0.0))
            seen = seen or bool(varied and np.any(own[:, j]))
        return seen

    def _lefts(self, which: list[int]) -> Floats:
        """Return the lefts of each node, (nodes, lefts, m + 1)."""
        lefts = np.zeros((len(self.here), len(which), self.units.shape[1]))
        for place, i in enumerate(which):
            lefts[:, place] = self._rows_here[i] if i < STATES else self.units[i - STATES]
        lefts[:, :, -1] = 0.0
        return lefts

    def _rights(self, own: Floats, moves: slice) -> Floats:
        """Return the right sides of some transitions from each node, (nodes, transitions, lefts, m + 1)."""
        shape = (len(own), self._weight[:, moves].shape[1], own.shape[1], self.units.shape[1])
        rights = np.zeros(shape)
        for j in (0, OTHER):
            if np.any(own[:, :, j]):
                rights += (own[:, :, j, None] * self._rows_here[j][:, None])[:, None]
        for j in (1, NEXT_OTHER):
            if np.any(own[:, :, j]):
                rights += own[:, None, :, j, None] * self._rows_after[j][:, moves, None]
        rights += (own[:, :, STATES:-2] @ self.units)[:, None]
        for j in (-2, -1):
            if np.any(own[:, :, j]):
                rights[..., -1] += own[:, None, :, j] * self._rewards[j][:, moves, None]
        return rights

    @cached_property
    def _degree(self) -> int:
        """The largest number of transitions from a node."""
        return int(np.diff(self.transitions.indptr).max())

    @cached_property
    def _places(self) -> tuple[Ints, Ints]:
        """Node and number, among the transitions of this node, of each transition."""
        table = self.transitions
        source = np.repeat(np.arange(len(self.here)), np.diff(table.indptr))
        return source, np.arange(table.nnz) - table.indptr[source]

    @cached_property
    def _weight(self) -> Floats:
        """Probability of each transition, (nodes, degree), 0 where there is none."""
        return self._padded(self.transitions.data)

    @cached_property
    def _rows_here(self) -> dict[int, Floats]:
        found = {0: self.first.rows[self.here]}
        if self.second is not None:
            found[2] = self.second.rows[self.other]
        return found

    @cached_property
    def _rows_after(self) -> dict[int, Floats]:
        """Rows of the next states, (nodes, degree, m + 1)."""
        target = self._padded(self.transitions.indices.astype(np.float64)).astype(np.int64)
        found = {1: self.first.rows[self.here[target]]}
        if self.second is not None:
            found[3] = self.second.rows[self.other[target]]
        return found

    @cached_property
    def _rewards(self) -> dict[int, Floats]:
        """Rewards of the transitions, (nodes, degree)."""
        found = {-2: self._padded(self.first.rewards[self._entries])}
        if self.second is not None:
            found[-1] = self._padded(self.second.rewards[self._other_entries])
        return found

    def _padded(self, entries: Floats) -> Floats:
        table = np.zeros((len(self.here), self._degree))
        table[self._places] = entries
        return table

    @cached_property
    def _mixer(self) -> Floats | CsrArray:
        """The transitions, transposed; of the first chain alone if the second one moves later."""
        alone = self._moves_later is not None
        mixer = sparse.csr_array((self.first.transitions if alone else self.transitions).T)
        return mixer.toarray() if mixer.nnz > DENSE_SHARE * mixer.shape[0] ** 2 else mixer

    @cached_property
    def _incoming(self) -> tuple[Ints, Ints, Floats]:
        source, number = self._places
        target = self.transitions.indices
        by_target = np.argsort(target, kind="stable")
        counts = np.bincount(target, minlength=len(self.here))
        place = np.arange(len(target)) - np.repeat(np.cumsum(counts) - counts, counts)
        shape = (len(self.here), int(counts.max()))
        order, before, missing = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.ones(shape, bool)
        where = target[by_target], place
        order[where] = (source * self._degree + number)[by_target]
        before[where] = source[by_target]
        missing[where] = False
        return order, before, missing

    @property
    def _order(self) -> Ints:
        """The transitions that lead to each node, (nodes, most)."""
        return self._incoming[0]

    @property
    def _before(self) -> Ints:
        """The nodes that these transitions come from, (nodes, most)."""
        return self._incoming[1]

    @property
    def _missing(self) -> Floats:
        """Whether a place of these tables has no transition, (nodes, most)."""
        return self._incoming[2]


def _pairs(one: Floats, two: Floats) -> Floats:
    """Return the sum over terms of x y^T for each node, of (nodes, terms, p) and (nodes, terms, q)."""
    if one.shape[1] == 1:  # a product of small matrices takes longer
        return np.asarray(one[:, 0, :, None] * two)
    return np.asarray(one.transpose(0, 2, 1) @ two)


def _squares(products: Floats, rights: Floats) -> Floats:
    """Return rho_i^T S rho_k for all pairs of terms: (nodes, transitions, terms, terms)."""
    count = rights.shape[2]
    found = np.empty((*rights.shape[:3], count))
    for i in range(count):
        for k in range(i, count):
            found[..., i, k] = np.einsum("utm,utm->ut", products[:, :, i], rights[:, :, k])
            found[..., k, i] = found[..., i, k]
    return found


def _standing(chain: RowSource) -> RowSource:
    """Return a chain that never moves, with its rewards, which are those of states."""
    stays = sparse.csr_array(sparse.eye_array(chain.size, format="csr"))
    return replace(chain, transitions=stays, rewards=chain.rewards[chain.transitions.indptr[:-1]])


def _numbered(table: CsrArray) -> CsrArray:
    """Return a sparse table whose entries are numbered 1, 2, ... in the order in which they are stored."""
    numbers = np.arange(1.0, table.nnz + 1.0)
    return sparse.csr_array((numbers, table.indices, table.indptr), shape=table.shape)


def _ones_like(table: CsrArray) -> CsrArray:
    return sparse.csr_array((np.ones(table.nnz), table.indices, table.indptr), shape=table.shape)


def _product(one: CsrArray, two: CsrArray) -> CsrArray:
    """Return the transitions of pairs of states, of two chains, with sorted entries."""
    table = sparse.csr_array(sparse.kron(one, two, format="csr"))
    table.sort_indices()
    return table
