"""Fates: chains of cells from snapshot to snapshot, and what becomes of them."""
