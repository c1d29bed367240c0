"""Single-chain TD: the paper's second algorithm.

With V = theta^T phi, running means w of the features, and beta = min(1, rho alpha), for each (s, r, s'):

    theta <- Proj[ theta + alpha ( (r + V(s') - V(s)) phi(s)  -  (r + V(s)) w ) ]
    w     <- Proj[ w + beta (phi(s) - w) ]                              (both with the old theta and w)

w stands in for the second chain of double-chain TD. rho is `mean_ratio`. Projections shorten theta and w to
`weights_radius` and `features_radius`, both infinite unless given. w starts at 0 and stays in the convex hull
of 0 and the rows of the features, so a features radius beyond all rows changes nothing.

Converges to the solution theta* of the paper's projected equation, `Problem.fixed_point`, whether or not the
features span the constant values, if the radii are large enough to contain theta* and the mean of the
features. Conditions: features of full column rank with rows of length at most 1, an irreducible aperiodic
chain, and small steps (see the paper's theorems).

Not guaranteed: anything without projections, which the proofs need; with a radius below the length of theta*
it converges to another point.

There are two forms, which give the same values. `dense` makes the update as written above, at the cost of
all d features; read it first. `lazy` is for sparse and tabular features and costs the entries of the rows
that a step touches: it writes theta and w as combinations of vectors that change in few places. Its state,
and the work for all features that is due from time to time, are in `epochs`.
"""

from gainbias.algorithms.algorithm import RADIUS, About, Algorithm, Declared, Form, ParameterRange
from gainbias.algorithms.single_chain import dense, lazy

__all__ = ["ALGORITHM"]

ALGORITHM = Algorithm(
    name="single-chain",
    form=Form(dense.init, dense.step, laned=True),
    sparse_form=Form(lazy.init, lazy.step, lazy.output, own_average=lazy.AVERAGE),
    params=dense.Params,
    bounds={
        "mean_ratio": ParameterRange(0.0, 1.0, with_most=True),
        "weights_radius": RADIUS,
        "features_radius": RADIUS,
    },
    declared=Declared(
        limit=dense.limit,
        rate=1.0,
        mean_field=dense.mean_field,
        frozen=dense.frozen,
        frozen_field=dense.frozen_field,
        mean_ratio=dense.mean_ratio,
    ),
    about=About(
        title="Single-chain TD",
        short_title="Single chain",
        reference="tian2026bridging",
        converges_to="the paper's fixed point theta*",
        not_guaranteed="anything without projections, which the proofs need",
        table_row="this paper, single chain (no row of its own)",
    ),
)
