"""The door of a failing pipeline: fix-issue with reports, an artefact and, where asked, a branch."""
