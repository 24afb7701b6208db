"""Fitting: from coupled snapshots to an energy."""
