"""The ground floor everyone may stand on: errors, processes, files, git. Standard library only."""
