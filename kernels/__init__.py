"""Numerics without a model: one folder for each kernel, each with a plain float64 reference beside it."""
