"""Search-based program repair: localise, mutate, rank, validate, minimise."""
