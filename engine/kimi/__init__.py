"""The native engine for the Kimi K3 family: checkpoints, blocks, caches and the runner that drives them.

Nothing is imported here: the modules need numpy (extra ``native``), and who does not run the engine
must not pay for it.
"""
