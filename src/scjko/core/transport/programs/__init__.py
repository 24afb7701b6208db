"""Linear programs of transport: whole, by column generation, and from coarse to fine."""
