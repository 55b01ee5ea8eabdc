"""Numerics without a model. The kernels of the native engine live here; none has landed yet."""
