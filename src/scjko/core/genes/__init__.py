"""Genes: their association with fates and heights, trends along trajectories, and shifts of state."""
