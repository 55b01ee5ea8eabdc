"""Fault localisation by fused evidence: what each module adds is said in ``ranking``."""
