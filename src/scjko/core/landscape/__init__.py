"""Wells, saddles, barriers and paths of a potential at one time, and over times."""
