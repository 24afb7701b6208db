"""Energies: their terms, and the functions these are made of."""
