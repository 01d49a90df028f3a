# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Your own planner
#
# *I keep a motif and redesign the rest. Residues should be chosen outwards from the motif, so that each sees its neighbours first. Does changing
# the order put my constraints at risk?*
#
# No. A planner decides **when** a position is committed, never **what** stands there, so no planner can break a constraint. It is a small class
# with one method. Before it, a short reminder of what happens at each call of the model:
#
# 1. the model predicts every open position;
# 2. the prediction is conditioned on all constraints;
# 3. **the planner picks which open positions to commit now**;
# 4. those get letters drawn from the conditioned prediction.

# %% [markdown]
# ## The class
#
# `plan` sees a `View`: which positions are open, the conditioned probabilities, how many commitments keep an even pace (`quota`). It returns
# `Moves`. Arrays have a row for each design and a column for each position, and the method is traced by JAX: no Python `if` on values.
#
# Here the score of an open position is its distance from the nearest position that is settled, and the nearest are committed first. Ties are
# broken at random by `rank`, from each row's own key.

# %%
from typing import ClassVar

import jax.numpy as jnp

from seqdiff.core.contracts import Moves
from seqdiff.sampling.planners.base import BasePlanner, planner, rank


@planner("outwards")
class Outwards(BasePlanner):
    """Commit the open positions that are nearest to a settled one.

    Attributes:
        leap: nothing beyond this distance is committed in one call.
    """

    leap: int = 8
    reads_marginals: ClassVar[bool] = False  # it looks at places only, so probabilities need not be computed for it

    def plan(self, keys, state, view, process):
        place = jnp.arange(view.open.shape[1])
        apart = jnp.abs(place[:, None] - place[None, :])  # [L, L]
        settled = view.tokens < process.mask  # letters come before MASK; PAD after it
        distance = jnp.min(jnp.where(settled[:, None, :], apart[None], place.size), axis=2)
        nearest = rank(distance.astype(jnp.float32), keys, view.open) < view.quota[:, None]
        within = (distance <= self.leap) | ~jnp.any(settled, axis=1)[:, None]  # nothing settled yet: anywhere
        return Moves(nearest & within), state


# %% [markdown]
# ## Use it
#
# The decorator made the name known to specs. Options go beside it: `{"outwards": {"leap": 4}}`.

# %%
import seqdiff

ubiquitin = "MQIFVKTLTGKTITLEVEPSDTIENVKAKIQDKEGIPPDQQRLIFAGKQLEDGRTLSDYNIQKESTLHLVLRLRGG"
request = {
    "parent": ubiquitin,
    "keep": "30-40",
    "n": 6,
    "constraints": [
        {"forbid": {"letters": "C"}},
        {"pattern": {"regex": "RGD", "exactly": 1}},
        {"charge": {"min": -3, "max": 3}},
    ],
}
outwards = seqdiff.design(request, sampling={"planner": {"outwards": {"leap": 4}}, "steps": 13})
outwards

# %% [markdown]
# The order of commitment shows what the planner did: dark (early) around the kept motif, bright (late) at the ends.

# %%
outwards.order_map()

# %% [markdown]
# Two planners that come with seqdiff, on the same request: positions in random order, and the surest ones first.

# %%
anyhow = seqdiff.design(request, sampling={"planner": "random", "steps": 13})
anyhow.order_map()

# %%
surest = seqdiff.design(request, sampling={"planner": "confidence", "steps": 13})
surest.order_map()

# %% [markdown]
# The constraints hold whatever the order; only when residues were chosen differs.
#
# What about the *law* of the designs? A planner that looks at places or at probabilities, as here, leaves the model's own law intact at one
# position per step. One that looks at the letters that were drawn does not, and the result says so:

# %%
for name, designs in {"outwards": outwards, "random": anyhow, "confidence": surest}.items():
    print(f"{name:<11}{designs.satisfied} of {len(designs)} satisfied; law: {designs.run['law']}")

# %% [markdown]
# ## The promise

# %%
import numpy as np

for design in outwards:
    left, right = design.order[:29], design.order[40:]
    assert (np.diff(left) <= 0).all()  # grows out from the motif, to both sides
    assert (np.diff(right) >= 0).all()
    assert left[-1] < left[0]
    assert right[0] < right[-1]
assert all(designs.satisfied == len(designs) == 6 for designs in (outwards, anyhow, surest))

# %% [markdown]
# A planner may also take letters back (`reopens`), remember things from call to call (`init`), or wrap another planner; see
# `seqdiff.core.contracts` and the page *Extending*.
