"""Helpers that run inside the sandbox, on the project's own interpreter (3.8 and later).

Standard library only (plus the project's own pytest, where it uses one), and no
syntax newer than Python 3.8: these files are parsed by whatever Python the project
under repair uses. ``launch.py`` and ``zygote.py`` are started as scripts; they load
this folder as the package ``whimbrel_inside`` without touching ``sys.path``, so that
no name of ours can shadow one of the project's.
"""
