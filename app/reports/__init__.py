"""Renderings of a result for other programs."""
