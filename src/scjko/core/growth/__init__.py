"""Growth: how the mass of cells changes, as a function of position and time, and how it is estimated."""
