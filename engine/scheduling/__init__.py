"""Many requests over one runner: batching, caches of prefixes, sampling, constraints, budgets.

Knows models only through `engine.kimi.protocol`. Nothing is imported here: the modules need numpy
(extra ``native``).
"""
