# %% [markdown]
# # Quick start: from counts to a landscape
# Cells differentiate from a stem state into three fates, measured on days 0, 1, 2, 4 and 7. The data are simulated, so
# that the truth is known.

# %%
import numpy as np
import scanpy as sc

import scjko as sj

adata = sj.datasets.simulated(1000)
print(adata.obs["day"].value_counts().sort_index())

# %% [markdown]
# Preprocessing is scanpy's.

# %%
sc.pp.normalize_total(adata)
sc.pp.log1p(adata)
sc.pp.pca(adata)

# %% [markdown]
# One line fits the energy. Downhill is where cells go.

# %%
sj.tl.fit_energy(adata, "day", n_pcs=5)
print(adata.obs.groupby("day")["jko_potential"].mean())

# %% [markdown]
# How well was the truth recovered? With your own data you will not know; here it is in `obs["true_potential"]`.

# %%
correlation = np.corrcoef(adata.obs["jko_potential"], adata.obs["true_potential"])[0, 1]
print(f"correlation of fitted and true potential: {correlation:.2f}")

# %% [markdown]
# Cells at day 3, which nobody measured, moved there from day 2.

# %%
day3 = sj.tl.predict(adata, time=3)
print(day3)

# %% [markdown]
# The energy itself answers anywhere.

# %%
energy = sj.get.energy(adata)
velocity = -energy.gradient(day3.obsm["X_jko"], t=3)
print(f"mean speed at day 3: {np.linalg.norm(velocity, axis=1).mean():.2f} per day")
