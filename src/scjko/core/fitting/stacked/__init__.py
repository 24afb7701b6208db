"""Kantorovich potentials, alone or beside a network: how they are made, and how much of either there is."""
